"""Lookups: the row and the column a question names, and the cells where they meet."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from qianxun.answer.tables.match import Match, is_header, match, match_column, together
from qianxun.answer.tables.sheet import Sheet
from qianxun.core.layered_types import Plan, Understood, Unsure
from qianxun.question.table_query import TableQuery, plain, runs, span, union
from qianxun.question.words import cue, entries

_MOST_FUZZY_ROWS: Final = 400
_LEAST_SHARE: Final = 0.4
_MISSING: Final = 0.5  # what an missing character of a name costs, against one of the question explained
_DIRECTION: Final = re.compile("[东西南北]")
_UNIT_COLUMN: Final = re.compile("(?:计量|计价)?单位")


@dataclass(frozen=True, slots=True)
class Pick:
    """One row or column with how it was named."""

    at: int
    met: Match
    home: int = -1  # for a row: the column of its label
    stated: frozenset[int] = frozenset()  # for a row: every column whose cell is in the question itself

    @property
    def worth(self) -> float:
        return self.met.mask.bit_count() - _MISSING * self.met.missing


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows or columns of a lookup. ``clear`` is False where others are named as well as these."""

    picks: tuple[Pick, ...] = ()
    more: tuple[Pick, ...] = ()  # named as well, in words of their own
    clear: bool = True

    def cut(self, several: bool) -> Chosen:
        """With those named as well where the question asks for several; otherwise they make it unclear."""
        if not self.more:
            return self
        return Chosen((*self.picks, *self.more), clear=self.clear) if several else replace(self, clear=False)

    @property
    def mask(self) -> int:
        return union(pick.met.mask for pick in (*self.picks, *self.more))

    @property
    def worth(self) -> float:
        return self.mask.bit_count() - _MISSING * max((pick.met.missing for pick in self.picks), default=0)

    @property
    def share(self) -> float:
        return min((pick.met.share for pick in self.picks), default=1.0)

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(sorted(pick.at for pick in self.picks))


def look_up(query: TableQuery, sheet: Sheet) -> Understood | Unsure:
    """The cells where the named rows meet the named columns."""
    rows, columns = _best_cross(query.text, sheet)
    several = bool(cue("several.lookup").search(_without(query.text, rows.mask | columns.mask)))
    rows, columns = rows.cut(several), columns.cut(several)
    if not rows.clear or not columns.clear:
        which = "行" if not rows.clear else "列"
        return Unsure(f"问题同样指向多{which}", rows.places[:10])
    labels = [sheet.plain_cells(pick.home)[pick.at] for pick in rows.picks]
    hint = everyday(_without(query.text, rows.mask), sheet, rows.places, labels)
    if hint is not None and hint.targets and columns.picks and _is_measured_instead(query.text, sheet, hint, columns):
        columns = Chosen()  # 合同什么时候签的 names 合同金额 only in passing
    if columns.picks and (columns.share == 1.0 or hint is None or hint.targets != columns.places):
        hint = None  # a named column goes first, unless everyday words name the same: 怎么联系, 联系电话
    targets = hint.targets if hint and rows.picks else _targets(query.text, sheet, rows, columns)
    if not targets:
        return Unsure("没有认出要查的列", rows.places[:10])
    if any(_is_stated(sheet, pick, target) for target in targets for pick in rows.picks):
        return Unsure("查到的就是问题里说的", rows.places[:10])  # 李娜负责哪个分公司 does not ask who is in charge
    if sheet.is_wordy and any(sheet.label != target < pick.home for target in targets for pick in rows.picks):
        return Unsure("名目在值的右边，不像一行一条的表", rows.places[:10])
    apart = any(target != pick.home + 1 for target in targets for pick in rows.picks)
    if sheet.is_form and apart and not _is_record(query.text, sheet, rows, columns, hint):
        return Unsure("名目和值不在一处", rows.places[:10])
    chosen = rows.places or ((0,) if len(sheet) == 1 else ())
    if not chosen:
        return Unsure("没有认出要查的行")
    if not several and any(len({sheet.plain_cells(c)[row] for row in chosen}) > 1 for c in targets):
        return Unsure("符合的行不止一行", chosen[:10])
    if sheet.totals.issuperset(chosen):  # 所有物料合计: no row of totals has a name of its own
        targets = tuple(c for c in targets if any(sheet.plain_cells(c)[row] for row in chosen)) or targets
    explained = rows.mask | columns.mask | (hint.mask | _in_name(query, sheet, targets) if hint else 0)
    stated = {column for pick in rows.picks for column in (pick.home, *pick.stated)}
    explained |= union(match_column(sheet.names[column], query.text).mask for column in stated)
    if other := _another(query, sheet, rows, explained):
        return Unsure(f"表里没有“{other}”，只有相近的名称", rows.places[:10])
    closeness = (rows.share * columns.share) ** 0.5
    if hint or not columns.picks:
        closeness = rows.share**0.5 * 0.9
    strict = hint is not None and not columns.picks
    return Understood(Plan("lookup", rows=chosen, outputs=targets), explained, closeness, strict)


