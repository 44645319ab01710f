"""Filters over attributes: hashes of their values in an array of each row, and the values themselves beside the rows.

That a field has a value, or one of several, is asked by hash. To compare or to spell values they have to be known: each
value of a field is written once, and a filter that needs them reads those of its field and becomes a list of hashes.
What passes is decided by `qianxun.core.types.matches` itself, so that it is exactly what every other index passes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from qianxun.core.errors import BadInput
from qianxun.core.types import And, Attributes, Eq, Everything, Filter, In, Not, Or, Range, Scalar, Spelled, matches
from qianxun.index.milvus.conditions import ALL, Condition, between, compared, either, every, has_any
from qianxun.index.milvus.server import Milvus
from qianxun.index.milvus.states import ARRAY_VALUES, VALUES, State
from qianxun.index.shared import hash_fact, hash_text, pairs, unusable

PAGE: Final = 100  # rows of values that are read at once
PIECE: Final = 60_000  # characters, in ASCII, of one row


def positive(number: int) -> int:
    """63 bits of a hash: expressions have no negative numbers in every version."""
    return number >> 1


def facts_of(attributes: Attributes) -> list[int]:
    """Raises BadInput for more values than an array holds: none is left out silently."""
    found = sorted({positive(hash_fact(name, value)) for name, value in pairs(attributes)})
    if len(found) > ARRAY_VALUES:
        raise BadInput(
            f"文档 {attributes.doc_id} 有 {len(found)} 个可过滤的值，Milvus 的数组最多 {ARRAY_VALUES} 个",
            hint="减少标签或元数据里的值，或改用 embedded / postgres 索引",
        )
    return found


# ── values ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Piece:
    """A row's worth of the values of one field; ``left`` more follow."""

    field: int
    text: str
    left: int


def pieces(values: Mapping[str, Sequence[Scalar]]) -> Iterator[Piece]:
    for name, own in values.items():
        text = json.dumps(own)  # in ASCII: as many bytes as characters, and halves of surrogate pairs are letters
        parts = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
        for number, part in enumerate(parts, 1):
            yield Piece(positive(hash_text(name)), part, len(parts) - number)


def unwritten(owners: Iterable[Attributes], written: AbstractSet[int]) -> tuple[dict[str, list[Scalar]], set[int]]:
    """The values, by field, whose hashes are not among those written; and these hashes."""
    found: dict[str, list[Scalar]] = {}
    hashes: set[int] = set()
    for owner in owners:
        for name, value in pairs(owner):
            fact = hash_fact(name, value)
            if fact not in written and fact not in hashes:
                hashes.add(fact)
                found.setdefault(name, []).append(value)
    return found, hashes


@dataclass(slots=True)
class Values:
    """The values of the fields that filters have compared, as far as they have been read from a build."""

    known: dict[str, dict[int, Scalar]] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)  # up to which row of values

    def of(self, milvus: Milvus, name: str, state: State, field_name: str) -> dict[int, Scalar]:
        """By hash. One that has gone may be among them."""
        known = self.known.setdefault(field_name, {})
        start = self.read.get(field_name, 0)
        if start < state.next_values:
            for text in _texts(milvus, name, state, field_name, start):
                known.update((positive(hash_fact(field_name, value)), value) for value in json.loads(text))
            self.read[field_name] = state.next_values
        return known


def _texts(milvus: Milvus, name: str, state: State, field_name: str, start: int) -> Iterator[str]:
    """What the rows of a field's values say, the pieces of a long one put together."""
    own = state.of_kinds(VALUES) & compared("key", "==", positive(hash_text(field_name)))
    parts: list[str] = []
    for first in range(start, state.next_values, PAGE):
        page = between("document", first, min(first + PAGE, state.next_values))
        rows = milvus.query(name, own & page, ("document", "words", "value"), state.timestamp)
        for _, row in sorted({int(row["document"]): row for row in rows}.items()):
            parts.append(row["value"])
            if row["words"] == 0:
                yield "".join(parts)
                parts.clear()
    if parts:
        raise unusable("过滤用的值不完整")


# ── filters ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FactsView:
    """A build at one moment, and what is known of its values."""

    milvus: Milvus
    name: str
    state: State
    values: Values


def condition(where: Filter, reading: FactsView) -> Condition:
    match where:
        case Everything():
            return ALL
        case Eq(name, value):
            return _with_value(name, (value,))
        case In(name, options):
            return _with_value(name, options)
        case Range(name) | Spelled(name):
            known = reading.values.of(reading.milvus, reading.name, reading.state, name)
            return has_any("facts", sorted(fact for fact, value in known.items() if _passes(where, value)))
        case And(parts):
            return every([condition(part, reading) for part in parts])
        case Or(parts):
            return either([condition(part, reading) for part in parts])
        case Not(part):
            return ~condition(part, reading)


def _with_value(name: str, options: Iterable[Scalar]) -> Condition:
    # what is not a number equals nothing
    return has_any("facts", sorted({positive(hash_fact(name, value)) for value in options if value == value}))


def _passes(where: Range | Spelled, value: Scalar) -> bool:
    """A range or a spelling asks one value at a time, of whatever field."""
    return matches(replace(where, field="metadata.x"), Attributes("", metadata={"x": value}))
