"""`qianxun texts` and `qianxun tables`, as a person sees them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ASKED = ("升降书桌的单价", "--kb", "手册")


@pytest.fixture
def handbook(handbook: Run) -> Run:
    """Without a model, and so with thresholds that words alone reach."""
    handbook("kb", "set", "手册", "table_engine.keyword_threshold=.1", "text_engine.keyword_threshold=.1")
    return handbook


def layers(page: str) -> list[str]:
    """The layers that are told of, in their order."""
    return re.findall(r"^  \d (\S+) ", page.split("各层\n")[1], re.M)


def test_the_answer_comes_first_with_its_cells_then_the_table(handbook: Run) -> None:
    done = handbook("tables", *ASKED)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("✓ 2199")
    cited = next(line for line in lines if "依据" in line)
    assert "第 1 行" in cited
    assert "单价：2199" in cited
    assert re.search(r"第 \d 层", done.out)
    assert re.search(r"^ +1 +QH-2087 +升降书桌 +2199$", done.out, re.M)
    assert "编号" in done.out  # a header
    assert "2 行 × 3 列" in done.out
    assert "1 张表格" in lines[-1]


def test_without_an_answer_there_are_tables_alone(handbook: Run) -> None:
    done = handbook("tables", *ASKED, "--no-answer")
    assert "✓" not in done.out
    assert "升降书桌" in done.out
    assert handbook("tables", *ASKED, "--no-answer", "--json").json["answer"] is None


def test_a_question_that_cells_do_not_answer_is_declined_aloud(handbook: Run) -> None:
    done = handbook("tables", "升降书桌的保修期", "--kb", "手册")
    assert "不直接回答" in done.out
    assert "升降书桌" in done.out


def test_prose_is_found_without_tables_and_says_which_layer_let_it_in(handbook: Run) -> None:
    done = handbook("texts", "年休假", "--kb", "手册", "--explain")
    assert done.code == 0
    assert "年休假为 7 天" in done.out
    assert "升降书桌" not in done.out
    assert re.search(r"第 \d 层 \S+  文件/制度\.md › 假期", done.out)
    assert layers(done.out) == ["向量", "关键词", "扩展"]


def test_each_layer_of_tables_is_told(handbook: Run) -> None:
    done = handbook("tables", *ASKED, "--explain")
    assert layers(done.out) == ["结构", "语义", "关键词", "扩展"]


def test_nothing_found_says_what_to_try(handbook: Run) -> None:
    done = handbook("tables", "量子纠缠", "--kb", "手册")
    assert done.code == 0
    assert "没有找到" in done.out
    assert "qianxun search 量子纠缠 --kb 手册" in done.out
    assert "--explain" in done.out
    narrowed = handbook("tables", *ASKED, "--type", "没有")
    assert "去掉过滤条件" in narrowed.out


def test_a_base_without_tables_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("只有一句话。", "utf-8")
    run("kb", "create", "空")
    run("add", tmp_path / "a.txt", "--kb", "空")
    done = run("tables", "价目", "--kb", "空")
    assert "还没有表格" in done.out
    assert "qianxun add" in done.out


def test_what_is_turned_off_says_so_and_how_to_turn_it_on(handbook: Run) -> None:
    handbook("kb", "set", "手册", "table_engine.enabled=false", "text_engine.use_keyword_search=false")
    done = handbook("tables", *ASKED, "--explain")
    assert done.out.count("没有运行：设置中关闭") == 4
    assert "kb set 手册 table_engine.enabled=true" in done.out
    told = handbook("texts", "年休假", "--kb", "手册", "--json").json["layers"]
    assert (told[1]["ran"], told[1]["reason"]) == (False, "设置中关闭")


def test_json_is_one_document_in_the_form_of_the_service(handbook: Run) -> None:
    told = handbook("tables", *ASKED, "--json", "--top-k", "1").json
    assert told["answer"]["text"].startswith("2199")
    (result,) = told["results"]
    assert result["table"]["columns"][2]["name"] == "单价"
    assert {"doc_id", "document_name", "content", "score", "strategy", "layer", "match_details", "metadata"} <= set(
        result
    )
    assert [layer["layer"] for layer in told["layers"]] == [1, 2, 3, 4]


def test_english_on_request(handbook: Run) -> None:
    done = handbook("--lang", "en", "tables", *ASKED, "--explain")
    assert "1 table, " in done.out
    assert re.search(r"layer \d \w+  文件/价目\.csv", done.out)
    assert "Layers" in done.out
    assert "Nothing found" in handbook("--lang", "en", "texts", "量子纠缠", "--kb", "手册").out


@pytest.mark.parametrize("command", ["texts", "tables"])
def test_mistakes_say_what_to_do(handbook: Run, command: str) -> None:
    for wrong in (
        ("问", "--kb", "没有"),
        (" ", "--kb", "手册"),
        *(("问", "--kb", "手册", "-k", at) for at in ("0", "101")),
    ):
        done = handbook(command, *wrong)
        assert done.code == 2, (wrong, done)
        assert "→" in done.err


def test_it_is_in_the_log_and_can_be_replayed(handbook: Run) -> None:
    handbook("tables", *ASKED)
    handbook("texts", "年休假", "--kb", "手册", "--top-k", "3", "--type", "没有")
    prose, tables = handbook("logs", "--json").json["logs"]
    assert (prose["retrieval_mode"], tables["retrieval_mode"]) == ("texts", "tables")
    assert prose["chunk_count"] == 0
    shown = handbook("logs").out
    assert "tables" in shown
    for entry in (prose, tables):
        again = handbook("replay", str(entry["id"]))
        assert "逐字节相同" in again.out, again
        told = handbook("replay", str(entry["id"]), "--json").json
        assert told["replay"] == {**told["replay"], "same": True, "changed": []}
    assert len(handbook("logs", "--json").json["logs"]) == 2  # a replay leaves no record


def test_a_replay_tells_what_has_changed(handbook: Run, files: Path, tmp_path: Path) -> None:
    handbook("tables", *ASKED)
    (entry,) = handbook("logs", "--json").json["logs"]
    (tmp_path / "新.csv").write_text("品名,单价\n升降书桌,1999\n", "utf-8")
    handbook("add", tmp_path / "新.csv", "--kb", "手册")
    told = handbook("replay", str(entry["id"]), "--json").json["replay"]
    assert told["same"] is False
    assert "came" in {change["change"] for change in told["changed"]}
