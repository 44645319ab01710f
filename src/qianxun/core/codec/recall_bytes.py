"""An answer as bytes: whole, to keep it; canonical, to compare it.

JSON, because it says what it is and runs nothing when read. Half of a surrogate pair, which a query may hold, passes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from qianxun.core.types import ArmScore, Attributes, Chunk, Degraded, Found, Generation, MetadataValue, Recall, StepTime

if TYPE_CHECKING:
    from qianxun.core.layered_types import LayeredRecall

# What differs between two runs of one search on the same state of a base. The generation is the state, not the answer.
OF_THE_RUN = ("seconds", "trace_id", "from_cache", "generation")


def to_bytes(recall: Recall) -> bytes:
    """The whole recall. Mappings keep their order, so that what is drawn from it later is drawn the same."""
    return _whole(recall).encode("utf-8", "surrogatepass")


def from_bytes(written: bytes) -> Recall:
    """The recall that was written. Raises ValueError for anything else."""
    try:
        return _recall(json.loads(written.decode("utf-8", "surrogatepass")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a recall: {error!r}") from error


def answer_bytes(recall: Recall) -> bytes:
    """What was answered, without what belongs to the run: equal bytes are the same answer."""
    told = {name: value for name, value in _fields(recall).items() if name not in OF_THE_RUN}
    told["steps"] = [(step.name, step.count) for step in recall.steps]
    return _sorted(told).encode("utf-8", "surrogatepass")


def digest(recall: Recall) -> str:
    """Tells answers apart as `answer_bytes` does, for a twentieth of the work: a chunk's key stands for its text, since
    no other text is ever given that key, and numbers are taken as they lie in memory."""
    told = [recall.query, recall.mode, recall.queries, [(each.part, each.reason) for each in recall.degraded]]
    steps = [(step.name, step.count) for step in recall.steps]
    words: list[Any] = [told, steps]
    numbers: list[float] = []
    for each in recall.found:
        words.append((each.chunk.key, each.chunk.chunk_id, each.source, each.tier, each.matched, *sorted(each.arms)))
        words.append(each.rerank is None)
        numbers += (each.score, each.coverage, each.fused, each.rerank or 0.0)
        for arm in sorted(each.arms):
            by = each.arms[arm]
            numbers += (by.rank, by.raw, by.score)
    whole = _sorted(words).encode("utf-8", "surrogatepass") + struct.pack(f"<{len(numbers)}d", *numbers)
    return hashlib.sha256(whole).hexdigest()


def layered_digest(recall: LayeredRecall) -> str:
    """The same for a layered recall: what each layer let in and why, and what the cells answer."""
    results = [
        (each.doc.key, each.doc.chunk_id, each.score, each.strategy, each.layer, each.match_details)
        for each in recall.results
    ]
    layers = [(run.layer, run.strategy, run.ran, run.reason, run.count, run.best) for run in recall.layers]
    answer = None
    if (told := recall.answer) is not None:
        cells = [(each.table, each.row, each.column) for each in told.cells]
        answer = (told.sure, told.text, told.operation, told.values, cells, told.table, told.rows, told.reason)
    whole = [recall.query, recall.kind, results, layers, recall.degraded, answer]
    return hashlib.sha256(_sorted(whole).encode("utf-8", "surrogatepass")).hexdigest()


def found_digest(query: str, mode: str, found: Sequence[Found]) -> str:
    """The same for what a question found, by however many wordings: the best first."""
    best = sorted(found, key=lambda each: (-each.score, each.chunk.key))
    whole = [query, mode, [_without_text(each) for each in best]]
    return hashlib.sha256(_sorted(whole).encode("utf-8", "surrogatepass")).hexdigest()


def _without_text(found: Found) -> list[Any]:
    arms = [(arm, by.rank, by.raw, by.score) for arm, by in sorted(found.arms.items())]
    sure = (found.tier, found.matched, found.coverage, found.fused, found.rerank)
    return [found.chunk.key, found.chunk.chunk_id, found.score, found.source, arms, *sure]


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


KINDS: tuple[Any, ...] = (Recall, Found, Chunk, Attributes, ArmScore, Degraded, Generation, StepTime)
NAMES = {kind: tuple(each.name for each in fields(kind)) for kind in KINDS}
GETTERS = {kind: attrgetter(*names) for kind, names in NAMES.items()}


def _fields(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind not in NAMES:
        raise TypeError(f"no JSON form of {kind.__name__}")
    return dict(zip(NAMES[kind], GETTERS[kind](value), strict=True))


# Made once: json.dumps makes an encoder a call. An answer cannot hold itself, so nobody looks for circles.
_whole = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_fields).encode
_sorted = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_fields, sort_keys=True
).encode


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def _recall(read: dict[str, Any]) -> Recall:
    read["found"] = tuple([_found(each) for each in read["found"]])
    read["degraded"] = tuple([Degraded(**each) for each in read["degraded"]])
    read["queries"] = tuple(read["queries"])
    read["steps"] = tuple([StepTime(**each) for each in read["steps"]])
    read["generation"] = None if read["generation"] is None else Generation(**read["generation"])
    return Recall(**read)


def _found(read: dict[str, Any]) -> Found:
    read["chunk"] = _chunk(read["chunk"])
    read["arms"] = {arm: ArmScore(**score) for arm, score in read["arms"].items()}
    read["matched"] = tuple(read["matched"])
    read["highlights"] = tuple(read["highlights"])
    return Found(**read)


def _chunk(read: dict[str, Any]) -> Chunk:
    read["headings"] = tuple(read["headings"])
    told = read["attributes"]
    told["tags"] = tuple(told["tags"])
    told["metadata"] = _metadata(told["metadata"])
    read["attributes"] = Attributes(**told)
    return Chunk(**read)


def _metadata(read: Mapping[str, Any]) -> dict[str, MetadataValue]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in read.items()}
