"""Filters as a request writes them, and as the engine takes them: a bounded tree of typed conditions, nothing else.

    {"content_type": ["chapter", "table"], "metadata.年份": {"ge": 2020, "lt": 2024}}      both must hold
    {"or": [{"tags": "重要"}, {"not": {"user_id": "u7"}}], "metadata.标题": {"contains": "报销"}}

A value asks for equality, a list for one of its values (an empty one lets nothing through), an object for a range or
for how a text starts, goes on and ends.
``and``, ``or`` and ``not`` may stand at any depth. `matches` defines what a filter means.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.errors import BadFilter
from qianxun.core.unicode import is_unicode

Scalar: TypeAlias = str | int | float | bool
MetadataValue: TypeAlias = Scalar | tuple[Scalar, ...]
Metadata: TypeAlias = Mapping[str, MetadataValue]
ChunkKind: TypeAlias = Literal["text", "table"]
CHUNK_KINDS: Final[tuple[ChunkKind, ...]] = ("text", "table")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a filter may ask about a chunk; all of it but its ``kind`` belongs to the chunk's document."""

    doc_id: str
    user_id: str = ""
    project_id: str = ""
    content_type: str = ""
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    kind: ChunkKind = "text"

    def values(self, name: str) -> tuple[Scalar, ...]:
        """The values of a field: ``user_id``, ``tags``, ``metadata.年份`` …; none when it is absent."""
        if name.startswith("metadata."):
            found = self.metadata.get(name.removeprefix("metadata."))
            if found is None:
                return ()
            return found if isinstance(found, tuple) else (found,)
        if name == "tags":
            return self.tags
        if name in ("doc_id", "user_id", "project_id", "content_type", "kind"):
            value: str = getattr(self, name)
            return (value,)
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Everything:
    """Lets every chunk through."""


@dataclass(frozen=True, slots=True)
class Eq:
    """The field has this value; a list field has it among its values."""

    field: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class In:
    """The field has one of these values."""

    field: str
    values: tuple[Scalar, ...]
    # A string equals nothing but that string, as for Python: a thousand document ids are compared in one go.
    _texts: frozenset[str] = dataclasses.field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_texts", frozenset(value for value in self.values if isinstance(value, str)))

    def has(self, value: Scalar) -> bool:
        if isinstance(value, str):
            return value in self._texts
        return any(same_scalar(one, value) for one in self.values)


@dataclass(frozen=True, slots=True)
class Range:
    """Some value of the field lies between the bounds. Numbers compare with numbers, strings with strings."""

    field: str
    ge: int | float | str | None = None
    gt: int | float | str | None = None
    le: int | float | str | None = None
    lt: int | float | str | None = None

    def bounds(self) -> Iterator[tuple[str, int | float | str]]:
        for name in ("ge", "gt", "le", "lt"):
            bound = getattr(self, name)
            if bound is not None:
                yield name, bound


@dataclass(frozen=True, slots=True)
class Spelled:
    """Some text among the field's values starts, goes on and ends so, letter by letter. "" asks for any text."""

    field: str
    starts: str = ""
    contains: str = ""
    ends: str = ""

    def parts(self) -> Iterator[tuple[str, str]]:
        for name in ("starts", "contains", "ends"):
            part: str = getattr(self, name)
            if part:
                yield name, part


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Filter


Filter: TypeAlias = Everything | Eq | In | Range | Spelled | And | Or | Not
EVERYTHING = Everything()


def read_scalar(written: str) -> Scalar:
    """As people type it: a number, a truth or a quoted text where it is that in JSON, else as it is written."""
    try:
        value = json.loads(written)
    except ValueError:
        return written
    return value if isinstance(value, str | int | float | bool) else written


