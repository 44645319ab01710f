"""How a field of an options value is offered by the doors: its `Option`, and what is read from a class of such fields.

`core.options` declares them; the doors derive requests, flags, arguments and keywords from `options_of`, `choices_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

AUTO: Final = "auto"  # stands for None, where that leaves the choice to the question


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """How the doors offer one field; `options_of` fills in the first five. A door leaves out a field that has no text
    for it."""

    name: str = ""
    type: Any = None  # as declared, without None: int, float, bool, str, a Literal …
    literals: tuple[str, ...] = ()  # the values of a Literal
    words: tuple[str, ...] = ()  # … and what stands for None, as people and requests write them
    default: Any = None
    wire: str = ""  # its place in the body of a request: "retrieval_config.top_k"; "": no caller can choose it
    also: str = ""  # another place there: what one request has at its top, another has in its section
    label: str = ""  # in messages, where that is not its name
    least: float | None = None
    most: float | None = None
    in_base: bool = False  # a base's configuration, or else the settings, choose it where the caller does not
    about: str = ""  # in the OpenAPI document
    example: Any = None
    flags: tuple[str, ...] = ()  # on the command line, where that is not "--its-name"
    metavar: str | None = None
    help: str = ""  # … 中文 · English
    tool: str = ""  # to a language model that calls the MCP tool
    argument: str = ""  # its name there, where that is not `wire_name`
    to_wire: Callable[[Any], Any] = _same
    from_wire: Callable[[Any], Any] = _same
    is_logged: bool = True  # False: what people said or showed, which a log has no business with

    @property
    def places(self) -> tuple[str, ...]:
        """In the body of a request, its own first."""
        return (self.wire, self.also) if self.also else (self.wire,)

    @property
    def wire_name(self) -> str:
        return self.wire.rpartition(".")[2]

    @property
    def is_plain(self) -> bool:
        """True for a number, a truth value, a text or one of several words: every door can take these by itself."""
        return self.type in (int, float, bool, str) or bool(self.literals)


@cache
def options_of(kind: Any) -> Mapping[str, Option]:
    """By name, in the order of the fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        declared.name: _named(declared, *get_args(hints[declared.name]))
        for declared in fields(kind)
        if get_origin(hints[declared.name]) is Annotated
    }


@cache
def choices_of(kind: Any) -> Mapping[str, Option]:
    """Those that a caller can choose."""
    return {name: offered for name, offered in options_of(kind).items() if offered.wire}


def _named(declared: Field[Any], hint: Any, offered: Option) -> Option:
    parts = tuple(part for part in get_args(hint) if part is not NoneType)
    kind = parts[0] if len(parts) == 1 and NoneType in get_args(hint) else hint
    literals = get_args(kind) if get_origin(kind) is Literal else ()
    words = (*literals, AUTO) if literals and kind is not hint else literals
    default = declared.default if declared.default is not MISSING else None
    return replace(offered, name=declared.name, type=kind, literals=literals, words=words, default=default)


@cache
def names_of(kind: Any) -> tuple[str, ...]:
    return tuple(declared.name for declared in fields(kind))
