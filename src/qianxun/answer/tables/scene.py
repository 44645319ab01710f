"""What a question mentions of a table, and how mentions and cues become a plan: what is shown, which rows are meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from qianxun.answer.tables.conditions import (
    ColumnMention,
    Unclear,
    contained_conditions,
    had_conditions,
    worded_conditions,
)
from qianxun.answer.tables.match import Match, Name, match_column
from qianxun.answer.tables.sheet import CellMention, Sheet
from qianxun.core.layered_types import Condition, Plan, Understood
from qianxun.question.table_query import TableQuery, hits, runs, span, union
from qianxun.question.words import cue

_BY_HEAD: Final = 0.64  # the least share of a name that its head counts for, where no other column has that head


@dataclass(frozen=True)
class Scene:
    """What a question mentions of a table, before it is known what it asks."""

    query: TableQuery
    sheet: Sheet
    columns: tuple[tuple[int, Match], ...]
    mentions: tuple[ColumnMention, ...]
    cells: tuple[CellMention, ...]

    @cached_property
    def names_mask(self) -> int:
        return union(met.mask for _, met in self.columns)

    @cached_property
    def about(self) -> int:
        """The characters that the table's title and surroundings explain."""
        return self.sheet.about_in(self.query.text)

    @cached_property
    def cells_mask(self) -> int:
        return union(cell.mask for cell in self.cells)

    def free(self, name: str) -> re.Match[str] | None:
        """A cue that is no part of a name or a cell of the table."""
        closed = self.names_mask | self.cells_mask
        return next((hit for hit in hits(name, self.query.text) if not span(*hit.span()) & closed), None)


def scene_of(query: TableQuery, sheet: Sheet) -> Scene:
    about = sheet.about_in(query.text)
    met = [
        (c, found)
        for c in sheet.columns_sharing(query.text)
        if (_is_named(found := match_column(sheet.names[c], query.text)) and (found.verbatim or found.mask & ~about))
        or _is_named_by_head(c, found, query.text, sheet)
    ]
    met = [(c, found) for c, found in met if not _is_of_thing(c, found, query.text, sheet)]
    cells = sheet.cells_in(query.text)
    cell_spans = [place for cell in cells for place in runs(cell.mask)]
    columns = [
        (c, found) for c, found in met if not _is_within(found.mask, cell_spans) and not _is_outdone(c, found, met)
    ]
    spans = [place for _, found in columns for place in runs(found.mask)]
    cells = [cell for cell in cells if not _is_within(cell.mask, spans)]
    mentions = tuple(ColumnMention(start, end, c) for c, found in columns for start, end in _mentions(found))
    return Scene(query, sheet, tuple(columns), mentions, tuple(cells))


def _is_of_thing(column: int, met: Match, text: str, sheet: Sheet) -> bool:
    """Returns True if a question names the thing that a column measures, and not the measure: 合同 is not 合同金额,
    where the contracts are named by 合同编号. The largest, or what all cost, is named by the measure."""
    if sheet.columns[column].kind == "money" and hits("table.of_amount", text):
        return False
    if not sheet.is_measure(column) or sheet.bare_name(column) in text:
        return False
    thing = "".join(text[start:end] for start, end in runs(met.mask))
    others = (name for c, name in enumerate(sheet.plain_names) if c != column and not sheet.is_measure(c))
    return any(
        name.startswith(thing) and (cue("table.identifying").search(name) or cue("table.naming").search(name))
        for name in others
    )


def _is_named(met: Match) -> bool:
    is_named = (met.matched >= 2 and met.share >= 0.5) or (met.verbatim and met.matched >= 1)
    return is_named and not cue("decisive.any").search(met.rest)


def _is_named_by_head(column: int, met: Match, text: str, sheet: Sheet) -> bool:
    """Returns True if a question names a measure by the noun that its name ends in, and nothing else could be meant:
    工资 is 基本工资 where no other column is called so and none is the total of which it is a part. A title that goes
    on after the noun is what is named there: 工资表."""
    places = runs(met.mask)
    heads = {text[start:end] for start, end in places}
    if len(heads) != 1 or not sheet.is_measure(column) or _goes_on(places, runs(sheet.about_in(text))):
        return False
    (head,) = heads
    rest = cue("table.unsaid").sub("", met.rest)  # 销量 of 2024年销量(台), where there is no other year
    if len(rest) > met.matched or cue("decisive.any").search(rest) or cue("table.kind_of_value").fullmatch(head):
        return False
    alike = [c for c, name in enumerate(sheet.names) if _ends_in(name, head)]
    return alike == [column] and not sheet.has_total


