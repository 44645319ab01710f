"""The bodies of requests that search: bounded models, derived from `qianxun.core.options` where an option is plain.

`with_options` makes the derived fields, `read_choices` reads a body back into keyword arguments of the engine.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any, Final, Literal, cast

from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    RootModel,
    StrictBool,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from qianxun.core.errors import BadFilter, BadInput, BadQuery
from qianxun.core.filters import CONDITION_LIMIT, FIELDS, SPELLINGS, TEXT_LIMIT, VALUE_LIMIT
from qianxun.core.limits import DOC_ID_LIMIT, DOC_IDS_LIMIT, MAX_ID, QUERY_LIMIT
from qianxun.core.option_fields import Option, choices_of
from qianxun.core.options import STRATEGY, AskOptions, SearchChoices, SearchOptions, rerank_from_wire
from qianxun.core.types import EVERYTHING, In, all_of
from qianxun.doors.http.field_errors import FIELDS_SHOWN, InvalidField

MAX_WEIGHT: Final = 1000.0


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must say what to look for")
    return text


QueryText = Annotated[
    str,
    Field(min_length=1, max_length=QUERY_LIMIT, pattern=r"\S", description="要找的内容；可用 @文档名 指定文档"),
    AfterValidator(_check_not_blank),
]
DocId = Annotated[str, Field(min_length=1, max_length=DOC_ID_LIMIT)]


@contextmanager
def answered_as_validation() -> Iterator[None]:
    """What a model refuses is answered like a body that FastAPI reads itself."""
    try:
        yield
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_input=False)) from error


class RequestModel(BaseModel):
    """Refuses unknown fields: they are more likely misspelled than meant to be ignored.

    Null for an optional field is the same as leaving it out: clients in Java and C# write it for every unset field.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _with_few_unknown(cls, body: Any) -> Any:
        """Of fields that do not exist, so many as an error shows: for a million it would take seconds of everybody's
        event loop to list them."""
        if not isinstance(body, dict) or len(body) <= len(cls.model_fields) + FIELDS_SHOWN:
            return body
        unknown = islice((name for name in body if name not in cls.model_fields), FIELDS_SHOWN)
        return {name: body[name] for name in (*(cls.model_fields.keys() & body.keys()), *unknown)}

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        if not isinstance(body, dict) or None not in body.values():
            return body
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in body.items() if value is not None or name not in optional}


class ForeignRequest(RequestModel):
    """A request in the format of another product: fields that have no meaning here are ignored."""

    model_config = ConfigDict(extra="ignore")


def _check_number(value: Any) -> Any:
    """Refuses "5" and true, which pydantic would convert."""
    if isinstance(value, str | bool):
        raise PydanticCustomError("number", "must be a number")
    return value


Number = BeforeValidator(_check_number)
Weight = Annotated[float, Field(ge=0, le=MAX_WEIGHT, allow_inf_nan=False), Number]


def _check_model_id(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ID
    is_name = isinstance(value, str) and len(value) <= DOC_ID_LIMIT and not (value.isdigit() and int(value) > MAX_ID)
    if value is None or is_number or is_name:
        return value
    raise PydanticCustomError("model_id", "must be the number or the name of a model")


MODEL_ID: Final[list[dict[str, Any]]] = [
    {"type": "integer", "minimum": 0, "maximum": MAX_ID},
    {"type": "string", "maxLength": DOC_ID_LIMIT},
    {"type": "null"},
]
ModelRef = Annotated[Any, AfterValidator(_check_model_id), WithJsonSchema({"anyOf": MODEL_ID})]
MODEL_REQUIRED: Final[dict[str, Any]] = {
    "if": {"properties": {"type": {"const": "rerank"}}, "required": ["type"]},
    "then": {
        "properties": {
            "rerank_model_id": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "minLength": 1}]}
        },
        "required": ["rerank_model_id"],
    },
}


def with_options(kind: Any, section: str, base: type[RequestModel] = RequestModel) -> type[RequestModel]:
    """``base`` with a field for every plain option of ``kind`` that has a place in this section of the body."""
    derived: dict[str, Any] = {
        place.rpartition(".")[2]: _field(option, place)
        for option in choices_of(kind).values()
        if option.is_plain and option.about
        for place in option.places
        if place.rpartition(".")[0] == section
    }
    return create_model(base.__name__, __base__=base, **derived)


def _field(offered: Option, place: str) -> tuple[Any, Any]:
    bounds: dict[str, Any] = {"ge": offered.least, "le": offered.most}
    kinds: dict[Any, Any] = {
        int: Annotated[int, Field(**bounds), Number],
        float: Annotated[float, Field(**bounds, allow_inf_nan=False), Number],
        bool: StrictBool,
        str: Annotated[str, Field(max_length=QUERY_LIMIT)],
    }
    examples = [offered.example] if offered.example is not None else None
    kind = Literal[offered.words] if offered.words else kinds[offered.type]
    if place != offered.wire:
        return kind | None, Field(default=None, description=f"与 {offered.wire} 相同，写一处就够")
    if (offered.literals == offered.words != () or offered.type is bool) and not offered.in_base:
        return kind, Field(default=offered.default, description=offered.about)
    return kind | None, Field(default=None, description=offered.about, examples=examples)


def read_choices(kind: Any, body: BaseModel, without: Container[str] = ()) -> dict[str, Any]:
    """What a body chooses of the options of ``kind``, by their names.

    Raises BadFilterField, naming the field, and InvalidField for an option that is given twice and not the same.
    """
    chosen: dict[str, Any] = {}
    for name, offered in choices_of(kind).items():
        values = [value for place in offered.places if (value := _at(body, place)) is not None]
        if values and values[0] != values[-1]:
            raise InvalidField(offered.also, f"与 {offered.wire} 的 {values[0]} 不一致", hint="去掉其中一个")
        if values and name not in without:
            chosen[name] = offered.from_wire(values[0].root if isinstance(values[0], RootModel) else values[0])
    return chosen


