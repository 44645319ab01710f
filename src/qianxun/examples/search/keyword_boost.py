"""Words beside vectors: an example that has the question's words rises, none falls, so that thresholds keep their
meaning."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import select

from qianxun.examples.revision import LibraryWatch
from qianxun.examples.rows import DIGITS, in_order
from qianxun.examples.schema import embedded_text
from qianxun.examples.search.keywords import KeywordIndex
from qianxun.examples.search.ranking import ExampleMetadata, FoundExample
from qianxun.examples.store import ExampleStore

KEYWORD_WEIGHT: Final = 0.3


def lifted(rows: Sequence[FoundExample], matching: Mapping[int, float]) -> list[FoundExample]:
    """Each brought nearer to 1 by so much as it has of the question's words."""
    return in_order([_lifted(row, matching.get(row["id"], 0.0)) for row in rows])


def _lifted(row: FoundExample, keyword_score: float) -> FoundExample:
    cosine = row["similarity"]
    about: ExampleMetadata = {**row["metadata"], "cosine": cosine, "keyword_score": round(keyword_score, DIGITS)}
    lifted = cosine + (1.0 - cosine) * KEYWORD_WEIGHT * keyword_score
    return {**row, "similarity": round(lifted, DIGITS), "metadata": about}


@dataclass
class KeywordIndexes:
    """The words of each table, read when they are first asked for and again when the table has changed."""

    store: ExampleStore
    watch: LibraryWatch
    _held: dict[str, tuple[object, KeywordIndex]] = field(default_factory=dict, repr=False)
    _building: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of(self, source: str) -> KeywordIndex:
        revision = self.watch.revision(source)
        held = self._held.get(source)
        if held is None or held[0] != revision:
            with self._building:
                held = self._held.get(source)
                if held is None or held[0] != revision:
                    held = revision, self._built(source)
                    self._held[source] = held
        return held[1]

    def _built(self, source: str) -> KeywordIndex:
        table = self.store.tables[source]
        with self.store.connection() as connection:
            rows = connection.execute(select(table.c.id, table.c.user_input, table.c.agent_response)).all()
        return KeywordIndex.of([row.id for row in rows], [embedded_text(row[1], row[2]) for row in rows])
