"""What a question says of a table, before it is known what it asks: columns it names, cells it repeats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.answer.tables.conditions import Named
from qianxun.answer.tables.match import Asked, Match, match, match_column, plain, span
from qianxun.answer.tables.sheet import Said, Sheet, runs
from qianxun.answer.tables.words import DECISIVE, IDENTIFYING, NAMING

_BRACKETED: Final = re.compile(r"\([^()]*\)$")
_OF_AMOUNT: Final = re.compile("最[大小]|多少钱|总额")


@dataclass(frozen=True, slots=True)
class Scene:
    """What a question says of a table, before it is known what it asks."""

    asked: Asked
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

    def free(self, cue: re.Pattern[str]) -> re.Match[str] | None:
        """A cue that is no part of a name or a cell of the table."""
        closed = self.names_mask | self.said_mask
        return next((hit for hit in cue.finditer(self.asked.text) if not span(*hit.span()) & closed), None)


def scene_of(asked: Asked, sheet: Sheet) -> Scene:
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
    if sheet.columns[column].kind == "money" and _OF_AMOUNT.search(text):
        return False
    whole = _BRACKETED.sub("", plain(sheet.columns[column].name.split(" / ")[-1]))
    if not sheet.is_measure(column) or whole in text:
        return False
    thing = "".join(text[start:end] for start, end in runs(met.mask))
    others = (plain(each.name) for c, each in enumerate(sheet.columns) if c != column and not sheet.is_measure(c))
    return any(name.startswith(thing) and (IDENTIFYING.search(name) or NAMING.search(name)) for name in others)


def _is_named(met: Match) -> bool:
    if DECISIVE.search(met.rest):
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
