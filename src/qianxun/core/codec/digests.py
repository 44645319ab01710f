"""Digests that tell results apart: equal digests are the same answer, whatever the run took or was called."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qianxun.core.types import Degraded, Found, Recall

if TYPE_CHECKING:
    from qianxun.core.layered_types import LayeredRecall


def digest(recall: Recall) -> str:
    """Of what was found, without what belongs to the run: times, trace, cache, generation.

    A chunk's key stands for its text, since no other text is ever given that key; numbers are taken as they are in
    memory.
    """
    degraded = [(part.part, part.reason) for part in recall.degraded]
    words: list[Any] = [[recall.query, recall.mode, recall.queries, degraded], _counts(recall)]
    numbers: list[float] = []
    for hit in recall.results:
        words.append((hit.chunk.key, hit.chunk.chunk_id, hit.source, hit.tier, hit.matched, *sorted(hit.arms)))
        words.append(hit.rerank is None)
        numbers += (hit.score, hit.coverage, hit.fused, hit.rerank or 0.0)
        for arm in sorted(hit.arms):
            by = hit.arms[arm]
            numbers += (by.rank, by.raw, by.score)
    return _hashed(words, struct.pack(f"<{len(numbers)}d", *numbers))


def _counts(recall: Recall) -> list[tuple[str, int]]:
    return [(step.name, step.count) for step in recall.steps]


def layered_digest(recall: LayeredRecall) -> str:
    """The same for a layered recall: what each layer let in and why, and what the cells answer."""
    results = [
        (result.doc.key, result.doc.chunk_id, result.score, result.strategy, result.layer, result.match_details)
        for result in recall.results
    ]
    layers = [(run.layer, run.strategy, run.ran, run.reason, run.count, run.best) for run in recall.layers]
    answer = None
    if (found := recall.answer) is not None:
        cells = [(cell.table, cell.row, cell.column) for cell in found.cells]
        answer = (found.sure, found.text, found.operation, found.values, cells, found.table, found.rows, found.reason)
    return _hashed([recall.query, recall.kind, results, layers, recall.degraded, answer])


def found_digest(query: str, mode: str, found: Sequence[Found]) -> str:
    """The same for what a question found, by however many wordings: the best first."""
    best = sorted(found, key=lambda hit: (-hit.score, hit.chunk.key))
    return _hashed([query, mode, [_without_text(hit) for hit in best]])


def _without_text(found: Found) -> list[Any]:
    arms = [(arm, by.rank, by.raw, by.score) for arm, by in sorted(found.arms.items())]
    rest = (found.tier, found.matched, found.coverage, found.fused, found.rerank)
    return [found.chunk.key, found.chunk.chunk_id, found.score, found.source, arms, *rest]


def _hashed(words: Any, numbers: bytes = b"") -> str:
    """Half of a surrogate pair, which a query may hold, passes."""
    return hashlib.sha256(_sorted(words).encode("utf-8", "surrogatepass") + numbers).hexdigest()


def _fields(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Degraded):
        raise TypeError(f"no JSON form of {type(value).__name__}")
    return {"part": value.part, "reason": value.reason}


# Made once: json.dumps makes an encoder a call. A result cannot hold itself, so circles are not looked for.
_sorted = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_fields, sort_keys=True
).encode
