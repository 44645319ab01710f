"""Options as JSON: all of them, as log, cache key and replay have them; what a caller chose, as a request has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_origin

from qianxun.core.filters import Filter, filter_from_log, filter_to_log
from qianxun.core.option_fields import choices_of, names_of, options_of
from qianxun.core.options import AskOptions, SearchOptions


def params_of(options: Any) -> dict[str, Any]:
    """The fields of an options value as plain JSON, all that are logged. Raises TypeError for what has no such form."""
    return {name: _plain(getattr(options, name)) for name in _logged(options.__class__)}


@cache
def _logged(kind: Any) -> tuple[str, ...]:
    offered = options_of(kind)
    return tuple(name for name in names_of(kind) if name not in offered or offered[name].is_logged)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Filter):
        return filter_to_log(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    raise TypeError(f"no plain form of {type(value).__name__}")


def choices_from(kind: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments that `params_of` was written from: those that a caller can choose."""
    return {
        name: _read_param(offered.type, params[name]) for name, offered in choices_of(kind).items() if name in params
    }


def _read_param(kind: Any, value: Any) -> Any:
    if kind == Filter:
        return filter_from_log(value)
    return tuple(value) if get_origin(kind) is tuple else value


# ── as a request writes them ─────────────────────────────────────────────────────────────────────


def request_body(kind: Any, query: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """The body of the HTTP request that chooses the same; defaults are left out, but for the mode.

    Raises TypeError for an unknown choice.
    """
    offered = choices_of(kind)
    if unknown := sorted(choices.keys() - offered.keys()):
        raise TypeError(f"there is no option {', '.join(unknown)}")
    body: dict[str, Any] = {"query": query}
    for name in (name for name in offered if choices.get(name) is not None or name == "mode"):
        offer, chosen = offered[name], choices.get(name)
        is_default = chosen == offer.default and not offer.in_base and name != "mode"
        if is_default or (value := offer.to_wire(chosen)) in ([], {}):
            continue
        *sections, last = offer.wire.split(".")
        _section(body, sections)[last] = value
    return body


def _section(body: dict[str, Any], path: Iterable[str]) -> dict[str, Any]:
    for name in path:
        body = body.setdefault(name, {})
    return body


def search_body(query: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """The request that searches as `Engine.retrieve` does with these choices."""
    chosen = {"mode": "hybrid", **{name: value for name, value in choices.items() if value is not None}}
    body = request_body(SearchOptions, query, chosen)
    if chosen["mode"] == "fulltext":  # the engine applies its options in every mode
        _section(body, ["retrieval_config"])["as_written"] = True
    return body


def ask_body(question: str, choices: Mapping[str, Any], *, stream: bool = False) -> dict[str, Any]:
    """The request that asks as `Engine.ask` does with these choices."""
    body = request_body(AskOptions, question, {"mode": "mix", **choices})
    return {**body, "stream": True} if stream else body
