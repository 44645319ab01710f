"""A document: its text in reading order with the borders of its chunks, tables as tables; how other sizes would cut it.

Citations and results lead here, to a chunk (``at``) or a stretch of the text (``start``, ``end``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Final

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from qianxun.core.codec.passage import heading_path, title_of
from qianxun.core.errors import BadInput
from qianxun.core.governance.corrections import Correction, CorrectionQuery
from qianxun.core.ingest_types import DocumentContent
from qianxun.core.types import Corrected, Piece, TableSpan, Text
from qianxun.doors.http.console.forms import ConsoleRoute, query
from qianxun.doors.http.console.labels import CORRECTION_KINDS, CORRECTION_STATES, STATE_KINDS, label
from qianxun.doors.http.console.marks import marked
from qianxun.doors.http.console.render import render
from qianxun.doors.http.context import BaseId, TenantEngine
from qianxun.engine.engine import Engine

router = APIRouter(route_class=ConsoleRoute)

SHOWN: Final = 40  # blocks of a page
ENTITIES: Final = 60
PAIRS: Final = 200
LARGEST_SIZE: Final = 20_000


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that a chunk holds, with the headings above and the notes below that it holds as well."""

    above: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], bool], ...]  # the cells, and whether the row is what was cited
    notes: str


@dataclass(frozen=True, slots=True)
class Block:
    """A chunk as the page shows it. ``repeated`` is what it has in common with the one before."""

    number: int
    chunk_id: str
    headings: tuple[str, ...]
    page: int | None
    length: int
    repeated: str
    text: Markup
    table: Rows | None = None
    is_lit: bool = False
    corrected: Corrected | None = None
    plain: str = ""  # its text, to be edited


@router.get("/console/bases/{knowledge_base_id}/document")
async def document(request: Request, engine: TenantEngine, knowledge_base_id: BaseId) -> Response:
    about, fields = await engine.knowledge_base(knowledge_base_id), query(request)
    shown = await engine.contents.document(about.id, fields.raw("doc"))
    lit = (fields.whole("start", "start") or 0, fields.whole("end", "end") or 0)
    at = fields.whole("at", "at")
    pieces = [
        Piece(c.start, c.end, c.text, kind=c.kind, headings=c.headings, page=c.page, corrected=c.corrected)
        for c in shown.chunks
    ]
    first = fields.whole("from", "from")
    if first is None:
        first = _place(pieces, at, lit) // SHOWN * SHOWN
    blocks = _blocks(shown.text, pieces, range(max(first, 0), max(first, 0) + SHOWN), lit, at)
    ids = [chunk.chunk_id for chunk in shown.chunks]
    return render(
        request,
        "document.html",
        base=about,
        shown=shown,
        title=title_of(shown.state.name, shown.state.doc_id, shown.state.metadata),
        blocks=[(block, ids[block.number], "".join(ids[block.number + 1 : block.number + 2])) for block in blocks],
        first=max(first, 0),
        size=SHOWN,
        entities=shown.entities[:ENTITIES],
        pairs=shown.pairs[:PAIRS],
        config=about.config,
        state_kinds=STATE_KINDS,
        label=label,
        waiting=shown.text.content[:20_000] if not shown.chunks else "",
        preview=await _preview(engine, shown, fields.whole("size", "块长"), fields.whole("overlap", "重叠")),
        has_source=request.state.access == "write",
        elsewhere=await _not_in_text(engine, about.id, shown.state.doc_id),
        correction_kinds=CORRECTION_KINDS,
        correction_states=CORRECTION_STATES,
    )


async def _not_in_text(engine: Engine, base: int, doc_id: str) -> list[Correction]:
    """The document's corrections that no chunk shows: what is disabled, renamed, or needs a look."""
    found = await engine.governance.corrections.page(base, CorrectionQuery(doc_id=doc_id))
    return [one for one in found if one.is_active and not one.chunk_ids]


@dataclass(frozen=True, slots=True)
class Preview:
    size: int
    overlap: int
    count: int
    mean: float
    shortest: int
    longest: int
    blocks: tuple[Block, ...]
    count_now: int


async def _preview(engine: Engine, shown: DocumentContent, size: int | None, overlap: int | None) -> Preview | None:
    """The same text cut otherwise; None where nobody asked."""
    if size is None:
        return None
    if size > LARGEST_SIZE:
        raise BadInput(f"块长不超过 {LARGEST_SIZE} 个字符", hint="常用值为 300 到 800")
    overlap = size // 10 if overlap is None else overlap
    pieces = await engine.contents.preview(shown.text, size, overlap)
    lengths = [len(piece.text) for piece in pieces] or [0]
    blocks = _blocks(shown.text, pieces, range(SHOWN), (0, 0), None)
    return Preview(
        size, overlap, len(pieces), mean(lengths), min(lengths), max(lengths), tuple(blocks), len(shown.chunks)
    )


def _place(pieces: Sequence[Piece], at: int | None, lit: tuple[int, int]) -> int:
    """The number of the chunk that the reader wants to see."""
    if at is not None:
        return at
    found = (number for number, piece in enumerate(pieces) if piece.start < lit[1] and lit[0] < piece.end)
    return next(found, 0) if lit[1] > lit[0] else 0


def _blocks(text: Text, pieces: Sequence[Piece], numbers: range, lit: tuple[int, int], at: int | None) -> list[Block]:
    chosen = [(number, pieces[number]) for number in numbers if number < len(pieces)]
    ends = {number: before.end for number, (before, _) in enumerate(pairwise(pieces), 1)}
    return [_block(text, number, piece, ends.get(number, 0), lit, number == at) for number, piece in chosen]


def _block(text: Text, number: int, piece: Piece, before: int, lit: tuple[int, int], is_lit: bool) -> Block:
    is_edited = piece.corrected is not None and piece.corrected.original is not None
    overlap = max(0, min(before, piece.end) - piece.start) if piece.kind == "text" and not is_edited else 0
    start = piece.start + overlap
    body = piece.text if is_edited else text.content[start : piece.end]
    table = _rows(text, piece, lit) if piece.kind == "table" and not is_edited else None
    place = (lit[0] - start, lit[1] - start) if lit[1] > lit[0] else (0, 0)
    return Block(
        number,
        "",
        tuple(heading_path("", piece.headings)),
        piece.page,
        piece.end - piece.start,
        text.content[piece.start : start],
        marked(body, [place], "cited"),
        table,
        is_lit or (lit[1] > lit[0] and piece.start < lit[1] and lit[0] < piece.end),
        piece.corrected,
        piece.text,
    )


def _rows(text: Text, piece: Piece, lit: tuple[int, int]) -> Rows | None:
    """The rows that stand within a chunk of a table; None for a chunk whose table is not stored."""
    span: TableSpan | None = next((one for one in text.tables if one.start < piece.end and piece.start < one.end), None)
    if span is None:
        return None
    ends = [*span.row_starts[1:], span.end]
    inside = [
        (row, start < lit[1] and lit[0] < end)
        for row, start, end in zip(span.table.texts, span.row_starts, ends, strict=False)
        if piece.start <= start < piece.end
    ]
    names = tuple(" / ".join(column.path) or column.name for column in span.table.columns)
    above = text.content[piece.start : span.start].strip()
    return Rows(above, span.table.title, names, tuple(inside), span.table.notes if piece.end >= span.end else "")
