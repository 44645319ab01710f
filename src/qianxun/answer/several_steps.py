"""Several steps: a question that one search does not answer, because it needs what a first search finds.

Planned is what rules read as several steps (`question/steps.py`), because a sentence about the first of them looks like
an answer to the whole; and what could not be answered as it stands, by the base's language model, where there is one.
Every step is a search and an answer of the sources' own sentences or cells; what it found goes into the next, whose
answer must name it. Bounded in number and in time. Where a later step has no answer the question is declined, and the
answer says which step it was; where the first has none, or names nothing, the question may be another than rules took
it for, and stands as it was.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

from qianxun.answer.cited_answer import AnswerDraft
from qianxun.answer.generate import AnswerGenerator
from qianxun.answer.llm_step import adviser, list_of, model_step
from qianxun.answer.retrieve import retrieved
from qianxun.answer.state import Analysis, Answering, AnswerState, Grade, Step, context_of
from qianxun.answer.verify.plain_text import quotable
from qianxun.answer.write import read_passages
from qianxun.core.answer_types import Answer, Passage
from qianxun.core.errors import RecallFailed
from qianxun.core.types import Degraded, Found
from qianxun.question.question import read as read_question
from qianxun.question.steps import MARK, MOST_STEPS, NO_STEPS, Steps, filled, steps
from qianxun.text.chinese import fold
from qianxun.text.figures import Number, Share, amount, figures, measured

LONGEST: Final = 120  # characters of a step that a model planned
_VALUE: Final = 24  # characters of what a step found
_PLANNED_KINDS: Final = ("comparison", "multi_hop")
_END: Final = r"(?=[，。；;,、（(！？?\s]|$)"
_BEGIN: Final = r"(?:^|[，。；,;、：:])\s*"
_SOUGHT: Final = re.compile(r"的?(?P<what>[^的]{1,10}?)(?:是|叫|为)(?:谁|什么|哪[个家位一]?.{0,6})$")
_ASKS_NAME: Final = re.compile(r"(?:是谁|由谁.{2,4}|是哪[个家位一所].{0,6})$")
# 恒温箱的供货商是谁, of which documents say 由临港温控公司供货
_AGENT: Final = re.compile(r"^(?P<of>.+)的(?P<verb>[^的]{2})(?:商|方|者|人|员|单位|部门)是(?:谁|什么)$")
_BY_WHOM: Final = re.compile(r"由谁(?P<verb>[^的]{2,4})$")
_BY: Final = re.compile(r"^(?P<verb>[^的]{2,3})(?P<object>[^的]{2,20})的(?:人)?是(?:谁|哪个.{0,6})$")

_TASK: Final = (
    "你为一个知识库问答系统把问题拆成几步。数据里 question 是问题，直接检索没有找到答案。"
    f"给出 2 到 {MOST_STEPS} 个依次检索的问题，每个只问一件事；后面的问题用 #1、#2 代表前面第几步的答案。"
    "不添加问题里没有的条件，不回答问题。只输出一个 JSON 对象："
    '{"steps": ["……", "#1的……"]}；一步就够的，steps 为空数组。'
)


@dataclass(frozen=True, slots=True)
class _StepAnswer:
    """One step that was taken, its answer, and what of that goes into the next."""

    question: str
    answer: Answer
    value: str
    found: tuple[Found, ...]


async def answer_in_steps(answering: Answering, state: AnswerState) -> tuple[AnswerState, Step | None]:
    """The state with the evidence of every step and, where all are answered, their answer as its draft. No step: the
    question is one."""
    if not state.asked or state.has_exact_answer or state.given:
        return state, None
    plan, model, failed = await _planned(answering, state)
    form = f"model:{model}" if model else "rules"
    if not plan.questions:
        return state, Step(form, {"steps": []}, failed) if failed else None
    late: tuple[Degraded, ...] = ()
    taken: list[_StepAnswer] = []
    try:
        async with asyncio.timeout(answering.step_seconds):
            await _take(answering, state, plan, taken)
    except TimeoutError:
        late = (Degraded("plan_steps", f"{answering.step_seconds:g} 秒内没有走完 {len(plan.questions)} 步"),)
    details = {"steps": [_shown(question, taken, at) for at, question in enumerate(plan.questions)]}
    return _with_steps(state, plan, taken), Step(form, details, (*failed, *late))


async def _planned(answering: Answering, state: AnswerState) -> tuple[Steps, str, tuple[Degraded, ...]]:
    """The steps, the model that planned them, if one did, and what failed."""
    by_rules = steps(state.question)
    is_enough = state.grade is not None and state.grade.is_enough
    kind = state.analysis.kind if state.analysis else "fact"
    if by_rules.questions or is_enough or kind not in _PLANNED_KINDS:
        return by_rules, "", ()
    model, failed = await adviser(answering.base, state.degraded)
    if model is None:
        return NO_STEPS, "", failed
    data = {"question": state.question}
    by_model, broken = await model_step(
        answering.base, model, _TASK, data, _read, node="plan_steps", seconds=answering.step_seconds
    )
    return Steps(by_model or ()), model.name if by_model else "", (*failed, *broken)


def _read(reply: Mapping[str, Any]) -> tuple[str, ...]:
    questions = tuple(" ".join(one.split())[:LONGEST] for one in list_of(reply, "steps", str, MOST_STEPS))
    for at, question in enumerate(questions):
        if not question or any(int(mark) > at for mark in MARK.findall(question)):
            raise ValueError("steps 里每一步要有文字，#n 只能指前面的步")
    return questions if len(questions) > 1 else ()


async def _take(answering: Answering, state: AnswerState, plan: Steps, taken: list[_StepAnswer]) -> None:
    """Takes the steps in order, as far as each has an answer."""
    for question in plan.questions:
        values = tuple(one.value for one in taken)
        wording = filled(question, values)
        if any(not values[int(mark) - 1] for mark in MARK.findall(question)):
            return
        one = await _answered(answering, state, wording)
        if not _names(one.answer, [values[int(mark) - 1] for mark in MARK.findall(question)]):
            one = replace(one, answer=replace(one.answer, form="declined"), value="")
        if not one.answer.is_sure and (otherwise := _AGENT.match(wording)):
            again = await _answered(answering, state, f"{otherwise['of']}由谁{otherwise['verb']}")
            one = replace(again, question=wording) if again.answer.is_sure else one
        taken.append(one)
        if not one.answer.is_sure:
            return


async def _answered(answering: Answering, state: AnswerState, question: str) -> _StepAnswer:
    analysis = Analysis(question, read_question(question).kind)
    own = AnswerState(question, state.used_mode, analysis=analysis, wording=question)
    try:
        own, _ = await retrieved(answering, own)
    except RecallFailed as error:
        return _StepAnswer(question, Answer("", form="declined", reason=str(error)), "", ())
    if own.table is not None and own.has_exact_answer:
        draft = AnswerDraft()
        numbers, _ = draft.number(own.table.passages)
        draft.add(quotable(own.table.shown), numbers)
        return _StepAnswer(question, draft.answer("table"), own.table.text.strip(), own.found)
    context = context_of(own)
    _, answer = await read_passages(
        answering.base, context.tokens, partial(AnswerGenerator().consider, question, context)
    )
    value = await _value(answering, question, answer) if answer.is_sure else ""
    return _StepAnswer(question, answer, value, own.found)


def _names(answer: Answer, values: Sequence[str]) -> bool:
    """Returns True if the answer, or the place where it stands, speaks of what the steps before it found."""
    if answer.form == "table":
        return True
    headings = (str(heading) for source in answer.sources for heading in source.metadata.get("headings") or ())
    written = fold(" ".join((answer.answer, *headings)))
    return all(fold(value) in written for value in values)


# ── what a step found ────────────────────────────────────────────────────────────────────────────


async def _value(answering: Answering, question: str, answer: Answer) -> str:
    """The name or figure that the answer of a step gives: as the sentence puts it, or the first thing that it names and
    the question does not."""
    sentences = [answer.answer[citation.start : citation.end] for citation in answer.citations]
    for sentence in sentences:
        if value := _stated(question, sentence):
            return value
    graph = None
    if answering.graph is not None:
        graph, _ = await answering.graph()
    if graph is None:
        return ""
    folded = fold(question)
    for sentence in sentences:
        matches = sorted((one for one in graph.find(sentence[:300]) if not one.is_nested), key=lambda one: one.start)
        names = [graph.entity_at(match.entity).name for match in matches]
        if others := [name for name in names if fold(name) not in folded]:
            return others[0][:_VALUE]
    return ""


def _stated(question: str, sentence: str) -> str:
    """What a sentence puts in the place that the question asks for."""
    plain = " ".join(sentence.split())
    patterns: list[str] = []
    if found := _BY.match(question) or _BY_WHOM.search(question):
        patterns += _done_by(found["verb"])
    if found := _SOUGHT.search(question):
        what = re.escape(found["what"])
        patterns += _done_by(found["what"][:-1])[:1] if len(found["what"]) > 2 else ()  # 负责 of 负责人
        patterns += (
            rf"{what}[^，。；,;是为]{{0,6}}(?:是|为|：|:|由|叫)\s*(?P<value>[^，。；,;、（(\s]{{2,{_VALUE}}}?)(?:担任)?{_END}",
            rf"{_BEGIN}(?P<value>[^，。；,;、：:的]{{2,12}}?)(?:是|为|任|担任|兼任)[^，。；,;]{{0,16}}{what}",
            rf"(?:在|于|到|入|归)(?P<value>[^，。；,;、的在于到]{{1,8}}{what}){_END}",
        )
    matches = (re.search(pattern, plain) for pattern in patterns)
    return next((value for match in matches if (value := _new(match, question))), "")


def _done_by(verb: str) -> list[str]:
    verb = re.escape(verb)
    return [
        rf"由(?P<value>[^，。；,;、]{{2,12}}?)(?:负责|统一)?{verb}",
        rf"{_BEGIN}(?P<value>[^，。；,;、：:的]{{2,12}}?)(?:负责|统一)?{verb}",
    ]


def _new(found: re.Match[str] | None, question: str) -> str:
    value = found["value"].strip() if found else ""
    return value if value and value not in question else ""


# ── the answer ───────────────────────────────────────────────────────────────────────────────────


def _with_steps(state: AnswerState, plan: Steps, taken: Sequence[_StepAnswer]) -> AnswerState:
    cited = {source.chunk_id for one in taken for source in one.answer.sources}
    every = {result.chunk.key: result for one in taken for result in one.found}
    found = [result for result in every.values() if result.chunk.chunk_id in cited]
    known = {result.chunk.key for result in found}
    found += [result for result in state.found if result.chunk.key not in known]
    if (draft := _draft(plan, taken)) is not None:
        grade = Grade(True, 1.0, 1.0, f"分 {len(taken)} 步回答")
        return replace(state, found=tuple(found), table=None, draft=draft, grade=grade)
    # Without the name that it asked for, a first step may have been misread; with it, half an answer is none.
    if plan.choice or len(taken) < 2 or taken[-1].answer.is_sure or not _ASKS_NAME.search(taken[-2].question):
        return state
    reason = f"分步查找时没有找到“{quotable(taken[-1].question)}”"
    state = replace(state, found=tuple(found), table=None)
    declined = AnswerGenerator().decline(state.question, context_of(state), reason)
    return replace(state, draft=declined, grade=Grade(False, reason=reason))


def _draft(plan: Steps, taken: Sequence[_StepAnswer]) -> Answer | None:
    """The answers of all steps in order, each with its sources; None where one is missing."""
    if len(taken) < len(plan.questions) or not all(one.answer.is_sure for one in taken):
        return None
    draft, numbers = AnswerDraft(), dict[str, int]()
    for at, one in enumerate(taken):
        sources = {source.number: source for source in one.answer.sources}
        for citation in one.answer.citations:
            cited = [sources[number] for number in citation.numbers]
            passages = [
                Passage(
                    numbers.setdefault(source.chunk_id, len(numbers) + 1),
                    source.doc_id,
                    source.doc_name,
                    source.chunk_id,
                    source.text,
                    source.start,
                    source.end,
                    source.score,
                    source.metadata,
                )
                for source in cited
            ]
            marks, _ = draft.number(passages)
            draft.add(one.answer.answer[citation.start : citation.end], marks)
        draft.text += "\n" if at + 1 < len(taken) or plan.choice else ""
    if plan.choice:
        if not (chosen := _chosen(plan, taken)):
            return None
        draft.add(chosen)
    return draft.answer("extractive")


def _chosen(plan: Steps, taken: Sequence[_StepAnswer]) -> str:
    """Which of the compared has the most or the least; "" where their figures cannot be compared."""
    figures = [_figure(one) for one in taken]
    values = [value for value in figures if value is not None]
    if len(values) < len(figures) or len({unit for _, unit in values}) != 1:
        return ""
    best = (max if plan.choice == "most" else min)(value for value, _ in values)
    names = [name for name, (value, _) in zip(plan.names, values, strict=True) if value == best]
    return f"{'最高' if plan.choice == 'most' else '最低'}的是{'、'.join(map(quotable, names))}。"


def _figure(one: _StepAnswer) -> tuple[Decimal, str] | None:
    """The one figure of an answer and what it measures; None where it has several, or none."""
    sentences = [one.answer.answer[place.start : place.end] for place in one.answer.citations]
    found: set[tuple[Decimal, str]] = set()
    for figure in figures(one.value or " ".join(sentences)):
        if isinstance(figure, Number):
            found |= {(amount(value, figure.unit), measured(figure.unit)) for value in figure.values}
        elif isinstance(figure, Share):
            found |= {(value, "%") for value in figure.values}
    return found.pop() if len(found) == 1 else None


def _shown(question: str, taken: Sequence[_StepAnswer], at: int) -> dict[str, Any]:
    if at >= len(taken):
        return {"question": question, "answer": "", "enough": False}
    one = taken[at]
    return {"question": one.question, "answer": one.value or one.answer.answer[:200], "enough": one.answer.is_sure}
