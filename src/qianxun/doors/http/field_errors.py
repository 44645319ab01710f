"""Fields that were refused, by a validator or later by the engine, and the reason in the caller's language."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic_core import ErrorDetails

from qianxun.core.errors import BadInput, QianxunError
from qianxun.doors.http.error_formats import FieldProblem

FIELDS_SHOWN: Final = 20
FIELDS_IN_MESSAGE: Final = 3
MAX_REASON: Final = 200  # characters: a reason may quote the caller's text
BLANK: Final = "Should say what to look for"  # pydantic's own message would quote a pattern
# Parts of an error's location that name the type that was tried, not a field.
_TYPE_TRIED: Final = re.compile(r"constrained-(str|int|float)|(list|dict)\[[a-z,\-\[\]]+\]")


class InvalidField(BadInput):
    """A field of a request that passed its validator and was refused later. Status 422."""

    word = "validation"

    def __init__(self, field: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{field}：{reason}", hint=hint)
        self.field = field
        self.reason = reason


@contextmanager
def blaming(field: str, *kinds: type[QianxunError]) -> Iterator[None]:
    """Errors of these kinds that the block raises become InvalidField of ``field``."""
    try:
        yield
    except kinds as error:
        raise InvalidField(field, error.message, hint=error.hint) from error


@cache
def _reasons() -> Mapping[str, str]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def field_problems(
    errors: Sequence[ErrorDetails | Mapping[str, Any]], english: bool = False
) -> tuple[str, list[FieldProblem]]:
    """A message for people, and the refused fields. Of a union, the reason why its first type does not fit."""
    first: dict[str, ErrorDetails | Mapping[str, Any]] = {}
    for error in errors:
        first.setdefault(_field(error), error)
    fields = [
        FieldProblem(field=field, reason=_reason(error, english)) for field, error in list(first.items())[:FIELDS_SHOWN]
    ]
    shown = fields[:FIELDS_IN_MESSAGE]
    message = "；".join(f"{problem.field}：{problem.reason}" if problem.field else problem.reason for problem in shown)
    return message + (f"，等 {len(first)} 处" if len(first) > FIELDS_IN_MESSAGE else ""), fields


def _field(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return "body"
    location = [str(part) for part in error["loc"] if not _TYPE_TRIED.fullmatch(str(part))]
    if location and location[0] in ("body", "query", "path", "header"):
        location = location[1:] or location
    return ".".join(location)[:MAX_REASON]


def _reason(error: Mapping[str, Any], english: bool) -> str:
    message: str = error["msg"]
    if error["type"] == "json_invalid":
        return _json_reason(error, english)
    is_blank = error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == r"\S"
    if is_blank and english:
        return BLANK
    template = _reasons().get("blank" if is_blank else error["type"])
    if template is None or english:
        return message[:MAX_REASON]
    context = error.get("ctx", {})
    if isinstance(context.get("expected"), str):  # 'a', 'b' or 'c'
        context = {**context, "expected": context["expected"].replace("' or '", "' 或 '").replace("', '", "'、'")}
    try:
        return template.format(**context)[:MAX_REASON]
    except KeyError:
        return message[:MAX_REASON]


def _json_reason(error: Mapping[str, Any], english: bool) -> str:
    """Where the body stops being JSON: FastAPI gives a position, pydantic a line and a column."""
    position = error["loc"][-1] if error["loc"] and isinstance(error["loc"][-1], int) else None
    if english:
        return str(error["msg"]) + ("" if position is None else f" (at character {position + 1})")
    line = re.search(r"at line (\d+) column (\d+)", error["msg"])
    if line is not None:
        return f"{_reasons()['json_invalid']}（读到第 {line[1]} 行第 {line[2]} 列）"
    return _reasons()["json_invalid"] + ("" if position is None else f"（读到第 {position + 1} 个字符）")
