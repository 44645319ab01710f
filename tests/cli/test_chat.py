"""`qianxun chat`: a conversation from a pipe and at a terminal, over a folder and over a service."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from qianxun.doors.cli.commands import chat
from tests.cli.conftest import Run
from tests.http.openai_doors import Doors, doors


def piped(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_questions_of_a_pipe_are_answered_one_after_the_other(handbook: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, "出差住宿每晚不超过多少元", "", "年休假是几天", "/quit", "这一句不会问")
    told = handbook("chat", "--kb", "手册")
    assert told.code == 0, told.err
    assert "问：出差住宿每晚不超过多少元" in told.out
    assert told.out.index("380") < told.out.index("问：年休假是几天") < told.out.index("7 天")
    assert "这一句不会问" not in told.out


def test_a_question_is_understood_by_what_was_said_before_until_that_is_forgotten(
    handbook: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(monkeypatch, "出差住宿每晚不超过多少元", "那年休假呢", "/new", "年休假是几天", "@" * 3000)
    told = handbook("chat", "--kb", "手册", "--json")
    assert told.code == 1  # of one line it could not make a question
    turns, (failure,) = told.json["turns"], told.json["failures"]
    assert [turn["question"] for turn in turns] == ["出差住宿每晚不超过多少元", "那年休假呢", "年休假是几天"]
    assert "380" in turns[0]["answer"]
    assert "[1]" in turns[0]["answer"]
    assert failure["error"] == "bad_query"


def test_history_goes_with_every_question_and_is_bounded() -> None:
    seen: list[int] = []

    class Answered:
        answer = "三百元。"

    def ask(question: str, history: list[dict[str, str]]) -> Answered:
        seen.append(len(history))
        if question == "停":
            raise KeyboardInterrupt
        return Answered()

    lines = iter(["问"] * 25 + ["停", "/new", "问", "/exit", "没有问"])
    turns, failures = chat._converse(lines, ask, quiet=True)  # type: ignore[arg-type]
    assert seen == [*range(0, 40, 2), *[40] * 6, 0]
    assert (len(turns), failures) == (26, [])


def test_a_terminal_ends_with_ctrl_d_and_with_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    for end in (EOFError, KeyboardInterrupt):
        typed: Iterator[str | type[BaseException]] = iter(["年休假是几天", " ", end])

        def entered(_prompt: str, typed: Iterator[str | type[BaseException]] = typed) -> str:
            line = next(typed)
            if isinstance(line, str):
                return line
            raise line

        monkeypatch.setattr("builtins.input", entered)
        assert list(chat._typed()) == ["年休假是几天"]


def test_a_base_that_is_not_there_is_said_before_anything_is_read(handbook: Run, run: Run) -> None:
    missing = handbook("chat", "--kb", "没有")
    assert (missing.code, "已有：手册" in missing.err) == (2, True)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    from qianxun.core.types import Document

    with doors(tmp_path_factory.mktemp("service")) as made:
        made.base("手册", Document("d", "年休假为 7 天。", name="假期.md"))
        yield made


def test_the_same_conversation_goes_through_a_service(at: Doors, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, "年休假是几天", "/quit")
    told = run("--url", at.served.url, "--key", at.key(), "chat", "--kb", "手册")
    assert (told.code, "7 天" in told.out, "假期.md" in told.out) == (0, True, True)
