"""图谱: what is around a name, drawn and with its evidence; names made one or parted; communities."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.graph_types import CO_OCCURRENCE, EntityDetails
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.console.ego import Neighbour, ego_graph
from qianxun.doors.http.console.forms import ConsoleRoute, Fields, form, query
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import redirect, relative, render, translate
from qianxun.doors.http.context import TenantEngine, Writer, recall_slot
from qianxun.engine.engine import Engine

PAGE: Final = Page(
    "graph",
    Text("图谱", "Graph"),
    Text("一个名字周围的实体、关系与出处", "Entities, relations and evidence around a name"),
)
SHOWN_BASES: Final = 500
RELATIONS: Final = 60
COMMUNITIES: Final = 12
MEMBERS: Final = 8  # of a community, that are named
CENTRAL: Final = 40  # entities to begin with

router = APIRouter(route_class=ConsoleRoute)


@router.get(PAGE.path)
async def graph_page(request: Request, engine: TenantEngine) -> Response:
    fields, bases = query(request), await engine.knowledge_bases(limit=SHOWN_BASES)
    base = await _base(engine, fields, bases)
    values: dict[str, Any] = {"bases": bases, "base": base, "name": fields.text("name"), "shown": None, "missing": None}
    if base is None:
        return render(request, "graph.html", **values)
    keeper = await engine.graph_keeper(base.id)
    await request.body()
    async with recall_slot(request):
        values["totals"] = await keeper.status()
        if values["name"]:
            try:
                values["shown"] = shown = await keeper.show(values["name"], limit=RELATIONS)
                values["drawing"] = _drawing(request, base, shown)
                values["relations"] = _relations(shown)
            except NotFound as error:
                values["missing"] = error
        if values["shown"] is None:
            values["central"], values["communities"] = await _overview(engine, base)
        values["aliases"] = await keeper.aliases()
    return render(request, "graph.html", **values)


async def _base(engine: Engine, fields: Fields, bases: tuple[KnowledgeBase, ...]) -> KnowledgeBase | None:
    chosen = fields.whole("base", "知识库")
    if chosen is not None:
        return await engine.knowledge_base(chosen)
    return bases[0] if bases else None


async def _overview(engine: Engine, base: KnowledgeBase) -> tuple[list[Any], list[Any]]:
    """The most central entities; and communities as (community, names of members)."""
    graph = await engine.graph(base.id)
    order = sorted(range(len(graph)), key=lambda row: -float(graph.importance[row]))[:CENTRAL]
    found = await (await engine.graph_keeper(base.id)).communities(limit=COMMUNITIES)
    named = []
    for community in found:
        members = [entity.name for one in community.entities[:MEMBERS] if (entity := graph.entity(one)) is not None]
        named.append((community, members))
    return [graph.entity_at(row) for row in order], named


def _relations(shown: EntityDetails) -> list[tuple[Any, Any, Any]]:
    """(relation, the name at its other end, the words that state it)."""
    return [
        (one, shown.names.get(_other(shown, one), ""), shown.quotes.get(one.evidence[0]) if one.evidence else None)
        for one in shown.relations
    ]


def _other(shown: EntityDetails, relation: Any) -> str:
    return str(relation.target if relation.source == shown.entity.id else relation.source)


def _drawing(request: Request, base: KnowledgeBase, shown: EntityDetails) -> Markup:
    neighbours: dict[str, Neighbour] = {}
    for one in shown.relations:
        other = _other(shown, one)
        if other != shown.entity.id:
            is_stated, is_outgoing = one.type != CO_OCCURRENCE, one.source == shown.entity.id
            name = shown.names.get(other, other)
            neighbours.setdefault(other, Neighbour(other, name, one.type, is_outgoing, is_stated))
    title = translate(request, f"“{shown.entity.name}”周围的图谱", f"The graph around “{shown.entity.name}”")
    names = {one.id: one.name for one in neighbours.values()}
    return ego_graph(
        shown.entity.name,
        list(neighbours.values()),
        title,
        lambda other: relative(request, PAGE.path, base=base.id, name=names[other]),
    )


@router.post("/console/graph/merge", dependencies=[Writer])
async def merge(request: Request, engine: TenantEngine) -> Response:
    fields = await form(request)
    base, name, alias = fields.whole("base", "知识库") or 0, fields.text("name"), fields.text("alias")
    if not name or not alias:
        raise BadInput("没有写两个名字", hint="写上要并到一起的两个名字")
    merged = await engine.admin.merge_entities(base, name, alias)
    note = translate(request, f"“{alias}”现在是“{merged.name}”的另一个名字", f"“{alias}” is “{merged.name}” now")
    return redirect(request, PAGE.path, note, base=base, name=merged.name)


@router.post("/console/graph/split", dependencies=[Writer])
async def split(request: Request, engine: TenantEngine) -> Response:
    fields = await form(request)
    base, name = fields.whole("base", "知识库") or 0, fields.text("name")
    parted = await engine.admin.split_entities(base, name)
    note = translate(request, f"分开了：{'、'.join(parted)}", f"Separate now: {', '.join(parted)}")
    return redirect(request, PAGE.path, note, base=base, name=name)
