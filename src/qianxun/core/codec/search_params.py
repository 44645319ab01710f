"""The parameters of a search as plain JSON, and back: the same in the log, in a cache key and in a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from qianxun.core.types import EVERYTHING, And, Eq, Everything, Filter, In, Not, Or, Range, Spelled

# The keyword arguments of `Engine.retrieve`.
ARGUMENTS = ("top_k", "mode", "threshold", "where", "doc_ids", "fusion", "weights", "rerank", "fuzzy")


def params_of(options: Any) -> dict[str, Any]:
    """Every field of a `RecallOptions` (or another dataclass of scalars, tuples, mappings and a filter)."""
    return {each.name: _plain(getattr(options, each.name)) for each in fields(options)}


def arguments_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """What `Engine.retrieve` takes to search the same way again."""
    found = {name: params[name] for name in ARGUMENTS if name in params}
    if "where" in found:
        found["where"] = read_filter(found["where"])
    if "doc_ids" in found:
        found["doc_ids"] = tuple(found["doc_ids"])
    return found


def layered_params(top_k: int | None, where: Filter, answer: bool | None = None) -> dict[str, Any]:
    """The arguments of `Engine.search_texts`, or with ``answer`` of `search_tables`."""
    told: dict[str, Any] = {"top_k": top_k, "where": written_filter(where)}
    return told if answer is None else {**told, "answer": answer}


def layered_arguments(params: Mapping[str, Any]) -> dict[str, Any]:
    """What these take to search the same way again."""
    return {**params, "where": read_filter(params["where"])}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (Everything, Eq, In, Range, Spelled, And, Or, Not)):
        return written_filter(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    raise TypeError(f"no plain form of {type(value).__name__}")


def written_filter(where: Filter) -> dict[str, Any]:
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
            return {"op": "and", "parts": [written_filter(part) for part in parts]}
        case Or(parts):
            return {"op": "or", "parts": [written_filter(part) for part in parts]}
        case Not(part):
            return {"op": "not", "part": written_filter(part)}


def read_filter(written: Mapping[str, Any]) -> Filter:
    """The filter that was written; KeyError for what never was one."""
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
            return And(tuple(read_filter(part) for part in written["parts"]))
        case "or":
            return Or(tuple(read_filter(part) for part in written["parts"]))
        case "not":
            return Not(read_filter(written["part"]))
    raise KeyError(written["op"])
