"""问答: a streamed answer whose marks open the source at the sentence; follow-ups, attachments, what people thought.

A script sends the form to ``/console/answer-stream`` and shows the text as it comes; the last event brings the answer
as `_answer.html`, which is also what the form alone leads to.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final, cast

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from qianxun.core.answer_types import (
    QUERY_MODES,
    Answer,
    AnswerEvent,
    Done,
    Failed,
    SentenceCited,
    Source,
    SourcesFound,
    Token,
)
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.limits import IMAGE_BYTES_LIMIT
from qianxun.core.log_types import Feedback, Rating
from qianxun.core.option_fields import AUTO
from qianxun.core.options import AskChoices
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.console.answers import ShownAnswer, shown_answer
from qianxun.doors.http.console.forms import ConsoleRoute, Fields, form, query
from qianxun.doors.http.console.labels import label, part_label
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import relative, render, render_part, translate
from qianxun.doors.http.context import TenantEngine, Writer, answer_slot, trace_id
from qianxun.doors.http.event_stream import AnswerRecorder, answer_response, encode_event

PAGE: Final = Page(
    "ask",
    Text("问答", "Ask"),
    Text(
        "答案的每一句都注明出处；资料里没有的，明说没有",
        "Every sentence with its source; what is not there is not said",
    ),
)
SHOWN_BASES: Final = 500
TURNS: Final = 20
TURN_LIMIT: Final = 4_000  # characters of an earlier turn
MODES: Final[dict[str, Text]] = {
    "mix": Text("图谱与检索一起（默认）", "Graph and search together (default)"),
    AUTO: Text("看问题而定", "As fits the question"),
    "naive": Text("只按语义", "By meaning alone"),
    "local": Text("问题里的实体及其近邻", "Entities of the question and around them"),
    "global": Text("社区摘要", "Summaries of communities"),
    "hybrid": Text("实体与社区", "Entities and communities"),
    "bypass": Text("不查资料", "Without looking anything up"),
}

router = APIRouter(route_class=ConsoleRoute)


@dataclass(frozen=True, slots=True)
class Question:
    base: KnowledgeBase
    text: str
    mode: str
    choices: AskChoices
    history: tuple[dict[str, str], ...]


@router.get(PAGE.path)
async def ask_page(request: Request, engine: TenantEngine) -> Response:
    fields = query(request)
    known = await engine.knowledge_bases(limit=SHOWN_BASES)
    number = fields.whole("base", "知识库")
    base = await engine.knowledge_base(number) if number is not None else known[0] if known else None
    return _page(request, known, base, fields.text("mode", "mix"), fields.text("q"), (), None)


@router.post("/console/answer")
async def answer(request: Request, engine: TenantEngine) -> Response:
    """The whole answer as a page: for browsers without scripts."""
    question = await _question(request, engine)
    recorder = AnswerRecorder(request, question.mode)
    with recorder.recording():
        async with answer_slot(request):
            made = await engine.ask(question.base.id, question.text, trace_id=trace_id(request), **question.choices)
    recorder.finished(made)
    known = await engine.knowledge_bases(limit=SHOWN_BASES)
    shown = _values(request, question, made)
    return _page(request, known, question.base, question.mode, "", question.history, shown)


@router.post("/console/answer-stream")
async def stream(request: Request, engine: TenantEngine) -> Response:
    """The answer as it comes: ``token``, ``reset`` (what came were thoughts), and at the end ``done`` or ``failed``."""
    question = await _question(request, engine)
    recorder = AnswerRecorder(request, question.mode)
    with recorder.recording():
        return await answer_response(
            recorder,
            _EventWriter(request, question),
            engine,
            question.base.id,
            question.text,
            question.choices,
            stream=True,
        )


@router.post("/console/feedback", dependencies=[Writer])
async def feedback(request: Request, engine: TenantEngine) -> Response:
    """What a person thinks of an answer, kept with the question in the log."""
    fields = await form(request)
    found = await engine.logs.list(trace_id=fields.text("trace_id"), limit=1)
    if not found:
        raise NotFound("没有找到这次问答的记录", hint="太旧的记录已被清理；再问一次后评价")
    await engine.logs.rate(found[0].id, Feedback(cast(Rating, fields.text("rating")), (), fields.text("comment")))
    message = translate(request, "谢谢，记下了", "Thank you, it is kept")
    if "hx-request" in request.headers:
        return render(request, "_noted.html", message=message)
    return render(request, "noted.html", message=message, base_id=found[0].knowledge_base_id)


# ── the form ─────────────────────────────────────────────────────────────────────────────────────


async def _question(request: Request, engine: TenantEngine) -> Question:
    """Raises BadInput or NotFound."""
    fields = await form(request)
    base = await engine.knowledge_base(fields.whole("base", "知识库") or 0)
    text, mode = fields.text("q"), fields.text("mode", "mix")
    if not text:
        raise BadInput("没有问题", hint="写下问题再提交")
    if mode not in MODES:
        raise BadInput(f"没有方式 {mode[:40]}", hint=f"可用：{'、'.join(MODES)}")
    history = _history(fields.raw("history"))
    choices = AskChoices(mode=cast(Any, None if mode == AUTO else mode), history=history)
    if attached := await _attached(request, fields):
        choices["multimodal_content"] = attached
    if (top_k := fields.whole("top_k", "条数")) is not None:
        choices["top_k"] = top_k
    return Question(base, text, mode, choices, history)


def _history(written: str) -> tuple[dict[str, str], ...]:
    """The turns before, as the page wrote them."""
    try:
        turns = json.loads(written) if written else []
        return tuple(
            {"role": "assistant" if turn["role"] == "assistant" else "user", "content": str(turn["content"])}
            for turn in turns[-TURNS:]
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadInput("之前的对话读不出来", hint="开始新的对话") from None


async def _attached(request: Request, fields: Fields) -> list[dict[str, Any]]:
    """The picture and the table that came with the question."""
    found: list[dict[str, Any]] = []
    sent = (await request.form()).get("image")
    if isinstance(sent, UploadFile) and sent.size:
        if sent.size > IMAGE_BYTES_LIMIT:
            raise BadInput("图片太大", hint=f"至多 {IMAGE_BYTES_LIMIT // 2**20} MB")
        content = base64.b64encode(await sent.read()).decode()
        found.append({"type": "image", "img_base64": content, "image_caption": (sent.filename or "")[:200]})
    if table := fields.raw("table").strip():
        found.append({"type": "table", "table_data": table})
    return found


# ── the answer ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _EventWriter:
    """Encodes an answer for ``ask.js``."""

    request: Request
    question: Question

    def whole(self, answer: Answer, failure: str = "") -> dict[str, Any]:
        values = _values(self.request, self.question, answer, failure)
        return {"html": render_part(self.request, "_answer.html", **values), "history": values["history"]}

    def event(self, event: AnswerEvent) -> bytes:
        match event:
            case SourcesFound(sources):
                return encode_event("sources", {"count": len(sources)})
            case Token(text):
                return encode_event("token", {"text": text})
            case SentenceCited() if event.is_unsaid:
                return encode_event("reset", {})
            case Done(answer):
                return encode_event("done", self.whole(answer))
            case Failed(message=message, answer=answer):
                return encode_event("done", self.whole(answer, message))
        return b""

    def error(self, content: dict[str, Any], trace_id: str) -> bytes:
        return encode_event("failed", {"message": content["msg"]})


def _values(request: Request, question: Question, answer: Answer, failure: str = "") -> dict[str, Any]:
    """What `_answer.html` needs."""

    def address(source: Source, start: int, end: int) -> str:
        if source.end <= source.start or not source.doc_id:
            return ""
        place = {"doc": source.doc_id, "start": source.start + start, "end": source.start + end}
        return relative(request, f"/console/bases/{question.base.id}/document", **place) + "#cited"

    checked = translate(request, "在出处里核对过", "Checked: its source has this figure")
    shown: ShownAnswer = shown_answer(answer, question.text, address, checked)
    turns = [*question.history, {"role": "user", "content": question.text[:TURN_LIMIT]}]
    turns.append({"role": "assistant", "content": answer.answer[:TURN_LIMIT]})
    history = json.dumps(turns[-TURNS:], ensure_ascii=False)
    return {
        "shown": shown,
        "failure": failure,
        "history": history,
        "label": label,
        "part_label": part_label,
        "question": question.text,
    }


def _page(
    request: Request,
    known: tuple[KnowledgeBase, ...],
    base: KnowledgeBase | None,
    mode: str,
    text: str,
    turns: tuple[dict[str, str], ...],
    shown: dict[str, Any] | None,
) -> Response:
    modes = [(name, MODES[name]) for name in MODES if name == AUTO or name in QUERY_MODES]
    values: dict[str, Any] = {"bases": known, "base": base, "mode": mode, "modes": modes, "text": text, "turns": turns}
    values |= {"history": "", "shown": None}
    return render(request, "ask.html", current=PAGE, **values | (shown or {}))
