"""Filters over attributes stored as rows, one per value, found by the hash of its field and value.

Only hashes, numbers and bytes go to the server, all of them bound. Numbers are exact decimals and strings bytes in
UTF-8, whose order is that of their characters: every filter passes exactly what `qianxun.core.types.matches` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import And, Attributes, Eq, Everything, Filter, In, Not, Or, Range, Scalar, Spelled
from qianxun.index.postgres.server import Packed, Tx, bigints
from qianxun.index.postgres.tables import Tables
from qianxun.index.shared import hash_fact, hash_text, pairs

Owners = NDArray[np.int64]
OPERATORS: Final = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
SPELLINGS: Final = {
    "starts": "substring(f.string FROM 1 FOR octet_length({part})) = {part}",
    "contains": "position({part} IN f.string) > 0",
    "ends": "substring(f.string FROM greatest(octet_length(f.string) - octet_length({part}), 0) + 1) = {part}",
}
COLUMNS: Final = "owner, field, fact, number, string"


def signed(value: int) -> int:
    """A hash as PostgreSQL's bigint holds it."""
    return value - 2**64 if value >= 2**63 else value


def add(tx: Tx, tables: Tables, owners: Mapping[int, Attributes]) -> None:
    numbers = np.array(list(owners), dtype=np.int64)
    tx.run(f"INSERT INTO {tables.owners} (owner) SELECT unnest(%(owners)s::bigint[])", owners=bigints(numbers))
    lines = (_record(owner, name, value) for owner, attributes in owners.items() for name, value in pairs(attributes))
    tx.copy_lines(tables.facts, COLUMNS, "".join(lines))


def remove(tx: Tx, tables: Tables, owners: Owners) -> None:
    """Removes those of these owners that have no entries left."""
    if len(owners) == 0:
        return
    removed = tx.ints(
        f"""DELETE FROM {tables.owners} o WHERE o.owner = ANY(%(owners)s::bigint[])
            AND NOT EXISTS (SELECT FROM {tables.entries} e WHERE e.owner = o.owner) RETURNING o.owner AS value""",
        owners=bigints(owners),
    )
    tx.run(f"DELETE FROM {tables.facts} WHERE owner = ANY(%(removed)s::bigint[])", removed=bigints(removed))


@dataclass(frozen=True, slots=True)
class AllowedOwners:
    """Whose entries a search may find: those of ``owners`` or, where these are fewer, of all but them."""

    owners: Owners
    but_them: bool = False

    @property
    def is_nothing(self) -> bool:
        return not self.but_them and len(self.owners) == 0

    def condition(self) -> str:
        """On the column ``owner``; ``%(owners)s`` are `value`."""
        return f"owner {'<> ALL' if self.but_them else '= ANY'}(%(owners)s::bigint[])"

    @property
    def value(self) -> Packed:
        return bigints(self.owners)

    def among(self, owners: Owners) -> NDArray[np.bool_]:
        """Which of these are allowed."""
        return np.isin(owners, self.owners, invert=self.but_them)


def passing(tx: Tx, tables: Tables, base: int, where: Filter) -> AllowedOwners | None:
    """The owners that pass a filter; None when all do.

    Most filters name a few documents or leave out a few, in a base of very many: only the few are transferred.
    """
    values: dict[str, Any] = {"base": base}
    condition = _condition(where, tables, values)
    found = tx.one(
        f"SELECT count(*) FILTER (WHERE {condition}), count(*) FROM {tables.owners} o WHERE o.base = %(base)s", **values
    )
    assert found is not None
    passed, total = found
    if passed == total:
        return None
    but_them = 2 * passed > total
    chosen = f"NOT {condition}" if but_them else condition
    statement = f"SELECT owner AS value FROM {tables.owners} o WHERE o.base = %(base)s AND {chosen}"
    return AllowedOwners(np.sort(tx.ints(statement, **values)), but_them)


def _condition(where: Filter, tables: Tables, values: dict[str, Any]) -> str:
    """A condition on the owner ``o``; what it compares with is put into ``values``."""
    match where:
        case Everything():
            return "(true)"
        case Eq(name, value):
            return _with_value(name, (value,), tables, values)
        case In(name, options):
            return _with_value(name, options, tables, values)
        case Range():
            return _within(where, tables, values)
        case Spelled():
            return _spelled(where, tables, values)
        case And(parts):
            return _joined(" AND ", "(true)", parts, tables, values)
        case Or(parts):
            return _joined(" OR ", "(false)", parts, tables, values)
        case Not(part):
            return f"(NOT {_condition(part, tables, values)})"


def _joined(word: str, empty: str, parts: Iterable[Filter], tables: Tables, values: dict[str, Any]) -> str:
    conditions = [_condition(part, tables, values) for part in parts]
    return f"({word.join(conditions)})" if conditions else empty


def _with_value(name: str, options: Iterable[Scalar], tables: Tables, values: dict[str, Any]) -> str:
    hashes = {signed(hash_fact(name, value)) for value in options if value == value}  # NaN equals nothing
    facts = _bound(values, bigints(sorted(hashes)))
    return f"(o.owner IN (SELECT f.owner FROM {tables.facts} f WHERE f.fact = ANY({facts}::bigint[])))"


def _within(where: Range, tables: Tables, values: dict[str, Any]) -> str:
    bounds = list(where.bounds())
    if len({isinstance(bound, str) for _, bound in bounds}) > 1:
        return "(false)"  # no value is both a number and a string
    if any(isinstance(bound, float) and math.isnan(bound) for _, bound in bounds):
        return "(false)"
    conditions = [f"f.field = {_bound(values, signed(hash_text(where.field)))}"]
    for name, bound in bounds:
        if isinstance(bound, str):
            conditions.append(f"f.string {OPERATORS[name]} {_bound(values, _bytes(bound))}::bytea")
        else:
            conditions.append(f"f.number {OPERATORS[name]} {_bound(values, _decimal(bound))}::numeric")
    if not bounds:
        conditions.append("(f.number IS NOT NULL OR f.string IS NOT NULL)")  # neither true nor false is in any range
    return f"(o.owner IN (SELECT f.owner FROM {tables.facts} f WHERE {' AND '.join(conditions)}))"


def _spelled(where: Spelled, tables: Tables, values: dict[str, Any]) -> str:
    """Bytes are compared: in UTF-8 none of a character's are found within another's."""
    conditions = [f"f.field = {_bound(values, signed(hash_text(where.field)))}", "f.string IS NOT NULL"]
    for name, part in where.parts():
        conditions.append(SPELLINGS[name].format(part=f"{_bound(values, _bytes(part))}::bytea"))
    return f"(o.owner IN (SELECT f.owner FROM {tables.facts} f WHERE {' AND '.join(conditions)}))"


def _bound(values: dict[str, Any], value: Any) -> str:
    name = f"value_{len(values)}"
    values[name] = value
    return f"%({name})s"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decimal(value: int | float) -> Decimal | None:
    """Exactly this number. Not a number compares with nothing, as an empty field does."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return Decimal(value)


def _record(owner: int, name: str, value: Scalar) -> str:
    """One line of a COPY."""
    number = string = r"\N"
    if isinstance(value, str):
        string = rf"\\x{_bytes(value).hex()}"
    elif not isinstance(value, bool) and (exact := _decimal(value)) is not None:
        number = f"{exact:f}"
    return f"{owner}\t{signed(hash_text(name))}\t{signed(hash_fact(name, value))}\t{number}\t{string}\n"
