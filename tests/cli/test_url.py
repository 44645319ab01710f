"""The commands with `--url`: the same words, the same output, through the real service."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import ServiceUnavailable
from qianxun.doors.cli import main
from qianxun.doors.cli.commands.documents import without_key
from qianxun.doors.client import Client
from tests.cli.conftest import Outcome, Run
from tests.http.served import running


@pytest.fixture(scope="module")
def served(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """`qianxun serve` over a copy of the handbook; its address, and the folder that it owns."""
    data = tmp_path_factory.mktemp("served") / "data"
    shutil.copytree(filled, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QIANXUN_VECTORIZATION_MODEL", "none")
        with running(data) as service:
            yield service.url, data


@pytest.fixture
def url(served: tuple[str, Path]) -> str:
    return served[0]


def same(here: Outcome, there: Outcome, *left_out: str) -> None:
    assert here.code == there.code, (here, there)
    assert settled(here.json, left_out) == settled(there.json, left_out)


def settled(told: Any, left_out: tuple[str, ...]) -> Any:
    """Without what belongs to one run."""
    if isinstance(told, dict):
        return {name: settled(value, left_out) for name, value in told.items() if name not in left_out}
    return [settled(value, left_out) for value in told] if isinstance(told, list) else told


OF_THE_RUN = ("trace_id", "time_cost_ms", "from_cache", "seconds", "created_at", "id", "updated_at")
SEARCHES = (
    ("QH-2087",),
    ("发票", "--explain"),
    ("编号 假期", "--top-k", "1", "--fusion", "rrf"),
    ("年休假", "--mode", "fulltext", "--threshold", "0.2"),
    ("住宿", "--type", "没有", "--no-fuzzy"),
    ("年休假 QH-2087", "--weights", "keyword=1", "--explain", "--top-k", "1"),
)
BOB = ("--principal", "user:bob,group:财务")


@pytest.mark.parametrize("words", SEARCHES, ids=lambda words: words[0])
def test_a_search_says_the_same(handbook: Run, url: str, words: tuple[str, ...]) -> None:
    asked = ("search", *words, "--kb", "手册")
    same(handbook(*asked, "--json"), handbook("--url", url, *asked, "--json"), *OF_THE_RUN)
    here, there = handbook(*asked), handbook("--url", url, *asked)
    times = re.compile(r"用时 .*|\d+ 毫秒|qianxun --url \S+|qianxun")
    assert times.sub("", there.out) == times.sub("", here.out)
    assert there.err == here.err


LAYERED = (
    ("tables", "升降书桌的单价", "--explain"),
    ("tables", "QH-2087", "--no-answer", "--top-k", "1"),
    ("texts", "年休假几天", "--explain"),
    ("texts", "住宿", "--type", "没有"),
)


def test_a_principal_is_named_through_the_service(handbook: Run, url: str) -> None:
    asked = (*BOB, "search", "QH-2087", "--kb", "手册", "--json")
    same(handbook(*asked), handbook("--url", url, *asked), *OF_THE_RUN)


@pytest.mark.parametrize("words", LAYERED, ids=lambda words: words[1])
def test_a_layered_recall_says_the_same(handbook: Run, url: str, words: tuple[str, ...]) -> None:
    asked = (*words, "--kb", "手册")
    same(handbook(*asked, "--json"), handbook("--url", url, *asked, "--json"), *OF_THE_RUN)
    here, there = handbook(*asked), handbook("--url", url, *asked)
    times = re.compile(r"[\d.]+ 毫秒|qianxun --url \S+|qianxun")
    assert times.sub("", there.out) == times.sub("", here.out)
    assert there.err == here.err


QUESTIONS = (
    ("出差住宿每晚不超过多少元", "--explain"),
    ("升降书桌的单价是多少", "--mode", "local"),
    ("量子纠缠是谁发现的", "--type", "没有"),
)


@pytest.mark.parametrize("words", QUESTIONS, ids=lambda words: words[0])
def test_an_answer_says_the_same_whole_and_as_it_comes(handbook: Run, url: str, words: tuple[str, ...]) -> None:
    asked = ("ask", *words, "--kb", "手册")
    same(handbook(*asked, "--json"), handbook("--url", url, *asked, "--json"), *OF_THE_RUN)
    times = re.compile(r"[\d.]+ 毫秒|qianxun --url \S+|qianxun|\s")  # a line breaks where its times end
    for more in ((), ("--stream",)):
        here, there = handbook(*asked, *more), handbook("--url", url, *asked, *more)
        assert times.sub("", there.out) == times.sub("", here.out)
        assert (there.code, there.err) == (0, here.err)


def test_files_of_this_machine_go_along_with_a_question(handbook: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "各级医院.csv").write_text("医院,比例\n三级医院,61%\n一级医院,92%\n", encoding="utf-8")
    asked = ("--url", url, "ask", "三级医院的比例是多少", "--kb", "手册", "--table")
    assert "61%" in handbook(*asked, tmp_path / "各级医院.csv").out
    refused = handbook(*asked, "价目.xlsx")
    assert (refused.code, "CSV" in refused.err) == (1, True)


def test_why_a_chunk_is_missing_says_the_same_and_how_to_get_it(handbook: Run, url: str) -> None:
    first, *_ = handbook("search", "年休假 QH-2087 住宿", "--kb", "手册", "--json").json["chunks"][1:]
    asked = ("search", "年休假 QH-2087 住宿", "--kb", "手册", "--top-k", "1", "--why", first["chunk_id"])
    here, there = handbook(*asked, "--json"), handbook("--url", url, *asked, "--json")
    command = there.json["why"]["command"]
    assert command.startswith(f"qianxun --url {url} search")
    same(here, there, *OF_THE_RUN, "command")
    assert first["chunk_id"] in handbook(*shlex.split(command)[1:], "--json").out


LOOKS = (
    ("kb", "list"),
    ("kb", "show", "手册"),
    ("kb", "show", "1001"),
    ("kb", "show", "没有"),
    ("delete", "没有", "--kb", "手册"),
)


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_what_is_there_is_told_the_same(handbook: Run, url: str, words: tuple[str, ...]) -> None:
    same(handbook(*words, "--json"), handbook("--url", url, *words, "--json"), "hint", "created_at", "updated_at")
    assert handbook("--url", url, *words).code == handbook(*words).code


def test_a_base_lives_its_whole_life_through_the_service(run: Run, url: str, files: Path) -> None:
    at = ("--url", url)
    made = run(*at, "kb", "create", "生命", "--config", "search.top_k=3")
    assert made.code == 0
    assert f"qianxun --url {url} add" in made.err
    assert run(*at, "kb", "create", "生命", "--json").json["error"] == "already_there"
    bad = files.parent / "坏.pdf"
    bad.write_bytes(b"no pdf")
    added = run(*at, "add", files, bad, "--kb", "生命", "--user", "u1", "--meta", "年份=2026", "--json")
    assert added.code == 1
    assert [added.json[name] for name in ("added", "unchanged", "chunks")] == [2, 0, 3]
    assert [Path(one["path"]).name for one in added.json["refused"]] == ["坏.pdf"]
    assert run(*at, "kb", "show", "生命", "--json").json["states"] == {"indexed": 2, "failed": 1}
    again = run(*at, "add", files, "--kb", "生命", "--user", "u1", "--meta", "年份=2026")
    assert again.code == 0
    assert "未变 2 个" in again.out
    found = run(*at, "search", "年休假", "--kb", "生命", "--user", "u1", "--json").json["chunks"][0]
    assert (found["metadata"]["年份"], found["user_id"]) == (2026, "u1")
    told = run(*at, "kb", "set", "生命", "search.fusion=rrf", "dictionary+=升降书桌", "--json").json
    assert (told["config"]["search"], told["rebuilt_chunks"]) == ({"fusion": "rrf", "top_k": 3}, 3)
    assert "重建索引（3 块）" in run(*at, "kb", "set", "生命", "dictionary=").out
    assert run(*at, "kb", "set", "生命", "search.fusion=magic").code == 2
    assert run(*at, "delete", found["doc_id"], "--kb", "生命").code == 0
    assert run(*at, "delete", found["doc_id"], "--kb", "生命").code == 2
    assert run(*at, "search", "年休假", "--kb", "生命", "--json").json["chunks"] == []
    asked = [entry["query"] for entry in run(*at, "logs", "--kb", "生命", "--json").json["logs"]]
    assert asked == ["年休假", "年休假"]
    assert [entry["chunk_count"] for entry in run(*at, "logs", "--zero", "--kb", "生命", "--json").json["logs"]] == [0]
    assert "replay" not in run(*at, "logs").err
    assert run(*at, "kb", "delete", "生命", "--yes", "--json").json == {"deleted": "生命", "documents": 2}
    assert run(*at, "kb", "show", "生命").code == 2


WRONG = (
    ["  "],
    ["发票", "--top-k", "0"],
    ["发票", "--threshold", "2"],
    ["发票", "--weights", "smell=1"],
    ["发票", "--weights", "vector=nan"],
    ["发票", "--rerank", "没有"],
    ["发票", "--why", "没有"],
    ["发票", "--mode", "vector"],
)


@pytest.mark.parametrize("words", WRONG, ids=lambda words: " ".join(words))
def test_mistakes_are_the_same_mistakes(handbook: Run, url: str, words: list[str]) -> None:
    asked = ["search", *words, "--kb", "手册", "--json"]
    here, there = handbook(*asked), handbook("--url", url, *asked)
    assert (there.code, there.json["error"]) == (here.code, here.json["error"])


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("rebuild", "--kb", "手册"),
        ("replay", "1"),
        ("eval", "评测集"),
        ("tune", "--kb", "手册"),
        ("demo",),
        ("keys", "list"),
        ("serve",),
        ("models", "pull", "bge-m3"),
        ("models", "test"),
    ],
    ids=" ".join,
)
def test_what_works_on_the_folder_itself_says_so(run: Run, url: str, words: tuple[str, ...]) -> None:
    failed = run("--url", url, *words)
    assert failed.code == 2
    assert "--url" in failed.err
    assert "--data" in failed.err


def test_an_address_is_not_quietly_something_else(run: Run) -> None:
    for words in (
        ["--url", ""],
        ["--url", " "],
        ["--url", "http://h", "--data", "d"],
        ["--url", "h:80"],
        ["--url", "ftp://h"],
    ):
        assert run(*words, "kb", "list", "--json").json["error"] == "bad_input", words


def test_doctor_looks_at_the_service(run: Run, url: str) -> None:
    ends = time.monotonic() + 60
    while not (told := run("--url", url, "doctor", "--json")).json["ready"]:  # it has just begun and opens its bases
        assert time.monotonic() < ends, told
        time.sleep(0.05)
    assert (told.code, told.json["sound"]) == (0, True)
    assert {"name": "手册", "documents": 2, "chunks": 3}.items() <= told.json["bases"][0].items()
    assert "手册" in run("--url", url, "doctor").out
    gone = run("--url", "http://127.0.0.1:9", "doctor", "--json")
    assert (gone.code, gone.json["ready"]) == (1, False)
    assert "连不上" in gone.json["trouble"]


def test_a_service_that_is_not_there_is_one_clear_line(run: Run) -> None:
    failed = run("--url", "http://127.0.0.1:9", "kb", "list", "--json")
    assert (failed.code, failed.json["error"]) == (1, "service_unavailable")
    assert "http://127.0.0.1:9" in failed.json["message"]
    assert "The service does not answer" in run("--lang", "en", "--url", "http://127.0.0.1:9", "kb", "list").err


def test_a_service_that_goes_away_during_an_add_leaves_word_of_what_is_safe(
    run: Run, url: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("--url", url, "kb", "create", "断线")
    send, sent = Client.send_file, []

    async def once(self: Client, *about: Any, **more: Any) -> Any:
        sent.append(about)
        if len(sent) > 1:
            raise ServiceUnavailable("连不上服务", hint="看看它是否在运行")
        return await send(self, *about, **more)

    monkeypatch.setattr(Client, "send_file", once)
    failed = run("--url", url, "add", files, "--kb", "断线")
    assert failed.code == 1
    assert "已放入 1 个文件" in failed.err


def test_a_base_follows_a_folder_through_the_service(run: Run, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    (folder / "子").mkdir(parents=True)
    for name in ("琥珀.txt", "子/翡翠.txt", "子/玛瑙.txt"):
        (folder / name).write_text(f"{name} 说的是宝石。", "utf-8")
    run("--url", url, "kb", "create", "宝石")
    assert run("--url", url, "add", folder, "--kb", "宝石").code == 0
    (folder / "琥珀.txt").unlink()
    (folder / "子").rename(folder / "新")
    told = run("--url", url, "add", folder, "--kb", "宝石", "--sync", "--json")
    assert (told.code, told.json["added"], told.json["removed"]) == (0, 2, 3)
    found = run("--url", url, "search", "宝石", "--kb", "宝石", "--json").json["chunks"]
    assert sorted(each["doc_name"] for each in found) == ["玛瑙.txt", "翡翠.txt"]


def test_labels_stay_through_the_service_until_others_are_given(run: Run, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    folder.mkdir()
    (folder / "琥珀.txt").write_text("琥珀计划。", "utf-8")
    run("--url", url, "kb", "create", "标签")
    assert run("--url", url, "add", folder, "--kb", "标签", "--tag", "机密", "--meta", "年份=2024").code == 0
    assert run("--url", url, "add", folder, "--kb", "标签", "--sync", "--json").json["unchanged"] == 1
    (folder / "琥珀.txt").write_text("琥珀计划又改了。", "utf-8")
    assert run("--url", url, "add", folder, "--kb", "标签", "--sync", "--json").json["updated"] == 1
    (chunk,) = run("--url", url, "search", "琥珀计划", "--kb", "标签", "--tag", "机密", "--json").json["chunks"]
    assert chunk["metadata"]["年份"] == 2024


def test_a_deleted_document_stays_deleted_through_the_service(run: Run, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    folder.mkdir()
    for name in ("琥珀.txt", "翡翠.txt", "玛瑙.log"):
        (folder / name).write_text(f"{name} 说的是宝石。", "utf-8")
    run("--url", url, "kb", "create", "删除")

    def sync(*more: str) -> tuple[int, int, list[str]]:
        report = run("--url", url, "add", folder, "--kb", "删除", "--sync", "--exclude", "*.log", "--json", *more).json
        assert report["excluded"] == 1
        return report["added"], report["removed"], [Path(path).name for path in report["deleted"]]

    assert sync() == (2, 0, [])
    items = run("--url", url, "kb", "show", "删除", "--json").json["items"]
    (amber,) = [item["doc_id"] for item in items if item["name"] == "琥珀.txt"]
    assert run("--url", url, "delete", amber, "--kb", "删除").code == 0
    (folder / "翡翠.txt").rename(tmp_path / "翡翠.txt")
    assert sync("--yes") == (0, 1, ["琥珀.txt"])
    (tmp_path / "翡翠.txt").rename(folder / "翡翠.txt")
    assert sync() == (1, 0, ["琥珀.txt"])
    assert sync("--restore") == (1, 0, [])


def test_the_key_opens_and_is_never_shown(run: Run, served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The last test of this module: from here on the service wants a key."""
    url, data = served
    made = json.loads(run("--data", data, "keys", "create", "--scope", "read", "--json").out)
    key, wrong = made["key"], "qx_" + "0" * 43
    told = []
    for words in (["kb", "list"], ["search", "年休假", "--kb", "手册"], ["kb", "create", "新"]):
        told += [run("--url", url, *words), run("--verbose", "--url", url, "--key", wrong, *words, "--json")]
        assert [each.code for each in told[-2:]] == [1, 1]
        assert "密钥" in told[-2].err
        assert told[-1].json["error"] == "unauthorized"
    told.append(run("--verbose", "--url", url, "--key", key, "search", "年休假", "--kb", "手册", "--explain"))
    assert told[-1].code == 0
    monkeypatch.setenv("QIANXUN_KEY", key)
    told.append(run("--url", url, "search", "年休假", "--kb", "手册", "--json"))
    assert told[-1].json["chunks"]
    told.append(run("--url", url, "kb", "create", "新", "--json"))
    assert told[-1].json["error"] == "forbidden"
    told.append(run("--url", url, "doctor"))
    told.append(run("--help"))
    assert not [each for each in told if key in each.out + each.err or wrong in each.out + each.err]


def test_the_command_to_go_on_with_does_not_show_the_key() -> None:
    typed = ["--url", "http://h", "--key", "qx_1", "--key=qx_2", "add", "a"]
    assert without_key(typed) == ["--url", "http://h", "--key", "…", "--key=…", "add", "a"]


def test_help_of_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "QIANXUN_KEY" in capsys.readouterr().out
