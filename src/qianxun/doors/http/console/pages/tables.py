"""表格: a question answered from the cells of tables, with these cells lit up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from qianxun.core.errors import NotFound
from qianxun.core.layered_types import LayeredRecall, LayeredResult
from qianxun.core.types import KnowledgeBase
from qianxun.doors.http.console.forms import ConsoleRoute, query
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import render
from qianxun.doors.http.context import TenantEngine, recall_slot
from qianxun.engine.engine import Engine

PAGE: Final = Page(
    "tables",
    Text("表格", "Tables"),
    Text("问表里的数，答案出自哪几格一眼看见", "Ask for figures; see the cells an answer comes from"),
)
SHOWN_BASES: Final = 500
ROWS_AROUND: Final = 3  # a cited row is shown with so many before and after it
MOST_ROWS: Final = 60
TABLES: Final = 5

router = APIRouter(route_class=ConsoleRoute)


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table of the results. ``rows`` are (number from 0, cells); ``lit`` the cells that the answer comes from."""

    result: LayeredResult
    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[int, Sequence[str]]]
    total: int
    lit: frozenset[tuple[int, int]]
    is_answer: bool


@router.get(PAGE.path)
async def tables_page(request: Request, engine: TenantEngine) -> Response:
    fields, bases = query(request), await engine.knowledge_bases(limit=SHOWN_BASES)
    chosen, question = fields.whole("base", "知识库"), fields.text("q")
    base = await engine.knowledge_base(chosen) if chosen is not None else (bases[0] if bases else None)
    values: dict[str, Any] = {"bases": bases, "base": base, "q": question, "recall": None, "tables": ()}
    if base is not None and question:
        await request.body()
        async with recall_slot(request):
            recall = await engine.search_tables(base.id, question, TABLES)
            values |= {"recall": recall, "tables": await _tables(engine, base, recall)}
    if base is not None:
        values["count"] = (await engine.statistics(base.id)).get("tables", 0)
    return render(request, "tables.html", **values)


async def _tables(engine: Engine, base: KnowledgeBase, recall: LayeredRecall) -> list[ShownTable]:
    """That of the answer first."""
    answered = recall.answer.table if recall.answer is not None else ""
    found = [await _table(engine, base, recall, result, answered) for result in recall.results if result.table]
    return sorted(found, key=lambda one: not one.is_answer)


async def _table(
    engine: Engine, base: KnowledgeBase, recall: LayeredRecall, result: LayeredResult, answered: str
) -> ShownTable:
    about = result.table
    assert about is not None
    cells = recall.answer.cells if recall.answer is not None else ()
    lit = frozenset((cell.row, cell.column) for cell in cells if cell.table == about.id)
    texts = await _texts(engine, base, about.id)
    rows = list(enumerate(texts)) if texts else list(zip(about.shown, about.cells, strict=False))
    chosen = _chosen(len(rows), {row for row, _ in lit} or set(about.shown)) if texts else range(len(rows))
    shown = [rows[at] for at in chosen]
    names = [column.name for column in about.columns]
    return ShownTable(result, about.title, names, shown, about.rows, lit, about.id == answered)


async def _texts(engine: Engine, base: KnowledgeBase, table_id: str) -> Sequence[Sequence[str]]:
    """All rows of a table as its author wrote them; none where its document has changed since."""
    doc_id, _, position = table_id.rpartition("#")
    try:
        document = await engine.contents.document(base.id, doc_id)
    except NotFound:
        return ()
    tables = document.text.tables
    at = int(position) if position.isascii() and position.isdigit() else len(tables)
    return tables[at].table.texts if at < len(tables) else ()


def _chosen(count: int, wanted: set[int]) -> list[int]:
    """Whole, or the rows that are wanted with some around them."""
    if count <= MOST_ROWS:
        return list(range(count))
    around = {row + step for row in wanted for step in range(-ROWS_AROUND, ROWS_AROUND + 1)}
    return sorted(row for row in around if 0 <= row < count)[:MOST_ROWS]