def _ends_in(name: Name, head: str) -> bool:
    return bool(name.parts) and any(way.endswith(head) for way in name.parts[-1])


def _goes_on(places: Sequence[tuple[int, int]], titles: Sequence[tuple[int, int]]) -> bool:
    return any(start <= begin and end < stop for begin, end in places for start, stop in titles)


def _mentions(met: Match) -> list[tuple[int, int]]:
    """The places that name a column: those with half of its name, or the longest where it is named in pieces."""
    places = runs(met.mask)
    halves = [(start, end) for start, end in places if (end - start) * 2 >= met.length]
    return halves or [max(places, key=lambda one: one[1] - one[0])]


def _is_within(mask: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Returns True if all its places are part of something longer."""
    return all(any(other[0] <= one[0] and one[1] <= other[1] and other != one for other in spans) for one in runs(mask))


def _is_outdone(column: int, met: Match, all_met: Sequence[tuple[int, Match]]) -> bool:
    """Returns True if other columns are named by the same characters and more, or one by the same, and wholly."""
    rivals = [rival for other, rival in all_met if other != column]
    if any(met.mask == rival.mask and met.missing and not rival.missing for rival in rivals):
        return True
    if any(met.mask != rival.mask and met.mask & ~rival.mask == 0 for rival in rivals):
        return True
    return _is_within(met.mask, [one for rival in rivals for one in runs(rival.mask)])


# ── plans ────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=64)
def questions_in(text: str) -> int:
    """How many things a question asks for, clause by clause."""
    return sum(bool(cue("which.table").search(clause)) for clause in cue("several.next").split(text)) or 1


def refuse_more(scene: Scene, shown: int) -> None:
    """A question that asks for more than is shown would be half answered."""
    if questions_in(scene.query.text) > shown:
        raise Unclear("问题里不止一问")


def all_conditions(scene: Scene, numeric: Sequence[Condition], used: int) -> list[Condition]:
    """Numeric conditions, those by cells that the question mentions, and those by words that are part of cells."""
    sheet, text = scene.sheet, scene.query.text
    worded = worded_conditions(text, scene.cells, scene.mentions)
    conditions = [*numeric, *worded, *had_conditions(text, sheet, scene.mentions)]
    explained = used | scene.names_mask | scene.cells_mask | scene.about | union(one.mask for one in conditions)
    conditions += contained_conditions(text, sheet, scene.query.unexplained(explained), sheet.label)
    for condition in conditions:
        odd = condition.comparison in ("in", "contains") and condition.column != sheet.label
        if sheet.is_wordy and odd and sheet.variety(condition.column) == 1.0:
            raise Unclear("表格不是一行一条的样子")
    return conditions


def finish(scene: Scene, plan: Plan, cues: int, extra: Sequence[int] = ()) -> Understood:
    """The plan with everything it explains, by its own columns and ``extra``; a negation or an alternative that it does
    not explain is a misreading."""
    bounding = [*(condition.column for condition in plan.conditions), plan.measure]
    matches = [(c, met) for c, met in scene.columns if c in (*bounding, *plan.outputs, *extra)]
    shares = [_share_named(scene, c, met, is_bound=c in bounding) for c, met in matches]
    masks = (*(condition.mask for condition in plan.conditions), *(met.mask for _, met in matches))
    explained = cues | union(masks)
    _refuse_unread(scene, explained | scene.names_mask | scene.cells_mask)
    return Understood(plan, explained, min(shares, default=1.0) ** 0.5)


def _share_named(scene: Scene, column: int, met: Match, is_bound: bool) -> float:
    """How much of a column's name counts as named: what a question need not say of it is not missing."""
    unsaid = (cue("table.kind_of_value"), cue("whether.prefix"))
    if is_bound and any(part.fullmatch(met.rest) for part in unsaid):
        return 1.0
    is_head = _is_named_by_head(column, met, scene.query.text, scene.sheet)
    return max(met.share, _BY_HEAD) if is_head else met.share


def _refuse_unread(scene: Scene, explained: int) -> None:
    for hit in hits("negation.any", scene.query.text):
        if not span(*hit.span()) & (explained | scene.about):
            raise Unclear(f"没有读懂否定（{hit.group()}）")
    for either in hits("several.either", scene.query.text):
        if not span(*either.span()) & explained and not _joins_cells(scene, either):
            raise Unclear("没有读懂“或”")


def _joins_cells(scene: Scene, either: re.Match[str]) -> bool:
    """Returns True if it is between two cells of one column."""
    places = [(cell.column, start, end) for cell in scene.cells for start, end in runs(cell.mask)]
    ends = {column for column, _, end in places if either.start() - end in (0, 1)}
    return any(column in ends and start - either.end() in (0, 1) for column, start, _ in places)


def outputs_of(scene: Scene, conditions: Sequence[Condition], taken: Sequence[int] = ()) -> list[int]:
    """Columns that are named and not used up by a condition, in the order in which they are named. A column may bound
    the rows in one place and be asked for in another."""
    spent = [place for condition in conditions if (place := _place_of(scene, condition)) is not None]
    compared = union(condition.mask for condition in conditions if condition.than is not None)
    free = [
        mention
        for mention in scene.mentions
        if mention.column not in taken
        and not any(mention.start < one.end and one.start < mention.end for one in spent)
        and not span(mention.start, mention.end) & compared
    ]
    known = [one.column for one in conditions if one.comparison == "in" and len(one.values) == 1]
    order = {mention.column: mention.start for mention in reversed(free) if mention.column not in known}
    for mention in free:
        own = mention.start, mention.end
        if any(other.column != mention.column and (other.start, other.end) == own for other in free):
            raise Unclear(f"“{scene.query.text[mention.start : mention.end]}”指向不止一列")
    return sorted(order, key=lambda column: order[column])


def _place_of(scene: Scene, condition: Condition) -> ColumnMention | None:
    """Where the column of a condition is named: right before what it must be, or the nearest place before."""
    (start, _), (_, end) = runs(condition.mask)[0], runs(condition.mask)[-1]
    own = [mention for mention in scene.mentions if mention.column == condition.column]
    is_worded = condition.comparison in ("in", "not in", "contains", "not contains")
    before = [mention for mention in own if mention.end <= start and (not is_worded or start - mention.end <= 2)]
    before = before or [mention for mention in own if 0 <= mention.start - end <= 1]  # 2023年以后生产的
    return max(before, key=lambda mention: mention.end, default=None)


def shown_columns(scene: Scene, conditions: Sequence[Condition], taken: Sequence[int] = ()) -> list[int]:
    """What is to be shown: columns named; 在哪里 and 什么时候 ask for one without naming it, 哪些 for labels."""
    outputs = _after_entity(scene, outputs_of(scene, conditions, taken))
    columns = scene.sheet.columns
    for idea in ("where", "when"):
        name = cue(f"{idea}.column")
        if scene.free(f"{idea}.table") is None or any(name.search(columns[c].name) for c in outputs):
            continue
        outputs = [c for c, column in enumerate(columns) if name.search(column.name)]
        if len(outputs) != 1:
            raise Unclear("不知道要列出哪一列")
    listing = scene.free("several.listing")
    label = scene.sheet.label
    known = any(one.column == label and one.comparison in ("in", "=") for one in conditions)
    if listing is None or label is None or label in outputs or (known and outputs):
        return outputs
    if outputs and listing.group() == "介绍":  # asks for a description of what is named, not for a list
        return outputs
    near = any(0 <= one.start - listing.end() <= 1 or one.end == listing.start() for one in _of(scene, outputs))
    return outputs if near else [row_name(scene, label), *outputs]


def row_name(scene: Scene, label: int) -> int:
    """The column that tells which rows are meant: the label, or the number of each row where the label is no name: the
    same in several rows, or only figures that are others in each, 5/18."""
    sheet, number = scene.sheet, scene.sheet.number_column
    has_words = any(any(map(str.isalpha, cell)) for cell in sheet.plain_cells(label))
    name = sheet.columns[label].name
    is_name = cue("table.naming").search(name) or cue("table.person_column").search(name)
    is_label = has_words and (is_name or sheet.variety(label) == 1.0)
    return label if is_label or number is None else number


def _of(scene: Scene, columns: Sequence[int]) -> list[ColumnMention]:
    return [mention for mention in scene.mentions if mention.column in columns]


def _after_entity(scene: Scene, outputs: list[int]) -> list[int]:
    """票价最高的电影的票房: the film is described, its takings are asked for."""
    if len(outputs) != 2:
        return outputs
    first, second = (_of(scene, [column]) for column in outputs)
    is_owned = any(scene.query.text[one.end : other.start] == "的" for one in first for other in second)
    return outputs[1:] if is_owned else outputs


def entities(scene: Scene, outputs: Sequence[int]) -> list[int]:
    return [c for c, _ in scene.columns if c not in outputs and not scene.sheet.is_numeric(c)]
