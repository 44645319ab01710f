"""The type of a table by its title and columns; which of them a question is about, `question.table_query` reads.

The rules are in `lexicon/table_types.toml`. Where none holds the type is unknown, which is better than a guess: it
counts in the search for tables.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.types import Column, ColumnKind
from qianxun.text.chinese import LEXICON

TableType: TypeAlias = Literal[
    "statement", "price_list", "schedule", "specification", "directory", "statistics", "ranking", "form", "list"
]

_BRACKETS: Final = re.compile(r"[（(【\[][^（）()【】\[\]]{0,40}[）)】\]]\s*$")
_CLOSING: Final = ("）", ")", "】", "]")
_NUMBERS: Final[frozenset[ColumnKind]] = frozenset(("number", "percent", "money"))
_SHORTEST_FILLED: Final = 3  # a table by the share of its numbers has at least so many columns


@dataclass(frozen=True, slots=True)
class _ColumnRule:
    """See the data file."""

    type: TableType
    names: re.Pattern[str]
    least: int = 1
    widest: int = 1_000
    within: int = 1_000
    numeric: bool = False
    others: re.Pattern[str] | None = None
    filled: float = 0.0


@cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads((LEXICON / "table_types.toml").read_text("utf-8"))


@cache
def _rules(section: str) -> tuple[tuple[TableType, re.Pattern[str]], ...]:
    return tuple((type_, re.compile(words)) for type_, words in _data()[section].items())


@cache
def _column_rules() -> tuple[_ColumnRule, ...]:
    def named(rule: dict[str, Any]) -> dict[str, Any]:
        return {key: re.compile(f"(?:{rule[key]})$") for key in ("names", "others") if key in rule}

    return tuple(_ColumnRule(**rule | named(rule)) for rule in _data()["columns"])


def type_of(title: str, columns: Sequence[Column]) -> TableType | None:
    """The type of a table, None where neither its title nor its columns are plain about it."""
    return _by_title(title) or _by_columns(columns)


def type_called(name: str) -> TableType | None:
    """The type of this name, ours or a reader's; None if it is none of them."""
    labels: Mapping[TableType, str] = _data()["labels"]
    return next((type_ for type_, label in labels.items() if name in (type_, label)), None)


def label(type_: TableType) -> str:
    """The type as a Chinese reader calls it."""
    name: str = _data()["labels"][type_]
    return name


def _by_title(title: str) -> TableType | None:
    """The last part of a title says what the table is (图书馆 开放时间表), the parts before it what it is about."""
    bare = _BRACKETS.sub("", title.strip())
    for part in (bare.split()[-1] if bare else "", bare):
        for type_, words in _rules("titles"):
            if words.search(part):
                return type_
    return None


def _by_columns(columns: Sequence[Column]) -> TableType | None:
    names = [_parts(column) for column in columns]
    if not any(names):
        return "form" if len(columns) in (2, 4, 6, 8) else None
    return next((rule.type for rule in _column_rules() if _holds(rule, columns, names)), None)


def _parts(column: Column) -> tuple[str, ...]:
    """The names over a column, each without its unit: 单价（元）→ 单价."""
    names = [name.replace(" ", "") for header in column.path for name in header.split("、")]
    return tuple([_without_brackets(name).rstrip("%％") for name in names])


def _without_brackets(name: str) -> str:
    return _BRACKETS.sub("", name) if name.rstrip().endswith(_CLOSING) else name


def _holds(rule: _ColumnRule, columns: Sequence[Column], names: Sequence[tuple[str, ...]]) -> bool:
    if len(columns) > rule.widest:
        return False
    hits = [at for at, own in enumerate(names) if at < rule.within and _is_named(rule.names, own)]
    if rule.numeric:
        hits = [at for at in hits if columns[at].kind in _NUMBERS]
    if len(hits) < rule.least:
        return False
    if rule.others is not None and not any(_is_named(rule.others, own) for own in names):
        return False
    if not rule.filled:
        return True
    rest = columns[1:]
    numbers = sum(column.kind in _NUMBERS for column in rest)
    return len(columns) >= _SHORTEST_FILLED and numbers >= rule.filled * len(rest)


def _is_named(pattern: re.Pattern[str], names: Sequence[str]) -> bool:
    return any(pattern.match(name) for name in names)