def same_scalar(left: Scalar, right: Scalar) -> bool:
    """JSON equality: 1 equals 1.0, True equals neither, "1" equals neither."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left == right
    return left == right


def matches(where: Filter, attributes: Attributes) -> bool:
    """The meaning of a filter. Every index must let through exactly what this lets through."""
    match where:
        case Everything():
            return True
        case Eq(name, value):
            return any(same_scalar(value, found) for found in attributes.values(name))
        case In():
            return any(where.has(found) for found in attributes.values(where.field))
        case Range():
            return any(_within(where, found) for found in attributes.values(where.field))
        case Spelled():
            return any(_is_spelled(where, found) for found in attributes.values(where.field))
        case And(parts):
            return all(matches(part, attributes) for part in parts)
        case Or(parts):
            return any(matches(part, attributes) for part in parts)
        case Not(part):
            return not matches(part, attributes)


def predicate(where: Filter) -> Callable[[Attributes], bool]:
    """`matches` with this filter, for many chunks: most filters are none, or name the kind of chunk."""
    if isinstance(where, Everything):
        return _all_pass
    if isinstance(where, Eq) and where.field == "kind" and isinstance(where.value, str):
        kind = where.value
        return lambda attributes: attributes.kind == kind
    return partial(matches, where)


def _all_pass(_: Attributes) -> bool:
    return True


def _within(where: Range, value: Scalar) -> bool:
    if isinstance(value, bool):
        return False
    return all(_holds(name, value, bound) for name, bound in where.bounds())


def _is_spelled(where: Spelled, value: Scalar) -> bool:
    is_so = isinstance(value, str) and value.startswith(where.starts) and value.endswith(where.ends)
    return is_so and where.contains in str(value)


def _holds(name: str, value: str | int | float, bound: str | int | float) -> bool:
    if isinstance(value, str) != isinstance(bound, str):
        return False
    left: Any = value
    right: Any = bound
    if name == "ge":
        return bool(left >= right)
    if name == "gt":
        return bool(left > right)
    if name == "le":
        return bool(left <= right)
    return bool(left < right)


def all_of(*parts: Filter) -> Filter:
    """The conjunction, without needless nesting."""
    narrowing = tuple(part for part in parts if not isinstance(part, Everything))
    if not narrowing:
        return EVERYTHING
    return narrowing[0] if len(narrowing) == 1 else And(narrowing)


# ── as a request writes them ─────────────────────────────────────────────────────────────────────

FIELDS: Final = ("doc_id", "user_id", "project_id", "content_type", "kind", "tags")
METADATA: Final = "metadata."
BOUNDS: Final[Mapping[str, Literal["ge", "gt", "le", "lt"]]] = {
    "ge": "ge",
    "gte": "ge",
    "gt": "gt",
    "le": "le",
    "lte": "le",
    "lt": "lt",
}
SPELLINGS: Final = ("starts", "contains", "ends")
DEPTH_LIMIT: Final = 8
CONDITION_LIMIT: Final = 100
VALUE_LIMIT: Final = 1000  # of all conditions together
TEXT_LIMIT: Final = 1024  # characters of a value
TEXTS_LIMIT: Final = 65_536  # … and of all values together
NAME_LIMIT: Final = 255  # characters of a field's name
PLACE_LIMIT: Final = 300  # characters shown of the place that is wrong
LARGEST: Final = 2**63 - 1


class BadFilterField(BadFilter):
    """A filter that cannot be taken; ``field`` is the place in it that is wrong: ``filters.or[1].metadata.年份``."""

    def __init__(self, field: str, reason: str, *, hint: str) -> None:
        shown = field[:PLACE_LIMIT].encode("utf-8", "replace").decode("utf-8")
        super().__init__(f"{shown}：{reason}", hint=hint)
        self.field = shown
        self.reason = reason


def read_filters(written: Any, at: str = "filters") -> Filter:
    """The filter that a request wrote; None and {} let everything through. Raises BadFilterField."""
    return EVERYTHING if written is None else _Reader().read(written, at, 1)


@dataclass
class _Reader:
    """Counts what it has read: a filter is bounded as a whole, not only at each of its places."""

    conditions: int = 0
    values: int = 0
    characters: int = 0

    def read(self, written: Any, at: str, depth: int) -> Filter:
        if not isinstance(written, Mapping):
            raise BadFilterField(at, "应为对象", hint='例如 {"content_type": ["chapter"]}')
        if depth > DEPTH_LIMIT:
            raise BadFilterField(at, f"嵌套超过 {DEPTH_LIMIT} 层", hint="把条件写得浅一些")
        if not written:
            self._count(at)  # it asks for nothing, and a million of them for a million looks at every chunk
        return all_of(*(self._entry(name, value, f"{at}.{name}", depth) for name, value in written.items()))

    def _entry(self, name: str, value: Any, at: str, depth: int) -> Filter:
        self._count(at)
        if name == "and":
            return And(self._parts(value, at, depth))
        if name == "or":
            return Or(self._parts(value, at, depth))
        if name == "not":
            return Not(self.read(value, at, depth + 1))
        _check_name(name, at)
        return self._condition(name, value, at)

    def _count(self, at: str) -> None:
        self.conditions += 1
        if self.conditions > CONDITION_LIMIT:
            raise BadFilterField(at, f"条件超过 {CONDITION_LIMIT} 个", hint="合并或减少条件")

    def _parts(self, value: Any, at: str, depth: int) -> tuple[Filter, ...]:
        if not isinstance(value, list):
            raise BadFilterField(at, "应为条件的列表", hint='例如 {"or": [{"tags": "重要"}, {"user_id": "u7"}]}')
        return tuple(self.read(part, f"{at}[{place}]", depth + 1) for place, part in enumerate(value))

    def _condition(self, name: str, value: Any, at: str) -> Filter:
        if isinstance(value, Mapping):
            is_spelling = any(written in SPELLINGS for written in value)
            return self._spelled(name, value, at) if is_spelling else self._range(name, value, at)
        if isinstance(value, list):
            return In(name, tuple(self._scalar(item, f"{at}[{place}]") for place, item in enumerate(value)))
        return Eq(name, self._scalar(value, at))

    def _range(self, name: str, value: Mapping[str, Any], at: str) -> Range:
        bounds: dict[str, Any] = {}
        for written, bound in value.items():
            if written not in BOUNDS:
                raise BadFilterField(
                    f"{at}.{written}", "没有这个界限", hint="可用：ge、gt、le、lt，或 starts、contains、ends"
                )
            if BOUNDS[written] in bounds:
                raise BadFilterField(f"{at}.{written}", "同一个界限写了两次", hint="只留一个")
            read = self._scalar(bound, f"{at}.{written}")
            if isinstance(read, bool):
                raise BadFilterField(f"{at}.{written}", "界限应为数字或文字", hint="真假值请直接写，不用界限")
            bounds[BOUNDS[written]] = read
        if not bounds:
            raise BadFilterField(at, "没有界限", hint='例如 {"ge": 2020, "lt": 2024}')
        return Range(name, **bounds)

    def _spelled(self, name: str, value: Mapping[str, Any], at: str) -> Spelled:
        parts: dict[str, str] = {}
        for written, part in value.items():
            if written not in SPELLINGS:
                hint = "可用：starts、contains、ends；界限另写一个条件，用 and 连起来"
                raise BadFilterField(f"{at}.{written}", "不能与 starts、contains、ends 写在一起", hint=hint)
            read = self._scalar(part, f"{at}.{written}")
            if not isinstance(read, str):
                raise BadFilterField(f"{at}.{written}", "应为文字", hint="数字请用界限：ge、gt、le、lt")
            parts[written] = read
        return Spelled(name, **parts)

    def _scalar(self, value: Any, at: str) -> Scalar:
        self.values += 1
        if self.values > VALUE_LIMIT:
            raise BadFilterField(at, f"值超过 {VALUE_LIMIT} 个", hint="减少值，或换成范围")
        if isinstance(value, str):
            self.characters += len(value)
            if self.characters > TEXTS_LIMIT:
                raise BadFilterField(at, f"所有的值合起来超过 {TEXTS_LIMIT} 个字符", hint="减少值，或缩短它们")
            return _text(value, at)
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and -LARGEST <= value <= LARGEST:
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        raise BadFilterField(at, "值应为文字、数字或真假", hint="数字须在 64 位之内；没有值的条件请去掉")


def _text(value: str, at: str) -> str:
    if len(value) > TEXT_LIMIT:
        raise BadFilterField(at, f"文字超过 {TEXT_LIMIT} 个字符", hint="缩短它")
    if not is_unicode(value):
        raise BadFilterField(at, "不是合法的 Unicode 文字", hint="去掉不成对的代理字符")
    return value


def _check_name(name: str, at: str) -> None:
    is_known = name in FIELDS or (name.startswith(METADATA) and name != METADATA)
    if not is_known or len(name) > NAME_LIMIT or not is_unicode(name):
        known = "、".join((*FIELDS, "metadata.<字段>", "and", "or", "not"))
        raise BadFilterField(at, "没有可过滤的字段", hint=f"可用：{known}")


def written_filters(where: Filter) -> dict[str, Any]:
    """The filter as a request writes it: `read_filters` of this lets through the same. Raises BadFilter for what is
    none: left out, it would let everything through."""
    match where:
        case Everything():
            return {}
        case Eq(name, value):
            return {name: value}
        case In(name, values):
            return {name: list(values)}
        case Range():
            return {where.field: dict(where.bounds())}
        case Spelled():
            return {where.field: dict(where.parts()) or {"contains": ""}}
        case And(parts):
            return _together([written_filters(part) for part in parts])
        case Or(parts):
            return {"or": [written_filters(part) for part in parts]}
        case Not(part):
            return {"not": written_filters(part)}
        case _:
            raise not_a_filter(where)


def not_a_filter(where: object) -> BadFilter:
    hint = "程序里写 Eq(…)、In(…) 等，或 read_filters(…)；请求里的写法只用于请求"
    return BadFilter(f"where 是 {type(where).__name__}，不是过滤条件", hint=hint)


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One object where no two parts share a name: as a request would write it, and no deeper."""
    merged = {name: value for part in parts for name, value in part.items()}
    return merged if len(merged) == sum(map(len, parts)) else {"and": parts}


