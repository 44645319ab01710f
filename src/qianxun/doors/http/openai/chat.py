"""OpenAI's chat completions: a question to a knowledge base, answered with its sources, whole or as a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal, cast

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed, SentenceCited, Source, SourcesFound, Token
from qianxun.core.codec import sse
from qianxun.core.codec.passage import ARROW, heading_path, title_of
from qianxun.core.codec.wire import to_wire
from qianxun.core.limits import ATTACHMENTS_LIMIT, DOC_IDS_LIMIT, QUERY_LIMIT
from qianxun.core.options import AskChoices, AskOptions
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http import error_formats
from qianxun.doors.http.context import TenantEngine, trace_id
from qianxun.doors.http.error_formats import OpenAIProblem
from qianxun.doors.http.event_stream import AnswerRecorder, answer_response, encode_event
from qianxun.doors.http.field_errors import InvalidField
from qianxun.doors.http.openai.models import NAME_LENGTH, TAG
from qianxun.doors.http.openapi import event_stream, request_examples, returns
from qianxun.doors.http.request_models import DocId, Filters, ForeignRequest, Number, ask_choices, with_options
from qianxun.doors.http.response_models import response
from qianxun.doors.http.responses import problem
from qianxun.doors.mcp.ids import own_url, service_address
from qianxun.engine.models_by_name import count_tokens

MESSAGES_LIMIT: Final = 1000
PARTS_LIMIT: Final = 100
ALL_PARTS_LIMIT: Final = 2000  # of all messages: validating them blocks the event loop
CORRECTION: Final = "\n\n（更正：以上与核对之后的回答不同，以下为准。）\n\n"
END: Final = sse.written("", b"[DONE]")

router = APIRouter(tags=[TAG])

# ── request ──────────────────────────────────────────────────────────────────────────────────────


def _image_url(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value  # as some clients write it


class ImageUrl(ForeignRequest):
    url: str = Field(min_length=1, description="data:image/…;base64,…；别的地址不会去取")


class ContentPart(ForeignRequest):
    """一段文字或一张图片。"""

    type: str = Field(max_length=50, description="text 或 image_url", examples=["text"])
    text: str | None = Field(default=None, examples=["住院报销比例是多少"])
    image_url: Annotated[ImageUrl, BeforeValidator(_image_url)] | None = None


def _parts(value: Any) -> Any:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


PARTS: Final = {"type": "array", "items": {"$ref": "#/components/schemas/ContentPart"}, "maxItems": PARTS_LIMIT}
Content = Annotated[
    list[ContentPart],
    Field(max_length=PARTS_LIMIT),
    BeforeValidator(_parts),
    WithJsonSchema({"anyOf": [{"type": "string"}, PARTS, {"type": "null"}]}),
]


class ChatMessage(ForeignRequest):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = Field(examples=["user"])
    content: Content = Field(default=[])

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.content if part.type == "text" and part.text)


class StreamOptions(ForeignRequest):
    include_usage: bool = False


class ResponseFormat(ForeignRequest):
    type: Literal["text"] = Field(description="只有 text：答案里有出处的标记，不能是 JSON")


def check_parts(messages: Any) -> Any:
    if isinstance(messages, list):
        contents = (message.get("content") for message in messages if isinstance(message, dict))
        if sum(len(content) for content in contents if isinstance(content, list)) > ALL_PARTS_LIMIT:
            raise PydanticCustomError("parts", "at most {most} parts in all", {"most": ALL_PARTS_LIMIT})
    return messages


class ChatRequest(with_options(AskOptions, "", ForeignRequest)):  # type: ignore[misc]
    """没有列出的字段（temperature、max_tokens、tools 等）不起作用。"""

    model: str = Field(
        min_length=1, max_length=NAME_LENGTH, description="知识库的名称或编号，见 GET /v1/models", examples=["医保"]
    )
    messages: Annotated[list[ChatMessage], BeforeValidator(check_parts)] = Field(
        min_length=1,
        max_length=MESSAGES_LIMIT,
        description="最后一条 user 是问题，它之前的 user 与 assistant 是对话历史；system 等不采用，出处不能由它关掉",
    )
    stream: bool = Field(default=False, description="true：一句核对过就给一句（SSE）")
    stream_options: StreamOptions = Field(default=StreamOptions())
    n: Annotated[int, Field(ge=1, le=1), Number] = Field(default=1, description="只能是 1")
    response_format: ResponseFormat | None = None
    tool_choice: Literal["none", "auto"] | None = Field(default=None, description="不会调用工具，因此不能强求")
    mode: Literal["naive", "local", "global", "hybrid", "mix", "bypass", "auto"] = Field(
        default="mix", description="查询方式，与 /v1/query 相同；openai 客户端写在 extra_body 里", examples=["mix"]
    )
    doc_ids: list[DocId] | None = Field(default=None, max_length=DOC_IDS_LIMIT, description="只用这些文档")
    filters: Filters | None = None

    def question_and_choices(self) -> tuple[str, AskChoices]:
        """The question, and the arguments of `Engine.ask`. Raises InvalidField or BadFilterField."""
        question, conversation = read_conversation(self.messages, "messages")
        return question, cast(AskChoices, {**ask_choices(self, self.doc_ids), **conversation})

    @property
    def tokens(self) -> int:
        """An estimate; the sources that are looked up for the prompt are not counted."""
        return count_tokens(message.text for message in self.messages)


def read_conversation(messages: Sequence[ChatMessage], field: str) -> tuple[str, AskChoices]:
    """The last question, and what was said before it and came with it. Raises InvalidField."""
    at = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
    if at < 0:
        raise InvalidField(field, "没有 user 消息", hint="把问题写在最后一条 user 消息里")
    field = f"{field}.{at}.content"
    images = _images(messages[at], field)
    question = messages[at].text.strip()
    if not question:
        raise InvalidField(field, "没有文字", hint="写出要问的；图片随文字一起")
    if len(question) > QUERY_LIMIT:  # a part of it would be another question
        reason = f"问题有 {len(question)} 个字符，超过上限 {QUERY_LIMIT}"
        raise InvalidField(field, reason, hint="把问题写短；成段的资料请先放入知识库，再就它提问")
    history = [{"role": message.role, "content": message.text} for message in messages[:at]]
    return question, {"history": history, "multimodal_content": images}


def _images(message: ChatMessage, at: str) -> list[dict[str, str]]:
    images = []
    for place, part in enumerate(message.content):
        if part.type == "image_url" and part.image_url is not None:
            url = part.image_url.url
            if url[:5].lower() != "data:":
                hint = "把图片写成 data:image/png;base64,…"
                raise InvalidField(f"{at}.{place}.image_url.url", "不会去下载图片", hint=hint)
            images.append({"type": "image", "url": url})
        elif part.type != "text":
            hint = "可用：text；image_url，图片写成 data: 地址"
            raise InvalidField(f"{at}.{place}.type", "不支持这种内容", hint=hint)
    if len(images) > ATTACHMENTS_LIMIT:
        raise InvalidField(at, f"图片超过 {ATTACHMENTS_LIMIT} 张", hint="分几次提问")
    return images


# ── response ─────────────────────────────────────────────────────────────────────────────────────


class UrlCitation(BaseModel):
    """答案里一个标记的起止，与所引的文档。"""

    start_index: int
    end_index: int
    title: str = Field(examples=["医保手册.pdf"])
    url: str = Field(description="文档元数据里的 url 或 source_url；没有则是这个服务里文档的地址，要密钥")


class Annotation(BaseModel):
    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class AnswerMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str = Field(examples=["住院报销 85%[1]。"])
    refusal: None = None
    annotations: list[Annotation]


class Choice(BaseModel):
    index: int = 0
    message: AnswerMessage
    finish_reason: Literal["stop", "length"] = Field(description="length：模型的回答太长，只有前面一部分")
    logprobs: None = None


class Usage(BaseModel):
    """估计的数目：prompt 是发来的对话，不含查到的资料；completion 是答案。"""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


_OURS: Final = ("sources", "mode", "form", "degraded", "trace_id")


class ChatCompletion(response("ChatCompletion", Answer, only=_OURS)):  # type: ignore[misc]
    """Beside OpenAI's fields some of `/v1/query`."""

    id: str = Field(examples=["chatcmpl-4bf92f3577b34da6a3ce929d0e0e4736"])
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = Field(description="知识库的名称", examples=["医保"])
    choices: list[Choice]
    usage: Usage


