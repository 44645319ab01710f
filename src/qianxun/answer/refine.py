"""The question in other words, where what was found cannot answer it.

By rules, in this order, each tried once: synonyms of its words; the names that the graph has for the entities it names;
without the word that hardly anything in the base has. By a model, where the base has one: whatever it makes of what is
lacking.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from qianxun.answer.analyze import NAMED_IN
from qianxun.answer.context import Answering
from qianxun.answer.llm_step import adviser, asked_model, text_of
from qianxun.answer.state import AnswerState, Step
from qianxun.core.errors import IndexUnusable, RetrieverUnavailable
from qianxun.core.limits import QUERY_LIMIT
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.question.words import cue
from qianxun.retrieve.query_plan import counted
from qianxun.retrieve.terms.related import expanded
from qianxun.text.chinese import fold

LONGEST: Final = 300  # characters of a query that a model made
_ALIASES: Final = 3  # other names of one entity
_FEWEST_WORDS: Final = 3  # a question of fewer has none to spare
_SPACES: Final = re.compile(r"\s+")

_TASK: Final = (
    "你为一个检索系统改写查询。数据里 question 是用户的问题，asked 是已经检索过的写法，missing 是结果里缺什么。"
    "这些写法没有找到足以回答的内容。给出一个不同的写法，更可能找到：换同义词或书面说法，展开缩写，写出别名，"
    '去掉次要的条件；不添加问题里没有的事实。只输出一个 JSON 对象：{"query": "……"}'
)


async def refined(answering: Answering, state: AnswerState) -> tuple[str, Step]:
    """Another wording that was not searched for yet; "" where there is none."""
    model, failed = await adviser(answering.base, state.degraded)
    if model is not None:
        data = {
            "question": state.question,
            "asked": list(state.asked),
            "missing": state.grade.reason if state.grade else "",
        }
        told, broken = await asked_model(
            answering.base, model, _TASK, data, _read, node="refine_query", seconds=answering.step_seconds
        )
        if told is not None and _is_new(told, state):
            return told, Step(f"model:{model.name}", {"query": told, "by": "model"}, failed)
        failed += broken
    async for way, query in _other_wordings(answering, state):
        if _is_new(query, state):
            return query, Step("rules", {"query": query, "by": way}, failed)
    return "", Step("rules", {"query": "", "by": "none"}, failed)


def _read(told: Mapping[str, Any]) -> str:
    return text_of(told, "query", LONGEST)


def _is_new(query: str, state: AnswerState) -> bool:
    plain = _plain(query)
    return bool(plain) and len(query) <= QUERY_LIMIT and all(plain != _plain(each) for each in state.asked)


def _plain(text: str) -> str:
    return _SPACES.sub("", fold(text)).rstrip("?？。!！")


async def _other_wordings(answering: Answering, state: AnswerState) -> AsyncIterator[tuple[str, str]]:
    """(way, query), best first. A way that cannot be gone is passed over: another follows."""
    base, question = answering.base, state.question
    with base.serving.borrow() as serving:
        try:
            for expansion in await expanded(base, serving, question, 1, where=answering.options.where):
                yield "synonyms", expansion.text
        except (IndexUnusable, RetrieverUnavailable):  # of which the search has told
            pass
        named = await _by_other_names(answering, state)
        if named:
            yield "entity_names", named
        words = list(dict.fromkeys(base.analyser.analyse_query(question).words))
        counts = (await counted(serving, words)).words
    for word in _rarest_first(words, counts, state):
        yield "fewer_constraints", _without(question, word)


async def _by_other_names(answering: Answering, state: AnswerState) -> str:
    """The question with the entities' other names beside its own words."""
    if answering.graph is None or state.used_mode in ("naive", "bypass"):
        return ""
    graph, _ = await answering.graph()
    if graph is None:
        return ""
    others = await asyncio.to_thread(_other_names, graph, state.question)
    return " ".join([state.question, *others]) if others else ""


def _other_names(graph: KnowledgeGraph, question: str) -> list[str]:
    said = fold(question)
    others: list[str] = []
    for match in graph.find(question[:NAMED_IN]):
        if not match.is_nested:
            entity = graph.entity_at(match.entity)
            names = (name for name in (entity.name, *entity.aliases) if fold(name) not in said)
            others += list(names)[:_ALIASES]
    return list(dict.fromkeys(others))


def _rarest_first(words: list[str], counts: Mapping[str, int], state: AnswerState) -> list[str]:
    """Words that may be dropped: those of which hardly any entry speaks, but none that the entities are made of."""
    kept = fold(" ".join(state.analysis.entities if state.analysis else ()))
    if len(words) < _FEWEST_WORDS:
        return []
    spare = [word for word in words if word not in kept and len(word) > 1 and not cue("which.reword").search(word)]
    return sorted(spare, key=lambda word: (counts.get(word, 0), -len(word), word))[:1]


def _without(question: str, word: str) -> str:
    return _SPACES.sub(" ", re.sub(re.escape(word), " ", fold(question))).strip()
