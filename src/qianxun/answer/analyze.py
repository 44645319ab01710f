"""The analyze step: the question made complete, its kind, the entities it names, how it is best looked up.

Rules know the plain cases. A model, where the base has one, takes those that they are unsure of: a question that leans
on a conversation, one that compares or chains, a long one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from qianxun.answer.llm_step import choice_of, list_of, model_step, text_of, writer
from qianxun.answer.state import Analysis, Answering, AnswerState, Step
from qianxun.core.answer_types import QUESTION_KINDS, QuestionKind
from qianxun.core.options import QUERY_MODES, QueryMode
from qianxun.core.system.quick_work import QuickWork
from qianxun.core.types import Degraded
from qianxun.question.follow_ups import Name, Names, complete_question
from qianxun.question.kinds import without_courtesy, without_greeting
from qianxun.question.question import read
from qianxun.text.expansion import comparable

MOST_ENTITIES: Final = 8
NAMED_IN: Final = 300  # characters of a text that are searched for names
LONGEST: Final = 500  # characters of a question that a model rewrote
_LONG: Final = 60  # characters of a question that rules may misread
_UNSURE: Final[tuple[QuestionKind, ...]] = ("comparison", "multi_hop")
_GRAPHLESS: Final[tuple[QueryMode, ...]] = ("naive", "bypass")

_BY_RULES: Final = QuickWork()

_TASK: Final = (
    "你为一个知识库问答系统分析用户的问题。数据里 history 是之前的对话，query 是现在的问题。只输出一个 JSON 对象：\n"
    '{"question": 补全指代与省略、可以独立理解的问题（不添加对话里没有的条件，不回答问题）,\n'
    f' "kind": {"、".join(QUESTION_KINDS)} 之一,\n'
    ' "entities": 问题里提到的实体名的数组,\n'
    ' "strategy": naive（只按语义）、local（围绕具体实体）、global（全局概览）、hybrid（local 与 global）、'
    "mix（图谱与全文一起）、bypass（寒暄，不需要查资料）之一}"
)


async def analysed(answering: Answering, state: AnswerState) -> tuple[Analysis, Step]:
    """The analysis by a model where rules are unsure and there is one, else by rules."""
    names, failed = await _names(answering, state)
    by_rules = await _BY_RULES.run(len(state.query), partial(_by_rules, answering, state, names))
    if not _is_unsure(state, by_rules):
        return by_rules, _step(by_rules, "rules", failed)
    model, unusable = await writer(answering.base)
    failed += unusable
    if model is None:
        return by_rules, _step(by_rules, "rules", failed)
    data = {
        "history": [{"role": turn.role, "content": turn.content[:1000]} for turn in state.history[-6:]],
        "query": state.query,
    }
    by_model, broken = await model_step(
        answering.base, model, _TASK, data, _read, node="analyze_query", seconds=answering.step_seconds
    )
    if by_model is None:
        return by_rules, _step(by_rules, "rules", failed + broken)
    by_model = _looked_up(by_model, state)
    return by_model, _step(by_model, f"model:{model.name}", failed)


def _by_rules(answering: Answering, state: AnswerState, names: Names) -> Analysis:
    query = without_courtesy(without_greeting(state.query))
    if read(query).is_small_talk:
        return Analysis(query, "greeting", (), "bypass")
    question = read(complete_question(query, state.history, names, answering.base.analyser))
    entities = tuple(dict.fromkeys(name.text for name in names(question.text)))[:MOST_ENTITIES]
    is_broad = not entities and question.is_about_everything
    # The communities of the graph for a question about everything; for others the graph beside the base's own search,
    # which is at least as good as either.
    strategy: QueryMode = "bypass" if question.is_small_talk else "global" if is_broad else "mix"
    return Analysis(question.text, question.kind, entities, strategy, is_broad)


def _is_unsure(state: AnswerState, analysis: Analysis) -> bool:
    if analysis.kind == "greeting" or state.mode == "bypass":
        return False
    return bool(state.history) or analysis.kind in _UNSURE or len(state.query) > _LONG


def _looked_up(analysis: Analysis, state: AnswerState) -> Analysis:
    """A model may take a question for small talk only where the caller left the choice; everything else is looked up: a
    question could talk it out of that."""
    if analysis.kind == "greeting" and state.mode is None:
        return replace(analysis, strategy="bypass")
    kind: QuestionKind = "fact" if analysis.kind == "greeting" else analysis.kind
    return replace(analysis, kind=kind, strategy="mix" if analysis.strategy == "bypass" else analysis.strategy)


def _read(reply: Mapping[str, Any]) -> Analysis:
    kind: QuestionKind = choice_of(reply, "kind", QUESTION_KINDS)
    strategy: QueryMode = choice_of(reply, "strategy", QUERY_MODES)
    entities = list_of(reply, "entities", str, 50)
    named = tuple(dict.fromkeys(name.strip()[:100] for name in entities if name.strip()))[:MOST_ENTITIES]
    question = text_of(reply, "question", LONGEST)
    return Analysis(question, kind, named, strategy, not named and read(question).is_about_everything)


def _step(analysis: Analysis, form: str, degraded: tuple[Degraded, ...]) -> Step:
    details = {
        "question": analysis.question,
        "kind": analysis.kind,
        "complexity": "simple" if analysis.is_simple else "complex",
        "entities": list(analysis.entities),
        "strategy": analysis.strategy,
    }
    return Step(form, details, degraded)


async def _names(answering: Answering, state: AnswerState) -> tuple[Names, tuple[Degraded, ...]]:
    """What finds the entities that a text names: the base's graph, as far as the caller may see it; nothing where the
    caller wants no graph, or where it is unavailable."""
    if state.mode in _GRAPHLESS or answering.graph is None:
        return (lambda _: ()), ()
    graph, failed = await answering.graph()
    if graph is None:
        return (lambda _: ()), failed

    @cache
    def named(text: str) -> tuple[Name, ...]:
        shown = comparable(text[:NAMED_IN])
        found = sorted(
            (match for match in graph.find(shown) if not match.is_nested and match.end <= len(shown)),
            key=lambda match: (match.start, -match.weight),
        )
        names: list[Name] = []
        for match in found:
            if not names or match.start >= names[-1].end:
                type_ = graph.entity_at(match.entity).type
                names.append(Name(shown[match.start : match.end], type_, match.start, match.end))
        return tuple(names)

    return named, failed