# ── as the log, the cache and checkpoints write them ─────────────────────────────────────────────


def filter_to_log(where: Filter) -> dict[str, Any]:
    """The filter with its structure, as plain JSON."""
    match where:
        case Everything():
            return {"op": "everything"}
        case Eq(name, value):
            return {"op": "eq", "field": name, "value": value}
        case In(name, values):
            return {"op": "in", "field": name, "values": list(values)}
        case Range():
            return {"op": "range", "field": where.field, **dict(where.bounds())}
        case Spelled():
            return {"op": "spelled", "field": where.field, **dict(where.parts())}
        case And(parts):
            return {"op": "and", "parts": [filter_to_log(part) for part in parts]}
        case Or(parts):
            return {"op": "or", "parts": [filter_to_log(part) for part in parts]}
        case Not(part):
            return {"op": "not", "part": filter_to_log(part)}


def filter_from_log(written: Mapping[str, Any]) -> Filter:
    """The filter that `filter_to_log` wrote. Raises KeyError for anything else."""
    match written["op"]:
        case "everything":
            return EVERYTHING
        case "eq":
            return Eq(written["field"], written["value"])
        case "in":
            return In(written["field"], tuple(written["values"]))
        case "range":
            return Range(written["field"], **{name: written.get(name) for name in ("ge", "gt", "le", "lt")})
        case "spelled":
            return Spelled(written["field"], **{name: written.get(name, "") for name in ("starts", "contains", "ends")})
        case "and":
            return And(tuple(filter_from_log(part) for part in written["parts"]))
        case "or":
            return Or(tuple(filter_from_log(part) for part in written["parts"]))
        case "not":
            return Not(filter_from_log(written["part"]))
    raise KeyError(written["op"])
