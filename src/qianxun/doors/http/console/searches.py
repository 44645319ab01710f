"""A search as the bench writes it into an address, and back: the settings of A and of B, the filter they share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from qianxun.core.codec.command_line import command_for, quoted
from qianxun.core.codec.options import choices_from, search_body
from qianxun.core.errors import BadInput
from qianxun.core.filters import EVERYTHING, Eq, Filter, In, Scalar, all_of, read_filters, written_filters
from qianxun.core.option_fields import options_of
from qianxun.core.options import NO_RERANK, SearchChoices, SearchOptions
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.console.forms import Fields

SIDES: Final = ("", "b_")  # what the names of a side's fields begin with
SETTINGS: Final = ("mode", "top_k", "threshold", "fusion", "rerank", "fuzzy", "as_of")
MODES: Final = options_of(SearchOptions)["mode"].literals
FUSIONS: Final = options_of(SearchOptions)["fusion"].literals


@dataclass(frozen=True, slots=True)
class BenchSearch:
    """What the bench is asked for. ``sides`` are the chosen settings as texts, "" for those left to the base."""

    base: int | None = None
    query: str = ""
    sides: tuple[Mapping[str, str], ...] = ({},)
    clicked: tuple[str, ...] = ()  # conditions from the base's own metadata: ["metadata.年份", 2025]
    doc_ids: tuple[str, ...] = ()
    where: Filter = field(default=EVERYTHING)  # a further one, that no click wrote

    @property
    def is_compared(self) -> bool:
        return len(self.sides) > 1

    def filter(self) -> Filter:
        """Values of one field are alternatives, fields must all hold."""
        values: dict[str, list[Scalar]] = {}
        for written in self.clicked:
            name, value = _condition(written)
            values.setdefault(name, []).append(value)
        parts = [Eq(name, own[0]) if len(own) == 1 else In(name, tuple(own)) for name, own in values.items()]
        return all_of(*parts, self.where)

    def choices(self, side: int) -> SearchChoices:
        """The options of `Engine.retrieve`. Raises BadInput for what is no number."""
        fields, chosen = Fields(self.sides[side]), SearchChoices()
        if mode := fields.text("mode"):
            chosen["mode"] = mode  # type: ignore[typeddict-item]  # `options.check` refuses others
        if (top_k := fields.whole("top_k", "条数")) is not None:
            chosen["top_k"] = top_k
        if (threshold := fields.number("threshold", "阈值")) is not None:
            chosen["threshold"] = threshold
        if fusion := fields.text("fusion"):
            chosen["fusion"] = fusion  # type: ignore[typeddict-item]
        if rerank := fields.text("rerank"):
            chosen["rerank"] = "" if rerank == NO_RERANK else rerank
        if fuzzy := fields.text("fuzzy"):
            chosen["fuzzy"] = fuzzy == "true"
        if as_of := fields.text("as_of"):
            chosen["as_of"] = as_of
        if (where := self.filter()) != EVERYTHING:
            chosen["where"] = where
        if self.doc_ids:
            chosen["doc_ids"] = self.doc_ids
        return chosen

    def parameters(self, sides: Sequence[int] | None = None) -> dict[str, Any]:
        """The same as the parameters of an address; with ``sides``, of these alone, the first as A."""
        shown = range(len(self.sides)) if sides is None else sides
        settings = {
            f"{prefix}{name}": self.sides[side].get(name, "")
            for prefix, side in zip(SIDES, shown, strict=False)
            for name in SETTINGS
        }
        where = json.dumps(written_filters(self.where), ensure_ascii=False) if self.where != EVERYTHING else ""
        compared = "1" if len(shown) > 1 else ""
        lists = {"f": list(self.clicked), "doc": list(self.doc_ids)}
        return {"base": self.base, "q": self.query, **settings, "ab": compared, **lists, "where": where}


def read_search(fields: Fields) -> BenchSearch:
    """What an address asks for. Raises BadInput."""
    sides = [{name: fields.text(f"{prefix}{name}") for name in SETTINGS} for prefix in SIDES]
    return BenchSearch(
        fields.whole("base", "知识库"),
        fields.text("q"),
        tuple(sides) if fields.flag("ab") else (sides[0],),
        tuple(fields.all("f")),
        tuple(fields.all("doc")),
        _filter(fields.text("where")),
    )


def changed_search(search: BenchSearch, side: int, changes: Mapping[str, Any]) -> BenchSearch:
    """One side with these options changed, as an explanation gives them: the search that brings the chunk."""
    settings = {**search.sides[side], **{name: _written(name, changes[name]) for name in SETTINGS if name in changes}}
    where, clicked = search.where, search.clicked
    if "where" in changes:
        where, clicked = changes["where"], ()
    doc_ids = tuple(changes.get("doc_ids", search.doc_ids))
    return BenchSearch(search.base, search.query, (settings,), clicked, doc_ids, where)


def logged_search(base: int, query: str, params: Mapping[str, Any]) -> BenchSearch:
    """A search from the log."""
    chosen = choices_from(SearchOptions, params)
    settings: dict[str, str] = {name: _written(name, chosen[name]) for name in SETTINGS if name in chosen}
    return BenchSearch(base, query, (settings,), (), tuple(chosen.get("doc_ids", ())), chosen.get("where", EVERYTHING))


def _written(name: str, value: Any) -> str:
    if name == "rerank":
        return value or NO_RERANK
    if name == "threshold":
        return f"{int(value * 1e4) / 1e4:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _condition(written: str) -> tuple[str, Scalar]:
    try:
        name, value = json.loads(written)
    except (ValueError, TypeError):
        raise BadInput("过滤条件不对", hint="从列表里勾选") from None
    if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
        raise BadInput("过滤条件不对", hint="从列表里勾选")
    return name, value


def _filter(written: str) -> Filter:
    try:
        return read_filters(json.loads(written)) if written else EVERYTHING
    except (ValueError, RecursionError):
        raise BadInput("过滤条件不是合法的 JSON", hint='例如 {"metadata.年份": {"ge": 2024}}') from None


# ── to take along ────────────────────────────────────────────────────────────────────────────────


def as_curl(address: str, base: KnowledgeBase, query: str, choices: SearchChoices, has_keys: bool) -> str:
    body = json.dumps(search_body(query, choices), ensure_ascii=False)
    key = "  -H 'Authorization: Bearer qx_…' \\\n" if has_keys else ""
    return (
        f"curl {address}/v1/retrieval/{base.id} \\\n{key}  -H 'Content-Type: application/json' \\\n  -d {quoted(body)}"
    )


def as_python(address: str, base: KnowledgeBase, query: str, choices: SearchChoices, has_keys: bool) -> str:
    given = "".join(f", {name}={_python(value)}" for name, value in choices.items())
    filters = {type(part).__name__ for part in _parts(choices.get("where") or EVERYTHING)}
    imports = f"from qianxun.core.filters import {', '.join(sorted(filters))}\n" if filters else ""
    key = ', key="qx_…"' if has_keys else ""
    return (
        f"import asyncio\n\n{imports}from qianxun.doors.client import Client\n\n\nasync def main() -> None:\n"
        f'    async with Client("{address}"{key}) as client:\n'
        f"        recall = await client.retrieve({base.id}, {query!r}{given})\n"
        "        for hit in recall.results:\n            print(hit.score, hit.chunk.text)\n\n\nasyncio.run(main())"
    )


def as_command(base: KnowledgeBase, query: str, choices: SearchChoices) -> str:
    return command_for("qianxun", query, base.name, choices)


def _python(value: Any) -> str:
    return repr(value)


def _parts(where: Filter) -> list[Filter]:
    inner = getattr(where, "parts", None)
    own = [] if where == EVERYTHING else [where]
    parts = inner if isinstance(inner, tuple) else ((where.part,) if hasattr(where, "part") else ())
    return [*own, *(deeper for part in parts for deeper in _parts(part))]
