"""What an answer may draw on, and how what several searches found comes together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from qianxun.answer.quote import quote
from qianxun.answer_types import Answer, Citation, QueryMode, Source
from qianxun.pipelines.answer_state import AnswerState
from qianxun.pipelines.base import OpenBase
from qianxun.types import Found, Recall

Search: TypeAlias = Callable[[str, QueryMode], Awaitable[Recall]]


@dataclass(frozen=True)
class Answering:
    """The base, and how it is searched."""

    base: OpenBase
    search: Search
    top_k: int = 10


def merged(before: Sequence[Found], found: Sequence[Found], top_k: int) -> tuple[Found, ...]:
    """Both together, each chunk once with its better score, best first."""
    best: dict[int, Found] = {}
    for each in (*before, *found):
        held = best.get(each.chunk.key)
        if held is None or each.score > held.score:
            best[each.chunk.key] = each
    return tuple(sorted(best.values(), key=lambda each: (-each.score, each.chunk.key)))[:top_k]


def quoted(state: AnswerState) -> Answer:
    """The best sentence of what was found, word for word."""
    if state.used_mode == "bypass":
        return Answer("没有查阅资料，也没有可用的语言模型，无法直接作答。", form="direct")
    quotation = quote(state.found, state.question)
    if quotation is None:
        return Answer("资料中没有找到与问题有关的内容。", form="declined")
    chunk = quotation.source.chunk
    start = chunk.text.find(quotation.sentence)
    place = chunk.start + start if chunk.text == quotation.sentence or start >= 0 else chunk.start
    source = Source(
        1,
        chunk.doc_id,
        chunk.doc_name,
        chunk.chunk_id,
        quotation.sentence,
        place,
        place + len(quotation.sentence),
        quotation.source.score,
    )
    text = f"{quotation.sentence}[1]"
    return Answer(text, (source,), (Citation(0, len(text), (1,)),))
