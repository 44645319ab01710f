"""What came with a question, pictures and tables, joined to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from qianxun.errors import BadInput
from qianxun.pipelines.answer_state import AnswerState, TableReply
from qianxun.pipelines.answering import Answering
from qianxun.pipelines.multimodal import answer_attached, read_multimodal


async def with_attached(answering: Answering, state: AnswerState, content: Sequence[Mapping[str, Any]]) -> AnswerState:
    """The state with the passages that came along, their words for the search, and what their cells say exactly."""
    if not content:
        return state
    if answering.parsers is None:
        raise BadInput("这里不能读随问题来的图片和表格", hint="用 Engine.ask 提问")
    read = await read_multimodal(answering.base, content, answering.parsers, state.question)
    exact = await answer_attached(state.question, read)
    reply = None
    if exact is not None:
        reply = TableReply(exact.answer.text, exact.answer.reading, (), (replace(exact.passage, number=1),))
    return replace(
        state,
        given=read.passages,
        given_words=read.text,
        table=reply,
        degraded=tuple(dict.fromkeys((*state.degraded, *read.degraded))),
    )
