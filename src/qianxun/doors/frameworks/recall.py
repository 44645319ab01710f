"""What retrievers of other frameworks ask of a knowledge base, and what they tell of each chunk."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from qianxun.core.codec.wire import to_wire
from qianxun.core.errors import BadInput
from qianxun.core.filters import read_filters
from qianxun.core.option_fields import choices_of
from qianxun.core.options import SearchOptions
from qianxun.core.types import Filter, Found, Recall
from qianxun.doors.client import Client
from qianxun.doors.frameworks.callers import Call
from qianxun.doors.frameworks.engine_caller import base_of
from qianxun.engine.engine import Engine

log = logging.getLogger(__name__)

Where: TypeAlias = Filter | Mapping[str, Any]  # a filter, or one as requests to the service write it
OF_DOCUMENT: Final = "metadata."  # … as filters call what a document says of itself


OPTIONS: Final = (*choices_of(SearchOptions), "trace_id")


def recalling(knowledge_base: str | int, query: str, options: Mapping[str, Any]) -> Call[Recall]:
    """Asks the base of that name or number. Raises BadInput for an option that there is not, BadFilter for a filter.

    A name is looked up for every query: another base may have it by then.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    if unknown := sorted(chosen.keys() - set(OPTIONS)):
        raise BadInput(f"检索没有选项 {'、'.join(unknown)}", hint=f"可用：{'、'.join(OPTIONS)}")
    if isinstance(named := chosen.get("doc_ids"), str):  # which would be a document for each of its characters
        raise BadInput(f"doc_ids 是一段文字：{named[:40]}", hint=f"写成列表：doc_ids=[{named[:40]!r}]")
    if "where" in chosen:
        chosen["where"] = read_where(chosen["where"])

    async def ask(engine: Engine | Client) -> Recall:
        named = knowledge_base
        recall = await engine.retrieve(
            named if isinstance(named, int) else (await base_of(engine, named)).id, query, **chosen
        )
        if recall.degraded:
            reasons = "; ".join(f"{part.part}: {part.reason}" for part in recall.degraded)
            log.warning("recall %s went on without a part of it: %s", recall.trace_id, reasons)
        return recall

    return ask


def read_where(where: Where | None) -> Filter | None:
    """Raises BadFilter for what is no filter, so that none is passed on."""
    return where if where is None or isinstance(where, Filter) else read_filters(where)


def chunk_metadata(recall: Recall, found: Found) -> dict[str, Any]:
    """Where a chunk stands and how it was found, and what its document says of itself: JSON, the same names always.

    What of the latter would take the place of the former is called ``metadata.<name>``, as filters call it.
    """
    own = {
        "doc_id": found.chunk.doc_id,
        "doc_name": found.chunk.doc_name,
        "chunk_id": found.chunk.chunk_id,
        "score": found.score,
        "source": found.source,
        "tier": found.tier,
        "page": found.chunk.page,
        "headings": list(found.chunk.headings),
        "trace_id": recall.trace_id,
        "degraded": to_wire(recall.degraded),
    }
    of_document = to_wire(found.chunk.attributes.metadata)
    return own | {_free_name(own, name): value for name, value in of_document.items()}


def _free_name(own: Mapping[str, Any], name: str) -> str:
    return f"{OF_DOCUMENT}{name}" if name in own or name.startswith(OF_DOCUMENT) else name
