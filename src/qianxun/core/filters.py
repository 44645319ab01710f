"""Filters as a request writes them, and as the engine takes them: a bounded tree of typed conditions, nothing else.

    {"content_type": ["chapter", "table"], "metadata.年份": {"ge": 2020, "lt": 2024}}      both must hold
    {"or": [{"tags": "重要"}, {"not": {"user_id": "u7"}}], "metadata.标题": {"contains": "报销"}}

A value asks for equality, a list for one of its values (an empty one lets nothing through), an object for a range or
for how a text starts, goes on and ends.
``and``, ``or`` and ``not`` may stand at any depth. What a filter means is said by `qianxun.core.types.matches`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from qianxun.core.errors import BadFilter
from qianxun.core.types import EVERYTHING, And, Eq, Everything, Filter, In, Not, Or, Range, Scalar, Spelled, all_of
from qianxun.core.unicode import is_unicode

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
            return In(name, tuple(self._scalar(each, f"{at}[{place}]") for place, each in enumerate(value)))
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
