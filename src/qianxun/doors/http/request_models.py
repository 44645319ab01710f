"""What a search over HTTP may ask for, bounded, and how that becomes the engine's options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    RootModel,
    StrictBool,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from qianxun.core.codec.results import NO_RERANK, rerank_name
from qianxun.core.errors import BadFilter, BadInput, BadQuery
from qianxun.core.filters import CONDITION_LIMIT, FIELDS, SPELLINGS, TEXT_LIMIT, VALUE_LIMIT, read_filters
from qianxun.core.limits import DOC_ID_LIMIT, DOC_IDS_LIMIT, MAX_ID, QUERY_LIMIT, TOP_K_LIMIT
from qianxun.core.types import EVERYTHING
from qianxun.doors.http.field_errors import InvalidField

LARGEST_WEIGHT: Final = 1000.0
STRATEGY: Final = "retrieval_config.hybrid_strategy"


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must say what to look for")
    return text


QueryText = Annotated[
    str,
    Field(min_length=1, max_length=QUERY_LIMIT, pattern=r"\S", description="要找的内容；可用 @文档名 指定文档"),
    AfterValidator(_not_blank),
]
DocId = Annotated[str, Field(min_length=1, max_length=DOC_ID_LIMIT)]


class Asked(BaseModel):
    """An unknown field is more likely a slip of the pen than meant for nobody: it is refused.

    Null for a field that may be left out is the same as leaving it out: Java and C# write it wherever nothing was set.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, told: Any) -> Any:
        if not isinstance(told, dict) or None not in told.values():
            return told
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in told.items() if value is not None or name not in optional}


class AskedElsewhere(Asked):
    """A request in another program's protocol: its clients send fields that mean nothing here, and they are ignored."""

    model_config = ConfigDict(extra="ignore")


def _a_number(value: Any) -> Any:
    """ "5" and true are no numbers, whatever Python makes of them."""
    if isinstance(value, str | bool):
        raise PydanticCustomError("number", "must be a number")
    return value


Number = BeforeValidator(_a_number)
Weight = Annotated[float, Field(ge=0, le=LARGEST_WEIGHT, allow_inf_nan=False), Number]


def _model_id(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ID
    is_name = isinstance(value, str) and len(value) <= DOC_ID_LIMIT and not (value.isdigit() and int(value) > MAX_ID)
    if value is None or is_number or is_name:
        return value
    raise PydanticCustomError("model_id", "must be the number or the name of a model")


ModelRef = Annotated[
    Any,
    AfterValidator(_model_id),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MAX_ID},
                {"type": "string", "maxLength": DOC_ID_LIMIT},
                {"type": "null"},
            ]
        }
    ),
]
WANTS_MODEL: Final[dict[str, Any]] = {
    "if": {"properties": {"type": {"const": "rerank"}}, "required": ["type"]},
    "then": {
        "properties": {
            "rerank_model_id": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "minLength": 1}]}
        },
        "required": ["rerank_model_id"],
    },
}


class Weights(Asked):
    """只给一路时，另一路补足到 1；两路都不给，按知识库的内容取合适的权重。"""

    vector: Weight | None = Field(default=None, examples=[0.7])
    keyword: Weight | None = Field(default=None, examples=[0.3])


class HybridStrategy(Asked):
    model_config = ConfigDict(json_schema_extra=WANTS_MODEL)

    type: Literal["weighted", "rrf", "rerank"] | None = Field(
        default=None,
        description="weighted 加权；rrf 按名次；rerank 先融合、再由重排模型精排。不写则用知识库自己的配置",
    )
    weights: Weights | None = None
    rerank_model_id: ModelRef = Field(
        default=None,
        description=(
            "type 为 rerank 时必填：登记的模型的编号，或内置的名称如 maxsim；"
            "default 为知识库所有者的默认重排模型，none 为不重排"
        ),
        examples=[0],
    )
    fusion: Literal["weighted", "min_max", "rrf"] | None = Field(
        default=None, description="重排之前怎样融合；不写则用知识库自己的配置"
    )


class RetrievalConfig(Asked):
    top_k: Annotated[int, Field(ge=1, le=TOP_K_LIMIT), Number] | None = Field(
        default=None, description="最多几条；不写则用知识库或服务的配置（10）", examples=[10]
    )
    score_threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), Number] | None = Field(
        default=None,
        description="分数不低于它；不写则不设下限。指定了文档时不起作用；全文检索只用 top_k",
        examples=[0.6],
    )
    fuzzy: StrictBool | None = Field(default=None, description="要不要宽松匹配的结果；不写则用知识库或服务的配置")
    hybrid_strategy: HybridStrategy | None = None
    as_written: StrictBool = Field(
        default=False, description="true：全文检索也照这里写的阈值、融合与重排来；false：全文检索只用 top_k"
    )


SCALAR: Final[dict[str, Any]] = {"type": ["string", "number", "boolean"], "maxLength": TEXT_LIMIT}
BOUND: Final[dict[str, Any]] = {"type": ["string", "number"], "maxLength": TEXT_LIMIT}
CONDITION: Final[dict[str, Any]] = {
    "anyOf": [
        SCALAR,
        {"type": "array", "items": SCALAR, "maxItems": VALUE_LIMIT},
        {
            "type": "object",
            "properties": dict.fromkeys(("ge", "gt", "le", "lt"), BOUND),
            "additionalProperties": False,
            "minProperties": 1,
        },
        {
            "type": "object",
            "properties": {name: {"type": "string", "maxLength": TEXT_LIMIT} for name in SPELLINGS},
            "additionalProperties": False,
            "minProperties": 1,
        },
    ]
}


