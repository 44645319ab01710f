"""From names and cues to a reading: what is shown, which rows are meant, and what must not be left unread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from qianxun.answer.tables.conditions import (
    Named,
    Unclear,
    contained_conditions,
    had_conditions,
    worded_conditions,
)
from qianxun.answer.tables.match import span
from qianxun.answer.tables.mentions import Scene
from qianxun.answer.tables.sheet import runs
from qianxun.answer.tables.words import (
    ASKING,
    EITHER,
    LISTING,
    NEGATION,
    NEXT_ASK,
)
from qianxun.core.table_answer_types import Condition, Plan, Understood

_WHERE: Final = (re.compile("哪里|在哪|哪儿|何处|什么地方"), re.compile("地址|位置|地点|所在|address", re.IGNORECASE))
_WHEN: Final = (
    re.compile("什么时候|何时|哪天|哪一天|哪年|哪一年"),
    re.compile("时间|日期|年份|date|time", re.IGNORECASE),
)
_KIND_OF_VALUE: Final = re.compile("日期|时间|年份|年|数|数量|人数|金额|额")  # 2023年签约的: the number says so already


def asks(text: str) -> int:
    """How many things a question asks for, clause by clause."""
    return sum(bool(ASKING.search(clause)) for clause in NEXT_ASK.split(text)) or 1


def refuse_more(scene: Scene, shown: int) -> None:
    """A question that asks for more than is shown would be half answered."""
    if asks(scene.asked.text) > shown:
        raise Unclear("问题里不止一问")


def worded(scene: Scene, without: Sequence[int] = ()) -> list[Condition]:
    said = [s for s in scene.said if s.column not in without]
    had = had_conditions(scene.asked.text, scene.sheet, scene.named)
    return [*worded_conditions(scene.asked.text, said, scene.named), *had]


def finish(scene: Scene, plan: Plan, cues: int, used: Sequence[int]) -> Understood:
    """The reading with everything it explains; a denial or an alternative that it does not is a misreading."""
    text = scene.asked.text
    explained = cues
    for condition in plan.conditions:
        explained |= condition.mask
    bounding = [*(condition.column for condition in plan.conditions), plan.measure]
    shares = [
        1.0 if c in bounding and _KIND_OF_VALUE.fullmatch(met.rest) else met.share
        for c, met in scene.columns
        if c in used
    ]
    for c, met in scene.columns:
        if c in used:
            explained |= met.mask
    _refuse_unread(scene, plan, explained, text)
    return Understood(plan, explained, min(shares, default=1.0) ** 0.5)


def _refuse_unread(scene: Scene, plan: Plan, explained: int, text: str) -> None:
    for hit in NEGATION.finditer(text):
        if not span(*hit.span()) & (explained | scene.names_mask | scene.said_mask | scene.about):
            raise Unclear(f"没有读懂否定（{hit.group()}）")
    for either in EITHER.finditer(text):
        if not span(*either.span()) & (explained | scene.names_mask | scene.said_mask) and not _joins(scene, either):
            raise Unclear("没有读懂“或”")


def _joins(scene: Scene, either: re.Match[str]) -> bool:
    """Whether it stands between two cells of one column."""
    ends = {each.column for each in scene.said if any(either.start() - end in (0, 1) for _, end in runs(each.mask))}
    begins = {each.column for each in scene.said if any(start - either.end() in (0, 1) for start, _ in runs(each.mask))}
    return bool(ends & begins)


def with_contained(scene: Scene, conditions: list[Condition], used: int) -> list[Condition]:
    conditions = _with_parts(scene, conditions, used)
    for condition in conditions:
        odd = condition.comparison in ("in", "contains") and condition.column != scene.sheet.label
        if scene.sheet.is_wordy and odd and scene.sheet.variety(condition.column) == 1.0:
            raise Unclear("表格不是一行一条的样子")
    return conditions


def _with_parts(scene: Scene, conditions: list[Condition], used: int) -> list[Condition]:
    explained = used | scene.names_mask | scene.said_mask | scene.about
    for condition in conditions:
        explained |= condition.mask
    open_ = scene.asked.unexplained(explained)
    return [*conditions, *contained_conditions(scene.asked.text, scene.sheet, open_, scene.sheet.label)]


def outputs_of(scene: Scene, conditions: Sequence[Condition], taken: Sequence[int] = ()) -> list[int]:
    """Columns that are named and not used up by a condition, in the order in which they are named. A column may bound
    the rows in one place and be asked for in another."""
    spent = [place for condition in conditions if (place := _place_of(scene, condition)) is not None]
    free = [each for each in scene.named if each.column not in taken and not any(_meets(each, one) for one in spent)]
    known = [
        condition.column for condition in conditions if condition.comparison == "in" and len(condition.values) == 1
    ]
    order = {each.column: each.start for each in reversed(free) if each.column not in known}
    for each in free:
        if any(other.column != each.column and (other.start, other.end) == (each.start, each.end) for other in free):
            raise Unclear(f"“{scene.asked.text[each.start : each.end]}”指向不止一列")
    return sorted(order, key=lambda column: order[column])


def _meets(named: Named, place: Named) -> bool:
    return named.start < place.end and place.start < named.end


def _place_of(scene: Scene, condition: Condition) -> Named | None:
    """Where the column of a condition is named: right before what it must be, or the nearest place before."""
    start = runs(condition.mask)[0][0]
    before = [each for each in scene.named if each.column == condition.column and each.end <= start]
    if condition.comparison in ("in", "not in", "contains", "not contains"):
        before = [each for each in before if start - each.end <= 2]
    if not before:  # 2023年以后生产的
        end = runs(condition.mask)[-1][1]
        before = [each for each in scene.named if each.column == condition.column and 0 <= each.start - end <= 1]
    return max(before, key=lambda each: each.end, default=None)


def asked_for(scene: Scene, conditions: Sequence[Condition], taken: Sequence[int] = ()) -> list[int]:
    """What is to be shown: columns named; 在哪里 and 什么时候 ask for one without naming it, 哪些 for labels."""
    outputs = _after_entity(scene, outputs_of(scene, conditions, taken))
    for cue, wanted in (_WHERE, _WHEN):
        if scene.free(cue) is None or any(wanted.search(scene.sheet.columns[c].name) for c in outputs):
            continue
        fits = [c for c, column in enumerate(scene.sheet.columns) if wanted.search(column.name)]
        if len(fits) != 1:
            raise Unclear("不知道要列出哪一列")
        outputs = fits
    listing = scene.free(LISTING)
    label = scene.sheet.label
    known = any(condition.column == label and condition.comparison in ("in", "=") for condition in conditions)
    if listing is None or label is None or label in outputs or (known and outputs):
        return outputs
    if outputs and listing.group() == "介绍":  # asks to be told of what is named, not for a list
        return outputs
    beside = [each for each in scene.named if each.column in outputs and _is_beside(each, listing)]
    return outputs if beside else [label, *outputs]


def _is_beside(named: Named, cue: re.Match[str]) -> bool:
    return 0 <= named.start - cue.end() <= 1 or named.end == cue.start()


def _after_entity(scene: Scene, outputs: list[int]) -> list[int]:
    """票价最高的电影的票房: the film is meant, its takings are asked for."""
    if len(outputs) != 2:
        return outputs
    first, second = ([each for each in scene.named if each.column == c] for c in outputs)
    if any(scene.asked.text[one.end : other.start] == "的" for one in first for other in second):
        return outputs[1:]
    return outputs


def entities(scene: Scene, outputs: Sequence[int]) -> list[int]:
    return [c for c, _ in scene.columns if c not in outputs and not scene.sheet.is_numeric(c)]
