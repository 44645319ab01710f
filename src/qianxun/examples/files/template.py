"""A workbook to fill in: a sheet per category with headings and a choice of grades, and instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from openpyxl import Workbook
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.worksheet import Worksheet

from qianxun.examples.files.cleaning import LABELS, MOST_CHARACTERS, REQUIRED
from qianxun.examples.files.excel import GUIDE
from qianxun.examples.schema import CATEGORIES, DEFAULT_GRADE, GRADES

COLUMNS: Final = tuple(LABELS)
WIDTHS: Final = {"user_input": 44, "agent_response": 76, "tags": 30, "quality_grade": 16, "notes": 26}
VALIDATED_ROWS: Final = 20_000

_HEAD: Final = PatternFill("solid", fgColor="DCE6F1")
_NEEDED: Final = PatternFill("solid", fgColor="FCE4D6")
_WRAPPED: Final = Alignment(wrap_text=True, vertical="top")

_DELETE: Final = "示例行：照着写，写完可删"
SAMPLES: Final[Mapping[str, Sequence[tuple[str, str, str, str, str]]]] = {
    "qa_examples": (
        (
            "降压药能和柚子一起吃吗？",
            "部分降压药（如硝苯地平、非洛地平）和柚子一起吃，血药浓度可能升高，服药期间不要吃柚子或喝柚子汁。"
            "您吃的是哪一种药？可以看说明书，或问药师确认。",
            "用药咨询，高血压，食物与药物",
            "优秀",
            _DELETE,
        ),
    ),
    "record_examples": (
        (
            "今天早上血压 132/84，心率 72",
            "已记录：今天早上，收缩压 132、舒张压 84 mmHg，心率 72 次/分。测量前休息过五分钟吗？",
            "blood_pressure，完整",
            "优秀",
            _DELETE,
        ),
    ),
    "query_examples": (
        (
            "我上个星期的血压平均是多少？",
            "上个星期您记录了 7 次血压，平均 134/85 mmHg，最高的一次是周三早上 142/90。",
            "blood_pressure，statistics，最近一周",
            "良好",
            _DELETE,
        ),
    ),
    "greeting_examples": (
        (
            "你好",
            "您好！我可以帮您记录血压和用药、查看以前的记录，也可以回答健康方面的问题。今天想做什么？",
            "开场白",
            "优秀",
            _DELETE,
        ),
    ),
}


def write_template(path: Path) -> None:
    """Overwrites what is there."""
    write_workbook(path, SAMPLES)


def write_workbook(path: Path, rows: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """A workbook that `import_file` takes: the guide, and the rows of each category in the order of `COLUMNS`."""
    book = Workbook()
    guide = book.worksheets[0]
    guide.title = GUIDE
    _write_guide(guide)
    for category in CATEGORIES:
        _write_sheet(book.create_sheet(category.sheet), rows.get(category.name, ()))
    book.save(path)


def _write_sheet(sheet: Worksheet, rows: Sequence[Sequence[str]]) -> None:
    sheet.append([f"{name}{'*' if name in REQUIRED else ''}（{LABELS[name]}）" for name in COLUMNS])
    for row in rows:
        sheet.append(list(row))
    for at, name in enumerate(COLUMNS):
        letter = "ABCDE"[at]
        sheet.column_dimensions[letter].width = WIDTHS[name]
        head = sheet[f"{letter}1"]
        head.font, head.fill = Font(bold=True), _NEEDED if name in REQUIRED else _HEAD
    for line in sheet.iter_rows(min_row=2):
        for cell in line:
            cell.alignment = _WRAPPED
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = f"A1:E{max(2, sheet.max_row)}"
    _choose_grades(sheet)


def _choose_grades(sheet: Worksheet) -> None:
    choice = DataValidation(
        type="list",
        formula1=f'"{",".join(GRADES)}"',
        allow_blank=True,
        showErrorMessage=True,
        errorTitle="质量等级",
        error=f"请从 {'、'.join(GRADES)} 里选一个，或留空",
        showInputMessage=True,
        promptTitle="质量等级",
        prompt=f"{'、'.join(GRADES)}；留空即{DEFAULT_GRADE}",
    )
    sheet.add_data_validation(choice)
    letter = "ABCDE"[COLUMNS.index("quality_grade")]
    choice.add(f"{letter}2:{letter}{VALIDATED_ROWS}")


def _write_guide(sheet: Worksheet) -> None:
    for line in _guide():
        sheet.append(list(line))
    for letter, width in zip("ABCD", (26, 14, 70, 60), strict=True):
        sheet.column_dimensions[letter].width = width
    for row in sheet.iter_rows():
        for cell in row:
            cell.alignment = _WRAPPED
            if row[0].value in ("提示词案例库 · 填写说明", "列", "工作表", "规则"):
                cell.font = Font(bold=True, size=14 if cell.row == 1 else 11)
    sheet.freeze_panes = "A2"


def _guide() -> list[tuple[Any, ...]]:
    return [
        ("提示词案例库 · 填写说明",),
        ("本页只是说明，不会导入。每类示例填在自己的工作表里，一行一条对话；橙色表头的列必填。",),
        (),
        ("工作表", "类别", "放什么", "对应的表"),
        ("QA示例", "问答", "健康知识、用药、症状的咨询；安全边界（血压过高、紧急情况）", "qa_examples"),
        ("记录示例", "记录", "要记下来的血压、用药、症状、健康事件", "record_examples"),
        ("查询示例", "查询", "问以前的记录：血压、用药、症状、统计", "query_examples"),
        ("问候示例", "问候", "开场白、日常问候、告别", "greeting_examples"),
        (),
        ("列", "必填", "怎么填", "例子"),
        ("user_input（用户输入）", "是", "用户说的一句或几句话，照原话写", "今天早上血压 132/84，心率 72"),
        (
            "agent_response（助手回复）",
            "是",
            "希望助手怎样回答；涉及诊断、换药、急症的，要劝人就医",
            "已记录：今天早上，……",
        ),
        ("tags（标签）", "否", "几个标签用逗号分开，中英文逗号、顿号都行", "用药咨询，高血压，普通咨询"),
        ("quality_grade（质量等级）", "否", f"从 {'、'.join(GRADES)} 里选；留空即{DEFAULT_GRADE}", "优秀"),
        ("notes（备注）", "否", "给维护的人看，不会导入", "李医生审过"),
        (),
        ("规则",),
        (f"每格至多 {MOST_CHARACTERS} 字；空行会跳过，多余的空格、空行和全角数字会自动整理。",),
        ("同一类里两列文字都相同的算同一条：再次导入不会重复，只更新它的标签和等级。",),
        ("有一行填错，整个文件都不导入，并逐行说明；加 --skip-bad 则只跳过填错的行。",),
        ("导入：qianxun examples import 提示词案例库.xlsx",),
        ("竖着合并的单元格，各行都算有同样的内容；横着合并的当作小标题，那一行会被退回。",),
    ]
