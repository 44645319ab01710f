"""What keys of the engine are called on a page: `qianxun.core.codec.labels` as `Text`, and the colour of a state."""

from __future__ import annotations

from typing import Final

from qianxun.core.codec.labels import label_pair
from qianxun.doors.http.console.page import Text
from qianxun.engine.display import find_arm

STATE_KINDS: Final = {
    "indexed": "done",
    "pending": "busy",
    "retrying": "busy",
    "quarantined": "bad",
    "failed": "bad",
}

CORRECTION_STATES: Final = {
    "applied": (Text("已生效", "applied"), "done"),
    "needs_a_look": (Text("要看一看", "needs a look"), "bad"),
    "proposed": (Text("提议", "proposed"), "busy"),
    "undone": (Text("已撤销", "undone"), "idle"),
}
CORRECTION_KINDS: Final = {
    "edit": Text("改写", "edited"),
    "disable": Text("停用片段", "chunk disabled"),
    "split": Text("拆分", "split"),
    "join": Text("合并", "joined"),
    "keywords": Text("关键词", "keywords"),
    "questions": Text("问题", "questions"),
    "note": Text("备注", "note"),
    "disable_document": Text("停用文档", "document disabled"),
    "rename": Text("改名", "renamed"),
    "metadata": Text("元数据", "metadata"),
    "pin": Text("这个问题先给它", "first for a question"),
    "exclude": Text("这个问题不给它", "never for a question"),
}


def label(table: str, key: str) -> Text:
    return Text(*label_pair(table, key))


def part_label(name: str) -> Text:
    """A part of a search or an answer that may be degraded: an arm, or another step."""
    return arm_label(name) if find_arm(name) else label("parts", name)


def arm_label(name: str) -> Text:
    arm = find_arm(name)
    return Text(name, name) if arm is None else Text(*arm.label)
