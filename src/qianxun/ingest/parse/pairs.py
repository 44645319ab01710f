"""Questions with their answers, recognised by the names of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from qianxun.core.types import QAPair, Table

# What together makes the question, what makes the answer; the first row whose fields are all there counts.
_FIELDS: Final[tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = (
    (("question",), ("answer", "answers", "response")),
    (("问题",), ("答案", "回答", "解答", "答复")),
    (("问",), ("答",)),
    (("标准问题",), ("标准答案", "答案")),
    (("title", "ask"), ("answer",)),
    (("instruction", "input"), ("output",)),
    (("instruction",), ("output", "response")),
    (("query",), ("response", "answer")),
    (("prompt",), ("completion", "response", "answer")),
    (("q",), ("a",)),
    (("ask",), ("answer", "reply")),
    (("提问",), ("回答", "回复")),
)


def pairs_of(records: Iterable[Mapping[str, str]], names: Sequence[str]) -> tuple[QAPair, ...]:
    """The pairs in records that all have the fields ``names``; none when these are not questions and answers."""
    chosen = _choose(names)
    if chosen is None:
        return ()
    questions, answer = chosen
    found = []
    for record in records:
        question = _joined(record.get(name, "").strip() for name in questions)
        reply = record.get(answer, "").strip()
        if question and reply:
            found.append(QAPair(question, reply))
    return tuple(found)


def pairs_in(table: Table) -> tuple[QAPair, ...]:
    names = [column.name for column in table.columns]
    return pairs_of((dict(zip(names, row, strict=True)) for row in table.texts), names)


def _choose(names: Sequence[str]) -> tuple[list[str], str] | None:
    by_fold = {name.strip().lower(): name for name in names}
    for questions, answers in _FIELDS:
        answer = next((by_fold[name] for name in answers if name in by_fold), None)
        if answer is not None and all(name in by_fold for name in questions):
            return [by_fold[name] for name in questions], answer
    return None


def _joined(parts: Iterable[str]) -> str:
    kept: list[str] = []
    for part in parts:
        if part and not any(part in other for other in kept):
            kept = [other for other in kept if other not in part]
            kept.append(part)
    return "\n".join(kept)
