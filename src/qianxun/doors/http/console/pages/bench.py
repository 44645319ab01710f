"""检索台: one question under one or two settings, where every score comes from, and why a chunk is not there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from qianxun.core.codec.passage import below_headings, chunk_title, heading_path
from qianxun.core.errors import BadInput, NotFound, QianxunError
from qianxun.core.explanation import Explanation
from qianxun.core.filters import EVERYTHING
from qianxun.core.ingest_types import Facet
from qianxun.core.log_types import LogEntry
from qianxun.core.types import Chunk, Found, KnowledgeBase, Recall
from qianxun.doors.http.console.forms import ConsoleRoute, form, query
from qianxun.doors.http.console.labels import arm_label, label, part_label
from qianxun.doors.http.console.marks import excerpt, matched, table_excerpt
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.console.searches import (
    FUSIONS,
    MODES,
    BenchSearch,
    as_command,
    as_curl,
    as_python,
    changed_search,
    logged_search,
    read_search,
)
from qianxun.doors.http.context import TenantEngine, Writer, recall_slot
from qianxun.engine.admin.evaluation_sets import DEFAULT_SET, Evaluations
from qianxun.engine.admin.replay import replay
from qianxun.engine.display import change_texts, decision_texts, filter_text, reason_texts
from qianxun.engine.engine import Engine

PAGE: Final = Page(
    "bench",
    Text("检索台", "Retrieval bench"),
    Text("看一个问题找到什么、为什么，两套设置并排比", "What a question finds and why, two settings side by side"),
)
SHOWN_BASES: Final = 500
HISTORY: Final = 20
FACET_VALUES: Final = 20
SEARCH_MODES: Final = frozenset(MODES)
MODE_LABELS: Final = {
    "hybrid": Text("混合", "Hybrid"),
    "vector": Text("语义", "Meaning"),
    "fulltext": Text("词语", "Words"),
}

router = APIRouter(route_class=ConsoleRoute)


@dataclass(frozen=True, slots=True)
class Shown:
    """One result as the page shows it."""

    hit: Found
    title: str
    headings: tuple[str, ...]
    excerpt: Markup
    text: Markup
    elsewhere: int | None = None  # its place on the other side; 0: not there


@dataclass(frozen=True, slots=True)
class Side:
    """The results of one side, or why there are none."""

    recall: Recall | None = None
    results: tuple[Shown, ...] = ()
    error: QianxunError | None = None


@router.get(PAGE.path)
async def bench(request: Request, engine: TenantEngine) -> Response:
    fields = query(request)
    search, known = read_search(fields), await engine.knowledge_bases(limit=SHOWN_BASES)
    base = await _base(engine, search, known)
    values: dict[str, Any] = {"bases": known, "base": base, "search": search, "modes": MODES, "fusions": FUSIONS}
    values |= {
        "mode_label": _mode_label,
        "label": label,
        "part_label": part_label,
        "arm_label": arm_label,
        "sides": (),
        "copies": (),
    }
    values |= {"facets": (), "history": (), "sets": (), "rerankers": (), "default_set": DEFAULT_SET}
    values |= {"why_chunk": fields.text("why"), "filter_text": ""}
    if base is None:
        return render(request, "bench.html", **values)
    if search.query:
        values["sides"] = await _sides(request, engine, base, search)
        values["copies"] = _copies(request, base, search)
    if search.where != EVERYTHING:
        values["filter_text"] = filter_text(search.where)
    if request.headers.get("hx-target") == "results":
        values["sets"] = await Evaluations(engine).sets(base.id)
        return render(request, "_results.html", **values)
    facets, entries, sets = await asyncio.gather(
        engine.contents.facets(base.id),
        engine.logs.list(knowledge_base=base.id, limit=HISTORY),
        Evaluations(engine).sets(base.id),
    )
    values |= {"facets": _facets(facets), "history": _history(base, entries), "sets": sets}
    values["rerankers"] = engine.catalog.rerankers()
    return render(request, "bench.html", **values)


def _mode_label(_table: str, mode: str) -> Text:
    return MODE_LABELS.get(mode, Text(mode, mode))


async def _base(engine: Engine, search: BenchSearch, known: Sequence[KnowledgeBase]) -> KnowledgeBase | None:
    """The base that is searched: the one named, else the first. Raises NotFound."""
    if search.base is not None:
        return await engine.knowledge_base(search.base)
    return known[0] if known else None


async def _sides(request: Request, engine: Engine, base: KnowledgeBase, search: BenchSearch) -> tuple[Side, ...]:
    """Both are asked in one slot, one after the other."""
    await request.body()  # the next message then is the disconnect
    found: list[Side] = []
    async with recall_slot(request, len(search.sides)):
        for number in range(len(search.sides)):
            try:
                recall = await engine.retrieve(base.id, search.query, **search.choices(number))
            except QianxunError as error:
                found.append(Side(error=error))
            else:
                found.append(Side(recall))
    places = [_places(side) for side in found]
    return tuple(
        Side(side.recall, _shown(side, search.query, places[1 - at] if len(found) > 1 else None), side.error)
        for at, side in enumerate(found)
    )


def _places(side: Side) -> dict[str, int]:
    results = side.recall.results if side.recall else ()
    return {hit.chunk.chunk_id: rank for rank, hit in enumerate(results, 1)}


def _shown(side: Side, query: str, other: dict[str, int] | None) -> tuple[Shown, ...]:
    results = side.recall.results if side.recall else ()
    return tuple(
        Shown(
            hit,
            chunk_title(hit.chunk),
            tuple(heading_path(hit.chunk.doc_name, hit.chunk.headings)),
            _excerpt(hit.chunk, query),
            matched(hit.chunk.text, query),
            None if other is None else other.get(hit.chunk.chunk_id, 0),
        )
        for hit in results
    )


def _excerpt(chunk: Chunk, query: str) -> Markup:
    below = below_headings(chunk.text, chunk.headings)
    return table_excerpt(below, query) if chunk.kind == "table" else excerpt(below, query)


def _facets(facets: Sequence[Facet]) -> list[tuple[str, list[tuple[str, str, int]]]]:
    """(field, [(the choice, the value, how many documents)]) of fields that a filter can tell apart."""
    return [
        (
            facet.field.removeprefix("metadata."),
            [
                (json.dumps([facet.field, value], ensure_ascii=False), str(value), count)
                for value, count in facet.values[:FACET_VALUES]
            ],
        )
        for facet in facets
        if len(facet.values) < FACET_VALUES or facet.values[0][1] > 1
    ]


def _copies(request: Request, base: KnowledgeBase, search: BenchSearch) -> list[tuple[str, list[tuple[str, str]]]]:
    """(side, [(name, text)]): the same search elsewhere."""
    host = request.headers.get("host", "127.0.0.1:8000")
    address, has_keys = f"{request.scope['scheme']}://{host}", request.state.key_id is not None
    found = []
    for number, name in zip(range(len(search.sides)), ("A", "B"), strict=False):
        try:
            choices = search.choices(number)
        except BadInput:
            continue
        texts = [
            ("curl", as_curl(address, base, search.query, choices, has_keys)),
            ("Python", as_python(address, base, search.query, choices, has_keys)),
            ("qianxun", as_command(base, search.query, choices)),
        ]
        found.append((name, texts))
    return found


def _history(base: KnowledgeBase, entries: Sequence[LogEntry]) -> list[tuple[LogEntry, dict[str, Any] | None]]:
    """(entry, the parameters that search the same on the bench); None for questions and layered searches."""
    return [(entry, _parameters(base, entry)) for entry in entries]


def _parameters(base: KnowledgeBase, entry: LogEntry) -> dict[str, Any] | None:
    if entry.mode not in SEARCH_MODES:
        return None
    return logged_search(base.id, entry.query, entry.params).parameters()


# ── why ──────────────────────────────────────────────────────────────────────────────────────────


@router.get("/console/why")
async def why(request: Request, engine: TenantEngine) -> Response:
    """What became of one chunk, and the smallest change that brings it."""
    fields = query(request)
    search, side = read_search(fields), 1 if fields.text("side") == "b" else 0
    chunk_id = fields.text("chunk")
    if search.base is None or not search.query or not chunk_id:
        raise BadInput("要问哪个片段，为哪个问题", hint="填上问题与片段的编号")
    if side >= len(search.sides):
        side = 0
    base = await engine.knowledge_base(search.base)
    await request.body()
    async with recall_slot(request):
        explained = await engine.explain(base.id, search.query, chunk_id, **search.choices(side))
    if explained.chunk is None:
        raise NotFound("没有这个片段", hint="片段的编号如 c_1001_文档编号_0，见文档页与检索结果")
    found = explained.chunk
    values: dict[str, Any] = {"why": found, "base": base, "search": search, "label": label, "arm_label": arm_label}
    values |= {"reason": Text(*reason_texts(found)), "change": Text(*change_texts(found)), "again": None}
    values["decisions"] = [Text(*one) for one in decision_texts(found.decisions)]
    if found.changes:
        values["again"] = changed_search(search, side, found.changes).parameters()
    values["title"] = _title(found)
    template = "_why.html" if "hx-request" in request.headers else "why.html"
    return render(request, template, current=PAGE, **values)


def _title(found: Explanation) -> str:
    if found.chunk is None:
        return found.chunk_id
    return " › ".join((chunk_title(found.chunk), *heading_path(found.chunk.doc_name, found.chunk.headings)))


# ── replay and cases ─────────────────────────────────────────────────────────────────────────────


@router.get("/console/replay")
async def replay_page(request: Request, engine: TenantEngine) -> Response:
    """A logged search, run again as it was, and what is different now."""
    log_id = query(request).whole("log", "日志的编号")
    if log_id is None:
        raise BadInput("要重放哪一次", hint="从检索台的历史里选")
    await request.body()
    async with recall_slot(request):
        found = await replay(engine, log_id)
    again = _parameters(found.base, found.entry)
    return render(request, "replay.html", current=PAGE, found=found, again=again, label=label)


@router.post("/console/case", dependencies=[Writer])
async def save_case(request: Request, engine: TenantEngine) -> Response:
    """Keeps the question and the results that were ticked as a case of an evaluation set."""
    fields = await form(request)
    base = await engine.knowledge_base(fields.whole("base", "知识库") or 0)
    right = fields.all("right")
    if not right:
        raise BadInput("没有勾选正确的结果", hint="先勾选应当找到的片段，再保存")
    name = fields.text("set", DEFAULT_SET)
    stored, _ = await Evaluations(engine).save_case(base.id, fields.text("q"), chunk_ids=right, set_name=name)
    note = translate(
        request,
        f"存入评测集“{stored.name}”，现在有 {stored.cases} 题",
        f"Saved to “{stored.name}”, which has {stored.cases} cases now",
    )
    return redirect(request, PAGE.path, note, **read_search(fields).parameters())