@router.post(
    "/v1/chat/completions",
    summary="提问，答案注明出处",
    **returns(ChatCompletion, 400, 404, 413, 422, form=OpenAIProblem, **event_stream("chat")),
)
async def complete(
    request: Request,
    engine: TenantEngine,
    body: Annotated[ChatRequest, Body(openapi_examples=request_examples("chat"))],
) -> Response:
    """与 `/v1/query` 相同的回答，OpenAI 的形式：`choices[0].message.content` 里的 [1]、[2] 对应 `sources`。

    `stream` 为 true 时，一句核对过才给，给了的不会收回；最后一块有 `finish_reason`、`sources`，然后是 `[DONE]`。
    模型一句还没有给就失败，改由资料的原句作答，写在 `degraded` 里；给过之后失败，最后是 `{"error": …}`。
    图片写成 data: 地址放在最后一条 user 消息里，别的地址不会去取。
    """
    question, choices = body.question_and_choices()
    recorder = AnswerRecorder(request, body.mode)
    with recorder.recording():
        base = await engine.knowledge_base(body.model)
        writer = ChatWriter(request, base, body)
        return await answer_response(
            recorder, writer, engine, base.id, question, choices, stream=body.stream, checked=True
        )


@dataclass
class ChatWriter:
    """Encodes one answer as a completion, or as chunks. Sent text cannot be taken back: only checked text is sent."""

    request: Request
    base: KnowledgeBase
    body: ChatRequest
    created: int = field(default_factory=lambda: int(time.time()))
    sent: str = ""  # of the answer
    offset: int = 0  # characters sent before the answer: withdrawn text, and the corrections after it

    def whole(self, answer: Answer) -> dict[str, Any]:
        message = {"role": "assistant", "content": answer.with_notes, "refusal": None}
        message["annotations"] = self._annotations(answer)  # type: ignore[assignment]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(answer)}
        completion = {**self._head("chat.completion"), "choices": [choice], "usage": self._usage(answer)}
        return {**completion, **answer_extensions(answer)}

    def event(self, event: AnswerEvent) -> bytes:
        match event:
            case SourcesFound():
                return self._chunk({"role": "assistant", "content": ""})
            case Token(text):
                self.sent += text
                return self._chunk({"content": text})
            case SentenceCited() if event.is_unsaid and self.sent:
                return self._correct()
            case Done(answer):
                return b"".join(self._end(answer))
            case Failed(answer=answer) if not (self.sent or self.offset):  # the sources answer instead of the model
                return b"".join(self._end(replace(answer, is_partial=False)))
            case Failed():
                return self.error(problem(503, event.message, event.error).content, "")
        return b""  # citation marks are part of the text

    def error(self, content: dict[str, Any], trace_id: str) -> bytes:
        return encode_event("", error_formats.openai(content, {})) + END

    def _end(self, answer: Answer) -> Iterator[bytes]:
        if not answer.answer.startswith(self.sent):  # its sources have been deleted meanwhile
            yield self._correct()
        if rest := answer.with_notes[len(self.sent) :]:
            yield self._chunk({"content": rest})
        annotations = {"annotations": self._annotations(answer, self.offset)}
        yield self._chunk(annotations, finish_reason(answer), **answer_extensions(answer))
        if self.body.stream_options.include_usage:
            yield self._encode({"choices": [], "usage": self._usage(answer)})
        yield END

    def _correct(self) -> bytes:
        """Withdraws what was sent: the answer begins after this."""
        self.offset += len(self.sent + CORRECTION)
        self.sent = ""
        return self._chunk({"content": CORRECTION})

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return self._encode({"choices": [choice], **more})

    def _encode(self, chunk: Mapping[str, Any]) -> bytes:
        usage = {"usage": None} if self.body.stream_options.include_usage else {}
        return encode_event("", {**self._head("chat.completion.chunk"), **usage, **chunk})

    def _head(self, kind: str) -> dict[str, Any]:
        head = {"id": f"chatcmpl-{trace_id(self.request)}", "object": kind, "created": self.created}
        return {**head, "model": self.base.name}

    def _usage(self, answer: Answer) -> dict[str, int]:
        prompt, completion = self.body.tokens, count_tokens([answer.answer])
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _annotations(self, answer: Answer, offset: int = 0) -> list[dict[str, Any]]:
        """Every citation mark with its document."""
        annotations = []
        for start, end, source in citation_marks(answer, offset):
            url = source_url(self.request, self.base, source)
            place = {"start_index": start, "end_index": end, "title": source_title(source), "url": url}
            annotations.append({"type": "url_citation", "url_citation": place})
        return annotations


