"""Graphs that models read, in the background: what was written is read, then communities are summarised."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from qianxun.bases.base import OpenBase
from qianxun.bases.lease import LeaseKeeper
from qianxun.core.errors import QianxunError
from qianxun.core.graph_types import SummariesProgress
from qianxun.graph.build import graph_state, is_graph_enabled
from qianxun.graph.llm_build import extract_with_model_in_background, has_model
from qianxun.graph.summaries import summarise_communities
from qianxun.records.leases import graph_lease

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
SUMMARY_SECONDS: Final = 600.0  # between two goes at the summaries of a base: what is still being written changes them


async def run_graph_models(open_bases: Callable[[], Iterable[OpenBase]]) -> None:
    """Has the models of open bases read what was written and summarise communities, one base at a time."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for base in list(open_bases()):
            if has_model(base) and is_graph_enabled(base):
                await _update(base)


async def _update(base: OpenBase) -> None:
    reading = LeaseKeeper(base.records.records, graph_lease(base.id), base.lease.seconds)
    try:
        async with reading.turn() as turn:
            if turn is not None:  # else another process has the model read it
                await _read_or_summarise(base)
    except QianxunError as error:  # deleted, or its database is down
        log.info("the graph of base %s is not updated: %s", base.id, error)
        base.reader.pause()
    except Exception:  # the door of a loop that serves all bases: none of them may end it
        log.exception("base %s is not read by its model after an unexpected failure", base.id)
        base.reader.pause()


async def _read_or_summarise(base: OpenBase) -> None:
    """Statistics first, then what the model has to read; once that is done, its summaries."""
    if base.graph.is_due(0.0):
        return
    if base.reader.is_due(await asyncio.to_thread(graph_state, base)):
        if not await extract_with_model_in_background(base):
            base.reader.owe_summaries()
    elif base.reader.are_summaries_due():
        base.reader.summarise_again_after(SUMMARY_SECONDS)
        done = await summarise_communities(base, _logged(base))
        if done.was_cut_off:
            base.reader.owe_summaries()
        elif not done.written and not done.known and not done.failed:
            base.reader.summarise_again_after(0.0)  # a new base: its first summaries need not wait


def _logged(base: OpenBase) -> Callable[[SummariesProgress], None]:
    """Logs what it will cost, before it does."""

    def watch(progress: SummariesProgress) -> None:
        cost = progress.cost
        if cost.calls and not progress.done:
            log.info(
                "base %s: %s is about to summarise communities in %d calls, about %d tokens in and %d out",
                *(base.id, progress.model, cost.calls, cost.prompt_tokens, cost.reply_tokens),
            )

    return watch
