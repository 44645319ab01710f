"""Cleans a row into an example that can be stored, or says why it cannot be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final

from qianxun.core.errors import BadInput
from qianxun.examples.schema import DEFAULT_GRADE, GRADES

MOST_CHARACTERS: Final = 20_000  # of one field: longer ones are documents, not examples
MOST_TAGS: Final = 50
LONGEST_TAG: Final = 50

FIELDS: Final = ("user_input", "agent_response", "tags", "quality_grade")
REQUIRED: Final = ("user_input", "agent_response")
NOTES: Final = "notes"  # for the authors of the file; never stored
LABELS: Final = {
    "user_input": "用户输入",
    "agent_response": "助手回复",
    "tags": "标签",
    "quality_grade": "质量等级",
    NOTES: "备注",
}
_ALIASES: Final = {
    **{name: name for name in LABELS},
    **{label: name for name, label in LABELS.items()},
    "问题": "user_input",
    "用户问题": "user_input",
    "回答": "agent_response",
    "回复": "agent_response",
    "agent回复": "agent_response",
    "ai回复": "agent_response",
    "助手回答": "agent_response",
    "答案": "agent_response",
    "等级": "quality_grade",
    "质量": "quality_grade",
    "说明": NOTES,
}

# Full-width letters, digits and signs of measurement; Chinese punctuation is not changed.
_NARROW: Final = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F) if chr(wide - 0xFEE0).isalnum()} | {
    ord(wide): narrow for wide, narrow in zip("％＋－／＝＜＞．＆＠＃＊＿", "%+-/=<>.&@#*_", strict=True)
}
_INVISIBLE: Final = {
    code: None
    for code in (*range(0x20), 0x7F, *range(0x80, 0xA0), 0xAD, 0x200B, 0x2060, 0xFEFF)
    if code not in (0x09, 0x0A)
}
_CARRIAGE: Final = re.compile(r"_x000[dD]_\n?|\r\n?|\x85|\u2028|\u2029|\x0b|\x0c")  # the first: as in Excel files
_SPACES: Final = re.compile(r"[^\S\n]+")
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_BETWEEN_TAGS: Final = re.compile(r"[,，、;；|｜\n]")
_SAME_GRADE: Final = {"優秀": "优秀", "优": "优秀", "良": "良好", "中": "一般"}


@dataclass(frozen=True, slots=True)
class ExampleDraft:
    """An example that can be stored."""

    user_input: str
    agent_response: str
    tags: tuple[str, ...] = ()
    quality_grade: str = DEFAULT_GRADE

    @property
    def content(self) -> tuple[str, str]:
        """The identity of an example."""
        return self.user_input, self.agent_response


class BadExample(BadInput):
    """A row that cannot be stored; the message is the reason."""


def field_of(heading: Any) -> str:
    """The field that a column's heading means, "" for none: English or Chinese, with or without * or （必填）."""
    plain = re.sub(r"[*＊\s]|[（(].{0,20}[)）]", "", str(heading or "")).translate(_NARROW).casefold()
    return _ALIASES.get(plain, "")


def clean(fields: Mapping[str, Any]) -> ExampleDraft:
    """Raises BadExample, naming the field, for a missing, too long or malformed one."""
    user_input, agent_response = (_required(name, fields.get(name)) for name in REQUIRED)
    return ExampleDraft(user_input, agent_response, tags_of(fields.get("tags")), grade_of(fields.get("quality_grade")))


def is_blank(fields: Mapping[str, Any]) -> bool:
    """Whether all fields that would be stored are blank."""
    return all(not _filled(fields.get(name)) for name in FIELDS)


def _filled(value: Any) -> bool:
    return bool(value) if isinstance(value, list | tuple | dict) else bool(text_of(value))


def _required(name: str, value: Any) -> str:
    if isinstance(value, list | tuple | dict):
        raise BadExample(f"{name}（{LABELS[name]}）应是一段文字")
    text = text_of(value)
    if not text:
        raise BadExample(f"缺少 {name}（{LABELS[name]}）")
    if len(text) > MOST_CHARACTERS:
        raise BadExample(f"{name}（{LABELS[name]}）有 {len(text)} 个字，上限是 {MOST_CHARACTERS}")
    return text


def text_of(value: Any) -> str:
    """A cell as clean text: one space between words, no more than one blank line, nothing invisible."""
    if value is None:
        return ""
    text = _CARRIAGE.sub("\n", _written(value)).translate(_INVISIBLE).translate(_NARROW)
    text = _SPACES.sub(" ", text.encode("utf-8", "replace").decode("utf-8"))
    lines = "\n".join(line.strip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", lines).strip()


def _written(value: Any) -> str:
    """As a spreadsheet would show it."""
    if isinstance(value, bool):
        return "是" if value else "否"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}" if value.time() == time() else f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def tags_of(value: Any) -> tuple[str, ...]:
    """Distinct tags of a list, or of a text with commas of either width."""
    if isinstance(value, dict):
        raise BadExample("tags（标签）应是列表，或用逗号分开的文字")
    parts = value if isinstance(value, list | tuple) else _BETWEEN_TAGS.split(str(text_of(value)))
    if any(isinstance(part, list | tuple | dict) for part in parts):
        raise BadExample("tags（标签）里的每一项都应是文字")
    tags = tuple(dict.fromkeys(tag for part in parts if (tag := text_of(part))))
    if len(tags) > MOST_TAGS:
        raise BadExample(f"tags（标签）有 {len(tags)} 个，上限是 {MOST_TAGS}")
    for tag in tags:
        if len(tag) > LONGEST_TAG:
            raise BadExample(f"标签“{tag[:12]}…”有 {len(tag)} 个字，上限是 {LONGEST_TAG}：是不是填错了列，或漏了逗号")
    return tags


def grade_of(value: Any) -> str:
    """One of 优秀、良好、一般; blank is 一般."""
    text = "" if isinstance(value, list | tuple | dict) else text_of(value)
    grade = _SAME_GRADE.get(text, text) or (DEFAULT_GRADE if not _filled(value) else "")
    if grade not in GRADES:
        raise BadExample(f"quality_grade（质量等级）“{str(value)[:20]}”不是 {'、'.join(GRADES)} 之一")
    return grade
