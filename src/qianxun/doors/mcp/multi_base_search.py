"""One question to several knowledge bases: scores mean the same in all of them, so that the best are the best."""

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
NOTHING_HELD: Final = Degraded(
    "knowledge_base", "还没有任何知识库　先建一个：qianxun kb create NAME，再用 qianxun add 放入文件"
)


@dataclass(frozen=True, slots=True)
class Passage:
    base: KnowledgeBase
    found: Found


@dataclass(frozen=True, slots=True)
class Heard:
    """What all of the bases say, best first; and which of them could not answer, in whole or in part."""

    passages: tuple[Passage, ...]
    degraded: tuple[tuple[str, Degraded], ...]  # by the name of the base


async def ask_all(
    collection: Collection, bases: Sequence[KnowledgeBase], query: str, **choices: Unpack[SearchChoices]
) -> Heard:
    """Raises what is wrong with the question; and where no base can answer, why the first cannot."""
    if not bases:
        return Heard((), (("", NOTHING_HELD),))
    turns = asyncio.Semaphore(AT_ONCE)

    async def ask(base: KnowledgeBase) -> Recall:
        async with turns:
            return await collection.library.retrieve(base.id, query, trace_id=collection.trace_id, **choices)

    said = await asyncio.gather(*map(ask, bases), return_exceptions=True)
    failed = [each for each in said if isinstance(each, BaseException)]
    for error in failed:
        if len(failed) == len(bases) or isinstance(error, BadInput) or not isinstance(error, QianxunError):
            raise error
    return _heard(bases, _where_named(query, said))


def _where_named(query: str, said: Sequence[Recall | BaseException]) -> list[Recall | BaseException]:
    """A question that names documents (@文档名) is put to where they are: a base that has none of them has searched
    for the name as if it were words, and is left out where another one has it."""
    marks = query.count("@") + query.count("＠")
    unknown = [_unknown_names(each) for each in said if isinstance(each, Recall)]
    if not marks or all(len(names) >= marks for names in unknown):
        return list(said)
    nowhere = frozenset.intersection(*map(frozenset, unknown))
    return [_of_named(each, marks, nowhere) if isinstance(each, Recall) else each for each in said]


def _of_named(recall: Recall, marks: int, nowhere: frozenset[Degraded]) -> Recall:
    kept = tuple(each for each in recall.degraded if each.part != NAMED or each in nowhere)
    knows_none = len(_unknown_names(recall)) >= marks
    return replace(recall, found=() if knows_none else recall.found, degraded=kept)


def _unknown_names(recall: Recall) -> list[Degraded]:
    return [each for each in recall.degraded if each.part == NAMED]


def _heard(bases: Sequence[KnowledgeBase], said: Sequence[Recall | BaseException]) -> Heard:
    passages: list[Passage] = []
    degraded: list[tuple[str, Degraded]] = []
    for base, answer in zip(bases, said, strict=True):
        if isinstance(answer, BaseException):
            degraded.append((base.name, Degraded("knowledge_base", str(answer))))
        else:
            passages += [Passage(base, found) for found in answer.found]
            degraded += [(base.name, each) for each in answer.degraded]
    passages.sort(key=lambda each: -each.found.score)  # stable: among equals as each base has them
    return Heard(tuple(passages), tuple(degraded))
