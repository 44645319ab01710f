"""Frozen dataclasses as plain JSON and back, by their declared types: the one codec of wire, log, and checkpoints.

`plain` writes a value field by field, `read` makes it again. With `shapes` some classes are written otherwise: under
other names, with the fields of an inner value among their own, or without some fields (`wire.SHAPES`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from qianxun.core.filters import Filter, read_filters, written_filters

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Shape:
    """How the JSON of one class differs from its fields."""

    names: Mapping[str, str] = field(default_factory=dict)  # field → JSON name
    inline: tuple[str, ...] = ()  # fields whose own fields stand among ours
    absent: Mapping[str, Any] = field(default_factory=dict)  # fields that are not written → what is read for them
    newer: tuple[str, ...] = ()  # fields that older versions do not write: read back, they have their defaults


Shapes = Mapping[type, Shape]
NO_SHAPES: Final[Shapes] = {}
AS_IT_IS: Final = Shape()
_SCALARS: Final = frozenset((str, int, float, bool, types.NoneType))
_FILTERS: Final = frozenset(get_args(Filter))


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def plain(value: Any, shapes: Shapes = NO_SHAPES) -> Any:
    """Dataclasses as objects, tuples as lists, filters as requests write them, numbers of numpy as Python's.

    Raises TypeError for anything else.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple or kind is list:
        return [inner if type(inner) in _SCALARS else plain(inner, shapes) for inner in value]
    if kind is dict:
        return {str(key): inner if type(inner) in _SCALARS else plain(inner, shapes) for key, inner in value.items()}
    if kind in _FILTERS:
        return written_filters(value)
    if hasattr(kind, "__dataclass_fields__"):
        writer = _WRITERS.get((kind, id(shapes))) or _writer(kind, shapes)
        return writer(value, shapes)
    return _converted(value, shapes)


def _converted(value: Any, shapes: Shapes) -> Any:
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)  # numpy's float is one, too, and not every checkpoint knows it
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain(inner, shapes) for inner in value]
    if isinstance(value, Mapping):
        return {str(key): plain(inner, shapes) for key, inner in value.items()}
    if hasattr(value, "item"):
        return plain(value.item(), shapes)
    raise TypeError(f"no plain form of {type(value).__name__}")


Writer = Callable[[Any, "Shapes"], dict[str, Any]]
_WRITERS: Final[dict[tuple[type, int], Writer]] = {}  # a table of shapes is made once and never changed


def _writer(kind: Any, shapes: Shapes) -> Writer:
    """A function that writes values of one class, compiled as dataclasses compile theirs: a loop over the fields takes
    five times as long, and a search writes hundreds of them."""
    items = ", ".join(f"{name!r}: {expression}" for name, expression in _items(kind, shapes, "value").items())
    writer: Writer = eval(f"lambda value, shapes: {{{items}}}", {"plain": plain})  # of names of fields alone
    return _WRITERS.setdefault((kind, id(shapes)), writer)


def _items(kind: Any, shapes: Shapes, at: str) -> dict[str, str]:
    """JSON name → the expression that gives its value. Where there are shapes, numbers are taken to be Python's."""
    return {
        name: f"{at}.{one.path}"
        if shapes is not NO_SHAPES and _is_scalar(one.hint)
        else f"plain({at}.{one.path}, shapes)"
        for name, one in json_fields(kind, shapes).items()
    }


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field of a class as its JSON has it."""

    path: str  # from the value: "score", "chunk.text"
    hint: Any
    owner: type  # the class that declares it
    name: str  # … and its name there
    default: Any  # MISSING where it must be given


def json_fields(kind: Any, shapes: Shapes = NO_SHAPES) -> dict[str, JsonField]:
    """By their names in JSON. Of an inline value only what the outer one has not."""
    shape, hints = shapes.get(kind, AS_IT_IS), get_type_hints(kind)
    found: dict[str, JsonField] = {}
    for declared in (one for one in fields(kind) if one.name not in shape.absent):
        name = declared.name
        if name in shape.inline:
            inner = json_fields(hints[name], shapes)
            found = {key: replace(one, path=f"{name}.{one.path}") for key, one in inner.items()} | found
        else:
            found[shape.names.get(name, name)] = JsonField(name, hints[name], kind, name, declared.default)
    return found


def _is_scalar(hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return all(_is_scalar(kind) for kind in get_args(hint))
    return hint in _SCALARS or get_origin(hint) is Literal


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read(kind: type[Value], written: Mapping[str, Any], shapes: Shapes = NO_SHAPES) -> Value:
    """The value that `plain` wrote. Raises KeyError or TypeError, naming what is missing; without shapes, only a field
    that has no default."""
    shape = shapes.get(kind, AS_IT_IS)
    values = dict(shape.absent)
    for name, written_name, reader in _READERS.get((kind, id(shapes))) or _readers(kind, shapes):
        if written_name is None:
            values[name] = reader(written, shapes)
        elif written_name in written:
            inner = written[written_name]
            values[name] = inner if reader is _as_written else reader(inner, shapes)
        elif shapes is not NO_SHAPES and name not in shape.newer:
            raise KeyError(written_name)
    return kind(**values)


Reader = Callable[[Any, Shapes], Any]
Readers = tuple[tuple[str, str | None, Reader], ...]
_READERS: Final[dict[tuple[type, int], Readers]] = {}


def _readers(kind: Any, shapes: Shapes) -> Readers:
    """For every field its JSON name (None: inline) and what reads it."""
    shape, hints = shapes.get(kind, AS_IT_IS), get_type_hints(kind)
    names = [one.name for one in fields(kind) if one.name not in shape.absent]
    readers = tuple(
        (name, None if name in shape.inline else shape.names.get(name, name), _reader(hints[name])) for name in names
    )
    return _READERS.setdefault((kind, id(shapes)), readers)


def _as_written(written: Any, _: Shapes) -> Any:
    return written


@cache
def _reader(hint: Any) -> Reader:
    """What makes a value of the declared type out of JSON."""
    if hint == Filter:
        return lambda written, _: read_filters(written)
    if hint is datetime:
        return lambda written, _: datetime.fromisoformat(written)
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda written, shapes: read(hint, written, shapes)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union_reader(inner)
    if origin is tuple:
        return _tuple_reader(inner)
    if origin not in (None, Literal) and issubclass(origin, Mapping):
        reader = _reader(inner[1])
        return lambda written, shapes: {key: reader(value, shapes) for key, value in written.items()}
    return _as_written


def _union_reader(kinds: tuple[Any, ...]) -> Reader:
    """At most one of the kinds is an object or a list; all others are what JSON has for itself, or moments."""
    if datetime in kinds and str not in kinds:
        return lambda written, _: datetime.fromisoformat(written) if isinstance(written, str) else written
    nested = [_reader(kind) for kind in kinds if _is_nested(kind)]
    if not nested:
        return _as_written
    return lambda written, shapes: nested[0](written, shapes) if isinstance(written, dict | list) else written


def _is_nested(kind: Any) -> bool:
    return (isinstance(kind, type) and is_dataclass(kind)) or get_origin(kind) not in (None, Literal)


def _tuple_reader(kinds: tuple[Any, ...]) -> Reader:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        reader = _reader(kinds[0])
        return lambda written, shapes: tuple([reader(item, shapes) for item in written])
    readers = [_reader(kind) for kind in kinds]
    return lambda written, shapes: tuple(reader(one, shapes) for reader, one in zip(readers, written, strict=True))
