"""The texts of chunks: what a version of a short document has already is not stored with its chunks again.

Such a chunk has an empty text of its own, and its place in the text of its version. `TEXT` reads the text of either
kind, in every query that is joined to the version (`SAME_VERSION`); checksums cover it wherever it is stored. Chunks of
earlier programs have all texts of their own. See docs/decisions/0032-a-million-chunks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, case, func, literal_column, select

from qianxun.core.types import Piece, Prepared
from qianxun.records.database.statements import select_in
from qianxun.records.schema import ChunkRow, VersionRow

# Characters of a document. A database reads all of its text for each of its chunks.
SHORT: Final = 4_000
SAME_VERSION: Final = and_(
    VersionRow.document_key == ChunkRow.document_key, VersionRow.generation == ChunkRow.generation
)
_PLACE: Final = (ChunkRow.start + literal_column("1"), ChunkRow.end - ChunkRow.start)
_SLICE: Final = func.substr(VersionRow.content, *_PLACE, type_=ChunkRow.text.type)
_IS_EMPTY: Final = ChunkRow.text == literal_column("''")  # no parameters: compiled statements have their own alone
TEXT: Final[Any] = case((_IS_EMPTY, _SLICE), else_=ChunkRow.text).label(ChunkRow.text.key)
COLUMNS: Final = tuple(TEXT if one.key == TEXT.key else one for one in ChunkRow.__table__.c)


def rows_of_version(tx: Connection, document_key: int, generation: int) -> Sequence[Row[Any]]:
    """The chunks of a version in order: all columns, with their texts."""
    mine = (ChunkRow.document_key == document_key) & (ChunkRow.generation == generation)
    query = select(*COLUMNS).select_from(ChunkRow).outerjoin(VersionRow, SAME_VERSION)
    return tx.execute(query.where(mine).order_by(ChunkRow.position)).all()


def short_contents(tx: Connection, prepared: Sequence[tuple[int, int, Prepared]]) -> dict[tuple[int, int], str]:
    """(document, generation) → the text of the version as it is stored, of those of which it is short."""
    short = [key for key, _, work in prepared if work.pieces and max(piece.end for piece in work.pieces) <= SHORT]
    query = select(VersionRow.document_key, VersionRow.generation, VersionRow.content)
    return {(key, at): content for key, at, content in select_in(tx, query, VersionRow.document_key, short)}


def own_text(piece: Piece, content: str | None) -> str:
    """What a chunk stores itself: nothing where the version's text, if it is short, has the same at its place."""
    text = piece.text
    return "" if content is not None and content[piece.start : piece.end] == text else text
