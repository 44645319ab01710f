"""Whether what was found can answer the question.

By rules: does it speak of what the question names and asks for (`answer.sufficiency`)? A model, where the base has one,
is asked in the cases between clearly yes and nothing at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from qianxun.answer.generate import AnswerGenerator
from qianxun.answer_types import Passage
from qianxun.pipelines.answer_state import AnswerState, Grade, Step
from qianxun.pipelines.answering import Answering, context_of, reader_of
from qianxun.pipelines.model_step import adviser, asked_model, list_of
from qianxun.pipelines.overviews import is_overview
from qianxun.types import Found

CLEARLY: Final = 0.85  # a fit above which nobody need be asked; whoever writes may still find that it is not enough
SHOWN: Final = 10  # passages that a model is shown
SHOWN_LENGTH: Final = 600  # characters of each

_TASK: Final = (
    "你为一个知识库问答系统评估检索结果。数据里 question 是问题，passages 是检索到的片段（n 是编号）。"
    "判断这些片段是否足以回答问题。只输出一个 JSON 对象："
    '{"relevant": 与问题相关的片段编号的数组, "enough": 足以回答为 true 否则 false, '
    '"missing": 还缺什么（字符串，可为空）}'
)


async def graded(answering: Answering, state: AnswerState) -> tuple[Grade, tuple[Found, ...], Step]:
    """The grade, and what was found with the relevant first."""
    passages = context_of(state).passages
    if state.grade is not None and not state.has_new:
        return state.grade, state.found, Step("rules", {**_said(state.grade), "unchanged": True})
    by_rules = await _by_rules(answering, state, passages)
    if not passages or _is_clear(by_rules):
        return by_rules, state.found, Step("rules", _said(by_rules))
    model, failed = await adviser(answering.base, state.degraded)
    if model is None:
        return by_rules, state.found, Step("rules", _said(by_rules), failed)
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
        return by_rules, state.found, Step("rules", _said(by_rules), (*failed, *broken))
    relevant, is_enough, missing = told
    grade = Grade(is_enough, by_rules.relevance, by_rules.coverage, missing)
    chosen = {each.chunk_id for each in passages if each.number in relevant}
    found = sorted(state.found, key=lambda each: each.chunk.chunk_id not in chosen)
    return grade, tuple(found), Step(f"model:{model.name}", {**_said(grade), "relevant": sorted(relevant)}, failed)


async def _by_rules(answering: Answering, state: AnswerState, passages: tuple[Passage, ...]) -> Grade:
    if state.table is not None:
        return Grade(True, 1.0, 1.0, "表格的单元格给出了确切的答案")
    if is_overview(state):
        return Grade(True, 1.0, 1.0, "问的是全部资料，图谱的社区概括了它们")
    if not passages:
        return Grade(False, reason="没有检索到资料")
    generator = AnswerGenerator(reader=reader_of(answering.base))
    judged = await asyncio.to_thread(generator.judge, state.question, passages)
    return Grade(judged.is_enough, max(each.score for each in passages), judged.fit, judged.reason)


def _is_clear(grade: Grade) -> bool:
    return grade.is_enough and grade.coverage >= CLEARLY


def _read(told: Mapping[str, Any]) -> tuple[frozenset[int], bool, str]:
    enough, missing = told.get("enough"), told.get("missing", "")
    if not isinstance(enough, bool):
        raise ValueError("enough 应为 true 或 false")
    if not isinstance(missing, str):
        raise ValueError("missing 应为字符串")
    return frozenset(list_of(told, "relevant", int, 100)), enough, missing.strip()[:300]


def _said(grade: Grade) -> dict[str, Any]:
    return {
        "enough": grade.is_enough,
        "relevance": round(grade.relevance, 4),
        "coverage": round(grade.coverage, 4),
        "reason": grade.reason,
    }
