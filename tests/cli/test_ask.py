"""`qianxun ask`, as a person reads it, without a model and with a real one. Over a service: see test_url."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun.core.answer_types import QUESTION_KINDS
from qianxun.core.codec.labels import labels
from qianxun.doors.cli.views import answer as answer_view
from qianxun.doors.http.middleware.metrics import FORMS
from tests.cli.conftest import Outcome, Run
from tests.http.questions import writing
from tests.models.chat_service import ChatService, Reply, chat_service

ASKED = ("出差住宿每晚不超过多少元", "--kb", "手册")
WRITTEN = "出差住宿每晚不超过380元，凭发票报销[1]。"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatService]:
    """The model of the settings."""
    with chat_service(writing(WRITTEN)) as service:
        monkeypatch.setenv("QIANXUN_CHAT_BASE_URL", service.url)
        monkeypatch.setenv("QIANXUN_CHAT_MODEL", "qwen")
        yield service


def parts(done: Outcome) -> tuple[str, str, str]:
    """The answer, the sources, the last line."""
    answer, _, rest = done.out.partition("\n出处\n")
    sources, _, end = rest.rstrip().rpartition("\n")
    return answer.strip(), sources, end


def test_the_answer_comes_first_then_its_numbered_sources_with_document_place_and_words(handbook: Run) -> None:
    done = handbook("ask", *ASKED)
    assert done.code == 0, done.err
    answer, sources, end = parts(done)
    assert answer.endswith("[1]")
    assert "380" in answer
    assert re.match(r"\[1\] 文件/制度\.md › 差旅  第 \d+–\d+ 字$", sources.splitlines()[0])
    assert sources.splitlines()[1].startswith("    “出差住宿每晚不超过 380 元")
    assert end.startswith("由资料的原句组成 · mix · ")


def test_a_model_writes_it_where_there_is_one(handbook: Run, chat: ChatService) -> None:
    done = handbook("ask", *ASKED, "--mode", "naive")
    answer, sources, end = parts(done)
    assert answer == "出差住宿每晚不超过380元，凭发票报销。[1]"
    assert "“出差住宿每晚不超过 380 元，凭發票报销。" in sources
    assert end.startswith("由 qwen 写成 · naive · ")


def test_streamed_it_says_the_same(handbook: Run, chat: ChatService) -> None:
    whole, streamed = handbook("ask", *ASKED), handbook("ask", *ASKED, "--stream")
    assert streamed.code == 0, streamed.err
    assert parts(streamed)[:2] == parts(whole)[:2]
    assert re.search(r"找到 \d+ 块资料", streamed.err)
    assert any(each.is_stream for each in chat.requests)


def test_an_answer_that_is_cut_off_is_told_as_such(handbook: Run, chat: ChatService) -> None:
    chat.answers = writing(Reply(WRITTEN, cut_after=6))
    done = handbook("ask", *ASKED, "--stream")
    assert done.code == 1
    assert "答案到这里断了" in done.err
    assert done.out.startswith("出差住宿")


def test_a_model_that_is_down_leaves_the_sources_own_words(handbook: Run, chat: ChatService) -> None:
    chat.answers = writing(Reply(WRITTEN, cut_after=0))
    assert "✗ 语言模型没能作答：" in handbook("ask", *ASKED, "--stream").err
    for more in ((), ("--stream",)):
        done = handbook("ask", *ASKED, *more)
        assert parts(done)[0].startswith("出差住宿每晚不超过 380 元")
        assert "qwen" in done.err


def test_json_is_one_document_in_the_services_form(handbook: Run, chat: ChatService) -> None:
    for more in ((), ("--stream",)):
        told = handbook("ask", *ASKED, "--json", *more).json
        assert {"answer", "sources", "mode", "trace_id", "form", "citations"} <= set(told)
        assert told["sources"][0]["doc_name"] == "制度.md"


def test_a_table_answers_by_its_cells(handbook: Run) -> None:
    done = handbook("ask", "升降书桌的单价是多少", "--kb", "手册")
    answer, sources, end = parts(done)
    assert "2199" in answer
    assert "| QH-2087 | 升降书桌 | 2199 |" in sources
    assert end.startswith("由表格的单元格得出")


def test_what_the_sources_do_not_say_is_said_with_what_to_do_next(handbook: Run) -> None:
    done = handbook("ask", "量子纠缠的发现者是谁", "--kb", "手册")
    assert done.code == 0
    assert "没有找到" in done.out.splitlines()[0]
    assert "最接近的是" in done.out
    assert "出处" in done.out  # of what comes nearest
    assert re.search(r"qianxun.* search 量子纠缠的发现者是谁 --kb 手册", done.out)
    assert "资料里没有" in done.out.splitlines()[-1]


def test_explain_tells_every_step_and_who_took_it(handbook: Run, chat: ChatService) -> None:
    done = handbook("ask", *ASKED, "--explain")
    steps = done.out.split("\n过程\n")[1]
    for name in ("分析问题", "检索", "评估资料", "写答案"):
        assert name in steps
    assert re.search(r"写答案 +qwen", steps)
    assert re.search(r"分析问题 +规则", steps)
    assert "接着 检索" in steps  # in words, not in those of the code
    assert "retrieve" not in steps


def test_on_a_narrow_terminal_no_line_of_the_steps_begins_further_in(
    handbook: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    steps = handbook("ask", *ASKED, "--explain").out.split("\n过程\n")[1].split("\n\n")[0]
    margins = {len(line) - len(line.lstrip()) for line in steps.splitlines()}
    assert len(margins) == 2  # of a step's first line, and of all others


def test_a_base_without_documents_is_told_as_such(handbook: Run) -> None:
    assert handbook("kb", "create", "空").code == 0
    for flags in ((), ("--stream",)):
        done = handbook("ask", ASKED[0], "--kb", "空", *flags)
        assert re.search(r"还没有资料，先放进来：qianxun.* add FILE --kb 空", done.out)
        assert "search" not in done.out


def test_every_choice_of_a_step_has_a_name() -> None:
    assert {*QUESTION_KINDS, *labels("forms"), "model"} <= set(labels("choices"))


def test_files_go_along_with_the_question(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "各级医院.csv").write_text("医院,比例\n三级医院,61%\n一级医院,92%\n", encoding="utf-8")
    done = handbook("ask", "三级医院的比例是多少", "--kb", "手册", "--table", tmp_path / "各级医院.csv")
    answer, sources, _ = parts(done)
    assert "61%" in answer
    assert "随问题来的表格" in sources
    missing = handbook("ask", *ASKED, "--image", "没有.png")
    assert missing.code == 1
    assert "没有.png" in missing.err


def test_what_was_made_up_is_taken_out_aloud(handbook: Run, chat: ChatService) -> None:
    chat.answers = writing(WRITTEN + "每天另有补贴999元[1]。详见 http://evil.example/x 。")
    for more in ((), ("--stream",)):
        done = handbook("ask", *ASKED, *more)
        assert "不可信，已去掉" in done.err
        assert "999" in done.err
        assert "evil.example" not in done.out
        assert "999" not in done.out.split("以这里为准：\n")[-1]  # shown while it came, and taken back
        assert ("以这里为准" in done.out) == bool(more)


def test_what_is_not_cited_and_stands_is_not_said_to_be_gone(handbook: Run, chat: ChatService) -> None:
    chat.answers = writing(f"{WRITTEN}员工普遍觉得这样很合理。")
    done = handbook("ask", *ASKED)
    assert "员工普遍觉得这样很合理。" in parts(done)[0]
    assert "请自行核对：“员工普遍觉得这样很合理。”" in done.err.replace("\n", "")
    assert "已去掉" not in done.err


def test_nothing_that_a_terminal_would_obey_is_printed(handbook: Run, chat: ChatService) -> None:
    chat.answers = writing("出差住宿\x1b每晚\x9b不超过\x07 380 元\x7f[1]。")
    for more in ((), ("--stream",), ("--explain",)):
        done = handbook("ask", *ASKED, *more)
        assert "380" in done.out
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.out + done.err)
    drawn = answer_view.shown_text("清\x1b[2J屏\x9b0m[1]\n第二行")
    assert drawn.plain == "清 [2J屏 0m[1]\n第二行"


def test_it_speaks_english(handbook: Run) -> None:
    done = handbook("--lang", "en", "ask", *ASKED, "--explain")
    assert "Sources" in done.out
    assert "in the sources' own words" in done.out
    assert "Writing the answer" in done.out


def test_mistakes_are_told(handbook: Run) -> None:
    assert handbook("ask", "x", "--kb", "没有").code == 2
    assert handbook("ask", "x").code == 2
    assert handbook("ask", "  ", "--kb", "手册").code == 2
    assert handbook("ask", "x", "--kb", "手册", "--mode", "magic").code == 2
    assert handbook("ask", "x", "--kb", "手册", "--top-k", "0").code == 2


def test_every_form_has_a_name() -> None:
    assert {*labels("forms"), "model"} == set(FORMS)
