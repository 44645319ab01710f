"""The ranking of a query mode becomes results: keys meet the records, and what lacks is filled up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, read
from qianxun.core.types import ArmScore, Chunk, Found, Hit, Keys, Ranking, matches
from qianxun.rank.tiers import matched_in, matched_under
from qianxun.records import chunks
from qianxun.retrieve.highlight import highlights
from qianxun.retrieve.query_plan import QueryPlan
from qianxun.text.chinese import fold

UNRELATED: Final = 1e-6  # the score of what is there only because there is nothing better
FILL: Final = "fill"  # the source of such a result: nothing found it
PAGE: Final = 50


class Results:
    """The results of one query mode, as many as were asked for; each chunk once."""

    def __init__(self, base: OpenBase, asked: QueryPlan, top_k: int, recalled: Sequence[Found], graph: Ranking) -> None:
        self._base, self._asked, self._top_k = base, asked, top_k
        self._recalled = {each.chunk.key: each for each in recalled}
        self._graph = {hit.key: (rank, hit.score) for rank, hit in enumerate(graph.hits, 1)}
        self._taken: set[int] = set()
        self.found: list[Found] = []

    @property
    def lacking(self) -> int:
        return self._top_k - len(self.found)

    async def take(self, ranking: Ranking) -> None:
        """The next results, in this order; none may score better than those before it."""
        ceiling = self.found[-1].score if self.found else 1.0
        hits = [Hit(key, min(score, ceiling)) for key, score in ranking.hits if key not in self._taken and score > 0]
        at = 0
        while at < len(hits) and self.lacking:
            page = hits[at : at + PAGE]
            at += len(page)
            held = await self._chunks([hit.key for hit in page])
            for hit in page:
                if hit.key in held and self.lacking:
                    self._taken.add(hit.key)
                    self.found.append(self._result(held[hit.key], hit.score))

    async def fill(self, keys: Keys) -> None:
        """Any of these, so that there are as many as were asked for."""
        if self.lacking:
            order = np.sort(keys)
            await self.take(Ranking(order, np.full(len(order), UNRELATED)))

    async def _chunks(self, keys: Sequence[int]) -> Mapping[int, Chunk]:
        """Those that are of record and allowed."""
        held = {key: self._recalled[key].chunk for key in keys if key in self._recalled}
        unread = [key for key in keys if key not in held]
        where = self._asked.queries[0].where
        if unread:
            there = await read(self._base, chunks.by_keys, unread)
            held |= {key: each for key, each in there.items() if matches(where, each.attributes)}
        return held

    def _result(self, chunk: Chunk, score: float) -> Found:
        recalled = self._recalled.get(chunk.key)
        rank, own = self._graph.get(chunk.key, (0, 0.0))
        arms = {"graph": ArmScore(rank, own, own)} if rank else {}
        if recalled is not None:
            source = "hybrid" if rank else recalled.source
            return replace(recalled, score=score, source=source, arms={**recalled.arms, **arms})
        words = tuple(dict.fromkeys(word for query in self._asked.own for word in query.terms.words))
        folded = fold(chunk.text)
        held = matched_under(folded, chunk.headings, words)
        shown = highlights(chunk.text, matched_in(folded, held), folded=folded)
        return Found(chunk, score, "graph" if rank else FILL, arms, matched=held, fused=score, highlights=shown)
