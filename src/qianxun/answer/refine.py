"""The refine step: the question in other words, where what was found cannot answer it.

By a model, where the base has one, from what is missing. By rules, in this order and each once: synonyms of its words;
other names that the graph has for its entities. Both bring words that no search has looked for yet. A question without
one of its words brings none: it finds what was found, puts first what lacks that word, and answers another question
(docs/decisions/0033-graph-and-answers-at-scale.md).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from qianxun.answer.analyze import NAMED_IN
from qianxun.answer.llm_step import adviser, model_step, text_of
from qianxun.answer.state import Answering, AnswerState, Step
from qianxun.core.errors import IndexUnusable, RetrieverUnavailable
from qianxun.core.limits import QUERY_LIMIT
from qianxun.core.system.quick_work import QuickWork
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.retrieve.terms.related import expanded
from qianxun.text.chinese import fold

LONGEST: Final = 300  # characters of a query that a model made
_ALIASES: Final = 3  # other names of one entity
_NAMING: Final = QuickWork()
_SPACES: Final = re.compile(r"\s+")

_TASK: Final = (
    "你为一个检索系统改写查询。数据里 question 是用户的问题，asked 是已经检索过的写法，missing 是结果里缺什么。"
    "这些写法没有找到足以回答的内容。给出一个不同的写法，更可能找到：换同义词或书面说法，展开缩写，写出别名，"
    '去掉次要的条件；不添加问题里没有的事实。只输出一个 JSON 对象：{"query": "……"}'
)


async def refined(answering: Answering, state: AnswerState) -> tuple[str, Step]:
    """A wording that has not been searched for yet; "" where there is none."""
    model, failed = await adviser(answering.base, state.degraded)
    if model is not None:
        data = {
            "question": state.question,
            "asked": list(state.asked),
            "missing": state.grade.reason if state.grade else "",
        }
        query, broken = await model_step(
            answering.base, model, _TASK, data, _read, node="refine_query", seconds=answering.step_seconds
        )
        if query is not None and _is_new(query, state):
            return query, Step(f"model:{model.name}", {"query": query, "by": "model"}, failed)
        failed += broken
    async for way, wording in _other_wordings(answering, state):
        if _is_new(wording, state):
            return wording, Step("rules", {"query": wording, "by": way}, failed)
    return "", Step("rules", {"query": "", "by": "none"}, failed)


def _read(reply: Mapping[str, Any]) -> str:
    return text_of(reply, "query", LONGEST)


def _is_new(query: str, state: AnswerState) -> bool:
    plain = _plain(query)
    return bool(plain) and len(query) <= QUERY_LIMIT and all(plain != _plain(wording) for wording in state.asked)


def _plain(text: str) -> str:
    return _SPACES.sub("", fold(text)).rstrip("?？。!！")


async def _other_wordings(answering: Answering, state: AnswerState) -> AsyncIterator[tuple[str, str]]:
    """(way, query), best first. A way that fails is skipped: another follows."""
    base, question = answering.base, state.question
    with base.serving.borrow() as serving:
        try:
            for expansion in await expanded(base, serving, question, 1, where=answering.options.where):
                yield "synonyms", expansion.text
        except (IndexUnusable, RetrieverUnavailable):  # which the search has reported
            pass
        named = await _by_other_names(answering, state)
        if named:
            yield "entity_names", named


async def _by_other_names(answering: Answering, state: AnswerState) -> str:
    """The question with the entities' other names beside its own words."""
    if answering.graph is None or state.used_mode in ("naive", "bypass"):
        return ""
    graph, _ = await answering.graph()
    if graph is None:
        return ""
    others = await _NAMING.run(len(state.question), partial(_other_names, graph, state.question))
    return " ".join([state.question, *others]) if others else ""


def _other_names(graph: KnowledgeGraph, question: str) -> list[str]:
    folded = fold(question)
    others: list[str] = []
    for match in graph.find(question[:NAMED_IN]):
        if not match.is_nested:
            entity = graph.entity_at(match.entity)
            names = (name for name in (entity.name, *entity.aliases) if fold(name) not in folded)
            others += list(names)[:_ALIASES]
    return list(dict.fromkeys(others))
