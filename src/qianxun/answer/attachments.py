"""What came with a question, pictures and tables, joined to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from qianxun.answer.context import Answering
from qianxun.answer.multimodal import answer_attached, read_multimodal
from qianxun.answer.state import AnswerState, TableReply
from qianxun.core.errors import BadInput

# 分析这张图像中的…, 根据附上的表格，…; at the beginning of a clause also 图中的…; and what is left of 这张发票 is 发票.
_THING: Final = r"(?:图片|图像|照片|截图|影像|片子|图|表格|表|附件)"
_POINTING: Final = re.compile(
    rf"(?:请|帮我|麻烦)?(?:分析|查看|看一?下|看看|看|根据|依据|按照|按|从|在)?一?下?"
    rf"(?:(?:这|那|该|此|附上?的?|所附的?|上面的?|上述|给出的?|提供的?)[几两一]?[张幅份个]?{_THING}(?:里面|[中里上内])?"
    rf"|(?:^|(?<=[，,。；;：:\s])|(?<=根据|按照|依据)|(?<=[从在看])){_THING}(?:里面|[中里上内]))的?[，,]?"
    r"|[这那](?:张|幅|份|个|款|种)(?=[\u4e00-\u9fff])"
)
_LEAST_LEFT: Final = 2  # characters of a question that still asks something


def unpointed(question: str) -> str:
    """The question without the words that point at what came along: no text of record speaks of 图中 or 这张."""
    left = _POINTING.sub("", question).strip(" ，,")
    return left if len(re.findall(r"\w", left)) >= _LEAST_LEFT else question


async def with_attached(answering: Answering, state: AnswerState, content: Sequence[Mapping[str, Any]]) -> AnswerState:
    """The state with the passages that came along, their words for the search, and what their cells say exactly."""
    if not content:
        return state
    if answering.parsers is None:
        raise BadInput("这里不能读随问题来的图片和表格", hint="用 Engine.ask 提问")
    read = await read_multimodal(answering.base, content, answering.parsers, state.question)
    question = unpointed(state.question)
    exact = await answer_attached(question, read)
    reply = None
    if exact is not None:
        reply = TableReply(exact.answer.text, exact.answer.reading, (), (replace(exact.passage, number=1),))
    return replace(
        state,
        analysis=replace(state.analysis, question=question) if state.analysis else None,
        wording=question,
        given=read.passages,
        given_words=read.text,
        table=reply,
        degraded=tuple(dict.fromkeys((*state.degraded, *read.degraded))),
    )
