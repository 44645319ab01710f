"""Dify's metadata conditions as filters, with the meaning that Dify gives them in knowledge bases of its own.

A document that has no value for a field satisfies no condition on it but ``empty``, not even ``is not``. Conditions on
how something is written look at texts; those of order compare numbers with numbers and texts with texts, letter by
letter; a number written as a text ("2024") means both, and where it is measured (= ≠ > < ≥ ≤) however it is written
("99.90"). A condition without a value is as good as not there.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from qianxun.core.filters import CONDITION_LIMIT, FIELDS, LARGEST, METADATA, TEXT_LIMIT, TEXTS_LIMIT, VALUE_LIMIT
from qianxun.core.types import EVERYTHING, And, Filter, In, Not, Or, Range, Scalar, Spelled
from qianxun.doors.http.request_models import AskedElsewhere
from qianxun.doors.http.responses import InvalidField

NAME_LENGTH: Final = 200
AT: Final = "metadata_condition.conditions"

Operator: TypeAlias = Literal[
    "contains", "not contains", "start with", "end with", "is", "is not", "in", "not in", "empty", "not empty",
    "null", "not null", "=", "≠", "!=", ">", "<", "≥", ">=", "≤", "<=", "before", "after",
]  # fmt: skip
# What one means where several are known.
MEANT: Final[Mapping[str, str]] = {
    "!=": "≠", "null": "empty", "not null": "not empty", "after": ">", "before": "<", ">=": "≥", "<=": "≤",
}  # fmt: skip
DENIALS: Final[Mapping[str, str]] = {"is not": "is", "≠": "=", "not in": "in", "not contains": "contains"}
ORDERS: Final[Mapping[str, str]] = {">": "gt", "<": "lt", "≥": "ge", "≤": "le"}
SPELLINGS: Final[Mapping[str, str]] = {"contains": "contains", "start with": "starts", "end with": "ends"}
# Of several names in one condition these must hold for each, the others for one.
OF_EACH: Final = frozenset((*DENIALS, "empty"))
OWN_NAMES: Final = {"document_id": "doc_id", **{name: name for name in FIELDS}}
DECIMAL: Final = re.compile(r"[+-]?\d+(\.\d+)?")
UNKNOWN_HERE: Final = frozenset(("document_name", "doc_name"))  # no filter sees them

# ── asked ────────────────────────────────────────────────────────────────────────────────────────


def _value(told: Any) -> Any:
    several = told if isinstance(told, list) else [told]
    if len(several) <= VALUE_LIMIT and all(map(_is_scalar, several)):
        return told
    raise PydanticCustomError("condition_value", "must be a text, a number, a truth value or a list of them")


def _is_scalar(told: Any) -> bool:
    if isinstance(told, str):
        return len(told) <= TEXT_LIMIT and not any("\ud800" <= sign <= "\udfff" for sign in told)
    if isinstance(told, float):
        return math.isfinite(told)
    return isinstance(told, int) and -LARGEST <= told <= LARGEST


SCALAR: Final[dict[str, Any]] = {
    "type": ["string", "number", "boolean"],
    "maxLength": TEXT_LIMIT,
    "minimum": -LARGEST,
    "maximum": LARGEST,
}
Value = Annotated[
    Any,
    AfterValidator(lambda told: told if told is None else _value(told)),
    WithJsonSchema({"anyOf": [SCALAR, {"type": "array", "items": SCALAR, "maxItems": VALUE_LIMIT}, {"type": "null"}]}),
]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)]


class Condition(AskedElsewhere):
    name: Name | Annotated[list[Name], Field(min_length=1, max_length=CONDITION_LIMIT)] = Field(
        description="元数据的字段，或 doc_id、user_id、project_id、content_type、kind、tags；几个字段写成列表",
        examples=["年份"],
    )
    comparison_operator: Operator = Field(examples=["≥"])
    value: Value = Field(default=None, description="比较的值；empty 与 not empty 不用写", examples=[2020])


class MetadataCondition(AskedElsewhere):
    """没有这个字段的文档，除 empty 外一概不符合。文字逐字比较，分大小写；"2024" 既是文字也是数字。

    所有的条件合起来至多 100 个字段、1000 个值；一个条件有几个字段，它的值就按几份计。
    """

    logical_operator: Literal["and", "or"] = "and"
    conditions: list[Condition] = Field(default=[], max_length=CONDITION_LIMIT)


# ── as filters ───────────────────────────────────────────────────────────────────────────────────


def where_of(told: MetadataCondition | None) -> Filter:
    """Raises InvalidField for what no filter can say."""
    if told is None:
        return EVERYTHING
    _check_size(told.conditions)
    parts = [_filter(each, f"{AT}.{place}") for place, each in enumerate(told.conditions)]
    kept = tuple(part for part in parts if part is not None)
    if not kept:
        return EVERYTHING
    return And(kept) if told.logical_operator == "and" else Or(kept)


def _check_size(conditions: Sequence[Condition]) -> None:
    """Every name of a condition is asked for all of its values: they count once for each."""
    names = values = characters = 0
    for each in conditions:
        several = len(each.name) if isinstance(each.name, list) else 1
        told = each.value if isinstance(each.value, list) else [each.value]
        names += several
        values += several * len(told)
        characters += several * sum(len(one) for one in told if isinstance(one, str))
    if names > CONDITION_LIMIT or values > VALUE_LIMIT or characters > TEXTS_LIMIT:
        most = f"{CONDITION_LIMIT} 个字段、{VALUE_LIMIT} 个值、{TEXTS_LIMIT} 个字符"
        raise InvalidField(AT, f"所有的条件合起来超过 {most}", hint="减少条件")


def _filter(condition: Condition, at: str) -> Filter | None:
    """None for a condition that asks for nothing."""
    operator = MEANT.get(condition.comparison_operator, condition.comparison_operator)
    if condition.value is None and operator not in ("empty", "not empty"):
        return None
    names = condition.name if isinstance(condition.name, list) else [condition.name]
    parts = tuple(_judged(_field(name, at), operator, condition.value, f"{at}.value") for name in names)
    if len(parts) == 1:
        return parts[0]
    return And(parts) if operator in OF_EACH else Or(parts)


def _field(name: str, at: str) -> str:
    if name in UNKNOWN_HERE:
        hint = "用 doc_id，或在问题里写 @文档名；文档的元数据里若有这个字段，写 metadata." + name
        raise InvalidField(f"{at}.name", "不能按文档名筛选", hint=hint)
    return OWN_NAMES.get(name) or (name if name.startswith(METADATA) and name != METADATA else METADATA + name)


def _judged(field: str, operator: str, value: Any, at: str) -> Filter:
    if operator in DENIALS:
        is_so = _judged(field, DENIALS[operator], value, at)
        nothing_is_asked = isinstance(is_so, In) and not is_so.values  # to be none of none
        return EVERYTHING if nothing_is_asked else And((_there(field), Not(is_so)))
    if operator == "empty":
        return Not(_filled(field))
    if operator == "not empty":
        return _filled(field)
    if operator == "in":
        return In(field, tuple(alike for one in _several(value) for alike in _alike(one)))
    if isinstance(value, list):
        raise InvalidField(at, "这种比较要一个值，而不是列表", hint="几个值用 in 或 not in")
    if operator == "is":
        return In(field, _alike(value))
    if operator == "=":
        return In(field, (*_alike(value), *_measured(value)))
    if operator in SPELLINGS:
        return Spelled(field, **{SPELLINGS[operator]: _text(value)})
    return _order(field, ORDERS[operator], value, at)


def _there(field: str) -> Filter:
    """It has a value, be it an empty text."""
    return Or((Spelled(field), _some_number(field), In(field, (True, False))))


def _filled(field: str) -> Filter:
    return Or((Range(field, gt=""), _some_number(field), In(field, (True, False))))


def _some_number(field: str) -> Filter:
    return Range(field, ge=-sys.float_info.max)


def _order(field: str, bound: str, value: Any, at: str) -> Filter:
    if isinstance(value, bool):
        raise InvalidField(at, "真假不能比大小", hint="用 is")
    return Or(tuple(Range(field, **{bound: each}) for each in (value, *_measured(value))))


def _several(value: Any) -> Sequence[Scalar]:
    """The values of ``in``: a list, or a text in which they stand between commas."""
    if isinstance(value, list):
        return value
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else [value]


def _alike(value: Scalar) -> tuple[Scalar, ...]:
    """The value, and what is written like it."""
    if not isinstance(value, str):
        return value, _text(value)
    read: Callable[[str], Scalar | None] = {"true": lambda _: True, "false": lambda _: False}.get(value, _number)
    other = read(value)
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
    is_so = math.isfinite(number) and abs(number) <= LARGEST and _text(number) == text
    return number if is_so else None


def _measured(value: Scalar) -> tuple[int | float, ...]:
    """The number that a text means where numbers are compared, however it is written: 99.9 also as "99.90"."""
    if not isinstance(value, str):
        return ()
    number = _number(value)
    if number is None and DECIMAL.fullmatch(value.strip()):
        number = float(value)
    return (number,) if number is not None and abs(number) <= LARGEST else ()
