"""Options of searches and questions as flags of a command, and back: derived from `qianxun.core.options`.

A command decorated with `with_options` gets their flags in the place of its parameter ``choices``, and is called with
what they choose, as the engine takes it. `qianxun.core.codec.command_line` writes choices as flags again.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from inspect import Parameter
from typing import Annotated, Any, Final

import typer

from qianxun.core.codec.command_line import FILTER_FLAGS
from qianxun.core.errors import BadInput
from qianxun.core.filters import EVERYTHING, Eq, Filter, In, all_of, read_filters, read_scalar
from qianxun.core.option_fields import Option, choices_of
from qianxun.core.options import NO_RERANK
from qianxun.doors.cli.i18n import tr

# By parameter: the flag, the field that it filters by, whether it may be repeated, its metavar and help.
FILTERS: Final[Mapping[str, tuple[str, str, bool, str, str]]] = {
    "doc": (FILTER_FLAGS["doc_id"], "doc_id", True, "ID", "只在这些文档中找 · only in these"),
    "user": (FILTER_FLAGS["user_id"], "user_id", False, "U", "只找这个用户的 · only this user's"),
    "project": (FILTER_FLAGS["project_id"], "project_id", False, "P", "只找这个项目的 · only this project's"),
    "content_type": (FILTER_FLAGS["content_type"], "content_type", True, "T", "只找这些类型 · only these types"),
    "tag": (FILTER_FLAGS["tags"], "tags", True, "X", "只找有其中之一标签的 · with one of them"),
}
WHERE: Final = typer.Option(
    "--where",
    metavar="K=V",
    help="只找元数据符合的，如 年份>=2024，可多次；或一个 JSON 过滤条件 · by metadata, repeatable, or a filter in JSON",
)
_CONDITION: Final = re.compile(r"([^=<>!]+)(>=|<=|!=|=|>|<)(.*)", re.DOTALL)
_BOUNDS: Final = {">=": "ge", "<=": "le", ">": "gt", "<": "lt"}
_FIELDS: Final = frozenset(("doc_id", "user_id", "project_id", "content_type", "tags", "kind"))


def with_options(kind: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Puts the flags of ``kind`` in the place of the command's parameter ``choices``."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        derived = [parameter for offered in choices_of(kind).values() for parameter in _parameters(offered)]
        names = [parameter.name for parameter in derived]

        def run(**given: Any) -> None:
            flags = {name: given.pop(name) for name in names}
            command(**given, choices=_choices(kind, flags))

        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [
            flag.replace(kind=Parameter.KEYWORD_ONLY)
            for parameter in own
            for flag in (derived if parameter.name == "choices" else [parameter])
        ]
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorated


def _parameters(offered: Option) -> list[Parameter]:
    if offered.name == "where":
        return [
            _parameter(name, list[str] if is_repeated else str, None, typer.Option(flag, metavar=metavar, help=help))
            for name, (flag, _, is_repeated, metavar, help) in FILTERS.items()
        ] + [_parameter("where", list[str], None, WHERE)]
    if not offered.help:
        return []
    shown = typer.Option(*offered.flags, metavar=offered.metavar, help=offered.help)
    if offered.words:
        words = StrEnum(offered.name, {word: word for word in offered.words})  # type: ignore[misc]
        return [_parameter(offered.name, words, None if offered.in_base else words(offered.default), shown)]
    if offered.type is bool and not offered.in_base:  # --no-answer: given, it is false
        return [_parameter(offered.name, bool, False, shown)]
    kind = offered.type if offered.is_plain else str
    return [_parameter(offered.name, kind, None if offered.in_base else offered.default, shown)]


def _parameter(name: str, kind: Any, default: Any, shown: Any) -> Parameter:
    hint = kind | None if default is None else kind
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, shown])


def _choices(kind: Any, flags: Mapping[str, Any]) -> dict[str, Any]:
    """What the flags choose, where they were given, as keyword arguments of the engine."""
    offered = choices_of(kind)
    chosen: dict[str, Any] = {}
    if "doc_ids" in offered:
        chosen["doc_ids"] = tuple(flags["doc"] or ())
        flags = {**flags, "doc": None}
    written = [parse_where(condition) for condition in flags.get("where") or ()]
    chosen["where"] = all_of(*(_condition(name, flags[name]) for name in FILTERS), *written)
    for name, offer in offered.items():
        if name != "where" and (given := flags.get(name)) is not None:
            chosen[name] = _value(offer, given)
    return chosen


def _condition(name: str, given: str | Sequence[str] | None) -> Filter:
    field = FILTERS[name][1]
    if isinstance(given, str):
        return Eq(field, given)
    return In(field, tuple(given)) if given else EVERYTHING


def parse_where(written: str) -> Filter:
    """``年份>=2024`` about metadata, ``user_id=u7`` about a field of the document, or the language of requests in JSON.

    A value is read as JSON where it is JSON: 2024 is a number, "2024" in quotes a text. Raises BadInput or BadFilter.
    """
    hint = tr(
        """写成 年份=2024、'年份>=2020'、部门!=财务，或 '{"metadata.标题": {"contains": "报销"}}'""",
        """Write year=2024, 'year>=2020', team!=sales, or '{"metadata.title": {"contains": "claims"}}'""",
    )
    if written.lstrip().startswith("{"):
        try:
            return read_filters(json.loads(written), "where")
        except ValueError as error:
            raise BadInput(
                tr(f"--where {written} 不是合法的 JSON", f"--where {written} is no JSON"), hint=hint
            ) from error
    parts = _CONDITION.fullmatch(written)
    if parts is None or not parts[1].strip() or (parts[2] in _BOUNDS and not parts[3].strip()):
        raise BadInput(tr(f"看不懂 --where {written}", f"--where {written} cannot be read"), hint=hint)
    name, sign, value = parts[1].strip(), parts[2], read_scalar(parts[3].strip())
    field = name if name in _FIELDS or name.startswith("metadata.") else f"metadata.{name}"
    if sign == "=":
        return read_filters({field: value}, "where")
    if sign == "!=":
        return read_filters({"not": {field: value}}, "where")
    return read_filters({field: {_BOUNDS[sign]: value}}, "where")


def _value(offered: Option, given: Any) -> Any:
    if offered.words:
        return offered.from_wire(given.value)
    if offered.name == "weights":
        return _weights(given)
    if offered.name == "rerank":
        return "" if given == NO_RERANK else given
    return not given if offered.type is bool and not offered.in_base else given


def _weights(given: str) -> dict[str, float]:
    """``vector=.7,keyword=.3``"""
    try:
        pairs = [part.split("=", 1) for part in given.split(",") if part.strip()]
        return {name.strip(): float(weight) for name, weight in pairs}
    except ValueError as error:
        raise BadInput(
            tr(f"看不懂权重 {given!r}", f"These weights cannot be read: {given!r}"),
            hint=tr("写成 vector=.7,keyword=.3", "Write them as vector=.7,keyword=.3"),
        ) from error
