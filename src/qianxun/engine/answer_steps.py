"""The steps of an answer, for callers who take them one by one over what `Engine.answering` gives: workflows."""

from __future__ import annotations

from functools import partial
from typing import Final

from qianxun.answer import run as steps
from qianxun.answer.question_log import answer_entry
from qianxun.answer.state import Answering, AnswerState, graph_or_reason
from qianxun.bases.base import OpenBase
from qianxun.bases.principal_view import requester_of
from qianxun.core.governance.validity import checked_as_of
from qianxun.core.layered_options import with_base_config
from qianxun.core.options import AskOptions, check, search_options
from qianxun.core.types import Degraded
from qianxun.engine.settings import Settings
from qianxun.graph.modes import gather
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.ingest.sandbox.pool import ParserPool
from qianxun.retrieve.as_of import narrow_to_day, resolve_as_of
from qianxun.retrieve.layered.tables import ANSWERED_FROM, search_tables
from qianxun.retrieve.search_log import Journal

__all__ = ["AnswerState", "Answering", "answering", "steps"]

_TABLES: Final = 2 * ANSWERED_FROM  # with fewer the ladder ends before what only the words of a title admit


async def answering(
    base: OpenBase, options: AskOptions, question: str, settings: Settings, parsers: ParserPool, journal: Journal
) -> Answering:
    """What the steps work with. A ``question`` may choose the day as of which it is answered. Raises BadQuery."""
    as_of = await resolve_as_of(base, question, checked_as_of(options.as_of))
    day = as_of.day if as_of is not None else options.as_of
    config = base.about.config
    search = search_options(settings.search, config, {"top_k": options.top_k, "where": options.where, "as_of": day})
    check(search)
    chosen = with_base_config(settings.table_engine, config, "table_engine")
    entry = partial(answer_entry, base.about, options, search)

    async def graph() -> tuple[KnowledgeGraph | None, tuple[Degraded, ...]]:
        return await graph_or_reason(base, await narrow_to_day(base, options.where, as_of))

    return Answering(
        base,
        lambda query, mode: gather(base, query, mode, search),
        search,
        search_again=lambda query, mode: gather(base, query, mode, search, has_context=False),
        graph=graph,
        tables=lambda query: search_tables(base, query, chosen, search, _TABLES),
        parsers=parsers,
        note=lambda state, answer: journal.note_entry(entry(state, answer), requester_of(base)),
        as_of=as_of,
        check=options.check or config.get("check") or "strict",
    )
