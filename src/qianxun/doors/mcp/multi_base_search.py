"""One query to several knowledge bases: scores mean the same in all of them, so that results can be merged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Unpack

from qianxun.core.errors import BadInput, QianxunError
from qianxun.core.options import SearchChoices
from qianxun.core.types import Degraded, Found, KnowledgeBase, Recall
from qianxun.doors.mcp.collection import Collection

AT_ONCE: Final = 4  # bases that one question is put to side by side
NAMED: Final = "document"  # the part of a recall that looks for the documents that a question names
NO_BASES: Final = Degraded(
    "knowledge_base",
    "这个租户还没有知识库　先建一个：qianxun kb create NAME，再用 qianxun add 放入文件；"
    "别的租户的看不到，管理员可用 qianxun kb move 移交",
)


@dataclass(frozen=True, slots=True)
class Passage:
    base: KnowledgeBase
    found: Found


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The passages of all bases, best first; and which bases could not answer, in whole or in part."""

    passages: tuple[Passage, ...]
    degraded: tuple[tuple[str, Degraded], ...]  # by the name of the base


async def search_all(
    collection: Collection, bases: Sequence[KnowledgeBase], query: str, **choices: Unpack[SearchChoices]
) -> SearchResult:
    """Raises what is wrong with the question; and where no base can answer, why the first cannot."""
    if not bases:
        return SearchResult((), (("", NO_BASES),))
    turns = asyncio.Semaphore(AT_ONCE)

    async def search(base: KnowledgeBase) -> Recall:
        async with turns:
            return await collection.library.retrieve(base.id, query, trace_id=collection.trace_id, **choices)

    recalls = await asyncio.gather(*map(search, bases), return_exceptions=True)
    failed = [recall for recall in recalls if isinstance(recall, BaseException)]
    for error in failed:
        if len(failed) == len(bases) or isinstance(error, BadInput) or not isinstance(error, QianxunError):
            raise error
    return _merged(bases, _where_named(query, recalls))


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
    return replace(recall, found=() if knows_none else recall.found, degraded=degraded)


def _unknown_names(recall: Recall) -> list[Degraded]:
    return [part for part in recall.degraded if part.part == NAMED]


def _merged(bases: Sequence[KnowledgeBase], recalls: Sequence[Recall | BaseException]) -> SearchResult:
    passages: list[Passage] = []
    degraded: list[tuple[str, Degraded]] = []
    for base, answer in zip(bases, recalls, strict=True):
        if isinstance(answer, BaseException):
            degraded.append((base.name, Degraded("knowledge_base", str(answer))))
        else:
            passages += [Passage(base, found) for found in answer.found]
            degraded += [(base.name, part) for part in answer.degraded]
    passages.sort(key=lambda passage: -passage.found.score)  # stable: equals stay in the order of their base
    return SearchResult(tuple(passages), tuple(degraded))
