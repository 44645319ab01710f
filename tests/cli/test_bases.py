from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_base_is_created_listed_shown_and_deleted(handbook: Run) -> None:
    (row,) = handbook("kb", "list", "--json").json["knowledge_bases"]
    assert (row["name"], row["kind"], row["embedding_model"], row["documents"]) == ("手册", "documents", "", 2)
    shown = handbook("kb", "show", "手册", "--json").json
    assert [(item["name"], item["status"]) for item in shown["items"]] == [
        ("价目.csv", "indexed"),
        ("制度.md", "indexed"),
    ]
    assert shown["chunks"] == sum(item["chunks"] for item in shown["items"])
    assert handbook("kb", "delete", "手册", "--yes", "--json").json == {"deleted": "手册", "documents": 2}
    assert handbook("kb", "list", "--json").json == {"knowledge_bases": []}


def test_people_see_names_counts_and_states(handbook: Run) -> None:
    assert "手册" in handbook("kb", "list").out
    shown = handbook("kb", "show", "手册").out
    assert "2 个文档" in shown
    assert "可检索" in shown
    assert "价目.csv" in shown


def test_an_operator_sees_whose_the_bases_are_and_hands_one_over(handbook: Run) -> None:
    (row,) = handbook("kb", "list", "--all-tenants", "--json").json["knowledge_bases"]
    assert (row["name"], row["tenant"], row["documents"]) == ("手册", "local", 2)
    moved = handbook("kb", "move", "手册", "--to", "市场部", "--json").json
    assert (moved["id"], moved["tenant"], moved["from"]) == (row["id"], "市场部", "local")
    assert "市场部" in handbook("kb", "list", "--all-tenants").out
    gone = handbook("search", "发票", "--kb", "手册")
    assert (gone.code, "手册（市场部）" in gone.err, "kb move" in gone.err) == (2, True, True)
    assert "手册（市场部）" in handbook("kb", "list").out
    assert handbook("kb", "move", str(row["id"]), "--to", "local").code == 0
    assert "380" in handbook("search", "发票", "--kb", "手册").out


def test_a_base_that_is_not_one_is_not_handed_over(handbook: Run) -> None:
    unknown = handbook("kb", "move", "手策", "--to", "市场部")
    assert (unknown.code, "kb list --all-tenants" in unknown.err) == (2, True)
    assert handbook("kb", "move", "手册", "--to", "市场部").code == 0
    assert handbook("kb", "create", "手册").code == 0
    several = handbook("kb", "move", "手册", "--to", "财务部")
    assert (several.code, "1001（市场部）" in several.err, "1002（local）" in several.err) == (2, True, True)
    through = handbook("--url", "http://127.0.0.1:9", "kb", "move", "手册", "--to", "财务部")
    assert (through.code, "--url" in through.err) == (2, True)


def test_listing_nothing_creates_nothing(run: Run, tmp_path: Path) -> None:
    assert run("kb", "list", "--json").json == {"knowledge_bases": []}
    assert not (tmp_path / "qianxun-data").exists()


