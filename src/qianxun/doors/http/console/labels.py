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


def label(table: str, key: str) -> Text:
    return Text(*label_pair(table, key))


def part_label(name: str) -> Text:
    """A part of a search or an answer that may be degraded: an arm, or another step."""
    return arm_label(name) if find_arm(name) else label("parts", name)


def arm_label(name: str) -> Text:
    arm = find_arm(name)
    return Text(name, name) if arm is None else Text(*arm.label)
