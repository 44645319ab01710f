"""Reading workbooks and JSON, such as people make them."""

from __future__ import annotations

import json
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from qianxun.core.errors import NotFound, TooLarge, Unreadable, UnsupportedFile
from qianxun.examples.files import excel
from qianxun.examples.files.contents import category_of, read_json
from qianxun.examples.files.excel import read_workbook
from tests.examples.conftest import HEADING, Write


def rows(path: Path, category: str = "qa_examples") -> list[tuple[str, int, Any, Any, str]]:
    """(sheet, row, user_input, agent_response, problem)"""
    return [
        (row.sheet, row.number, row.fields.get("user_input"), row.fields.get("agent_response"), row.problem)
        for row in read_workbook(path).rows.get(category, [])
    ]


@pytest.mark.parametrize(
    ("title", "category"),
    [
        ("qa_examples", "qa_examples"),
        ("QA示例", "qa_examples"),
        (" qa示例 ", "qa_examples"),
        ("问答示例", "qa_examples"),
        ("记录示例", "record_examples"),
        ("病历记录", "record_examples"),
        ("查询示例", "query_examples"),
        ("Greeting_Examples", "greeting_examples"),
        ("问候", "greeting_examples"),
        ("gd2502_qa_examples", "qa_examples"),
        ("Sheet1", ""),
        ("填写说明", ""),
    ],
)
def test_sheets_are_known_by_their_english_or_chinese_name(title: str, category: str) -> None:
    assert category_of(title, "gd2502_") == category


def test_rows_keep_the_numbers_by_which_people_find_them(workbook: Write) -> None:
    path = workbook({"QA示例": [("一", "答"), (None, None), ("", "  "), ("二", "答")]})
    assert rows(path) == [("QA示例", 2, "一", "答", ""), ("QA示例", 5, "二", "答", "")]


def test_two_sheets_may_hold_one_category(workbook: Write) -> None:
    path = workbook({"qa_examples": [("一", "答")], "QA示例": [("二", "答")]})
    assert [row[2] for row in rows(path)] == ["一", "二"]