@pytest.mark.parametrize("command", [("kb", "list"), ("search", "发票", "--kb", "手册"), ("doctor",), ("keys", "list")])
def test_a_file_in_the_place_of_the_data_folder_is_told(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """As if there were nothing yet, it was proposed to create a base there."""
    file = tmp_path / "file"
    file.write_text("x")
    failed = run("--data", str(file), *command)
    assert failed.code != 0
    assert f"不能使用数据目录 {file}" in failed.err


def test_searching_where_there_is_no_data_creates_nothing(run: Run, tmp_path: Path) -> None:
    failed = run("search", "发票", "--kb", "手册", "--json")
    assert (failed.code, failed.json["error"]) == (2, "not_found")
    assert not (tmp_path / "qianxun-data").exists()


def test_an_unknown_base_is_answered_with_the_known_ones(handbook: Run) -> None:
    failed = handbook("search", "发票", "--kb", "手策")
    assert failed.code == 2
    assert failed.out == ""
    assert "没有名为“手策”的知识库" in failed.err
    assert "已有：手册" in failed.err
    assert "Traceback" not in failed.err


def test_adding_to_a_base_that_is_not_there_names_the_command_to_run(handbook: Run) -> None:
    failed = handbook("--data", "qianxun-data/../qianxun-data", "add", "没有.txt", "--kb", "新库")
    assert failed.code == 2
    assert "qianxun --data qianxun-data/../qianxun-data kb create 新库" in failed.err


def test_a_taken_name_is_an_error(handbook: Run) -> None:
    failed = handbook("kb", "create", "手册", "--json")
    assert (failed.code, failed.json["error"]) == (2, "already_there")


def test_a_model_that_is_not_here_is_said_when_a_base_is_created(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", "bge-small-zh-v1.5")
    made = run("kb", "create", "手册")
    assert made.code == 0
    assert "只按词语检索" in made.out
    assert "qianxun models pull bge-small-zh-v1.5" in made.err
    asked = run("kb", "create", "另一个", "--model", "bge-small-zh-v1.5")
    assert asked.code == 1
    assert "models pull" in asked.err


def test_deleting_asks_first(handbook: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.confirm", _declined)
    assert handbook("kb", "delete", "手册").code == 1
    assert len(handbook("kb", "list", "--json").json["knowledge_bases"]) == 1


def test_deleting_for_a_program_wants_a_clear_yes(handbook: Run) -> None:
    assert handbook("kb", "delete", "手册", "--json").code == 2
    assert len(handbook("kb", "list", "--json").json["knowledge_bases"]) == 1


def _declined(question: str, **options: object) -> bool:
    import typer

    assert "2 个文档" in question
    assert options["abort"] is True
    raise typer.Abort


def test_a_base_is_configured_when_it_is_created_and_later(run: Run) -> None:
    made = run("kb", "create", "库", "--config", "search.fusion=rrf", "--config", "dictionary=起付标准", "--json").json
    assert made["config"]["search"] == {"fusion": "rrf"}
    told = run("kb", "set", "库", "search.weights.vector=.7", "search.fusion=", "dictionary+=个人账户", "--json").json
    assert told["config"]["search"] == {"weights": {"vector": 0.7, "keyword": 0.3}}
    assert told["config"]["dictionary"] == ["起付标准", "个人账户"]
    shown = run("kb", "show", "库").out
    assert "search.weights.vector=0.7" in shown
    assert "dictionary=起付标准,个人账户" in shown.replace("\n", "")
    left = run("kb", "set", "库", "dictionary-=起付标准,个人账户", "--json").json["config"]
    assert "dictionary" not in left


def test_synonyms_are_written_as_they_are_shown_and_need_no_new_index(run: Run) -> None:
    made = run("kb", "create", "库", "--config", "synonyms=报销=报账=核销;云溪=云溪市", "--json").json
    assert made["config"]["synonyms"] == [["报销", "报账", "核销"], ["云溪", "云溪市"]]
    told = run("kb", "set", "库", "synonyms+=手机>智能手机;心梗", "--json").json
    assert told["config"]["synonyms"][2:] == [["手机", ">智能手机"], ["心梗"]]
    assert told["rebuilt_chunks"] == 0
    shown = run("kb", "show", "库").out.replace("\n", "")
    assert "synonyms=报销=报账=核销;云溪=云溪市;手机>智能手机;心梗" in shown
    left = run("kb", "set", "库", "synonyms-=报销=报账=核销;心梗", "--json").json["config"]["synonyms"]
    assert left == [["云溪", "云溪市"], ["手机", ">智能手机"]]
    wrong = run("kb", "set", "库", "synonyms==")
    assert wrong.code == 2
    assert "同义词" in wrong.err
    assert "synonyms" not in run("kb", "set", "库", "synonyms=", "--json").json["config"]


def test_words_are_learnt_at_will(run: Run) -> None:
    run("kb", "create", "库", "--model", "none")
    told = run("kb", "learn", "库", "--json").json
    assert told == {"knowledge_base": "库", "embedding_model": "", "terms": 0, "added": 0, "removed": 0, "left": 0}
    assert "没有嵌入模型" in run("kb", "learn", "库").err
    assert run("kb", "learn", "无此库").code != 0
    assert "--url" in run("--url", "http://127.0.0.1:9", "kb", "learn", "库").err


def test_a_dictionary_rebuilds_the_index_and_says_so(handbook: Run) -> None:
    told = handbook("kb", "set", "手册", "dictionary+=升降书桌")
    assert (told.code, told.err) == (0, "")
    assert "dictionary=升降书桌" in told.out
    assert "已用它重建索引（3 块）" in told.out
    assert handbook("search", "升降书桌", "--kb", "手册", "--json").json["chunks"]
    assert handbook("verify").code == 0


def test_new_cutting_says_for_whom_it_holds(handbook: Run) -> None:
    assert "再 add 一次" in handbook("kb", "set", "手册", "chunk_size=100", "chunk_overlap=10").out


@pytest.mark.parametrize(
    ("assignment", "word"),
    [
        ("search.fusion=sum", "weighted、min_max、rrf"),
        ("serach.fusion=rrf", "search.fusion"),
        ("search.rerank=没有这个", "maxsim"),
        ("search.rerank=maxsim", "没有向量模型"),
        ("search.top_k=many", "应为整数"),
        ("search.fusion+=rrf", "不是列表"),
        ("search.fusion", "key=value"),
        ("rewrite_model=qwen", "chat.base_url"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_with_advice(handbook: Run, assignment: str, word: str) -> None:
    before = handbook("kb", "show", "手册", "--json").json["config"]
    refused = handbook("kb", "set", "手册", assignment)
    assert refused.code in (1, 2)
    assert word in refused.err
    assert handbook("kb", "show", "手册", "--json").json["config"] == before
    assert handbook("kb", "create", "新库", "--config", assignment).code == refused.code
    assert "新库" not in handbook("kb", "list").out


def test_a_base_is_written_to_a_file_and_made_anew_from_it(handbook: Run, tmp_path: Path) -> None:
    file = tmp_path / "手册.qianxun"
    out = handbook("kb", "export", "手册", str(file), "--json").json
    assert (out["documents"], out["bytes"]) == (2, file.stat().st_size)
    assert handbook("kb", "export", "手册", str(file)).code == 2
    made = handbook("kb", "import", str(file), "--name", "新手册", "--json").json
    assert (made["name"], made["documents"], made["chunks"]) == ("新手册", 2, out["chunks"])
    elsewhere = ("--data", str(tmp_path / "另一台机器"))
    assert handbook(*elsewhere, "kb", "import", str(tmp_path / "没有")).code == 2
    assert not (tmp_path / "另一台机器").exists()
    assert handbook(*elsewhere, "kb", "import", str(file), "--json").json["documents"] == 2
    assert "旧手册" in handbook("kb", "clone", "手册", "旧手册").out
    answers = [handbook("search", "发票", "--kb", name, "--json").json for name in ("手册", "新手册", "旧手册")]
    texts = [[one["content"] for one in answer["chunks"]] for answer in answers]
    assert texts[0] == texts[1] == texts[2] != []
    file.write_bytes(file.read_bytes()[:-20])
    refused = handbook("kb", "import", str(file), "--name", "坏")
    assert (refused.code, "重新导出" in refused.err) == (1, True)
