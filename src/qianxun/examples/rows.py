"""Rows of the example tables as results: which columns are read, which rows are asked for, how a row is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Column, Table
from sqlalchemy.exc import DBAPIError

from qianxun.core.errors import ModelUnavailable, RetrieverUnavailable
from qianxun.examples.schema import Embedding
from qianxun.examples.search.ranking import ExampleMetadata, FoundExample
from qianxun.examples.store import ExampleStore, Stamp, expect

SHOWN: Final = ("id", "user_input", "agent_response", "tags", "quality_grade", "created_at", "updated_at")
DIGITS: Final = 6  # of a similarity: beyond them two databases, or two rows of the same text, differ by chance


@dataclass(frozen=True, slots=True)
class ExampleFilter:
    """Which examples count: those that bear all of the ``tags`` and one of the ``grades``; empty: any."""

    tags: tuple[str, ...] = ()
    grades: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tags or self.grades)

    def passes(self, tags: Iterable[str], grade: str | None) -> bool:
        return set(self.tags) <= set(tags) and (not self.grades or grade in self.grades)


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


def not_searched(error: Exception) -> RetrieverUnavailable:
    """What the database said, in its first line: the others show the statement."""
    said = str(error).strip().splitlines()
    return RetrieverUnavailable(
        f"示例库检索不了：{said[0] if said else type(error).__name__}",
        hint="检查数据库是否在运行、示例库的表是否完整",
    )


@contextmanager
def said_plainly() -> Iterator[None]:
    """What SQLAlchemy raises for the database, as an error for people."""
    try:
        yield
    except DBAPIError as error:
        raise not_searched(error.orig if isinstance(error.orig, Exception) else error) from error


def check_stamp(store: ExampleStore, stamp: Stamp | None) -> None:
    """Raises BadSettings where the library has changed over to another model since it was opened.

    Without a model whoever searches has made the vector, and knows by what.
    """
    with suppress(ModelUnavailable):
        model = store.model
        if stamp is not None:
            expect(stamp, model)


def in_order(rows: Sequence[FoundExample]) -> list[FoundExample]:
    return sorted(rows, key=lambda each: (-each["similarity"], each["id"]))


def _told(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment is not None else None
