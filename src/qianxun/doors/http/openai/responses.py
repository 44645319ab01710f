"""OpenAI's responses: the same answer as of `chat`, in the form that newer clients ask for.

A conversation is not stored here: what was said before goes with the request. Sources are cited as files are by
OpenAI's ``file_search``; ``GET /v1/files/{file_id}`` has them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, cast

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed, SentenceCited, Token
from qianxun.core.limits import DOC_IDS_LIMIT
from qianxun.core.options import AskChoices, AskOptions
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http import error_formats
from qianxun.doors.http.context import TenantEngine, trace_id
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.event_stream import AnswerRecorder, answer_response, encode_event
from qianxun.doors.http.field_errors import InvalidField
from qianxun.doors.http.openai.chat import (
    CORRECTION,
    MESSAGES_LIMIT,
    PARTS,
    ChatMessage,
    answer_extensions,
    check_parts,
    citation_marks,
    finish_reason,
    read_conversation,
    source_title,
    source_url,
)
from qianxun.doors.http.openai.models import NAME_LENGTH, TAG
from qianxun.doors.http.openapi import event_stream, request_examples, returns
from qianxun.doors.http.request_models import DocId, Filters, ForeignRequest, ask_choices, with_options
from qianxun.doors.mcp.ids import document_id
from qianxun.engine.models_by_name import count_tokens

PART_TYPES: Final = {"input_text": "text", "output_text": "text", "input_image": "image_url"}
MESSAGE: Final = {
    "type": "object",
    "properties": {"role": {"type": "string"}, "content": {"anyOf": [{"type": "string"}, PARTS]}},
    "required": ["role", "content"],
}

router = APIRouter(tags=[TAG])

# ── request ──────────────────────────────────────────────────────────────────────────────────────


def _messages(value: Any) -> Any:
    """As chat has them: a text is a question; of a list the messages count, and no tool call or reasoning."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list):
        return value
    messages = [item for item in value if not isinstance(item, dict) or item.get("type", "message") == "message"]
    return check_parts([_as_chat(message) for message in messages])


def _as_chat(message: Any) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    parts = [
        {**part, "type": PART_TYPES.get(part["type"], part["type"])}
        if isinstance(part, dict) and isinstance(part.get("type"), str)
        else part
        for part in content
    ]
    return {**message, "content": parts}


class ResponsesRequest(with_options(AskOptions, "", ForeignRequest)):  # type: ignore[misc]
    """没有列出的字段（instructions、temperature、tools、store 等）不起作用。"""

    model: str = Field(
        min_length=1, max_length=NAME_LENGTH, description="知识库的名称或编号，见 GET /v1/models", examples=["医保"]
    )
    input: Annotated[
        list[ChatMessage],
        BeforeValidator(_messages),
        Field(min_length=1, max_length=MESSAGES_LIMIT),
        WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": MESSAGE}]}),
    ] = Field(description="问题；或一串消息，最后一条 user 是问题，之前的是对话历史", examples=["住院报销比例是多少"])
    stream: bool = Field(default=False, description="true：一句核对过就给一句（SSE）")
    previous_response_id: str | None = Field(default=None, description="不能用：对话不保存在服务里")
    mode: Literal["naive", "local", "global", "hybrid", "mix", "bypass", "auto"] = Field(
        default="mix", description="查询方式，与 /v1/query 相同；openai 客户端写在 extra_body 里", examples=["mix"]
    )
    doc_ids: list[DocId] | None = Field(default=None, max_length=DOC_IDS_LIMIT, description="只用这些文档")
    filters: Filters | None = None

    def question_and_choices(self) -> tuple[str, AskChoices]:
        """The question, and the arguments of `Engine.ask`. Raises InvalidField or BadFilterField."""
        if self.previous_response_id:
            hint = "把之前的对话写在 input 里：[{role, content}, …]"
            raise InvalidField("previous_response_id", "对话不保存在服务里", hint=hint)
        question, conversation = read_conversation(self.input, "input")
        return question, cast(AskChoices, {**ask_choices(self, self.doc_ids), **conversation})


# ── response ─────────────────────────────────────────────────────────────────────────────────────


class FileCitation(BaseModel):
    """答案里一个标记所引的文档。"""

    type: Literal["file_citation"] = "file_citation"
    file_id: str = Field(description="用 GET /v1/files/{file_id} 查看", examples=["1001/123"])
    filename: str = Field(description="文档与标题", examples=["医保手册.pdf › 住院"])
    index: int = Field(description="标记在文字里的位置")
    url: str = Field(description="文档元数据里的 url 或 source_url；没有则是这个服务里文档的地址，要密钥")


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str = Field(examples=["住院报销 85%[1]。"])
    annotations: list[FileCitation]
    logprobs: list[Any] = []


class OutputMessage(BaseModel):
    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"]
    content: list[OutputText]


class ResponseObject(BaseModel):
    id: str = Field(examples=["resp_4bf92f3577b34da6a3ce929d0e0e4736"])
    object: Literal["response"] = "response"
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    model: str = Field(description="知识库的名称", examples=["医保"])
    output: list[OutputMessage]
    usage: dict[str, Any] | None = Field(description="估计的数目")
    sources: list[dict[str, Any]] = Field(default=[], description="答案里 [1]、[2] 所指的原文，与 /v1/query 相同")