def _is_measured_instead(text: str, sheet: Sheet, hint: Hint, columns: Chosen) -> bool:
    """Returns True if a question names only what a measure is of, and asks for what no measure is: a time, a person, a
    place."""
    whole = any(sheet.bare_name(column) in text for column in columns.places)
    return not whole and all(map(sheet.is_measure, columns.places)) and not any(map(sheet.is_measure, hint.targets))


def _in_name(query: TableQuery, sheet: Sheet, targets: Sequence[int]) -> int:
    """The single characters of a question that what it asks for is called by, too: 签 of 什么时候签的, of 签订日期."""
    names = "".join(map(sheet.bare_name, targets))
    return sum(1 << at for at, mark in enumerate(query.text) if mark in names) & query.informative


def _is_stated(sheet: Sheet, pick: Pick, target: int) -> bool:
    """Returns True if the cell is in the question, and not only as part of the row's name: 成都 of 成都海能科技."""
    return target in pick.stated and sheet.plain_cells(target)[pick.at] not in sheet.plain_cells(pick.home)[pick.at]


def _another(query: TableQuery, sheet: Sheet, rows: Chosen, explained: int) -> str:
    """The name in a question that only looks like that of a row: 南京分公司, where the table has 北京分公司; 李四光,
    where it has 李四; 西北京分公司, 北京分公司二部."""
    text = query.text
    open_ = runs(query.unexplained(explained | sheet.about_in(text)))
    before, after = {end: start for start, end in open_}, dict(open_)
    for pick in rows.picks:
        label = sheet.plain_cells(pick.home)[pick.at]
        parts = [(label.find(text[start:end]), start, end) for start, end in runs(match(label, text).mask)]
        first, start, end = min(parts, default=(0, 0, 0))
        begin, stop = before.get(start, start), after.get(end, end)
        begin = start if cue("table.called_for").fullmatch(text[begin:start]) else begin
        person = bool(cue("table.person_column").search(sheet.columns[pick.home].name))
        if begin < start and first > 0 and label[first - 1].isalpha():
            return text[begin:end]
        if first == 0 and _begins_name(text[begin:start], person):
            return text[begin:end]
        if cue("table.unit_of").fullmatch(text[end:stop]) or (
            person and cue("table.part_of_name").fullmatch(text[end:stop])
        ):
            return text[start:stop]
    return ""


def _begins_name(text: str, is_person: bool) -> bool:
    """Returns True if a text before a name makes another of it: a surname, a direction."""
    if not is_person:
        return _DIRECTION.fullmatch(text) is not None
    return bool(cue("table.part_of_name").fullmatch(text) or cue("table.surname").fullmatch(text))


def _is_record(text: str, sheet: Sheet, rows: Chosen, columns: Chosen, hint: Hint | None) -> bool:
    """Returns True if a table of words is treated as rows of one kind: by the whole name in its first column, and by
    the whole name of another column (or everyday words for it) after that."""
    if sheet.label != 0 or len(rows.picks) != 1 or not any(column.path for column in sheet.columns):
        return False
    pick = rows.picks[0]
    names = hint.mask if hint else columns.mask
    whole = pick.met.verbatim and (hint is not None or all(column.met.verbatim for column in columns.picks))
    after = not names or runs(pick.met.mask)[-1][1] <= runs(names)[0][0]
    return (
        whole
        and pick.home == 0
        and bool(names)
        and after
        and not cue("several.joint").search(_without(text, rows.mask | names))
    )