def citation_marks(answer: Answer, offset: int = 0) -> Iterator[tuple[int, int, Source]]:
    """Where the marks are, and what each points at; what was attached to the question is no document."""
    sources = {source.number: source for source in answer.sources}
    for citation in answer.citations:
        start = offset + citation.end
        for number in citation.numbers:
            end, source = start + len(f"[{number}]"), sources[number]
            if not source.chunk_id.startswith("q_"):
                yield start, end, source
            start = end


def source_url(request: Request, base: KnowledgeBase, source: Source) -> str:
    """The document's own URL, otherwise that of the document in this service."""
    own = own_url(source.metadata.get("document", {}))
    return own or service_address(str(request.base_url))(base.id, source.doc_id)


def source_title(source: Source) -> str:
    """The document, and the headings below which the source stands."""
    title = title_of(source.doc_name, source.doc_id, source.metadata.get("document", {}))
    return ARROW.join((title, *heading_path(source.doc_name, source.metadata.get("headings", ()))))


def finish_reason(answer: Answer) -> str:
    return "length" if answer.is_partial else "stop"


def answer_extensions(answer: Answer) -> dict[str, Any]:
    """Fields that OpenAI's format does not have."""
    return {
        "sources": to_wire(answer.sources),
        "mode": answer.mode,
        "form": answer.form,
        "degraded": to_wire(answer.degraded),
        "trace_id": answer.trace_id,
    }
