"""The facts of many chunks as columns of numbers: names and types once, everything else as their numbers.

Chunks come and go one by one; a graph is derived from whatever is there (`network`). Which numbers names have depends
on the order in which they came, so nothing that is shown may depend on the numbers.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.core.graph_types import CO_OCCURRENCE, ChunkFacts
from qianxun.core.types import Keys
from qianxun.text.chinese import fold

Numbers: TypeAlias = NDArray[np.int64]

# What the columns of the tables are. The first one of each is the chunk.
MENTION: Final = ("chunk", "name", "type", "start", "end")
STATEMENT: Final = ("chunk", "source", "target", "type", "start", "end")
ALIAS: Final = ("chunk", "name", "alias", "start", "end")
SENTENCE: Final = ("chunk", "start", "end")

DIGEST: Final = 8
_BRACKETS: Final = re.compile(r"[(（\[【〔].*?[)）\]】〕]|[《》〈〉“”\"「」『』]")
_PARTS: Final = re.compile(r"[·・•‧\s]+")
_COMPACT_AT: Final = 0.5  # columns are written anew once so large a share of their chunks has gone


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The pairs of neighbouring characters of names, and whose each is."""

    codes: Numbers
    owners: Numbers  # forms
    lengths: Numbers  # form → how many it has


def pairs_of(text: str) -> Numbers:
    """A number for each pair of neighbouring characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    return codes[:-1] * 0x110000 + codes[1:]


def digest_of(folded: str) -> bytes:
    """What an entity of this name is known by: depends on nothing else."""
    return blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest()


@dataclass
class Names:
    """Names as they were written and as they are compared. They only grow."""

    written: list[str] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)
    form_of: array[int] = field(default_factory=lambda: array("q"))  # written → folded
    digests: bytearray = field(default_factory=bytearray)  # of the folded names, DIGEST bytes each
    _written: dict[str, int] = field(default_factory=dict)
    forms: dict[str, int] = field(default_factory=dict)
    bare: dict[str, list[int]] = field(default_factory=dict)  # without brackets and quotes → folded
    parts: dict[str, list[int]] = field(default_factory=dict)  # 卡塞尔 → 文森特·卡塞尔
    _pairs: Pairs | None = None

    def pairs(self) -> Pairs:
        """Those of all forms there are; made when somebody asks, and more when there are."""
        count = len(self.folded)
        held = self._pairs or Pairs(*(np.empty(0, dtype=np.int64),) * 3)
        known = len(held.lengths)
        if known < count:
            made = [pairs_of(form) for form in self.folded[known:count]]
            lengths = np.array([len(each) for each in made], dtype=np.int64)
            held = self._pairs = Pairs(
                np.concatenate([held.codes, *made]),
                np.concatenate([held.owners, np.repeat(np.arange(known, count), lengths)]),
                np.concatenate([held.lengths, lengths]),
            )
        return held

    def number(self, name: str) -> int:
        held = self._written.get(name)
        if held is not None:
            return held
        number = self._written[name] = len(self.written)
        self.written.append(name)
        self.form_of.append(self._form(fold(name).strip()))
        return number

    def _form(self, folded: str) -> int:
        held = self.forms.get(folded)
        if held is not None:
            return held
        number = self.forms[folded] = len(self.folded)
        self.folded.append(folded)
        self.digests += digest_of(folded)
        short = _BRACKETS.sub("", folded).strip()
        if short != folded and len(short) > 1:
            self.bare.setdefault(short, []).append(number)
        parts = [part for part in _PARTS.split(short or folded) if len(part) > 1]
        if 1 < len(parts) <= 6:
            for part in dict.fromkeys(parts):
                self.parts.setdefault(part, []).append(number)
        return number


@dataclass
class FactColumns:
    """The facts of the chunks that are there. Not for several threads at once."""

    names: Names = field(default_factory=Names)
    types: list[str] = field(default_factory=lambda: [CO_OCCURRENCE])  # of mentions and of statements
    _types: dict[str, int] = field(default_factory=lambda: {CO_OCCURRENCE: 0})
    _keys: array[int] = field(default_factory=lambda: array("q"))
    _rows: dict[int, int] = field(default_factory=dict)  # key → row, of those that are there
    _mentions: array[int] = field(default_factory=lambda: array("q"))
    _statements: array[int] = field(default_factory=lambda: array("q"))
    _aliases: array[int] = field(default_factory=lambda: array("q"))
    _sentences: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: int) -> bool:
        return key in self._rows

    def keys(self) -> Iterator[int]:
        return iter(self._rows)

    def take(self, facts: Iterable[ChunkFacts]) -> None:
        """Facts in; those of a chunk that is there take the place of the old."""
        for each in facts:
            self._rows.pop(each.chunk, None)
            row = self._rows[each.chunk] = len(self._keys)
            self._keys.append(each.chunk)
            self._put(row, each)

    def drop(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._rows.pop(key, None)
        if len(self._keys) > 64 and len(self._rows) < len(self._keys) * _COMPACT_AT:
            self._compact()

    def type_number(self, name: str) -> int:
        held = self._types.get(name)
        if held is None:
            held = self._types[name] = len(self.types)
            self.types.append(name)
        return held

    def _put(self, row: int, told: ChunkFacts) -> None:
        number, kind = self.names.number, self.type_number
        for mention in told.facts.mentions:
            self._mentions.extend((row, number(mention.name), kind(mention.type), mention.start, mention.end))
        for stated in told.facts.statements:
            ends = number(stated.source), number(stated.target)
            self._statements.extend((row, *ends, kind(stated.type), stated.start, stated.end))
        for alias in told.facts.aliases:
            self._aliases.extend((row, number(alias.name), number(alias.alias), alias.start, alias.end))
        for start, end in told.facts.sentences:
            self._sentences.extend((row, start, end))

    def _compact(self) -> None:
        """Without the chunks that are gone, and without the names that only these told: graphs that were handed out
        have the names that they were made with."""
        kept = self.kept()
        columns = ((kept.mentions, [1]), (kept.statements, [1, 2]), (kept.aliases, [1, 2]))
        used = np.unique(np.concatenate([table[:, at].reshape(-1) for table, at in columns]))
        names = Names()
        number = np.zeros(len(self.names.written), dtype=np.int64)
        number[used] = [names.number(self.names.written[at]) for at in used.tolist()]
        for table, at in columns:
            table[:, at] = number[table[:, at]]
        self.names = names
        self._keys = array("q", kept.keys.tobytes())
        self._rows = {key: row for row, key in enumerate(self._keys)}
        self._mentions = array("q", kept.mentions.tobytes())
        self._statements = array("q", kept.statements.tobytes())
        self._aliases = array("q", kept.aliases.tobytes())
        self._sentences = array("q", kept.sentences.tobytes())

    def kept(self) -> Kept:
        """The facts of the chunks that are there. A copy: what comes or goes later does not change it."""
        keys = np.fromiter(self._rows.keys(), dtype=np.int64, count=len(self._rows))
        rows = np.fromiter(self._rows.values(), dtype=np.int64, count=len(self._rows))
        order = np.argsort(keys, kind="stable")
        place = np.full(len(self._keys), -1, dtype=np.int64)
        place[rows[order]] = np.arange(len(rows))
        return Kept(
            keys=keys[order],
            mentions=_placed(_table(self._mentions, MENTION), place),
            statements=_placed(_table(self._statements, STATEMENT), place),
            aliases=_placed(_table(self._aliases, ALIAS), place),
            sentences=_placed(_table(self._sentences, SENTENCE), place),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Some chunks' facts in tables, in the order of the chunks' keys: a row's first column is its chunk's place among
    these."""

    keys: Keys
    mentions: Numbers
    statements: Numbers
    aliases: Numbers
    sentences: Numbers

    def only(self, keys: Keys) -> Kept:
        """The same without all other chunks."""
        is_kept = np.isin(self.keys, keys)
        place = np.full(len(self.keys), -1, dtype=np.int64)
        place[is_kept] = np.arange(np.count_nonzero(is_kept))
        tables = (self.mentions, self.statements, self.aliases, self.sentences)
        return Kept(self.keys[is_kept], *(_placed(table, place) for table in tables))


def _table(flat: array[int], columns: tuple[str, ...]) -> Numbers:
    return np.array(flat, dtype=np.int64).reshape(-1, len(columns))


def _placed(table: Numbers, place: Numbers) -> Numbers:
    """The rows of the chunks that have a place, under it."""
    at = place[table[:, 0]]
    is_kept = at >= 0
    kept = table[is_kept]
    kept[:, 0] = at[is_kept]
    if (kept[1:, 0] >= kept[:-1, 0]).all():  # as after almost every write: the newest chunks have the highest keys
        return kept
    return kept[np.argsort(kept[:, 0], kind="stable")]
