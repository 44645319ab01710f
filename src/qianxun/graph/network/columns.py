"""The facts of many chunks as columns of numbers: names and types are stored once and referred to by number.

Chunks are added and removed one by one; `knowledge_graph.derive_graph` makes the graph of the current ones. Numbers
depend on the order of insertion, so no result may depend on them. A *form* is the number of a folded name.
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

DIGEST: Final = 8
_QUOTES: Final = '《》〈〉“”"「」『』'
_BRACKETS: Final = re.compile(rf"[(（\[【〔][^)）\]】〕\n]*+([)）\]】〕])?+|[{_QUOTES}]")
_WITHOUT_QUOTES: Final = str.maketrans("", "", _QUOTES)
_NAME_PARTS: Final = re.compile(r"[·・•‧\s]+")
_COMPACT_AT: Final = 0.5  # share of removed chunks at which the columns are rewritten


@dataclass(frozen=True, slots=True, eq=False)
class Bigrams:
    """The character bigrams of names, and the form that each belongs to."""

    codes: Numbers
    owners: Numbers  # forms
    lengths: Numbers  # form → number of its bigrams


def bigrams_of(text: str) -> Numbers:
    """A code for each pair of neighbouring characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    return codes[:-1] * 0x110000 + codes[1:]


def digest_of(folded: str) -> bytes:
    """The id of an entity depends on its folded name alone."""
    return blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest()


@dataclass
class Names:
    """Names as written and as compared (folded). Only ever grows."""

    written: list[str] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)
    form_of: array[int] = field(default_factory=lambda: array("q"))  # written → form
    digests: bytearray = field(default_factory=bytearray)  # by form, DIGEST bytes each
    _written: dict[str, int] = field(default_factory=dict)
    forms: dict[str, int] = field(default_factory=dict)
    bare: dict[str, list[int]] = field(default_factory=dict)  # without brackets and quotes → forms
    parts: dict[str, list[int]] = field(default_factory=dict)  # 卡塞尔 → 文森特·卡塞尔
    _bigrams: Bigrams | None = None

    def bigrams(self) -> Bigrams:
        """Those of all current forms, computed on demand and extended as names are added."""
        count = len(self.folded)
        known = self._bigrams or Bigrams(*(np.empty(0, dtype=np.int64),) * 3)
        start = len(known.lengths)
        if start < count:
            added = [bigrams_of(form) for form in self.folded[start:count]]
            lengths = np.array([len(codes) for codes in added], dtype=np.int64)
            known = self._bigrams = Bigrams(
                np.concatenate([known.codes, *added]),
                np.concatenate([known.owners, np.repeat(np.arange(start, count), lengths)]),
                np.concatenate([known.lengths, lengths]),
            )
        return known

    def number(self, name: str) -> int:
        if len(self._written) < len(self.written):  # read from disk, and not looked up until now
            self._written = {known: at for at, known in enumerate(self.written)}
        number = self._written.get(name)
        if number is None:
            number = self._written[name] = len(self.written)
            self.written.append(name)
            self.form_of.append(self._form(fold(name).strip()))
        return number

    def _form(self, folded: str) -> int:
        form = self.forms.get(folded)
        if form is not None:
            return form
        form = self.forms[folded] = len(self.folded)
        self.folded.append(folded)
        self.digests += digest_of(folded)
        short = _BRACKETS.sub(_outside_brackets, folded).strip()
        if short != folded and len(short) > 1:
            self.bare.setdefault(short, []).append(form)
        parts = [part for part in _NAME_PARTS.split(short or folded) if len(part) > 1]
        if 1 < len(parts) <= 6:
            for part in dict.fromkeys(parts):
                self.parts.setdefault(part, []).append(form)
        return form


def _outside_brackets(found: re.Match[str]) -> str:
    """Nothing of what is in brackets; a bracket that is never closed stays, without quotes."""
    return "" if found[1] else found[0].translate(_WITHOUT_QUOTES)


def _int_array() -> array[int]:
    return array("q")


