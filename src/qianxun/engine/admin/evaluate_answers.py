"""Evaluation of answers on a file of one's own questions and answers: `read_cases`, `measure`, `summary`.

A case is a question and what a right answer has. Without a reference the documents do not answer it, and declining is
right. Every question goes through `Engine.ask`, with the language model of the base where it has one.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from qianxun.answer.verify.grounding import Evidence, is_in
from qianxun.core.answer_types import Answer
from qianxun.core.errors import BadInput
from qianxun.engine.engine import Engine
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import figures, without_gaps

NEAR: Final = 0.6  # of the pairs of characters of a reference are in an answer that says the same
LAYOUT: Final = (
    '一行一个 JSON：{"question": "…", "answer": "参考答案，资料没有的留空", "source": "出处的文档名，可不写"}；'
    "或表头为 question,answer,source 的 CSV"
)


@dataclass(frozen=True, slots=True)
class AnswerCase:
    """``reference`` empty: the documents do not answer it. ``source``: the name or id of the document that does."""

    question: str
    reference: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """What became of one case; None where a measure does not apply."""

    case: AnswerCase
    answer: str
    form: str
    is_declined: bool
    is_right: bool | None  # it says what the reference says
    figures: tuple[int, int]  # of the reference: in the answer, and all
    supported: tuple[int, int]  # sentences of a model that the sources bear out, and all
    cites_source: bool | None


def read_cases(path: Path) -> tuple[AnswerCase, ...]:
    """Raises BadInput with the line for what cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"读不了 {path}：{error}", hint=LAYOUT) from error
    rows = _csv(text) if path.suffix.lower() == ".csv" else _jsonl(text)
    found = tuple(_case(path, line, row) for line, row in rows)
    if not found:
        raise BadInput(f"{path} 里没有问题", hint=LAYOUT)
    return found


def _csv(text: str) -> Iterator[tuple[int, Any]]:
    return ((line, row) for line, row in enumerate(csv.DictReader(text.splitlines()), start=2))


def _jsonl(text: str) -> Iterator[tuple[int, Any]]:
    for line, row in enumerate(text.split("\n"), start=1):
        if row.strip():
            try:
                yield line, json.loads(row)
            except ValueError as error:
                raise BadInput(f"第 {line} 行不是 JSON：{error}", hint=LAYOUT) from error


def _case(path: Path, line: int, row: Any) -> AnswerCase:
    if not isinstance(row, Mapping) or not isinstance(row.get("question"), str) or not row["question"].strip():
        raise BadInput(f"{path} 第 {line} 行没有 question", hint=LAYOUT)
    values = [row.get(name) or "" for name in ("answer", "source")]
    if not all(isinstance(value, str) for value in values):
        raise BadInput(f"{path} 第 {line} 行的 answer 与 source 应是文字", hint=LAYOUT)
    return AnswerCase(row["question"].strip(), values[0].strip(), values[1].strip())


async def measure(
    engine: Engine, knowledge_base: int, cases: Sequence[AnswerCase], watch: Callable[[int], None]
) -> tuple[AnswerResult, ...]:
    """Asks every question; ``watch`` is called with 1 after each."""
    found = []
    for case in cases:
        found.append(judged(case, await engine.ask(knowledge_base, case.question)))
        watch(1)
    return tuple(found)


def judged(case: AnswerCase, answer: Answer) -> AnswerResult:
    text = "" if answer.is_declined else answer.answer
    stated = Evidence.of((text, *(source.doc_name for source in answer.sources if text)))
    known = Evidence.of((case.question,))
    reference = without_gaps(case.reference)
    wanted = [figure for figure in figures(reference) if not is_in(figure, reference, known)]
    named = {source.doc_id for source in answer.sources} | {source.doc_name for source in answer.sources}
    named |= {Path(source.doc_name).stem for source in answer.sources}
    has_source = bool(case.source) and bool(text)
    return AnswerResult(
        case,
        answer.answer,
        answer.form,
        answer.is_declined,
        _matches(without_gaps(text), reference) if reference else None,
        (sum(is_in(one, reference, stated) for one in wanted), len(wanted)),
        (sum(check.verdict == "supported" for check in answer.checks), len(answer.checks)),
        case.source in named if has_source else None,
    )


def _matches(answer: str, reference: str) -> bool:
    """The reference is in the answer, in any writing of its figures, or most of its words are."""
    if fold(reference).rstrip("。. ") in fold(answer):
        return True
    stated = figures(reference)
    if stated and not all(is_in(one, reference, Evidence.of((answer,))) for one in stated):
        return False
    pairs = {gram for gram in grams(reference) if len(gram) > 1}
    return bool(pairs) and len(pairs & set(grams(answer))) >= NEAR * len(pairs)


def summary(results: Sequence[AnswerResult]) -> dict[str, float | int | None]:
    """Shares in [0, 1]; None where nothing was measured."""
    answerable = [result for result in results if result.case.reference]
    others = [result for result in results if not result.case.reference]
    plain = [one for one in answerable if one.form not in ("declined", "probable")]
    return {
        "questions": len(results),
        "answerable_declined": _share([one.is_declined for one in answerable]),
        "unanswerable_declined": _share([other.is_declined for other in others]),
        "probable": _share([result.form == "probable" for result in results]),
        "right": _share([bool(one.is_right) for one in answerable]),
        "wrong": _share([one in plain and not one.is_right for one in answerable]),
        "figures": _ratio([one.figures for one in answerable]),
        "supported": _ratio([result.supported for result in results]),
        "citations_right": _share([result.cites_source for result in results if result.cites_source is not None]),
    }


def _share(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def _ratio(pairs: Sequence[tuple[int, int]]) -> float | None:
    whole = sum(every for _, every in pairs)
    return round(sum(part for part, _ in pairs) / whole, 4) if whole else None