class Filters(RootModel[dict[str, Any]]):
    """过滤条件，同一层的都要满足。

    `{字段: 值}` 等于；`{字段: [值…]}` 是其中之一；`{字段: {ge, gt, le, lt}}` 范围；
    `{字段: {starts, contains, ends}}` 文字的开头、其中、结尾，逐字比较；
    `and`、`or` 带条件的列表，`not` 带一个条件。
    字段：doc_id、user_id、project_id、content_type、kind（text 或 table）、tags、metadata.<字段>。
    文字与数字不相等（"2024" 不是 2024）；文字的范围逐字比较，日期要与放入时写成同一种形式，如 2024-05-01。
    至多 8 层、100 个条件、1000 个值。
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The grammar of `qianxun.core.filters`; what is too deep or too much in all it cannot say."""
        inner = {"$ref": "#/components/schemas/Filters"}  # where an OpenAPI document keeps it
        several = {"type": "array", "items": inner, "maxItems": CONDITION_LIMIT}
        return {
            **handler(core),
            "properties": {**dict.fromkeys(FIELDS, CONDITION), "and": several, "or": several, "not": inner},
            "patternProperties": {r"^metadata\..": CONDITION},
            "additionalProperties": False,
            "maxProperties": CONDITION_LIMIT,
            "examples": [{"content_type": ["chapter"]}],
        }


class Search(Asked):
    """What to search for and how; shared by retrieval and explanation."""

    query: QueryText
    retrieval_mode: Literal["hybrid", "vector", "fulltext"] = Field(default="hybrid", description="检索方式")
    retrieval_config: RetrievalConfig | None = None
    doc_ids: list[DocId] | None = Field(
        default=None, max_length=DOC_IDS_LIMIT, description="只在这些文档里找；不写或为空则不限"
    )
    filters: Filters | None = None

    def options(self) -> dict[str, Any]:
        """The arguments of `Engine.retrieve`. Raises InvalidField or BadFilterField, naming the field."""
        config = self.retrieval_config or RetrievalConfig()
        strategy = config.hybrid_strategy or HybridStrategy()
        told = _strategy(strategy)  # checked in every mode, used where it means something
        chosen: dict[str, Any] = {"mode": self.retrieval_mode, "top_k": config.top_k, "fuzzy": config.fuzzy}
        where = read_filters(self.filters.root) if self.filters is not None else EVERYTHING
        chosen |= {"where": where, "doc_ids": tuple(self.doc_ids or ())}
        if self.retrieval_mode == "fulltext" and not config.as_written:  # words alone: no threshold, no reranker
            return chosen | {"rerank": ""}
        return chosen | told | {"threshold": config.score_threshold or 0.0}


@contextmanager
def naming_the_model(options: Mapping[str, Any]) -> Iterator[None]:
    """Around a search: a model that cannot do what the request wants of it is told as the request's wrong field."""
    try:
        yield
    except (BadQuery, BadFilter):
        raise
    except BadInput as error:
        if not options.get("rerank"):
            raise
        raise InvalidField(f"{STRATEGY}.rerank_model_id", error.message, hint=error.hint) from error


def _strategy(strategy: HybridStrategy) -> dict[str, Any]:
    model = _model(strategy)
    if strategy.type == "rerank" and not model:
        raise InvalidField(f"{STRATEGY}.rerank_model_id", "type 为 rerank 时必填", hint="填登记的模型的编号，或 maxsim")
    if strategy.type in ("weighted", "rrf"):
        if strategy.fusion not in (None, strategy.type):
            raise InvalidField(f"{STRATEGY}.fusion", f"与 type 的 {strategy.type} 不一致", hint="去掉其中一个")
        return {"fusion": strategy.type, "weights": _weights(strategy.weights), "rerank": ""}
    return {"fusion": strategy.fusion, "weights": _weights(strategy.weights), "rerank": model}


def _model(strategy: HybridStrategy) -> str | None:
    """The reranker's name; "" for none at all, None for the base's own choice."""
    told: int | str | None = strategy.rerank_model_id
    if told is None or told == 0 or (isinstance(told, str) and not told.strip()):
        return None
    return "" if told == NO_RERANK else rerank_name(told)


def _weights(told: Weights | None) -> dict[str, float] | None:
    """With one weight alone the other makes it up to 1: a missing one would silence its arm."""
    if told is None or (told.vector is None and told.keyword is None):
        return None
    given = {
        name: weight for name, weight in (("vector", told.vector), ("keyword", told.keyword)) if weight is not None
    }
    if len(given) == 1:
        ((name, weight),) = given.items()
        other = "keyword" if name == "vector" else "vector"
        if weight > 1:
            raise InvalidField(f"{STRATEGY}.weights.{other}", f"只给了 {name}，另一路补不足到 1", hint="两路都给出")
        given[other] = round(1.0 - weight, 6)
    if not any(given.values()):
        raise InvalidField(f"{STRATEGY}.weights", "两路都为零", hint="至少有一路大于零")
    return given
