"""What a question mentions of a table, and how mentions and cues become a plan: what is shown, which rows are meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.answer.tables.conditions import (
    Named,
    Unclear,
    contained_conditions,
    had_conditions,
    worded_conditions,
)
from qianxun.answer.tables.match import Match, match, match_column
from qianxun.answer.tables.sheet import Said, Sheet
from qianxun.core.table_answer_types import Condition, Plan, Understood
from qianxun.question.table_query import TableQuery, plain, runs, span
from qianxun.question.words import cue

_BRACKETED: Final = re.compile(r"\([^()]*\)$")


@dataclass(frozen=True, slots=True)
class Scene:
    """What a question says of a table, before it is known what it asks."""

    asked: TableQuery
    sheet: Sheet
    columns: tuple[tuple[int, Match], ...]
    named: tuple[Named, ...]
    said: tuple[Said, ...]

    @property
    def names_mask(self) -> int:
        mask = 0
        for _, met in self.columns:
            mask |= met.mask
        return mask

    @property
    def about(self) -> int:
        """The characters that the table's title and surroundings explain."""
        return match(self.sheet.about, self.asked.text).mask

    @property
    def said_mask(self) -> int:
        mask = 0
        for each in self.said:
            mask |= each.mask
        return mask

    def free(self, name: str) -> re.Match[str] | None:
        """A cue that is no part of a name or a cell of the table."""
        closed = self.names_mask | self.said_mask
        return next((hit for hit in cue(name).finditer(self.asked.text) if not span(*hit.span()) & closed), None)


def scene_of(asked: TableQuery, sheet: Sheet) -> Scene:
    about = match(sheet.about, asked.text).mask
    met = [(c, found) for c, name in enumerate(sheet.names) if _is_named(found := match_column(name, asked.text))]
    met = [(c, found) for c, found in met if found.verbatim or found.mask & ~about]
    met = [(c, found) for c, found in met if not _is_of_thing(c, found, asked.text, sheet)]
    said = sheet.said(asked.text)
    said_spans = [one for each in said for one in runs(each.mask)]
    kept = [(c, found) for c, found in met if not _is_within(found, said_spans) and not _is_outdone(c, found, met)]
    spans = [one for _, found in kept for one in runs(found.mask)]
    said = [each for each in said if not all(_inside(one, spans) for one in runs(each.mask))]
    named = tuple(Named(start, end, c) for c, found in kept for start, end in _mentions(found))
    return Scene(asked, sheet, tuple(kept), named, tuple(said))


def _is_of_thing(column: int, met: Match, text: str, sheet: Sheet) -> bool:
    """Whether a question says the thing that a column measures, and not the measure: 合同 is not 合同金额, where the
    contracts are named by 合同编号. The largest, or what all cost, is said by the measure."""
    if sheet.columns[column].kind == "money" and cue("table.of_amount").search(text):
        return False
    whole = _BRACKETED.sub("", plain(sheet.columns[column].name.split(" / ")[-1]))
    if not sheet.is_measure(column) or whole in text:
        return False
    thing = "".join(text[start:end] for start, end in runs(met.mask))
    others = (plain(each.name) for c, each in enumerate(sheet.columns) if c != column and not sheet.is_measure(c))
    return any(
        name.startswith(thing) and (cue("table.identifying").search(name) or cue("table.naming").search(name))
        for name in others
    )


def _is_named(met: Match) -> bool:
    if cue("decisive.any").search(met.rest):
        return False
    return (met.said >= 2 and met.share >= 0.5) or (met.verbatim and met.said >= 1)


def _mentions(met: Match) -> list[tuple[int, int]]:
    """The places that name a column: each that says half of it, or the longest where it is said in pieces."""
    places = runs(met.mask)
    halves = [(start, end) for start, end in places if (end - start) * 2 >= met.length]
    return halves or [max(places, key=lambda one: one[1] - one[0])]


def _is_within(met: Match, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether it is said only as part of something longer."""
    return all(_inside(one, spans) for one in runs(met.mask))


def _inside(one: tuple[int, int], spans: Sequence[tuple[int, int]]) -> bool:
    return any(other[0] <= one[0] and one[1] <= other[1] and other != one for other in spans)


def _is_outdone(column: int, met: Match, all_met: Sequence[tuple[int, Match]]) -> bool:
    """Whether other columns are named by the same characters and more, or one by the same, and wholly."""
    rivals = [rival for other, rival in all_met if other != column]
    if any(met.mask == rival.mask and met.unsaid and not rival.unsaid for rival in rivals):
        return True
    if any(met.mask != rival.mask and met.mask & ~rival.mask == 0 for rival in rivals):
        return True
    return _is_within(met, [one for rival in rivals for one in runs(rival.mask)])


# ── plans ────────────────────────────────────────────────────────────────────────────────────────


def asks(text: str) -> int:
    """How many things a question asks for, clause by clause."""
    return sum(bool(cue("which.table").search(clause)) for clause in cue("several.next").split(text)) or 1


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
        1.0 if c in bounding and cue("table.kind_of_value").fullmatch(met.rest) else met.share
        for c, met in scene.columns
        if c in used
    ]
    for c, met in scene.columns:
        if c in used:
            explained |= met.mask
    _refuse_unread(scene, plan, explained, text)
    return Understood(plan, explained, min(shares, default=1.0) ** 0.5)


def _refuse_unread(scene: Scene, plan: Plan, explained: int, text: str) -> None:
    for hit in cue("negation.any").finditer(text):
        if not span(*hit.span()) & (explained | scene.names_mask | scene.said_mask | scene.about):
            raise Unclear(f"没有读懂否定（{hit.group()}）")
    for either in cue("several.either").finditer(text):
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
    for idea in ("where", "when"):
        wanted = cue(f"{idea}.column")
        if scene.free(f"{idea}.table") is None or any(wanted.search(scene.sheet.columns[c].name) for c in outputs):
            continue
        fits = [c for c, column in enumerate(scene.sheet.columns) if wanted.search(column.name)]
        if len(fits) != 1:
            raise Unclear("不知道要列出哪一列")
        outputs = fits
    listing = scene.free("several.listing")
    label = scene.sheet.label
    known = any(condition.column == label and condition.comparison in ("in", "=") for condition in conditions)
    if listing is None or label is None or label in outputs or (known and outputs):
        return outputs
    if outputs and listing.group() == "介绍":  # asks to be told of what is named, not for a list
        return outputs
    beside = [each for each in scene.named if each.column in outputs and _is_beside(each, listing)]
    return outputs if beside else [label, *outputs]


def _is_beside(named: Named, hit: re.Match[str]) -> bool:
    return 0 <= named.start - hit.end() <= 1 or named.end == hit.start()


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
