"""One query to several knowledge bases, each under its own filter: scores mean the same in all of them
(docs/decisions/0007-scores.md), so that results can be merged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Unpack

from qianxun.core.errors import BadInput, QianxunError
from qianxun.core.log_types import new_trace_id
from qianxun.core.options import SearchChoices
from qianxun.core.types import EVERYTHING, Degraded, Filter, Found, Recall, all_of

AT_ONCE: Final = 4  # bases that one question is put to side by side
NAMED: Final = "document"  # the part of a recall that looks for the documents that a question names


class Retriever(Protocol):
    """An engine, or a client of a running service."""

    async def retrieve(
        self, knowledge_base: int, query: str, *, trace_id: str = "", **choices: Unpack[SearchChoices]
    ) -> Recall: ...


@dataclass(frozen=True, slots=True)
class BaseFound:
    """A result, and the base that it is in."""

    knowledge_base: int
    found: Found


@dataclass(frozen=True, slots=True)
class MultiBaseRecall:
    """The results of several bases, best first; and what of which base could not answer."""

    query: str
    results: tuple[BaseFound, ...] = ()
    degraded: tuple[tuple[int, Degraded], ...] = ()  # with the base's id
    trace_id: str = ""

    @property
    def found(self) -> tuple[BaseFound, ...]:
        """The same as ``results``, by its former name."""
        return self.results


async def search_bases(
    retriever: Retriever,
    filters: Sequence[int] | Mapping[int, Filter],
    query: str,
    *,
    trace_id: str = "",
    **choices: Unpack[SearchChoices],
) -> MultiBaseRecall:
    """At most ``top_k`` of each base, merged. ``filters`` has what holds for each base; ``where`` holds for all.

    Raises what is wrong with the question; and where no base can answer, why the first cannot.
    """
    own = filters if isinstance(filters, Mapping) else dict.fromkeys(filters, EVERYTHING)
    turns, trace_id = asyncio.Semaphore(AT_ONCE), trace_id or new_trace_id()
    everywhere = choices.get("where") or EVERYTHING

    async def search(base: int, where: Filter) -> Recall:
        options: Any = {**choices, "where": all_of(everywhere, where)}
        async with turns:
            return await retriever.retrieve(base, query, trace_id=trace_id, **options)

    recalls = await asyncio.gather(*(search(*item) for item in own.items()), return_exceptions=True)
    failed = [recall for recall in recalls if isinstance(recall, BaseException)]
    for error in failed:
        if len(failed) == len(own) or isinstance(error, BadInput) or not isinstance(error, QianxunError):
            raise error
    return _merged(query, list(own), _where_named(query, recalls), trace_id)


def _where_named(query: str, recalls: Sequence[Recall | BaseException]) -> list[Recall | BaseException]:
    """A question that names documents (@文档名) is put to where they are: a base that has none of them has searched
    for the name as if it were words, and is left out where another one has it."""
    marks = query.count("@") + query.count("＠")
    unknown = [_unknown_names(recall) for recall in recalls if isinstance(recall, Recall)]
    if not marks or all(len(names) >= marks for names in unknown):
        return list(recalls)
    nowhere = frozenset.intersection(*map(frozenset, unknown))
    return [_of_named(one, marks, nowhere) if isinstance(one, Recall) else one for one in recalls]


def _of_named(recall: Recall, marks: int, nowhere: frozenset[Degraded]) -> Recall:
    degraded = tuple(part for part in recall.degraded if part.part != NAMED or part in nowhere)
    knows_none = len(_unknown_names(recall)) >= marks
    return replace(recall, results=() if knows_none else recall.results, degraded=degraded)


def _unknown_names(recall: Recall) -> list[Degraded]:
    return [part for part in recall.degraded if part.part == NAMED]


def _merged(
    query: str, bases: Sequence[int], recalls: Sequence[Recall | BaseException], trace_id: str
) -> MultiBaseRecall:
    found: list[BaseFound] = []
    degraded: list[tuple[int, Degraded]] = []
    for base, answer in zip(bases, recalls, strict=True):
        if isinstance(answer, BaseException):
            degraded.append((base, Degraded("knowledge_base", str(answer))))
        else:
            found += [BaseFound(base, result) for result in answer.results]
            degraded += [(base, part) for part in answer.degraded]
    found.sort(key=lambda one: -one.found.score)  # stable: equals stay in the order of their base
    return MultiBaseRecall(query, tuple(found), tuple(degraded), trace_id)
