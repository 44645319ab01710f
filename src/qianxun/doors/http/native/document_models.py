"""What a document over HTTP may say, bounded, and what is told of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from qianxun.core.ingest_types import Labels
from qianxun.core.limits import SOURCE_LIMIT
from qianxun.core.types import ContentFormat, MetadataValue
from qianxun.doors.http.context import DOC_ID_LIMIT, MAX_ID
from qianxun.doors.http.native.retrieval import ChunkTold
from qianxun.doors.http.request_models import Asked

# ── asked ────────────────────────────────────────────────────────────────────────────────────────

Whole = Annotated[int, Field(strict=True, ge=-MAX_ID, le=MAX_ID)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Word = Annotated[StrictStr, Field(max_length=10_000)]
Told = StrictBool | Whole | Number | Word
Name = Annotated[str, Field(max_length=255)]


def _one_reason(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Told once, and not once for each of the kinds that it might have been."""
    try:
        return read(value)
    except ValidationError as error:
        raise PydanticCustomError("metadata_value", "must be text, a number, a boolean, or a list of these") from error


Metadata = Annotated[Told | Annotated[list[Told], Field(max_length=1_000)], WrapValidator(_one_reason)]


def _with_values(told: Any) -> Any:
    """A name without a value is left out, as it is of an event."""
    return {name: value for name, value in told.items() if value is not None} if isinstance(told, dict) else told


class Pair(Asked):
    """A question that the document answers."""

    question: str = Field(min_length=1, max_length=2_000)
    answer: str = Field(max_length=100_000)


class Said(Asked):
    """What is said of a document, whichever way it comes."""

    content_type: str = Field(default="", max_length=64, description="内容的类别，可用于过滤", examples=["chapter"])
    user_id: str = Field(default="", max_length=128, examples=["u_1"])
    project_id: str = Field(default="", max_length=128, examples=["p_1"])
    tags: list[Annotated[str, Field(max_length=200)]] = Field(default=[], max_length=100)
    metadata: Annotated[dict[Name, Metadata], BeforeValidator(_with_values)] = Field(
        default={},
        max_length=100,
        description="可用于过滤；值为文字、数字、真假，或它们的列表；null 等于没有这一项",
        examples=[{"年份": 2026}],
    )
    doc_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=DOC_ID_LIMIT,
        description="不填则由服务生成；上传文件时不填，则同名文件替换前一次上传的",
    )

    def labels(self) -> Labels:
        return Labels(self.user_id, self.project_id, self.content_type, tuple(self.tags), self.held_metadata())

    def held_metadata(self) -> dict[str, MetadataValue]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in self.metadata.items()}


class NewDocument(Said):
    """A document as text."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "报销须知", "content": "住院费用报销比例为85%。", "format": "text"}]},
    )

    name: str = Field(max_length=512, description="显示给人看的名称", examples=["报销须知"])
    content: str = Field(min_length=1, description="正文", examples=["住院费用报销比例为85%。"])
    format: ContentFormat = "text"
    source: str = Field(default="", max_length=SOURCE_LIMIT, description="从哪里来")
    pairs: list[Pair] = Field(default=[], max_length=1_000, description="随文档给出的问答")


class Replacement(NewDocument):
    """A document as text in the place of one: its text may have been cleared."""

    content: str = Field(
        description="正文；可以是空的：正文清空了，原来的不再检索得到", examples=["住院费用报销比例为85%。"]
    )


class SaidOfFile(Said):
    """What a form says beside its file."""

    name: str = Field(default="", max_length=512, description="不填则为文件名")
    source: str = Field(default="", max_length=SOURCE_LIMIT, description="从哪里来，例如原来的路径；不填则为名称")


# ── told ─────────────────────────────────────────────────────────────────────────────────────────


class DocumentTaken(BaseModel):
    """What became of a document that was sent."""

    doc_id: str = Field(examples=["doc_123"])
    generation: int = Field(description="第几版，从 1 起", examples=[1])
    status: str = Field(
        description="indexed：可以检索；pending、retrying：还在路上；quarantined：放弃了", examples=["indexed"]
    )
    chunks: int = Field(examples=[3])
    outcome: str = Field(description="created、updated 或 unchanged", examples=["created"])
    reason: str = Field(default="", description="还不能检索的原因")


class DocumentTold(BaseModel):
    """Where a document stands."""

    doc_id: str
    name: str
    status: str = Field(
        description="indexed：generation 这一版可以检索；pending、retrying：还在路上；quarantined：放弃了"
    )
    generation: int = Field(description="最新的是第几版")
    served: int = Field(description="记录里以第几版的各块为准；0：还没有。检索得到与否看 status")
    attempts: int
    reason: str
    content_type: str
    user_id: str
    project_id: str
    chunks: int
    updated_at: str
    source: str = Field(description="从哪里来：路径、网址；可写的密钥才看得到，别的是空的")


class DocumentPage(BaseModel):
    """Documents in the order of their ids."""

    total: int = Field(description="这个知识库的文档总数")
    documents: list[DocumentTold]
    next: str | None = Field(description="下一页的 after；没有下一页则为 null")


class ChunkPage(BaseModel):
    total: int
    chunks: list[ChunkTold]
    next: int | None = Field(description="下一页的 after；没有下一页则为 null")
