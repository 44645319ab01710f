"""The grade step: whether what was found can answer the question.

By rules: does it cover what the question names and asks for (`extractive.sufficiency`)? A model, where the base has
one, decides the cases between clearly yes and nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from qianxun.answer.generate import AnswerGenerator
from qianxun.answer.llm_step import adviser, list_of, model_step
from qianxun.answer.state import Answering, AnswerState, Grade, Step, context_of
from qianxun.answer.verify.plain_text import quotable
from qianxun.answer.write import is_overview, likeness_of, read_passages
from qianxun.bases.base import OpenBase
from qianxun.core.answer_types import Answer, AnswerContext, Passage

CLEARLY: Final = 0.85  # a fit above which no model is called; the writer may still find that it is not enough
SHOWN: Final = 10  # passages that a model is shown
SHOWN_LENGTH: Final = 600  # characters of each

_TASK: Final = (
    "你为一个知识库问答系统评估检索结果。数据里 question 是问题，passages 是检索到的片段（n 是编号）。"
    "判断这些片段是否足以回答问题。只输出一个 JSON 对象："
    '{"relevant": 与问题相关的片段编号的数组, "enough": 足以回答为 true 否则 false, '
    '"missing": 还缺什么（字符串，可为空）}'
)


async def graded(answering: Answering, state: AnswerState) -> tuple[AnswerState, Step]:
    """The state with its grade, and with what was found, the relevant first."""
    if state.grade is not None and not state.has_new:
        return state, Step("rules", {**_details(state.grade), "unchanged": True})
    context = context_of(state)
    passages = context.passages
    by_rules, draft = await _by_rules(answering.base, state, context)
    state = replace(state, grade=by_rules, draft=draft)
    if not passages or (by_rules.is_enough and by_rules.coverage >= CLEARLY):
        return state, Step("rules", _details(by_rules))
    model, failed = await adviser(answering.base, state.degraded)
    if model is None:
        return state, Step("rules", _details(by_rules), failed)
    shown = [
        {"n": passage.number, "name": passage.doc_name, "text": passage.text[:SHOWN_LENGTH]}
        for passage in passages[:SHOWN]
    ]
    by_model, broken = await model_step(
        answering.base,
        model,
        _TASK,
        {"question": state.question, "passages": shown},
        _read,
        node="grade_documents",
        seconds=answering.step_seconds,
    )
    if by_model is None:
        return state, Step("rules", _details(by_rules), (*failed, *broken))
    state = _by_model(state, passages, *by_model)
    return state, Step(f"model:{model.name}", {**_details(state.grade), "relevant": sorted(by_model[0])}, failed)


def _by_model(
    state: AnswerState, passages: Sequence[Passage], relevant: frozenset[int], is_enough: bool, missing: str
) -> AnswerState:
    chosen = {passage.chunk_id for passage in passages if passage.number in relevant}
    found = sorted(state.found, key=lambda result: result.chunk.chunk_id not in chosen)
    grade = replace(state.grade or Grade(is_enough), is_enough=is_enough, reason=missing)
    return replace(state, grade=grade, found=tuple(found))


async def _by_rules(base: OpenBase, state: AnswerState, context: AnswerContext) -> tuple[Grade, Answer | None]:
    """The grade; and, where every sentence was read for it, the answer that these give themselves."""
    if state.has_exact_answer:
        return Grade(True, 1.0, 1.0, "表格的单元格给出了确切的答案"), None
    if is_overview(state):
        return Grade(True, 1.0, 1.0, "问的是全部资料，图谱的社区概括了它们"), None
    if not context.passages:
        return Grade(False, reason="没有检索到资料"), None
    generator = AnswerGenerator(exact_parts=state.exact_parts, likeness=await likeness_of(base), only_sure=True)
    consider = partial(generator.consider, state.question, context)
    sufficiency, answer = await read_passages(base, context.tokens, consider)
    best = max(passage.score for passage in context.passages)
    grade = Grade(answer.is_sure, best, sufficiency.fit, sufficiency.reason)
    return grade, answer if answer.is_sure else None


def _read(reply: Mapping[str, Any]) -> tuple[frozenset[int], bool, str]:
    enough, missing = reply.get("enough"), reply.get("missing", "")
    if not isinstance(enough, bool):
        raise ValueError("enough 应为 true 或 false")
    if not isinstance(missing, str):
        raise ValueError("missing 应为字符串")
    # It has read documents of any content, and what it misses is shown in the trace: without links, as all else.
    return frozenset(list_of(reply, "relevant", int, 100)), enough, quotable(missing.strip()[:300])


def _details(grade: Grade | None) -> dict[str, Any]:
    if grade is None:
        return {}
    return {
        "enough": grade.is_enough,
        "relevance": round(grade.relevance, 4),
        "coverage": round(grade.coverage, 4),
        "reason": grade.reason,
    }
