"""Questions: an answer with citations, whole as JSON or as server-sent events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, cast

from fastapi import APIRouter, Request, Response
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from qianxun.core.answer_types import Answer, AnswerEvent
from qianxun.core.codec.wire import written_answer, written_event
from qianxun.core.limits import ATTACHMENTS_LIMIT, CAPTION_LIMIT, DOC_IDS_LIMIT
from qianxun.core.options import AskChoices, AskOptions
from qianxun.doors.http.context import BaseId, TenantEngine
from qianxun.doors.http.event_stream import AnswerRecorder, answer_response, encode_event
from qianxun.doors.http.native.routes import body_examples, route
from qianxun.doors.http.openapi import event_stream
from qianxun.doors.http.request_models import (
    AskConfig,
    DocId,
    Filters,
    RequestModel,
    WithQuery,
    ask_choices,
    with_options,
)
from qianxun.doors.http.response_models import response

HISTORY_LIMIT: Final = 100
TURN_LIMIT: Final = 32_000
ROWS_LIMIT: Final = 20_000
EVENTS: Final = ("sources", "token", "citation", "done", "error")

router = APIRouter(tags=["问答"])


class Turn(RequestModel):
    """说过的一句。"""

    role: Literal["user", "assistant", "system"] = Field(examples=["user"])
    content: str = Field(max_length=TURN_LIMIT, examples=["住院报销比例是多少"])


def _no_paths(value: Any) -> Any:
    """A path would be one of the service's machine, whose files no request may read."""
    if isinstance(value, dict) and ("img_path" in value or "table_path" in value):
        raise PydanticCustomError("local_path", "files of the service are not read: send img_base64 or table_data")
    return value


Caption = Annotated[str, Field(max_length=10 * CAPTION_LIMIT)]


class ImageAttachment(RequestModel):
    """一张图片：PNG、JPEG、WebP、BMP 或 GIF，写成 base64 或 data: 地址。"""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["img_base64"]}, {"required": ["url"]}]})

    type: Literal["image"]
    img_base64: str | None = Field(default=None, min_length=1, description="图片文件的字节，base64")
    url: str | None = Field(default=None, min_length=1, description="data:image/…;base64,…；别的地址不会去取")
    image_caption: Caption | None = Field(default=None, examples=["CT 报告"])

    @model_validator(mode="after")
    def _check_image(self) -> ImageAttachment:
        if (self.img_base64 is None) == (self.url is None):
            raise PydanticCustomError("one_of", "exactly one of {expected}", {"expected": "img_base64、url"})
        return self


def _check_table(value: Any) -> Any:
    is_text = isinstance(value, str) and bool(value.strip())
    is_rows = isinstance(value, list) and 0 < len(value) <= ROWS_LIMIT and type(value[0]) in (dict, list)
    if is_text or (is_rows and all(isinstance(row, type(value[0])) for row in value)):
        return value
    raise PydanticCustomError("table_data", "must be text or rows of one kind")


CELL: Final[dict[str, Any]] = {"type": ["string", "number", "boolean", "null"]}
ROWS: Final[dict[str, Any]] = {"type": "array", "minItems": 1, "maxItems": ROWS_LIMIT}
TABLE: Final[list[dict[str, Any]]] = [
    {"type": "string", "minLength": 1, "pattern": r"\S"},
    {**ROWS, "items": {"type": "object", "additionalProperties": CELL}},
    {**ROWS, "items": {"type": "array", "items": CELL}},
]
TableData = Annotated[Any, AfterValidator(_check_table), WithJsonSchema({"anyOf": TABLE})]


class TableAttachment(RequestModel):
    """一张表格：Markdown、CSV、HTML 的文字，或行的列表。"""

    type: Literal["table"]
    table_data: TableData = Field(examples=["| 医院 | 比例 |\n| --- | --- |\n| 三级 | 85% |"])
    table_caption: Caption | None = Field(default=None, examples=["各级医院报销比例"])


Attachment = Annotated[ImageAttachment | TableAttachment, Field(discriminator="type")]


class Question(with_options(AskOptions, "", WithQuery)):  # type: ignore[misc]
    retrieval_config: AskConfig | None = None
    stream: StrictBool = Field(default=False, description="true：一边写一边给（SSE）")
    history: list[Turn] | None = Field(
        default=None, max_length=HISTORY_LIMIT, description="这个问题之前的对话，最近的在最后"
    )
    multimodal_content: list[Annotated[Attachment, BeforeValidator(_no_paths)]] | None = Field(
        default=None, max_length=ATTACHMENTS_LIMIT, description="随问题来的图片与表格；文件不按路径读"
    )
    doc_ids: list[DocId] | None = Field(
        default=None, max_length=DOC_IDS_LIMIT, description="只用这些文档；不写或为空则不限"
    )
    filters: Filters | None = None

    def choices(self) -> AskChoices:
        """The keyword arguments of `Engine.ask`. Raises BadFilterField, naming the field."""
        chosen = ask_choices(self, self.doc_ids)
        for name in ("history", "multimodal_content"):
            chosen[name] = [item.model_dump(exclude_none=True) for item in chosen.get(name, ())]
        return cast(AskChoices, chosen)


AnswerInfo: Final = response("AnswerInfo", Answer, knowledge_base_id=int, time_cost_ms=int)


@router.post(
    "/v1/query/{knowledge_base_id}",
    **route("提问，答案注明出处", AnswerInfo, 400, 404, 413, 415, 422, **event_stream("query", *EVENTS)),
)
async def query(
    request: Request, knowledge_base_id: BaseId, engine: TenantEngine, body: Annotated[Question, body_examples("query")]
) -> Response:
    """答案里的 [1]、[2] 对应 `sources`；资料里没有的，明说没有（`form` 为 declined）。
    没有语言模型时，答案由资料的原句组成。

    `stream` 为 true 时是 SSE。先 `sources`：可以引用的资料，还没有编号；再 `token`：文字，一有就给；
    与 `citation`：一句写完之后，它依据的编号，以及其中第一次引用的资料。最后一定是 `done`：与 JSON 的 `data` 相同，
    以它为准；或 `error`：断了、失败或超时，`answer` 是到那时为止的部分，没有则为空。
    没有内容时每 10 秒一行注释，表示还在做。客户端断开，模型的调用随即停止。
    """
    recorder = AnswerRecorder(request, body.mode or "mix")
    writer = EventWriter(knowledge_base_id)
    choices = body.choices()
    with recorder.recording():
        return await answer_response(
            recorder, writer, engine, knowledge_base_id, body.query, choices, stream=body.stream
        )


@dataclass(frozen=True, slots=True)
class EventWriter:
    """Encodes an answer as named events."""

    knowledge_base: int

    def whole(self, answer: Answer) -> dict[str, Any]:
        return {"code": 200, "msg": "success", "data": written_answer(self.knowledge_base, answer)}

    def event(self, event: AnswerEvent) -> bytes:
        return encode_event(*written_event(self.knowledge_base, event))

    def error(self, content: dict[str, Any], trace_id: str) -> bytes:
        failure = {"error": content["error"], "msg": content["msg"], "trace_id": trace_id}
        return encode_event("error", {**failure, "answer": None})
