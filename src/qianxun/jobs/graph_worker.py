"""Graphs that models read, tended behind everybody's back: what was written is read, then communities summarised."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from qianxun.bases.base import OpenBase
from qianxun.core.errors import QianxunError
from qianxun.core.graph_types import SummariesProgress
from qianxun.graph.build import graph_state, is_graph_enabled
from qianxun.graph.llm_build import extract_with_model_in_background, has_model
from qianxun.graph.summaries import summarise_communities

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
SUMMARY_SECONDS: Final = 600.0  # between two goes at the summaries of a base: what is still being written changes them


async def run_graph_models(open_bases: Callable[[], Iterable[OpenBase]]) -> None:
    """Has the models of open bases read what was written and write of communities, one base at a time."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for base in list(open_bases()):
            if has_model(base) and is_graph_enabled(base):
                await _look_at(base)


async def _look_at(base: OpenBase) -> None:
    try:
        await _tend(base)
    except QianxunError as error:  # gone, or its database is
        log.info("base %s cannot be tended: %s", base.id, error)
        base.reader.rest()
    except Exception:  # the door of a loop that serves all bases: none of them may end it
        log.exception("base %s is not read by its model after an unexpected failure", base.id)
        base.reader.rest()


async def _tend(base: OpenBase) -> None:
    """The statistics first, then what the model has to read; once that is done, what it has to say."""
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
            base.reader.summarise_again_after(0.0)  # of a base that has just been made: what comes next need not wait


def _logged(base: OpenBase) -> Callable[[SummariesProgress], None]:
    """Says what it will cost, before it does."""

    def told(progress: SummariesProgress) -> None:
        cost = progress.cost
        if cost.calls and not progress.done:
            log.info(
                "base %s: %s is about to summarise communities in %d calls, about %d tokens in and %d out",
                *(base.id, progress.model, cost.calls, cost.prompt_tokens, cost.reply_tokens),
            )

    return told
