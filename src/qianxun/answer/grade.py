"""Whether what was found can answer the question.

By rules: does it speak of what the question names and asks for (`answer.sufficiency`)? A model, where the base has one,
is asked in the cases between clearly yes and nothing at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from qianxun.answer.context import Answering, context_of
from qianxun.answer.generate import AnswerGenerator
from qianxun.answer.llm_step import adviser, asked_model, list_of
from qianxun.answer.overviews import is_overview
from qianxun.answer.state import AnswerState, Grade, Step
from qianxun.answer.verify.plain_text import quotable
from qianxun.core.answer_types import Answer, AnswerContext, Passage

CLEARLY: Final = 0.85  # a fit above which nobody need be asked; whoever writes may still find that it is not enough
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
        return state, Step("rules", {**_said(state.grade), "unchanged": True})
    context = context_of(state)
    passages = context.passages
    by_rules, draft = await _by_rules(state, context)
    state = replace(state, grade=by_rules, draft=draft)
    if not passages or _is_clear(by_rules):
        return state, Step("rules", _said(by_rules))
    model, failed = await adviser(answering.base, state.degraded)
    if model is None:
        return state, Step("rules", _said(by_rules), failed)
    shown = [{"n": each.number, "name": each.doc_name, "text": each.text[:SHOWN_LENGTH]} for each in passages[:SHOWN]]
    told, broken = await asked_model(
        answering.base,
        model,
        _TASK,
        {"question": state.question, "passages": shown},
        _read,
        node="grade_documents",
        seconds=answering.step_seconds,
    )
    if told is None:
        return state, Step("rules", _said(by_rules), (*failed, *broken))
    state = _by_model(state, passages, *told)
    return state, Step(f"model:{model.name}", {**_said(state.grade), "relevant": sorted(told[0])}, failed)


def _by_model(
    state: AnswerState, passages: Sequence[Passage], relevant: frozenset[int], is_enough: bool, missing: str
) -> AnswerState:
    chosen = {each.chunk_id for each in passages if each.number in relevant}
    found = sorted(state.found, key=lambda each: each.chunk.chunk_id not in chosen)
    grade = replace(state.grade or Grade(is_enough), is_enough=is_enough, reason=missing)
    return replace(state, grade=grade, found=tuple(found))


async def _by_rules(state: AnswerState, context: AnswerContext) -> tuple[Grade, Answer | None]:
    """The grade; and, where it took the reading of every sentence, the answer that these give themselves."""
    if state.table is not None:
        return Grade(True, 1.0, 1.0, "表格的单元格给出了确切的答案"), None
    if is_overview(state):
        return Grade(True, 1.0, 1.0, "问的是全部资料，图谱的社区概括了它们"), None
    if not context.passages:
        return Grade(False, reason="没有检索到资料"), None
    judged, answer = await asyncio.to_thread(AnswerGenerator().consider, state.question, context)
    best = max(each.score for each in context.passages)
    grade = Grade(not answer.is_declined, best, judged.fit, judged.reason)
    return grade, None if answer.is_declined else answer


def _is_clear(grade: Grade) -> bool:
    return grade.is_enough and grade.coverage >= CLEARLY


def _read(told: Mapping[str, Any]) -> tuple[frozenset[int], bool, str]:
    enough, missing = told.get("enough"), told.get("missing", "")
    if not isinstance(enough, bool):
        raise ValueError("enough 应为 true 或 false")
    if not isinstance(missing, str):
        raise ValueError("missing 应为字符串")
    # It has read what strangers wrote: what it says of it is told in the trace, without links as all else.
    return frozenset(list_of(told, "relevant", int, 100)), enough, quotable(missing.strip()[:300])


def _said(grade: Grade | None) -> dict[str, Any]:
    if grade is None:
        return {}
    return {
        "enough": grade.is_enough,
        "relevance": round(grade.relevance, 4),
        "coverage": round(grade.coverage, 4),
        "reason": grade.reason,
    }