def _best_cross(text: str, sheet: Sheet) -> tuple[Chosen, Chosen]:
    """Rows first or columns first, whichever explains more: 存货 may be a column, or the beginning of a label."""
    rows = _rows(text, sheet)
    homes = {pick.home for pick in rows.picks}
    stated = frozenset.intersection(*(pick.stated for pick in rows.picks)) if rows.picks else frozenset()
    other_columns = _columns(text, sheet, homes)
    columns = _columns(_without(text, rows.mask), sheet, homes, stated) if rows.picks else other_columns
    other_rows = _rows(_without(text, other_columns.mask), sheet) if other_columns.picks else rows
    if {pick.home for pick in other_rows.picks} & set(other_columns.places):
        return rows, columns
    if other_rows.worth + other_columns.worth > rows.worth + columns.worth:
        return other_rows, other_columns
    return rows, columns


def _without(text: str, mask: int) -> str:
    parts, last = list[str](), 0
    for start, end in runs(mask):
        parts += (text[last:start], "\0" * (end - start))
        last = end
    return "".join((*parts, text[last:]))


def _columns(text: str, sheet: Sheet, homes: Set[int], stated: Set[int] = frozenset()) -> Chosen:
    """Columns that are named; words that name the column of the labels are not left for others, and what the question
    states it does not ask for."""
    spent = union(match_column(sheet.names[home], text).mask for home in homes)
    picks = [
        Pick(c, met)
        for c in sheet.columns_sharing(text)
        if c not in homes
        and c not in stated
        and _is_enough(met := match_column(sheet.names[c], text))
        and met.mask & ~spent
    ]
    return _choose(picks, text)


def _is_enough(met: Match) -> bool:
    return met.matched >= 2 and met.share >= _LEAST_SHARE and not cue("decisive.any").search(met.rest)


def _rows(text: str, sheet: Sheet) -> Chosen:
    met: dict[int, list[tuple[Match, int]]] = defaultdict(list)
    for cell in sheet.cells_in(text):
        for row in cell.rows:
            met[row].append((Match(cell.mask, len(cell.text), len(cell.text), True), cell.column))
    if len(sheet) <= _MOST_FUZZY_ROWS:
        _add_fuzzy(met, text, sheet)
    about = sheet.about_in(text)
    picks = [
        Pick(
            row,
            together(part for part, _ in found),
            max(found, key=lambda one: one[0].matched)[1],
            frozenset(column for part, column in found if part.verbatim),
        )
        for row, found in sorted(met.items())
    ]
    picks = [pick for pick in picks if pick.met.verbatim or pick.met.mask & ~about]
    chosen = _choose(picks, text)
    return replace(chosen, clear=False) if _contradict(picks, chosen, sheet) else chosen


def _contradict(picks: Sequence[Pick], chosen: Chosen, sheet: Sheet) -> bool:
    """财务部的张三, who is of another department: the name is in another row than the department."""
    if not any(map(sheet.is_measure, range(len(sheet.columns)))):
        return False  # a form has names and values in turns, of one thing
    homes = {pick.home for pick in chosen.picks}
    others = [pick for pick in picks if pick.met.verbatim and not pick.met.mask & chosen.mask]
    return any(
        sheet.label in (pick.home, home) and pick.home != home and min(map(sheet.variety, (pick.home, home))) < 1.0
        for pick in others
        for home in homes
    )


def _add_fuzzy(met: dict[int, list[tuple[Match, int]]], text: str, sheet: Sheet) -> None:
    for column, cells in sheet.labels_sharing(text).items():
        for cell in cells:
            found = match(cell, text)
            if not _is_enough(found) or found.share < 0.5:
                continue
            for row in sheet.rows_by_text(column)[cell]:
                if not any(home == column for _, home in met.get(row, ())):
                    met[row].append((found, column))


