"""Questions with their answers, recognised by the names of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from qianxun.core.documents import Block, QAPair, TableBlock

# The fields that make up the question, and those that may hold the answer; the first row that fits counts.
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
    chosen = _fields_of(names)
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


def pairs_in(blocks: Iterable[Block]) -> tuple[QAPair, ...]:
    """The pairs in the tables among these blocks."""
    return tuple(
        pair
        for block in blocks
        if isinstance(block, TableBlock)
        for names in ([column.name for column in block.table.columns],)
        for pair in pairs_of((dict(zip(names, row, strict=True)) for row in block.table.texts), names)
    )


def _fields_of(names: Sequence[str]) -> tuple[list[str], str] | None:
    by_fold = {name.strip().lower(): name for name in names}
    for questions, answers in _FIELDS:
        answer = next((by_fold[name] for name in answers if name in by_fold), None)
        if answer is not None and all(name in by_fold for name in questions):
            return [by_fold[name] for name in questions], answer
    return None


def _joined(parts: Iterable[str]) -> str:
    distinct: list[str] = []
    for part in parts:
        if part and not any(part in other for other in distinct):
            distinct = [other for other in distinct if other not in part]
            distinct.append(part)
    return "\n".join(distinct)
