from __future__ import annotations

from pathlib import Path

import pytest

from qianxun.core.errors import BadInput
from qianxun.doors.cli.commands.documents import metadata_of
from tests.cli.conftest import Run


def test_a_bad_file_is_skipped_with_its_reason(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "坏.pdf").write_bytes(b"not a pdf at all")
    (tmp_path / "好.txt").write_text("好文件里写着琥珀。", "utf-8")
    added = handbook("add", tmp_path / "坏.pdf", tmp_path / "好.txt", tmp_path / "没有.txt", "--kb", "手册", "--json")
    assert added.code == 1
    told = added.json
    assert set(told) == {"added", "updated", "unchanged", "refused", "excluded", "chunks", "seconds"}
    assert (told["added"], told["unchanged"], told["chunks"]) == (1, 0, 1)
    assert sorted(Path(refusal["path"]).name for refusal in told["refused"]) == ["坏.pdf", "没有.txt"]
    assert all(refusal["reason"] for refusal in told["refused"])
    assert handbook("search", "琥珀", "--kb", "手册", "--json").json["chunks"][0]["doc_name"] == "好.txt"


def test_a_file_that_cannot_be_read_is_shown_until_it_is_mended_or_deleted(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    folder.mkdir()
    for name in ("坏.docx", "糟.docx", "废.docx", "好.txt"):
        (folder / name).write_text("好文件里写着琥珀。" if name == "好.txt" else "no zip", "utf-8")
    assert handbook("add", folder, "--kb", "手册", "--sync").code == 1
    shown = handbook("kb", "show", "手册", "--json").json
    assert (shown["states"], shown["documents"]) == ({"indexed": 3, "failed": 3}, 6)
    assert [one["name"] for one in shown["items"] if one["status"] == "failed"] == ["坏.docx", "废.docx", "糟.docx"]
    assert all(one["reason"] and one["updated_at"] for one in shown["items"][3:])
    people = handbook("kb", "show", "手册")
    assert "读不了" in people.out
    assert "qianxun add" in people.out + people.err
    assert "读不了" in handbook("show", "坏.docx", "--kb", "手册").out
    assert handbook("delete", "糟.docx", "--kb", "手册").code == 0
    (folder / "废.docx").unlink()
    (folder / "坏.docx").write_bytes((folder / "好.txt").read_bytes())
    (folder / "坏.docx").rename(folder / "坏.txt")
    assert handbook("add", folder, "--kb", "手册", "--sync", "--json").json["removed"] == 2
    assert handbook("kb", "show", "手册", "--json").json["states"] == {"indexed": 4}
    assert handbook("verify", "--kb", "手册").code == 0


def test_a_name_with_a_line_end_takes_one_line_of_a_listing(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "甲\n假.txt").write_text("一行字。", "utf-8")
    assert handbook("add", tmp_path / "甲\n假.txt", "--kb", "手册").code == 0
    for listing in (("kb", "show"), ("kb", "documents")):
        shown = handbook(*listing, "手册").out
        assert r"甲\n假.txt" in shown
        assert not any(line.startswith("假") for line in shown.splitlines())


def test_people_are_told_each_refusal_once(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "坏.pdf").write_bytes(b"not a pdf at all")
    added = handbook("add", tmp_path / "坏.pdf", "--kb", "手册")
    assert added.code == 1
    assert "未收 1 个" in added.out
    assert added.err.count("坏.pdf") == 1


def test_a_changed_file_is_told_as_updated(handbook: Run, tmp_path: Path) -> None:
    file = tmp_path / "年休假.md"
    told = []
    for days in (7, 8, 9):
        file.write_text(f"工作满一年的，年休假为 {days} 天。", encoding="utf-8")
        told.append(handbook("add", file, "--kb", "手册", *(("--json",) if days == 8 else ())))
    assert "新增 1 个文件，更新 0 个（1 块），未变 0 个" in told[0].out
    assert (told[1].json["added"], told[1].json["updated"]) == (1, 1)
    assert "新增 0 个文件，更新 1 个（1 块）" in told[2].out


def test_unchanged_files_are_passed_over(handbook: Run, files: Path) -> None:
    again = handbook("add", files, "--kb", "手册", "--json")
    assert again.code == 0
    assert (again.json["added"], again.json["unchanged"], again.json["chunks"]) == (0, 2, 0)


def test_labels_are_what_filters_ask_for(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "密.txt").write_text("琥珀计划。", "utf-8")
    labels = ("--user", "甲", "--project", "乙", "--type", "备忘", "--tag", "机密", "--meta", "年份=2024")
    assert handbook("add", tmp_path / "密.txt", "--kb", "手册", *labels).code == 0

    def found(*options: str) -> list[str]:
        answer = handbook("search", "琥珀计划", "--kb", "手册", "--json", *options).json
        return [chunk["doc_name"] for chunk in answer["chunks"] if chunk["score"] > 0.1]

    for own in (["--user", "甲"], ["--project", "乙"], ["--type", "备忘"], ["--tag", "机密"]):
        assert found(*own) == ["密.txt"]
        assert found(own[0], "别的") == []
    (chunk,) = handbook("search", "琥珀计划", "--kb", "手册", "--user", "甲", "--json").json["chunks"]
    assert chunk["metadata"]["年份"] == 2024


def test_a_deleted_document_is_gone_at_once(handbook: Run) -> None:
    (chunk,) = handbook("search", "QH-2087", "--kb", "手册", "--top-k", "1", "--json").json["chunks"]
    assert handbook("delete", chunk["doc_id"], "--kb", "手册", "--json").json["deleted"] == chunk["doc_id"]
    left = handbook("search", "QH-2087", "--kb", "手册", "--json").json["chunks"]
    assert chunk["doc_id"] not in {one["doc_id"] for one in left}
    again = handbook("delete", chunk["doc_id"], "--kb", "手册")
    assert again.code == 2
    assert "kb show 手册" in again.err


def test_a_document_is_shown_and_deleted_by_its_name(handbook: Run, tmp_path: Path) -> None:
    shown = handbook("show", "制度.md", "--kb", "手册", "--json").json
    assert (shown["document"]["name"], len(shown["chunks"])) == ("制度.md", shown["document"]["chunks"])
    by_id = handbook("show", shown["document"]["doc_id"], "--kb", "手册")
    assert "年休假为 7 天" in by_id.out
    assert shown["chunks"][0]["chunk_id"] in by_id.out
    for folder in ("甲", "乙"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.md").write_text(f"{folder}说的是宝石。", "utf-8")
    assert handbook("add", tmp_path / "甲", tmp_path / "乙", "--kb", "手册").code == 0
    items = handbook("kb", "show", "手册", "--json").json["items"]
    ids = [item["doc_id"] for item in items if item["name"] == "index.md"]
    refused = handbook("delete", "index.md", "--kb", "手册")
    assert refused.code == 2
    assert all(doc_id in refused.err for doc_id in ids)
    assert handbook("delete", ids[0], "--kb", "手册", "--json").json["deleted"] == ids[0]
    assert handbook("delete", "index.md", "--kb", "手册", "--json").json["deleted"] == ids[1]
    assert handbook("show", "index.md", "--kb", "手册").code == 2


def test_what_was_given_with_a_document_is_shown_with_it(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "通知.md").write_text("中秋节放假三天。", "utf-8")
    given = ("--meta", "年份=2025", "--tag", "放假", "--type", "通知", "--user", "u1", "--label", "group:人事")
    assert handbook("add", tmp_path / "通知.md", "--kb", "手册", *given).code == 0
    shown = handbook("show", "通知.md", "--kb", "手册").out
    assert all(part in shown for part in ("年份=2025", "标签 放假", "类型 通知", "用户 u1", "访问 group:人事"))


def test_a_base_follows_a_folder(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    folder.mkdir()
    for name in ("琥珀.txt", "翡翠.txt", "玛瑙.txt"):
        (folder / name).write_text(f"{name} 说的是宝石。", "utf-8")
    assert handbook("add", folder, "--kb", "手册").code == 0
    (folder / "琥珀.txt").unlink()
    (folder / "翡翠.txt").rename(folder / "翠玉.txt")
    plain = handbook("add", folder, "--kb", "手册", "--json").json
    assert "removed" not in plain
    told = handbook("add", folder, "--kb", "手册", "--sync", "--json")
    assert told.code == 0
    assert set(told.json) == {*plain, "deleted", "removed", "removed_documents", "kept"}
    assert (told.json["added"], told.json["unchanged"], told.json["removed"], told.json["kept"]) == (0, 2, 2, [])
    gone = {Path(each["path"]).name for each in told.json["removed_documents"]}
    assert gone == {"琥珀.txt", "翡翠.txt"}
    found = handbook("search", "宝石", "--kb", "手册", "--json").json["chunks"]
    assert {each["doc_name"] for each in found} & {"琥珀.txt", "翡翠.txt", "翠玉.txt"} == {"翠玉.txt"}


def test_labels_stay_until_others_are_given(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    folder.mkdir()
    (folder / "琥珀.md").write_text("# 宝石\n\n琥珀计划。", "utf-8")
    labels = ("--user", "甲", "--type", "备忘", "--tag", "机密", "--meta", "年份=2024", "--meta", "title=琥珀")
    assert handbook("add", folder, "--kb", "手册", *labels).code == 0

    def sync(*given: str) -> tuple[int, dict[str, object]]:
        report = handbook("add", folder, "--kb", "手册", "--sync", "--json", *given).json
        found = handbook("search", "琥珀计划", "--kb", "手册", "--user", "甲", "--type", "备忘", "--json").json[
            "chunks"
        ]
        (chunk,) = found
        assert chunk["metadata"]["encoding"] == "utf-8"
        return report["added"], {name: chunk["metadata"].get(name) for name in ("年份", "title", "部门")}

    first = {"年份": 2024, "title": "琥珀", "部门": None}
    assert sync() == (0, first)
    (folder / "琥珀.md").write_text("# 新的标题\n\n琥珀计划又改了。", "utf-8")
    assert sync() == (1, first)
    assert handbook("search", "琥珀计划", "--kb", "手册", "--tag", "机密", "--json").json["chunks"]
    assert sync("--meta", "部门=二部", "--meta", "年份=2025", "--tag", "公开") == (
        1,
        {**first, "年份": 2025, "部门": "二部"},
    )
    assert sync() == (0, {**first, "年份": 2025, "部门": "二部"})
    by_tag = [handbook("search", "琥珀计划", "--kb", "手册", "--tag", tag, "--json").json for tag in ("公开", "机密")]
    assert [len(found["chunks"]) for found in by_tag] == [1, 0]


def test_files_are_left_out_by_patterns_and_an_ignore_file(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    for name in ("琥珀.txt", "草稿/甲.txt", "子/草稿.txt", "子/乙.log", "子/留下.log", "玛瑙.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} 说的是宝石。", "utf-8")
    (folder / ".qianxunignore").write_text("# 不放入的\n草稿/\n*.log\n!留下.log\n", "utf-8")
    report = handbook("add", folder, "--kb", "手册", "--exclude", "玛*", "--json").json
    assert (report["added"], report["excluded"], report["refused"]) == (3, 3, [])
    names = {item["name"] for item in handbook("kb", "show", "手册", "--json").json["items"]}
    assert names == {"制度.md", "价目.csv", "琥珀.txt", "草稿.txt", "留下.log"}
    again = handbook("add", folder, "--kb", "手册", "--sync")
    assert again.code == 0
    assert "新增 1 个文件" in again.out
    assert "排除了 2 个" in again.err
    (folder / ".qianxunignore").write_bytes(b"\xff\xfe")
    (folder / "新的.txt").write_text("新的宝石", "utf-8")
    refused = handbook("add", folder, "--kb", "手册", "--json")
    assert (refused.code, refused.json["added"]) == (1, 0)
    assert "UTF-8" in refused.json["refused"][0]["reason"]


def test_files_of_one_name_are_listed_and_chosen_by_their_paths(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "部门"
    for name in ("人事", "教务"):
        (folder / name).mkdir(parents=True)
        (folder / name / "index.md").write_text(f"# {name}\n\n{name}的分机是 8102。", "utf-8")
    handbook("add", folder, "--kb", "手册")
    listed = handbook("kb", "show", "手册").out
    assert "部门/人事/index.md" in listed
    assert "部门/教务/index.md" in listed
    for path in ("人事/index.md", "部门/人事/index.md"):
        assert "人事的分机" in handbook("show", path, "--kb", "手册").out
    refused = handbook("show", "index.md", "--kb", "手册")
    assert (refused.code, "路径" in refused.err) == (2, True)
    assert handbook("show", "事/index.md", "--kb", "手册").code == 2  # a part of a folder's name is not a folder
    assert handbook("delete", "教务/index.md", "--kb", "手册").code == 0
    assert "教务/index.md" not in handbook("kb", "show", "手册").out


def test_the_reason_of_a_file_that_could_not_be_read_is_shown_whole(handbook: Run, tmp_path: Path) -> None:
    bad = tmp_path / "一份名称相当长的季度经营分析报告（最终版）.exe"
    bad.write_bytes(b"MZ" + bytes(100))
    handbook("add", bad, "--kb", "手册")
    shown = handbook("kb", "show", "手册").out
    assert f"{bad.name}：不支持的文件类型 .exe　可以放入 TXT、Markdown、HTML" in shown


def test_a_purged_document_is_not_brought_back_by_the_folder_it_came_from(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "宝石"
    folder.mkdir()
    for name in ("琥珀.txt", "翡翠.txt"):
        (folder / name).write_text(f"{name} 说的是宝石。", "utf-8")
    handbook("add", folder, "--kb", "手册", "--sync")
    assert handbook("delete", "琥珀.txt", "--kb", "手册", "--purge").code == 0
    report = handbook("add", folder, "--kb", "手册", "--sync", "--json").json
    assert (report["added"], [Path(path).name for path in report["deleted"]]) == (0, ["琥珀.txt"])
    assert handbook("add", folder, "--kb", "手册", "--sync", "--restore", "--json").json["added"] == 1


def test_a_deleted_document_stays_deleted_until_it_is_taken_back(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    folder.mkdir()
    for name in ("琥珀.txt", "翡翠.txt"):
        (folder / name).write_text(f"{name} 说的是宝石。", "utf-8")

    def sync(*more: str) -> dict[str, object]:
        report = handbook("add", folder, "--kb", "手册", "--sync", "--json", *more).json
        return {name: report[name] for name in ("added", "unchanged", "removed", "deleted")}

    assert sync() == {"added": 2, "unchanged": 0, "removed": 0, "deleted": []}
    items = handbook("kb", "show", "手册", "--json").json["items"]
    (amber,) = [item["doc_id"] for item in items if item["name"] == "琥珀.txt"]
    assert handbook("delete", amber, "--kb", "手册").code == 0
    withdrawn = str(folder / "琥珀.txt")
    assert sync() == {"added": 0, "unchanged": 1, "removed": 0, "deleted": [withdrawn]}
    shown = handbook("add", folder, "--kb", "手册", "--sync")
    assert "琥珀.txt" in shown.out
    assert "--restore" in shown.err
    assert sync("--restore") == {"added": 1, "unchanged": 1, "removed": 0, "deleted": []}
    (folder / "翡翠.txt").rename(tmp_path / "翡翠.txt")
    assert sync() == {"added": 0, "unchanged": 1, "removed": 1, "deleted": []}
    (tmp_path / "翡翠.txt").rename(folder / "翡翠.txt")  # a file that comes back was not deleted by anybody
    assert sync() == {"added": 1, "unchanged": 1, "removed": 0, "deleted": []}
    assert handbook("delete", amber, "--kb", "手册").code == 0
    assert handbook("add", folder / "琥珀.txt", "--kb", "手册", "--json").json["added"] == 1
    assert handbook("add", folder, "--kb", "手册", "--restore").code == 2


def test_a_folder_without_files_is_not_followed_without_a_word(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "盘"
    folder.mkdir()
    (folder / "琥珀.txt").write_text("琥珀是宝石。", "utf-8")
    assert handbook("add", folder, "--kb", "手册").code == 0
    (folder / "琥珀.txt").unlink()
    kept = handbook("add", folder, "--kb", "手册", "--sync")
    assert kept.code == 1
    assert "--yes" in kept.out + kept.err
    assert "1 个文档没有移除" in kept.out
    told = handbook("add", folder, "--kb", "手册", "--sync", "--json")
    assert (told.code, told.json["kept"]) == (1, [{"path": str(folder), "documents": 1, "why": "empty"}])
    folder.rmdir()
    assert "没有文件夹" in handbook("add", folder, "--kb", "手册", "--sync").err
    gone = handbook("add", folder, "--kb", "手册", "--sync", "--yes")
    assert gone.code == 0
    assert "移除 1 个文档" in gone.out
    assert "琥珀.txt" in gone.out
    assert handbook("add", folder, "--kb", "手册", "--yes").code == 2


def test_a_folder_is_followed_for_its_owner_and_from_where_its_files_were_added(
    handbook: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, data = tmp_path / "资料", Path("qianxun-data").absolute()
    (folder / "子").mkdir(parents=True)
    for name in ("琥珀.txt", "子/翡翠.txt"):
        (folder / name).write_text(f"{name} 说的是宝石。", "utf-8")
    monkeypatch.chdir(folder / "子")
    assert handbook("--data", data, "add", ".", "--kb", "手册", "--user", "张").code == 0
    monkeypatch.chdir(tmp_path)
    assert handbook("--data", data, "add", "资料", "--kb", "手册", "--user", "张").code == 0
    (folder / "子" / "翡翠.txt").unlink()
    other = handbook("--data", data, "add", "资料", "--kb", "手册", "--sync", "--user", "李", "--json")
    assert (other.code, other.json["removed"], other.json["kept"]) == (0, 0, [])
    own = handbook("--data", data, "add", "资料", "--kb", "手册", "--sync", "--user", "张", "--json")
    assert [each["path"] for each in own.json["removed_documents"]] == [str(folder / "子" / "翡翠.txt")]


def test_metadata_is_read_as_json_where_it_is_json() -> None:
    read = metadata_of(["年份=2024", "公开=true", "比例=0.5", '编号="007"', "名称=甲=乙", "空="])
    assert read == {"年份": 2024, "公开": True, "比例": 0.5, "编号": "007", "名称": "甲=乙", "空": ""}


@pytest.mark.parametrize("wrong", ["年份", "=2024", " =x"])
def test_metadata_without_a_name_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput):
        metadata_of([wrong])


def test_hidden_files_in_a_folder_are_passed_over_aloud(handbook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "资料"
    folder.mkdir()
    (folder / "制度.txt").write_text("年假每年十天。", "utf-8")
    (folder / ".DS_Store").write_bytes(b"\0\1")
    added = handbook("add", folder, "--kb", "手册")
    assert added.code == 0
    assert ".DS_Store" in added.out