def test_columns_may_stand_in_any_order_under_a_title(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "问候示例"
    for row in (["案例库 2025 版"], [], ["标签", "助手回复", "用户输入"], ["开场白", "您好", "你好"]):
        sheet.append(row)
    book.save(path := tmp_path / "a.xlsx")
    (row,) = read_workbook(path).rows["greeting_examples"]
    assert (row.number, row.fields) == (4, {"tags": "开场白", "agent_response": "您好", "user_input": "你好"})


def test_what_is_passed_over_is_named(workbook: Write) -> None:
    found = read_workbook(
        workbook({"qa_examples": [("问", "答")], "草稿": [], "填写说明": []}, (*HEADING, "作者", "日期"))
    )
    assert found.ignored_sheets == ["草稿"]  # the guide is ours
    assert found.ignored_columns == [("qa_examples", "作者"), ("qa_examples", "日期")]


@pytest.mark.parametrize(
    ("heading", "told"),
    [
        (("user_input", "tags"), "没有 agent_response（助手回复） 列"),
        (("甲", "乙"), "没有 user_input（用户输入）、agent_response（助手回复） 列"),
        (("user_input", "用户输入", "agent_response"), "有两列"),
    ],
)
def test_a_heading_that_does_not_do_is_a_problem_of_its_sheet(
    workbook: Write, heading: tuple[str, ...], told: str
) -> None:
    found = read_workbook(workbook({"qa_examples": [("问", "答", "c")]}, heading))
    (problem,) = found.problems
    assert (problem.sheet, problem.number) == ("qa_examples", 1)
    assert told in problem.problem
    assert found.count() == 0


def test_cells_merged_downwards_share_their_value(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "qa_examples"
    for row in (HEADING, ("问", "答一", "标签"), (None, "答二", None), ("小标题", None, None), ("三", "答三", "x")):
        sheet.append(list(row))
    sheet.merge_cells("A2:A3")
    sheet.merge_cells("C2:C3")
    sheet.merge_cells("A4:E4")
    book.save(path := tmp_path / "a.xlsx")
    assert [row[1:4] for row in rows(path)] == [
        (2, "问", "答一"),
        (3, "问", "答二"),
        (4, "小标题", None),
        (5, "三", "答三"),
    ]
    assert [row.fields["tags"] for row in read_workbook(path).rows["qa_examples"]][:2] == ["标签", "标签"]


def test_formulas_count_by_what_they_came_to(workbook: Write) -> None:
    path = workbook({"qa_examples": [("问", "=A2&A2", None), ("二", "=1/0"), ("三", "答", None, None, "=NOW()")]})
    assert [row[4] for row in rows(path)] == [
        "agent_response（助手回复）是公式，没有保存计算结果：用 Excel 打开并保存一次",
        "agent_response（助手回复）是公式，没有保存计算结果：用 Excel 打开并保存一次",
        "",  # notes are nobody's business
    ]
    save_results(path, {"A2&amp;A2": "问问", "1/0": "#DIV/0!"})
    assert [(row[3], row[4]) for row in rows(path)][:2] == [
        ("问问", ""),
        ("#DIV/0!", "agent_response（助手回复）是错误值 #DIV/0!"),
    ]


def save_results(path: Path, results: dict[str, str]) -> None:
    """As Excel saves a formula: with what it came to."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    for formula, value in results.items():
        unsolved = f"<f>{re.escape(formula)}</f><v(?:></v>| ?/>)"
        sheet, count = re.subn(unsolved, f"<f>{formula}</f><v>{value}</v>", sheet)
        assert count == 1
    sheet = sheet.replace('<c r="B2"><f>', '<c r="B2" t="str"><f>').replace('<c r="B3"><f>', '<c r="B3" t="e"><f>')
    parts["xl/worksheets/sheet1.xml"] = sheet.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def test_a_colour_at_the_end_of_the_sheet_costs_nothing(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "qa_examples"
    sheet.append(list(HEADING))
    sheet.append(["问", "答"])
    sheet["A1048576"].font = openpyxl.styles.Font(bold=True)
    book.save(path := tmp_path / "a.xlsx")
    assert len(rows(path)) == 1


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.xlsx", b"not a workbook", "不是 Excel 工作簿"),
        ("a.xlsx", b"", "不是 Excel 工作簿"),
        ("a.xlsx", b"PK\x03\x04 half an archive", "不是 Excel 工作簿"),
        ("a.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and more", "有密码，或是旧的 .xls"),
    ],
)
def test_what_is_no_workbook_is_refused(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Unreadable, match=told):
        read_workbook(tmp_path / name)


def test_an_archive_that_is_no_workbook_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(Unreadable, match="不是 Excel 工作簿"):
        read_workbook(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    "part", ["[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/styles.xml"]
)
@pytest.mark.parametrize(
    "content", [b"", b"<a>", b"<worksheet><sheetData><row r='x'><c/></row></sheetData></worksheet>"]
)
def test_a_workbook_with_a_damaged_part_is_refused_or_read(workbook: Write, part: str, content: bytes) -> None:
    path = workbook({"qa_examples": [("问", "答")]})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, kept in parts.items():
            archive.writestr(name, content if name == part else kept)
    with suppress(Unreadable):
        assert read_workbook(path).count() <= 1


def test_a_workbook_without_a_sheet_of_examples_names_what_it_has(workbook: Write) -> None:
    with pytest.raises(Unreadable, match="只有 “Sheet1”、“表2”") as told:
        read_workbook(workbook({"Sheet1": [], "表2": []}))
    assert "qa_examples（QA示例）" in told.value.hint


def test_files_that_cannot_be_it_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workbook: Write
) -> None:
    with pytest.raises(NotFound, match="没有文件"):
        read_workbook(tmp_path / "没有.xlsx")
    (tmp_path / "~$库.xlsx").write_bytes(b"x")
    with pytest.raises(UnsupportedFile, match="临时文件"):
        read_workbook(tmp_path / "~$库.xlsx")
    (tmp_path / "旧.xls").write_bytes(b"x")
    with pytest.raises(UnsupportedFile, match="另存为"):
        read_workbook(tmp_path / "旧.xls")
    monkeypatch.setattr(excel, "_MOST_UNPACKED", 100)
    with pytest.raises(TooLarge, match="解压后"):
        read_workbook(workbook({"qa_examples": [("问", "答")]}))


def test_a_merge_over_the_whole_sheet_is_refused_before_it_is_built(workbook: Write) -> None:
    path = workbook({"qa_examples": [("问", "答")]})
    merge = '</sheetData><mergeCells count="1"><mergeCell ref="A3:XFD1048576"/></mergeCells>'
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, kept in parts.items():
            archive.writestr(name, kept.replace(b"</sheetData>", merge.encode()))
    with pytest.raises(TooLarge, match="单元格太多"):
        read_workbook(path)


def test_a_sheet_with_too_many_rows_is_refused(workbook: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "MOST_ROWS", 3)
    with pytest.raises(TooLarge, match="有 4 行"):
        read_workbook(workbook({"qa_examples": [("一", "答"), ("二", "答"), ("三", "答")]}))


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def write_json(folder: Path, content: Any) -> Path:
    path = folder / "库.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), "utf-8")
    return path


def test_json_lists_are_read_by_either_name(tmp_path: Path) -> None:
    path = write_json(
        tmp_path,
        {
            "qa_examples": [{"user_input": "问", "agent_response": "答", "tags": ["a"], "quality_grade": "优秀"}],
            "问候示例": [{"用户输入": "你好", "助手回复": "您好", "作者": "我"}, {}],
            "版本": 2,
        },
    )
    found = read_json(path)
    (question,) = found.rows["qa_examples"]
    assert question.fields == {"user_input": "问", "agent_response": "答", "tags": ["a"], "quality_grade": "优秀"}
    (greeting,) = found.rows["greeting_examples"]  # the empty item is a blank row
    assert (greeting.sheet, greeting.number) == ("问候示例", 1)
    assert found.ignored_sheets == ["版本"]
    assert found.ignored_columns == [("问候示例", "作者")]


def test_items_that_are_no_examples_are_told_by_number(tmp_path: Path) -> None:
    found = read_json(write_json(tmp_path, {"qa_examples": [{"user_input": "问"}, "文字", None], "query_examples": {}}))
    assert [(row.number, bool(row.problem)) for row in found.rows["qa_examples"]] == [(1, False), (2, True), (3, True)]
    (problem,) = found.problems
    assert (problem.sheet, problem.number, problem.problem) == ("query_examples", 0, "应是一个列表")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"qa_examples": [', "不是合法的 JSON：第 1 行"),
        ("[]", "最外层应是键值对"),
        ("{}", "什么也没有"),
        ('{"a": []}', "只有 “a”"),
        ("[" * 100_000, "嵌套太深|不是合法的 JSON"),
        ('{"qa_examples": [' + "9" * 5000 + "]}", "过大的数"),
    ],
)
def test_what_is_no_such_json_is_refused(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(Unreadable, match=told):
        read_json(write_json(tmp_path, content))


def test_json_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "库.json").write_bytes('{"qa_examples": [{"user_input": "问"}]}'.encode("gbk"))
    with pytest.raises(Unreadable, match="UTF-8"):
        read_json(tmp_path / "库.json")
