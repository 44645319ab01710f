"""A search as the command that runs it: for suggested commands, and for people who copy one."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any, Final

from qianxun.core.filters import EVERYTHING, And, Eq, Filter, In, written_filters
from qianxun.core.option_fields import Option, choices_of
from qianxun.core.options import NO_RERANK, SearchOptions

# By field: the flag that filters by it.
FILTER_FLAGS: Final[Mapping[str, str]] = {
    "doc_id": "--doc",
    "user_id": "--user",
    "project_id": "--project",
    "content_type": "--type",
    "tags": "--tag",
}


def quoted(word: str) -> str:
    """Quoted for a shell; `shlex.quote` alone would put every Chinese word in quotes, which no shell needs."""
    return word if word and all(sign.isalnum() or sign in "-_./=:@,+" for sign in word) else shlex.quote(word)


def command_for(start: str, query: str, kb: str, choices: Mapping[str, Any]) -> str:
    """The command that searches with these choices."""
    words = [start, "search", *([] if query.startswith("-") else [quoted(query)]), "--kb", quoted(kb)]
    offered = choices_of(SearchOptions)
    for name, value in choices.items():
        if offered[name].in_base or value != offered[name].default:
            words += _flags(offered[name], value)
    return " ".join(words + (["--", quoted(query)] if query.startswith("-") else []))


def _flags(offered: Option, value: Any) -> list[str]:
    flag = offered.flags[0] if offered.flags else f"--{offered.name.replace('_', '-')}"
    match offered.name:
        case "where":
            return _filter_flags(value)
        case "doc_ids":
            return [word for doc_id in value for word in ("--doc", quoted(doc_id))]
        case "threshold":
            return [flag, f"{math.floor(value * 10_000) / 10_000:g}"]
        case "weights":
            return [flag, ",".join(f"{side}={weight!r}" for side, weight in value.items())]
        case "rerank":
            return [flag, quoted(value) if value else NO_RERANK]
    if offered.type is bool:
        return [flag.split("/")[0 if value else 1]]
    return [flag, quoted(str(value))]


def _filter_flags(where: Filter) -> list[str]:
    if where == EVERYTHING:
        return []
    words: list[str] = []
    for part in where.parts if isinstance(where, And) else (where,):
        if not isinstance(part, Eq | In) or part.field not in FILTER_FLAGS:
            words += ["--where", quoted(json.dumps(written_filters(part), ensure_ascii=False))]
        else:
            values = part.values if isinstance(part, In) else (part.value,)
            words += [word for value in values for word in (FILTER_FLAGS[part.field], quoted(str(value)))]
    return words