def _at(body: BaseModel, place: str) -> Any:
    value: Any = body
    for part in place.split("."):
        value = getattr(value, part, None)
    return value


def ask_choices(body: BaseModel, doc_ids: Sequence[str] | None) -> dict[str, Any]:
    """What a question chooses of `AskOptions`, narrowed to these documents. Raises BadFilterField."""
    chosen = read_choices(AskOptions, body)
    if doc_ids:
        chosen["where"] = all_of(chosen.get("where", EVERYTHING), In("doc_id", tuple(doc_ids)))
    return chosen


class Weights(RequestModel):
    """只给一路时，另一路补足到 1；两路都不给，按知识库的内容取合适的权重。"""

    vector: Weight | None = Field(default=None, examples=[0.7])
    keyword: Weight | None = Field(default=None, examples=[0.3])


class _Reranking(RequestModel):
    type: Literal["weighted", "rrf", "rerank"] | None = Field(
        default=None, description="weighted 加权；rrf 按名次；rerank 先融合、再由重排模型精排。不写则用知识库自己的配置"
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


class HybridStrategy(with_options(SearchOptions, STRATEGY, _Reranking)):  # type: ignore[misc]
    model_config = ConfigDict(json_schema_extra=MODEL_REQUIRED)


class RetrievalConfig(with_options(SearchOptions, "retrieval_config")):  # type: ignore[misc]
    hybrid_strategy: HybridStrategy | None = None
    as_written: StrictBool = Field(
        default=False, description="true：全文检索也照这里写的阈值、融合与重排来；false：全文检索只用 top_k"
    )


SCALAR: Final[dict[str, Any]] = {"type": ["string", "number", "boolean"], "maxLength": TEXT_LIMIT}
BOUND: Final[dict[str, Any]] = {"type": ["string", "number"], "maxLength": TEXT_LIMIT}
SPELLING: Final[dict[str, Any]] = {"type": "string", "maxLength": TEXT_LIMIT}
COMPARISON: Final[dict[str, Any]] = {"type": "object", "additionalProperties": False, "minProperties": 1}
CONDITION: Final[dict[str, Any]] = {
    "anyOf": [
        SCALAR,
        {"type": "array", "items": SCALAR, "maxItems": VALUE_LIMIT},
        {**COMPARISON, "properties": dict.fromkeys(("ge", "gt", "le", "lt"), BOUND)},
        {**COMPARISON, "properties": dict.fromkeys(SPELLINGS, SPELLING)},
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
        """The grammar of `qianxun.core.filters`, without its limits on depth and on the whole."""
        inner = {"$ref": "#/components/schemas/Filters"}
        several = {"type": "array", "items": inner, "maxItems": CONDITION_LIMIT}
        return {
            **handler(core),
            "properties": {**dict.fromkeys(FIELDS, CONDITION), "and": several, "or": several, "not": inner},
            "patternProperties": {r"^metadata\..": CONDITION},
            "additionalProperties": False,
            "maxProperties": CONDITION_LIMIT,
            "examples": [{"content_type": ["chapter"]}],
        }


class WithQuery(RequestModel):
    query: QueryText


class AskConfig(with_options(AskOptions, "retrieval_config")):  # type: ignore[misc]
    """What searches have here, in a question or a layered search too."""


class Search(with_options(SearchOptions, "", WithQuery)):  # type: ignore[misc]
    """What to search for and how; shared by retrieval and explanation."""

    retrieval_config: RetrievalConfig | None = None
    doc_ids: list[DocId] | None = Field(
        default=None, max_length=DOC_IDS_LIMIT, description=choices_of(SearchOptions)["doc_ids"].about
    )
    filters: Filters | None = None

    def choices(self) -> SearchChoices:
        """The keyword arguments of `Engine.retrieve`. Raises InvalidField or BadFilterField, naming the field."""
        config = self.retrieval_config or RetrievalConfig()
        strategy = _strategy(config.hybrid_strategy or HybridStrategy())  # checked in every mode
        chosen = read_choices(SearchOptions, self, without=strategy)
        if self.retrieval_mode == "fulltext" and not config.as_written:  # words alone: no threshold, no reranker
            chosen.pop("threshold", None)
            strategy = {"rerank": ""}
        return cast(SearchChoices, chosen | strategy)


@contextmanager
def blaming_reranker(choices: Mapping[str, Any]) -> Iterator[None]:
    """Around a search: raises what the chosen rerank model cannot do as InvalidField of its field."""
    try:
        yield
    except BadInput as error:
        if isinstance(error, BadQuery | BadFilter) or not choices.get("rerank"):
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
    given: int | str | None = strategy.rerank_model_id
    is_given = given is not None and given != 0 and str(given).strip()
    return rerank_from_wire(given) if is_given and given is not None else None


def _weights(weights: Weights | None) -> dict[str, float] | None:
    """If one weight is missing, it is what the other lacks of 1: without a weight its arm would not count."""
    given: dict[str, float] = weights.model_dump(exclude_none=True) if weights is not None else {}
    if not given:
        return None
    if len(given) == 1:
        ((name, weight),) = given.items()
        other = "keyword" if name == "vector" else "vector"
        if weight > 1:
            raise InvalidField(f"{STRATEGY}.weights.{other}", f"只给了 {name}，另一路补不足到 1", hint="两路都给出")
        given[other] = round(1.0 - weight, 6)
    if not any(given.values()):
        raise InvalidField(f"{STRATEGY}.weights", "两路都为零", hint="至少有一路大于零")
    return given
