"""Dify's external knowledge API: ``POST /retrieval``, a knowledge base as Dify searches it.

Metadata conditions become filters with the meaning that Dify gives them in its own knowledge bases. A document without
a value for a field satisfies no condition on it but ``empty``, not even ``is not``. Conditions on spelling look at
texts; those of order compare numbers with numbers and texts with texts, character by character; a number written as a
text ("2024") means both, and in ``= ≠ > < ≥ ≤`` in any notation ("99.90"). A condition without a value is ignored.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Body, Request, Response
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from qianxun.core.codec.passage import chunk_title, passage_text
from qianxun.core.codec.wire import to_wire
from qianxun.core.filters import CONDITION_LIMIT, FIELDS, LARGEST, METADATA, TEXT_LIMIT, TEXTS_LIMIT, VALUE_LIMIT
from qianxun.core.limits import MAX_ID, NAME_LIMIT, QUERY_LIMIT, TOP_K_LIMIT
from qianxun.core.types import EVERYTHING, And, Filter, Found, In, Not, Or, Range, Scalar, Spelled
from qianxun.doors.http.context import SearchRoute, TenantEngine, trace_id
from qianxun.doors.http.error_formats import DifyProblem
from qianxun.doors.http.field_errors import InvalidField
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.request_models import ForeignRequest, Number
from qianxun.doors.http.responses import json_response

FIELD_NAME_LIMIT: Final = 200
AT: Final = "metadata_condition.conditions"

Operator: TypeAlias = Literal[
    "contains", "not contains", "start with", "end with", "is", "is not", "in", "not in", "empty", "not empty",
    "null", "not null", "=", "≠", "!=", ">", "<", "≥", ">=", "≤", "<=", "before", "after",
]  # fmt: skip
SYNONYMS: Final[Mapping[str, str]] = {
    "!=": "≠", "null": "empty", "not null": "not empty", "after": ">", "before": "<", ">=": "≥", "<=": "≤",
}  # fmt: skip
NEGATIONS: Final[Mapping[str, str]] = {"is not": "is", "≠": "=", "not in": "in", "not contains": "contains"}
ORDERS: Final[Mapping[str, str]] = {">": "gt", "<": "lt", "≥": "ge", "≤": "le"}
SPELLINGS: Final[Mapping[str, str]] = {"contains": "contains", "start with": "starts", "end with": "ends"}
# If one condition has several names, these operators must hold for all of them, the others for one.
FOR_ALL_NAMES: Final = frozenset((*NEGATIONS, "empty"))
OWN_FIELDS: Final = {"document_id": "doc_id", **{name: name for name in FIELDS}}
NO_FILTER: Final = frozenset(("document_name", "doc_name"))  # Dify's fields that no filter of ours has
DECIMAL: Final = re.compile(r"[+-]?\d+(\.\d+)?")

router = APIRouter(tags=["Dify"], route_class=SearchRoute)

# ── request ──────────────────────────────────────────────────────────────────────────────────────


def _check_value(value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    if value is None or (len(values) <= VALUE_LIMIT and all(map(_is_scalar, values))):
        return value
    raise PydanticCustomError("condition_value", "must be a text, a number, a truth value or a list of them")


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= TEXT_LIMIT and not any("\ud800" <= sign <= "\udfff" for sign in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -LARGEST <= value <= LARGEST


SCALAR: Final = {
    "type": ["string", "number", "boolean"], "maxLength": TEXT_LIMIT, "minimum": -LARGEST, "maximum": LARGEST,
}  # fmt: skip
Value = Annotated[
    Any,
    AfterValidator(_check_value),
    WithJsonSchema({"anyOf": [SCALAR, {"type": "array", "items": SCALAR, "maxItems": VALUE_LIMIT}, {"type": "null"}]}),
]
Name = Annotated[str, Field(min_length=1, max_length=FIELD_NAME_LIMIT)]


class Condition(ForeignRequest):
    name: Name | Annotated[list[Name], Field(min_length=1, max_length=CONDITION_LIMIT)] = Field(
        description="元数据的字段，或 doc_id、user_id、project_id、content_type、kind、tags；几个字段写成列表",
        examples=["年份"],
    )
    comparison_operator: Operator = Field(examples=["≥"])
    value: Value = Field(default=None, description="比较的值；empty 与 not empty 不用写", examples=[2020])

    @property
    def names(self) -> list[str]:
        return self.name if isinstance(self.name, list) else [self.name]

    @property
    def values(self) -> list[Any]:
        return self.value if isinstance(self.value, list) else [self.value]


class MetadataCondition(ForeignRequest):
    """没有这个字段的文档，除 empty 外一概不符合。文字逐字比较，分大小写；"2024" 既是文字也是数字。

    所有的条件合起来至多 100 个字段、1000 个值；一个条件有几个字段，它的值就按几份计。
    """

    logical_operator: Literal["and", "or"] = "and"
    conditions: list[Condition] = Field(default=[], max_length=CONDITION_LIMIT)


class RetrievalSetting(ForeignRequest):
    top_k: Annotated[int, Field(ge=1, le=TOP_K_LIMIT), Number] | None = Field(
        default=None, description="最多几条；不写则用知识库或服务的配置", examples=[5]
    )
    score_threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), Number] | None = Field(
        default=None, description="分数不低于它；与 /v1/retrieval 的分数相同", examples=[0.5]
    )


class KnowledgeSearch(ForeignRequest):
    """What Dify sends. To probe whether the service is there it sends no body, or empty texts."""

    knowledge_id: Annotated[str, Field(max_length=NAME_LIMIT)] | Annotated[int, Field(ge=1, le=MAX_ID, strict=True)] = (
        Field(default="", description="知识库的编号或名称", examples=["1001"])
    )
    query: str = Field(default="", max_length=QUERY_LIMIT, examples=["住院报销比例是多少"])
    retrieval_setting: RetrievalSetting = Field(default=RetrievalSetting())
    metadata_condition: MetadataCondition | None = None

    @property
    def is_probe(self) -> bool:
        return self.knowledge_id == "" and not self.query

    def options(self) -> dict[str, Any]:
        """The arguments of `Engine.retrieve`. Raises InvalidField."""
        if self.knowledge_id == "":
            raise InvalidField("knowledge_id", "缺少这个字段", hint="填知识库的编号或名称")
        if not self.query.strip():
            raise InvalidField("query", "不能为空，写出要找的内容")
        setting, where = self.retrieval_setting, as_filter(self.metadata_condition)
        return {"top_k": setting.top_k, "threshold": setting.score_threshold or 0.0, "where": where}


# ── response ─────────────────────────────────────────────────────────────────────────────────────


class Record(BaseModel):
    """一块。"""

    content: str = Field(examples=["住院费用报销比例为85%。"])
    score: float = Field(examples=[0.85])
    title: str = Field(description="文档名", examples=["医保手册.pdf"])
    metadata: dict[str, Any] = Field(
        description="文档的元数据，以及 doc_id、document_id（同一个）、chunk_id、headings 与 page（有页码才有）",
        examples=[{"年份": 2024, "doc_id": "123", "document_id": "123", "chunk_id": "c_1001_123_0", "headings": []}],
    )


class Records(BaseModel):
    records: list[Record]


@router.post("/retrieval", summary="Dify 的外部知识库", **returns(Records, 400, 404, 413, 422, form=DifyProblem))
async def retrieve(
    request: Request,
    engine: TenantEngine,
    body: Annotated[KnowledgeSearch | None, Body(openapi_examples=request_examples("dify"))] = None,
) -> Response:
    """与 `/v1/retrieval` 相同的检索与分数。没有请求体，或编号与问题都空着，就是登记时的探询：答没有记录。"""
    if body is None or body.is_probe:
        return json_response({"records": []})
    options = {**body.options(), "trace_id": trace_id(request)}
    base = await engine.knowledge_base(str(body.knowledge_id))
    recall = await engine.retrieve(base.id, body.query, **options)
    return json_response({"records": [_record(found) for found in recall.results]})


def _record(found: Found) -> dict[str, Any]:
    chunk = found.chunk
    metadata = {
        **to_wire(chunk.attributes.metadata),
        "doc_id": chunk.doc_id,
        "document_id": chunk.doc_id,  # which Dify shows as the source's
        "chunk_id": chunk.chunk_id,
        "headings": list(chunk.headings),
    }
    if chunk.page is not None:
        metadata["page"] = chunk.page
    return {"content": passage_text(chunk), "score": found.score, "title": chunk_title(chunk), "metadata": metadata}


# ── conditions as filters ────────────────────────────────────────────────────────────────────────


def as_filter(metadata: MetadataCondition | None) -> Filter:
    """Raises InvalidField for conditions that no filter can express."""
    if metadata is None:
        return EVERYTHING
    _check_size(metadata.conditions)
    read = (_condition(condition, f"{AT}.{place}") for place, condition in enumerate(metadata.conditions))
    parts = tuple(part for part in read if part is not None)
    if not parts:
        return EVERYTHING
    return And(parts) if metadata.logical_operator == "and" else Or(parts)


def _check_size(conditions: Sequence[Condition]) -> None:
    """Every name of a condition is compared with all of its values: they count once for each."""
    names = values = characters = 0
    for condition in conditions:
        count = len(condition.names)
        names += count
        values += count * len(condition.values)
        characters += count * sum(len(value) for value in condition.values if isinstance(value, str))
    if names > CONDITION_LIMIT or values > VALUE_LIMIT or characters > TEXTS_LIMIT:
        most = f"{CONDITION_LIMIT} 个字段、{VALUE_LIMIT} 个值、{TEXTS_LIMIT} 个字符"
        raise InvalidField(AT, f"所有的条件合起来超过 {most}", hint="减少条件")


def _condition(condition: Condition, at: str) -> Filter | None:
    """None for a condition without a value."""
    operator = SYNONYMS.get(condition.comparison_operator, condition.comparison_operator)
    if condition.value is None and operator not in ("empty", "not empty"):
        return None
    parts = tuple(_compare(_field(name, at), operator, condition.value, f"{at}.value") for name in condition.names)
    if len(parts) == 1:
        return parts[0]
    return And(parts) if operator in FOR_ALL_NAMES else Or(parts)


def _field(name: str, at: str) -> str:
    if name in NO_FILTER:
        hint = "用 doc_id，或在问题里写 @文档名；文档的元数据里若有这个字段，写 metadata." + name
        raise InvalidField(f"{at}.name", "不能按文档名筛选", hint=hint)
    return OWN_FIELDS.get(name) or (name if name.startswith(METADATA) and name != METADATA else METADATA + name)


def _compare(field: str, operator: str, value: Any, at: str) -> Filter:
    if operator in NEGATIONS:
        positive = _compare(field, NEGATIONS[operator], value, at)
        if isinstance(positive, In) and not positive.values:  # none of no values
            return EVERYTHING
        return And((Or((Spelled(field), *_number_or_bool(field))), Not(positive)))  # it has a value, even an empty text
    if operator in ("empty", "not empty"):
        filled = Or((Range(field, gt=""), *_number_or_bool(field)))
        return filled if operator == "not empty" else Not(filled)
    if operator == "in":
        return In(field, tuple(alike for one in _values_of_in(value) for alike in _alike(one)))
    if isinstance(value, list):
        raise InvalidField(at, "这种比较要一个值，而不是列表", hint="几个值用 in 或 not in")
    if operator == "is":
        return In(field, _alike(value))
    if operator == "=":
        return In(field, (*_alike(value), *_measured(value)))
    if operator in SPELLINGS:
        return Spelled(field, **{SPELLINGS[operator]: _text(value)})
    if isinstance(value, bool):
        raise InvalidField(at, "真假不能比大小", hint="用 is")
    return Or(tuple(Range(field, **{ORDERS[operator]: bound}) for bound in (value, *_measured(value))))


def _number_or_bool(field: str) -> tuple[Filter, Filter]:
    return Range(field, ge=-sys.float_info.max), In(field, (True, False))


def _values_of_in(value: Any) -> Sequence[Scalar]:
    """A list, or a text with commas between the values."""
    if isinstance(value, list):
        return value
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else [value]


def _alike(value: Scalar) -> tuple[Scalar, ...]:
    """The value, and what is written the same: 2024 and "2024"."""
    if not isinstance(value, str):
        return value, _text(value)
    other = value == "true" if value in ("true", "false") else _number(value)
    return (value,) if other is None else (value, other)


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _number(text: str) -> int | float | None:
    """The number that is written exactly so."""
    try:
        number = float(text) if "." in text or "e" in text else int(text)
    except ValueError:
        return None
    is_exact = math.isfinite(number) and abs(number) <= LARGEST and _text(number) == text
    return number if is_exact else None


def _measured(value: Scalar) -> tuple[int | float, ...]:
    """The number that a text means where numbers are compared, however it is written: 99.9 also as "99.90"."""
    if not isinstance(value, str):
        return ()
    number = _number(value)
    if number is None and DECIMAL.fullmatch(value.strip()):
        number = float(value)
    return (number,) if number is not None and abs(number) <= LARGEST else ()
