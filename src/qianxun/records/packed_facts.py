"""Facts as the text that is stored of them: compact, because there is one for every chunk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from qianxun.core.graph_types import Facts, Mention, StatedAlias, Statement
from qianxun.core.unicode import storable


def packed(facts: Facts) -> str:
    """Facts as compact JSON: every name once, then numbers. A name that no database holds is stored with marks.

    [names with their types, mentions, statements, aliases, sentences]. A mention is a name's number and how far after
    the one before it begins; most end where their name does, those that do not have their length behind a -1.
    """
    names: dict[tuple[str, str], int] = {}
    by_name: dict[str, int] = {}  # a statement names its mentions, whatever their type

    def at(name: str, kind: str = "") -> int:
        if not kind and name in by_name:
            return by_name[name]
        found = names.setdefault((name, kind), len(names))
        by_name.setdefault(name, found)
        return found

    mentions: list[int] = []
    before = 0
    for each in facts.mentions:
        is_whole = each.end - each.start == len(each.name)
        mentions += (at(each.name, each.type), each.start - before, *(() if is_whole else (-1, each.end - each.start)))
        before = each.start
    statements = [
        part
        for stated in facts.statements
        for part in (at(stated.source), at(stated.target), at(stated.type), stated.start, stated.end)
    ]
    aliases = [part for each in facts.aliases for part in (at(each.name), at(each.alias), each.start, each.end)]
    sentences = [part for span in facts.sentences for part in span]
    written: list[list[Any]] = [[storable(part) for pair in names for part in pair]]
    told = [*written, mentions, statements, aliases, sentences]
    while len(told) > 1 and not told[-1]:
        told.pop()
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def unpacked(stored: str) -> Facts:
    """What `packed` was given."""
    told: list[list[Any]] = json.loads(stored)
    told += [[]] * (5 - len(told))
    pairs, mentions, statements, aliases, sentences = told
    names, kinds = pairs[::2], pairs[1::2]
    return Facts(
        tuple(_mentions(names, kinds, mentions)),
        tuple(
            Statement(names[source], names[target], names[kind], start, end)
            for source, target, kind, start, end in _by(5, statements)
        ),
        tuple(StatedAlias(names[name], names[alias], start, end) for name, alias, start, end in _by(4, aliases)),
        tuple((start, end) for start, end in _by(2, sentences)),
    )


def _mentions(names: Sequence[str], kinds: Sequence[str], flat: Sequence[int]) -> Iterator[Mention]:
    place = start = 0
    while place < len(flat):
        name = names[flat[place]]
        start += flat[place + 1]
        size, step = (flat[place + 3], 4) if flat[place + 2 : place + 3] == [-1] else (len(name), 2)
        yield Mention(name, kinds[flat[place]], start, start + size)
        place += step


def _by(count: int, flat: Sequence[int]) -> Iterable[tuple[int, ...]]:
    each = iter(flat)
    return zip(*[each] * count, strict=True)
