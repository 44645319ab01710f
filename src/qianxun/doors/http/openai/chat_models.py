"""What a chat completion may ask for, bounded, and what it answers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from qianxun.core.codec.answers import AUTO
from qianxun.core.filters import read_filters
from qianxun.core.limits import ATTACHMENTS_LIMIT, QUERY_LIMIT, TOP_K_LIMIT
from qianxun.core.types import EVERYTHING, In, all_of
from qianxun.doors.http.native.query_models import SourceTold
from qianxun.doors.http.native.retrieval import DegradedTold
from qianxun.doors.http.openai.models import NAME_LENGTH
from qianxun.doors.http.request_models import DOC_IDS_LIMIT, AskedElsewhere, DocId, Filters, Number
from qianxun.doors.http.responses import InvalidField
from qianxun.text.tokens import tokens_of_all

MESSAGES_LIMIT: Final = 1000
PARTS_LIMIT: Final = 100
ALL_PARTS_LIMIT: Final = 2000  # of all messages: each is looked at while nobody else is

# ── asked ────────────────────────────────────────────────────────────────────────────────────────


def _image_url(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value  # as some clients write it


class ImageUrl(AskedElsewhere):
    url: str = Field(min_length=1, description="data:image/…;base64,…；别的地址不会去取")


class ContentPart(AskedElsewhere):
    """一段文字或一张图片。"""

    type: str = Field(max_length=50, description="text 或 image_url", examples=["text"])
    text: str | None = Field(default=None, examples=["住院报销比例是多少"])
    image_url: Annotated[ImageUrl, BeforeValidator(_image_url)] | None = None


def _parts(value: Any) -> Any:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


PARTS: Final[dict[str, Any]] = {
    "type": "array",
    "items": {"$ref": "#/components/schemas/ContentPart"},
    "maxItems": PARTS_LIMIT,
}
Content = Annotated[
    list[ContentPart],
    Field(max_length=PARTS_LIMIT),
    BeforeValidator(_parts),
    WithJsonSchema({"anyOf": [{"type": "string"}, PARTS, {"type": "null"}]}),
]


class ChatMessage(AskedElsewhere):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = Field(examples=["user"])
    content: Content = Field(default=[])

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.content if part.type == "text" and part.text)


class StreamOptions(AskedElsewhere):
    include_usage: bool = False


class ResponseFormat(AskedElsewhere):
    type: Literal["text"] = Field(description="只有 text：答案里有出处的标记，不能是 JSON")


def _messages(value: Any) -> Any:
    if isinstance(value, list):
        contents = (each.get("content") for each in value if isinstance(each, dict))
        if sum(len(each) for each in contents if isinstance(each, list)) > ALL_PARTS_LIMIT:
            raise PydanticCustomError("parts", "at most {most} parts in all", {"most": ALL_PARTS_LIMIT})
    return value


class ChatRequest(AskedElsewhere):
    """没有列出的字段（temperature、max_tokens、tools 等）不起作用。"""

    model: str = Field(
        min_length=1, max_length=NAME_LENGTH, description="知识库的名称或编号，见 GET /v1/models", examples=["医保"]
    )
    messages: Annotated[list[ChatMessage], BeforeValidator(_messages)] = Field(
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
    top_k: Annotated[int, Field(ge=1, le=TOP_K_LIMIT), Number] | None = Field(
        default=None, description="最多用几块资料", examples=[10]
    )
    doc_ids: list[DocId] | None = Field(default=None, max_length=DOC_IDS_LIMIT, description="只用这些文档")
    filters: Filters | None = None

    def asked(self) -> tuple[str, dict[str, Any]]:
        """The question, and the arguments of `Engine.ask`. Raises InvalidField or BadFilterField, naming the field."""
        at = max((at for at, each in enumerate(self.messages) if each.role == "user"), default=-1)
        if at < 0:
            raise InvalidField("messages", "没有 user 消息", hint="把问题写在最后一条 user 消息里")
        question = self.messages[at]
        images = _images(question, f"messages.{at}.content")
        asked = _question(question.text.strip(), f"messages.{at}.content")
        where = read_filters(self.filters.root) if self.filters is not None else EVERYTHING
        only = In("doc_id", tuple(self.doc_ids)) if self.doc_ids else EVERYTHING
        return asked, {
            "mode": None if self.mode == AUTO else self.mode,
            "top_k": self.top_k,
            "where": all_of(where, only),
            "history": [{"role": each.role, "content": each.text} for each in self.messages[:at]],
            "multimodal_content": images,
        }

    @property
    def tokens(self) -> int:
        """An estimate of what the conversation costs; what is looked up for it is not counted."""
        return tokens_of_all(each.text for each in self.messages)


def _question(text: str, at: str) -> str:
    if not text:
        raise InvalidField(at, "没有文字", hint="写出要问的；图片随文字一起")
    if len(text) > QUERY_LIMIT:  # a part of it would be another question
        reason = f"问题有 {len(text)} 个字符，超过上限 {QUERY_LIMIT}"
        raise InvalidField(at, reason, hint="把问题写短；成段的资料请先放入知识库，再就它提问")
    return text


def _images(message: ChatMessage, at: str) -> list[dict[str, str]]:
    found = []
    for place, part in enumerate(message.content):
        if part.type == "image_url" and part.image_url is not None:
            found.append({"type": "image", "url": _data_url(part.image_url.url, f"{at}.{place}.image_url.url")})
        elif part.type != "text":
            raise InvalidField(
                f"{at}.{place}.type", "不支持这种内容", hint="可用：text；image_url，图片写成 data: 地址"
            )
    if len(found) > ATTACHMENTS_LIMIT:
        raise InvalidField(at, f"图片超过 {ATTACHMENTS_LIMIT} 张", hint="分几次提问")
    return found


def _data_url(url: str, at: str) -> str:
    if url[:5].lower() != "data:":
        raise InvalidField(at, "不会去下载图片", hint="把图片写成 data:image/png;base64,…")
    return url


# ── answered ─────────────────────────────────────────────────────────────────────────────────────


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


class ChatCompletion(BaseModel):
    id: str = Field(examples=["chatcmpl-4bf92f3577b34da6a3ce929d0e0e4736"])
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = Field(description="知识库的名称", examples=["医保"])
    choices: list[Choice]
    usage: Usage
    sources: list[SourceTold] = Field(description="答案里 [1]、[2] 所指的原文，与 /v1/query 相同")
    mode: str = Field(examples=["mix"])
    form: str = Field(description="答案由谁写成，与 /v1/query 相同", examples=["model"])
    degraded: list[DegradedTold]
    trace_id: str