def _choose(picks: Sequence[Pick], text: str) -> Chosen:
    """The best and those named in the same words; others named in words of their own; and whether that is clear."""
    if not picks:
        return Chosen()
    best = max(picks, key=lambda pick: (pick.worth, -pick.at))
    same = [pick for pick in picks if _is_alike(pick, best)]
    more: list[Pick] = []
    ways: dict[tuple[int, int], Pick] = {}  # in which those are named; few, where there may be 50,000 rows
    rivals = [pick for pick in picks if not _is_alike(pick, best)]
    for pick in sorted(rivals, key=lambda pick: (-pick.worth, pick.at)):
        way = (pick.met.mask, pick.met.missing)
        if pick.home == best.home and (way in ways or _is_also(pick, [best, *ways.values()], text)):
            ways.setdefault(way, pick)
            more.append(pick)
    taken = best.met.mask | union(pick.met.mask for pick in more)
    also = {pick.at for pick in more}
    left = [pick for pick in rivals if pick.at not in also]
    close = any(pick.worth > best.worth - 1 and pick.met.mask & ~taken for pick in left)
    return Chosen(tuple(same), tuple(more), clear=not close)


def _is_alike(one: Pick, other: Pick) -> bool:
    return one.met.mask == other.met.mask and one.met.missing == other.met.missing


def _is_also(pick: Pick, chosen: Sequence[Pick], text: str) -> bool:
    """Returns True if it is named beside those chosen: wholly, in words of its own, or joined to theirs:
    期末和期初余额."""
    taken = union(other.met.mask for other in chosen)
    if pick.met.verbatim and not pick.met.mask & taken:
        return True
    own = runs(pick.met.mask & ~taken)
    theirs = [one for other in chosen for one in runs(other.met.mask & ~pick.met.mask)]
    joined = any(
        cue("several.joint").fullmatch(text[a[1] : b[0]]) for x in own for y in theirs for a, b in ((x, y), (y, x))
    )
    return joined and pick.met.missing <= chosen[0].met.missing + 1


def _targets(text: str, sheet: Sheet, rows: Chosen, columns: Chosen) -> tuple[int, ...]:
    homes = {pick.home for pick in rows.picks}
    named = [c for c in columns.places if c not in homes]
    if named == [0] and not _is_number_of(sheet, 0, columns) and not _may_be_a_column(text, sheet):
        return ()  # the first column names what the others are of
    if named:
        ties = len({pick.met.mask for pick in columns.picks}) < len(named)
        return tuple(named) if not ties or re.search("分别|各|都|哪些", text) else ()
    useful = [
        c
        for c, column in enumerate(sheet.columns)
        if c not in homes and not cue("table.identifying").search(column.name)
    ]
    if len(useful) == 1 and rows.picks and not columns.picks:
        return tuple(useful)
    measures = [c for c in useful if sheet.is_measure(c)]
    if len(measures) == 1 and rows.picks and not columns.picks and "多少" in text:
        return tuple(measures)
    dated = [c for c in useful if sheet.columns[c].kind == "date"]
    return tuple(dated) if len(dated) == 1 and rows.picks and cue("when.lookup").search(text) else ()


def _is_number_of(sheet: Sheet, column: int, columns: Chosen) -> bool:
    """Returns True for 工号 on the left of 姓名, where a question names it wholly: the rows are named by another."""
    called = cue("table.number_of_row").search(sheet.columns[column].name)
    return bool(called) and sheet.label not in (None, column) and all(pick.met.verbatim for pick in columns.picks)


def _may_be_a_column(text: str, sheet: Sheet) -> bool:
    is_table = len(sheet.columns) > 2 and not sheet.is_form
    return is_table and re.search("哪|谁|什么|叫|名", text) is not None


# ── forms ────────────────────────────────────────────────────────────────────────────────────────


def look_up_pair(query: TableQuery, sheet: Sheet) -> Understood | Unsure:
    """A form has name, value, name, value: the value beside the name that the question has. Row -1 is the header."""
    picks: dict[tuple[int, int], Pick] = {}
    for row, cells in _lines(sheet):
        for at, value_at in _pairs(cells):
            met = match(plain(cells[at]).rstrip(":"), query.text)
            if met.matched >= 2 and met.share >= 0.6:
                picks[row, value_at] = Pick(row, met, value_at)
    several = bool(cue("several.lookup").search(query.text))
    chosen = _choose_pairs(list(picks.values()), several)
    if not chosen.picks or not chosen.clear:
        return Unsure("没有认出要查的名目")
    if _names_another_column(query.text, sheet, chosen):
        return Unsure("名目和值不在一处")
    places = tuple((pick.at, pick.home) for pick in chosen.picks)
    headers = (match_column(name, query.text) for name in sheet.names)  # a form often has its owner in its first line
    explained = chosen.mask | union(found.mask for found in headers if found.verbatim)
    return Understood(Plan("lookup", against=places), explained, chosen.share)