@router.post(
    "/v1/responses",
    summary="提问，答案注明出处（responses 的形式）",
    **returns(ResponseObject, 400, 404, 413, 422, form=OpenAIProblem, **event_stream("responses")),
)
async def respond(
    request: Request,
    engine: TenantEngine,
    body: Annotated[ResponsesRequest, Body(openapi_examples=request_examples("responses"))],
) -> Response:
    """与 `/v1/chat/completions` 相同的回答；`output[0].content[0].annotations` 是每个标记所引的文档。"""
    question, choices = body.question_and_choices()
    recorder = AnswerRecorder(request, body.mode)
    with recorder.recording():
        base = await engine.knowledge_base(body.model)
        writer = ResponseWriter(request, base, count_tokens(message.text for message in body.input))
        return await answer_response(
            recorder, writer, engine, base.id, question, choices, stream=body.stream, checked=True
        )


@dataclass
class ResponseWriter:
    """Encodes one answer as a response, or as its events. Sent text cannot be taken back: only checked text is sent."""

    request: Request
    base: KnowledgeBase
    tokens: int  # of the request
    created: int = field(default_factory=lambda: int(time.time()))
    number: int = 0  # of the next event
    text: str = ""  # all that was sent
    offset: int = 0  # of it before the answer: withdrawn text, and the corrections after it

    def whole(self, answer: Answer) -> dict[str, Any]:
        return self._response(answer, answer.with_notes, "incomplete" if answer.is_partial else "completed")

    def event(self, event: AnswerEvent) -> bytes:
        start = b"".join(self._start()) if not self.number else b""
        return start + b"".join(self._events(event))

    def _events(self, event: AnswerEvent) -> Iterator[bytes]:
        sent = self.text[self.offset :]
        match event:
            case Token(text):
                yield self._delta(text)
            case SentenceCited() if event.is_unsaid and sent:
                yield self._correct()
            case Done(answer):
                yield from self._end(answer)
            case Failed(answer=answer) if not self.text:  # the sources answer instead of the model
                yield from self._end(replace(answer, is_partial=False))
            case Failed(answer=answer):
                error = {"code": "server_error", "message": event.message}
                failed = {**self._response(answer, self.text, "failed"), "error": error}
                yield self._encode("response.failed", response=failed)

    def error(self, content: dict[str, Any], trace_id: str) -> bytes:
        error = error_formats.openai(content, {})["error"]
        return self._encode("error", code=error["code"], message=error["message"], param=error["param"])

    def _start(self) -> Iterator[bytes]:
        begun = self._response(None, "", "in_progress")
        yield self._encode("response.created", response=begun)
        yield self._encode("response.in_progress", response=begun)
        yield self._encode("response.output_item.added", output_index=0, item=self._message([], "in_progress"))
        yield self._encode("response.content_part.added", **self._place(), part=_part("", []))

    def _end(self, answer: Answer) -> Iterator[bytes]:
        if not answer.answer.startswith(self.text[self.offset :]):  # its sources have been deleted meanwhile
            yield self._correct()
        if rest := answer.with_notes[len(self.text) - self.offset :]:
            yield self._delta(rest)
        response = self._response(answer, self.text, "incomplete" if answer.is_partial else "completed")
        (message,) = response["output"]
        (part,) = message["content"]
        for at, annotation in enumerate(part["annotations"]):
            added = {"annotation_index": at, "annotation": annotation}
            yield self._encode("response.output_text.annotation.added", **self._place(), **added)
        yield self._encode("response.output_text.done", **self._place(), text=self.text, logprobs=[])
        yield self._encode("response.content_part.done", **self._place(), part=part)
        yield self._encode("response.output_item.done", output_index=0, item=message)
        yield self._encode(f"response.{response['status']}", response=response)

    def _correct(self) -> bytes:
        """Withdraws what was sent: the answer begins after this."""
        written = self._delta(CORRECTION)
        self.offset = len(self.text)
        return written

    def _delta(self, text: str) -> bytes:
        self.text += text
        return self._encode("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    def _encode(self, kind: str, **data: Any) -> bytes:
        self.number += 1
        return encode_event(kind, {"type": kind, "sequence_number": self.number - 1, **data})

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    @property
    def _message_id(self) -> str:
        return f"msg_{trace_id(self.request)}"

    def _message(self, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
        message = {"id": self._message_id, "type": "message", "role": "assistant", "status": status}
        return {**message, "content": content}

    def _response(self, answer: Answer | None, text: str, status: str) -> dict[str, Any]:
        output = []
        if answer is not None:
            part = _part(text, self._annotations(answer))
            output = [self._message([part], "completed" if status == "completed" else "incomplete")]
        is_cut = answer is not None and finish_reason(answer) == "length"
        return {
            "id": f"resp_{trace_id(self.request)}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": None,
            "metadata": {},
            "model": self.base.name,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "usage": None if answer is None else self._usage(text),
            **({} if answer is None else answer_extensions(answer)),
        }

    def _usage(self, text: str) -> dict[str, Any]:
        written = count_tokens([text])
        return {
            "input_tokens": self.tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.tokens + written,
        }

    def _annotations(self, answer: Answer) -> list[dict[str, Any]]:
        return [
            {
                "type": "file_citation",
                "file_id": document_id(self.base.id, source.doc_id),
                "filename": source_title(source),
                "index": start,
                "url": source_url(self.request, self.base, source),
            }
            for start, _, source in citation_marks(answer, self.offset)
        ]


def _part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}