@dataclass
class FactColumns:
    """The facts of the current chunks. Not thread-safe."""

    names: Names = field(default_factory=Names)
    types: list[str] = field(default_factory=lambda: [CO_OCCURRENCE])  # of mentions and of statements
    _types: dict[str, int] = field(default_factory=lambda: {CO_OCCURRENCE: 0})
    _keys: array[int] = field(default_factory=_int_array)
    _rows: dict[int, int] = field(default_factory=dict)  # key → row, of the current chunks
    _mentions: array[int] = field(default_factory=_int_array)
    _statements: array[int] = field(default_factory=_int_array)
    _aliases: array[int] = field(default_factory=_int_array)
    _sentences: array[int] = field(default_factory=_int_array)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: int) -> bool:
        return key in self._rows

    def keys(self) -> Iterator[int]:
        return iter(self._rows)

    def add(self, facts: Iterable[ChunkFacts]) -> None:
        """Adds chunks; new facts of a known chunk replace the old ones."""
        for chunk in facts:
            self._rows.pop(chunk.chunk, None)
            row = self._rows[chunk.chunk] = len(self._keys)
            self._keys.append(chunk.chunk)
            self._append(row, chunk)

    def remove(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._rows.pop(key, None)
        if len(self._keys) > 64 and len(self._rows) < len(self._keys) * _COMPACT_AT:
            self._compact()

    def type_number(self, name: str) -> int:
        number = self._types.get(name)
        if number is None:
            number = self._types[name] = len(self.types)
            self.types.append(name)
        return number

    def _append(self, row: int, chunk: ChunkFacts) -> None:
        number, type_number, facts = self.names.number, self.type_number, chunk.facts
        for mention in facts.mentions:
            self._mentions.extend((row, number(mention.name), type_number(mention.type), mention.start, mention.end))
        for stated in facts.statements:
            ends = number(stated.source), number(stated.target)
            self._statements.extend((row, *ends, type_number(stated.type), stated.start, stated.end))
        for alias in facts.aliases:
            self._aliases.extend((row, number(alias.name), number(alias.alias), alias.start, alias.end))
        for start, end in facts.sentences:
            self._sentences.extend((row, start, end))

    def _compact(self) -> None:
        """Drops removed chunks and names that only they had. Existing graphs keep the names they were made with."""
        tables = self.tables()
        columns = ((tables.mentions, [1]), (tables.statements, [1, 2]), (tables.aliases, [1, 2]))
        used = np.unique(np.concatenate([table[:, at].reshape(-1) for table, at in columns]))
        names = Names()
        number = np.zeros(len(self.names.written), dtype=np.int64)
        number[used] = [names.number(self.names.written[at]) for at in used.tolist()]
        for table, at in columns:
            table[:, at] = number[table[:, at]]
        self.names = names
        self._keys = array("q", tables.keys.tobytes())
        self._rows = {key: row for row, key in enumerate(self._keys)}
        self._mentions = array("q", tables.mentions.tobytes())
        self._statements = array("q", tables.statements.tobytes())
        self._aliases = array("q", tables.aliases.tobytes())
        self._sentences = array("q", tables.sentences.tobytes())

    def tables(self) -> FactTables:
        """A copy of the facts of the current chunks: later changes do not affect it."""
        keys = np.fromiter(self._rows.keys(), dtype=np.int64, count=len(self._rows))
        rows = np.fromiter(self._rows.values(), dtype=np.int64, count=len(self._rows))
        order = np.argsort(keys, kind="stable")
        place = np.full(len(self._keys), -1, dtype=np.int64)
        place[rows[order]] = np.arange(len(rows))

        def table(flat: array[int], width: int) -> Numbers:
            return _placed(np.array(flat, dtype=np.int64).reshape(-1, width), place)

        return FactTables(
            keys=keys[order],
            mentions=table(self._mentions, 5),
            statements=table(self._statements, 6),
            aliases=table(self._aliases, 5),
            sentences=table(self._sentences, 3),
        )


@dataclass(frozen=True, slots=True, eq=False)
class FactTables:
    """Facts in the order of the chunks' keys. The first column of a row is its chunk's place in ``keys``."""

    keys: Keys
    mentions: Numbers  # chunk, name, type, start, end
    statements: Numbers  # chunk, source, target, type, start, end
    aliases: Numbers  # chunk, name, alias, start, end
    sentences: Numbers  # chunk, start, end

    def only(self, keys: Keys) -> FactTables:
        """Those of these chunks."""
        is_in = np.isin(self.keys, keys)
        place = np.full(len(self.keys), -1, dtype=np.int64)
        place[is_in] = np.arange(np.count_nonzero(is_in))
        tables = (self.mentions, self.statements, self.aliases, self.sentences)
        return FactTables(self.keys[is_in], *(_placed(table, place) for table in tables))


def _placed(table: Numbers, place: Numbers) -> Numbers:
    """The rows of the chunks that have a place, renumbered to it."""
    at = place[table[:, 0]]
    is_in = at >= 0
    rows = table[is_in]
    rows[:, 0] = at[is_in]
    if (rows[1:, 0] >= rows[:-1, 0]).all():  # as after almost every write: the newest chunks have the highest keys
        return rows
    return rows[np.argsort(rows[:, 0], kind="stable")]