def _names_another_column(text: str, sheet: Sheet, chosen: Chosen) -> bool:
    """Returns True if what is asked for is in another column than beside the name in the question: 居住证办理找谁."""
    lines = dict(_lines(sheet))
    labels = [lines[pick.at][pick.home - 1] for pick in chosen.picks]
    hint = everyday(_without(text, chosen.mask), sheet, [], labels)
    return bool(hint and not {pick.home for pick in chosen.picks} & set(hint.targets))


def _choose_pairs(picks: list[Pick], several: bool) -> Chosen:
    if not picks:
        return Chosen()
    best = max(picks, key=lambda pick: pick.worth)
    chosen = [best]
    taken = best.met.mask
    for pick in sorted(picks, key=lambda pick: -pick.worth):
        if several and pick is not best and pick.met.verbatim and not pick.met.mask & taken:
            chosen.append(pick)
            taken |= pick.met.mask
    close = any(pick not in chosen and pick.worth > best.worth - 1 for pick in picks)
    return Chosen(tuple(chosen), (), clear=not close)


def _lines(sheet: Sheet) -> Iterable[tuple[int, tuple[str, ...]]]:
    if len(sheet) > _MOST_FUZZY_ROWS:
        return
    if sheet.is_form or len(sheet.columns) == 2:
        yield -1, tuple(column.path[-1] if column.path else "" for column in sheet.columns)
    if sheet.is_form and not _has_headers(sheet):
        yield from enumerate(sheet.table.texts)


def _has_headers(sheet: Sheet) -> bool:
    """Returns True if columns where a form has its values are called as columns are: then its rows are of one kind."""
    values = [plain(column.path[-1]) for column in sheet.columns[1::2] if column.path]
    return len(values) > 1 and all(map(is_header, values))


def _pairs(cells: Sequence[str]) -> Iterable[tuple[int, int]]:
    """Names and values take turns in a line: a name in the first column, its value in the second."""
    for at in range(0, len(cells) - 1, 2):
        if cells[at].strip() and cells[at + 1].strip():
            yield at, at + 1


# ── everyday words ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Hint:
    """The column that is asked for (none where several could be, or none is), and the characters that say so."""

    targets: tuple[int, ...]
    mask: int


def everyday(text: str, sheet: Sheet, rows: Sequence[int], labels: Sequence[str]) -> Hint | None:
    """What everyday words of a question ask for; None without such words, and where the ``labels`` of the rows name
    the kind of the value beside them: 学费多少钱."""
    for idea in entries("everyday"):
        found = cue(f"everyday.{idea}.cue").search(text)
        if found is None:
            continue
        if any(_has(idea, part, label) for label in labels for part in ("column", "label")):
            return None
        fits = tuple(column for column in range(len(sheet.columns)) if _fits(idea, sheet, column))
        clear = len(fits) == 1 and _in_unit(found, sheet, rows, fits[0])
        return Hint(fits if clear else (), span(*found.span()))
    return None


def _in_unit(found: re.Match[str], sheet: Sheet, rows: Sequence[int], price: int) -> bool:
    """Returns True if a price is that of the unit asked for: 多少钱一支 is not answered by the price of a box."""
    counters = [word for word in found.groupdict().values() if word]
    units = [c for c, column in enumerate(sheet.columns) if _UNIT_COLUMN.fullmatch(plain(column.name))]
    own = [sheet.plain_cells(column)[row] for column in units for row in rows]
    _, _, per = sheet.unit(price).partition("/")
    return all(word in unit for word in counters for unit in (*own, per) if unit)


def _fits(idea: str, sheet: Sheet, column: int) -> bool:
    kind = sheet.columns[column].kind
    if kind == "percent" or (kind == "date" and not entries(f"everyday.{idea}").get("dates", True)):
        return False
    ways = sheet.names[column].parts[-1] if sheet.names[column].parts else ()
    return any(_has(idea, "column", way) for way in ways) and not any(_has(idea, "never", way) for way in ways)


def _has(idea: str, part: str, text: str) -> bool:
    return part in entries(f"everyday.{idea}") and cue(f"everyday.{idea}.{part}").search(text) is not None
