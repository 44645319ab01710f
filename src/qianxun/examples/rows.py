"""Rows of the example tables as results: which columns are read, which rows are asked for, how a row is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Column, Table

from qianxun.examples.ranking import ExampleMetadata, FoundExample
from qianxun.examples.schema import Embedding

SHOWN: Final = ("id", "user_input", "agent_response", "tags", "quality_grade", "created_at", "updated_at")
DIGITS: Final = 6  # of a similarity: beyond them two databases, or two rows of the same text, differ by chance


@dataclass(frozen=True, slots=True)
class ExampleFilter:
    """Which examples count: those that bear all of the ``tags`` and one of the ``grades``; empty: any."""

    tags: tuple[str, ...] = ()
    grades: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tags or self.grades)


ANY_EXAMPLE: Final = ExampleFilter()


def dimension_of(table: Table) -> int:
    kind = table.c.embedding.type
    assert isinstance(kind, Embedding)
    return kind.dimension


def shown_columns(table: Table) -> list[Column[Any]]:
    return [table.c[name] for name in SHOWN]


def found(row: Any, similarity: float, source: str) -> FoundExample:
    """A row as a result; a similarity that rounding has put outside [0, 1] is brought back."""
    tags = list(row.tags or ())
    about = ExampleMetadata(
        id=row.id,
        tags=tags,
        quality_grade=row.quality_grade,
        created_at=_told(row.created_at) or "",
        updated_at=_told(row.updated_at),
    )
    return FoundExample(
        id=row.id,
        user_input=row.user_input,
        agent_response=row.agent_response,
        tags=tags,
        quality_grade=row.quality_grade,
        similarity=min(max(round(float(similarity), DIGITS), 0.0), 1.0),
        source=source,
        metadata=about,
    )


def in_order(rows: Sequence[FoundExample]) -> list[FoundExample]:
    return sorted(rows, key=lambda each: (-each["similarity"], each["id"]))


def _told(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment is not None else None
