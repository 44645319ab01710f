"""What texts tell the graph, chunk by chunk; which names people made one; what models wrote about communities.

Facts belong to their chunk and go with it, in the same transaction. Everything else that a graph shows is worked out
from the facts of the chunks that serve: nothing here depends on two documents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select

from qianxun.core.errors import BadInput
from qianxun.core.graph_types import Alias, ChunkFacts, Facts
from qianxun.core.types import Attributes, ChunkKind, Keys
from qianxun.core.unicode import is_storable, storable
from qianxun.records.bases import generation, graph_revision
from qianxun.records.database.bulk import insert_rows
from qianxun.records.database.counters import count_up
from qianxun.records.database.slices import in_slices
from qianxun.records.packed_facts import packed, unpacked
from qianxun.records.rows import attributes_of
from qianxun.records.schema import (
    ChunkRow,
    Counter,
    DocumentRow,
    GraphAliasRow,
    GraphFactsRow,
    GraphSummaryRow,
    VersionRow,
)

FACTS: Final = ("chunk_key", "knowledge_base_id", "document_key", "revision", "origin", "digest", "facts")
STATISTICAL: Final = "statistical:"  # how the origin begins of what no model has read
_READABLE: Final[tuple[Any, ...]] = (
    ChunkRow.key, ChunkRow.document_key, ChunkRow.text, ChunkRow.kind, ChunkRow.headings, VersionRow.name,
)  # fmt: skip
LONGEST_NAME: Final = 255  # characters, as the columns of aliases have it


class Readable(NamedTuple):
    """A served chunk with all that a reader of facts may look at."""

    key: int
    document_key: int
    text: str
    kind: ChunkKind
    headings: tuple[str, ...]
    doc_name: str

    @property
    def digest(self) -> str:
        """Of all that is read: the same digest, the same facts by the same reader."""
        read = json.dumps((self.text, self.kind, self.headings, self.doc_name), ensure_ascii=False)
        return hashlib.blake2b(read.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


class Read(NamedTuple):
    """Facts on their way into the records."""

    key: int
    document_key: int
    origin: str
    digest: str
    facts: Facts


class Held(NamedTuple):
    """The chunks of a graph as columns, in the order of their keys; ``revisions``: with which their facts came."""

    keys: Keys
    documents: Keys
    generations: Keys  # of the documents, as these chunks are of
    revisions: Keys
    are_tables: np.ndarray[Any, np.dtype[np.bool_]]


class Summary(NamedTuple):
    """What a model wrote about a community."""

    community: str
    title: str
    summary: str


# ── facts ────────────────────────────────────────────────────────────────────────────────────────


def unread(tx: Connection, knowledge_base: int, origin: str, after: int, limit: int) -> list[Readable]:
    """The next served chunks, in key order, that this reader has still to read.

    A statistical reader leaves alone what a model has read; what another version of itself has read it reads again.
    """
    lacking = _lacking(knowledge_base, origin, *_READABLE).where(ChunkRow.key > after)
    return _readable(tx, lacking.order_by(ChunkRow.key).limit(limit))


def _readable(tx: Connection, chunks: Select[Any]) -> list[Readable]:
    same_version = and_(VersionRow.document_key == ChunkRow.document_key, VersionRow.generation == ChunkRow.generation)
    return [
        Readable(key, document, text, kind, tuple(headings), name)
        for key, document, text, kind, headings, name in tx.execute(chunks.join(VersionRow, same_version))
    ]


def unread_count(tx: Connection, knowledge_base: int, origin: str) -> int:
    return int(tx.execute(_lacking(knowledge_base, origin, func.count())).scalar_one())


def _lacking(knowledge_base: int, origin: str, *columns: Any) -> Select[Any]:
    stale = GraphFactsRow.origin != origin
    if origin.startswith(STATISTICAL):
        stale = and_(stale, GraphFactsRow.origin.startswith(STATISTICAL, autoescape=True))
    return (
        _served(knowledge_base, *columns)
        .outerjoin(GraphFactsRow, GraphFactsRow.chunk_key == ChunkRow.key)
        .where(or_(GraphFactsRow.chunk_key.is_(None), stale))
    )


def _served(knowledge_base: int, *columns: Any) -> Select[Any]:
    return (
        select(*columns)
        .select_from(ChunkRow)
        .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        .where(ChunkRow.knowledge_base_id == knowledge_base, ChunkRow.generation == DocumentRow.served)
    )


def write_facts(tx: Connection, knowledge_base: int, read: Sequence[Read]) -> int:
    """Facts in the place of those that were held of the same chunks; answers how many.

    A chunk that has gone since it was read gets none.
    """
    there: set[int] = set()
    for part in in_slices([each.key for each in read]):
        own = select(ChunkRow.key).where(ChunkRow.knowledge_base_id == knowledge_base, ChunkRow.key.in_(part))
        there.update(tx.execute(own).scalars())
        tx.execute(delete(GraphFactsRow).where(GraphFactsRow.chunk_key.in_(there.intersection(part))))
    if not there:
        return 0
    revision = count_up(tx, graph_revision(knowledge_base))
    rows = [
        (each.key, knowledge_base, each.document_key, revision, each.origin[:220], each.digest, packed(each.facts))
        for each in read
        if each.key in there
    ]
    insert_rows(tx, GraphFactsRow, FACTS, rows)
    return len(rows)


def carry_over(tx: Connection, doomed: Sequence[int], newest: Mapping[int, int]) -> None:
    """What models read in chunks that are about to go, kept for those of the document's newest generation that say the
    same: nobody is asked twice. ``newest`` is document → generation."""
    read: dict[tuple[int, str], Any] = {}
    for part in in_slices(doomed):
        query = select(GraphFactsRow.__table__).where(
            GraphFactsRow.chunk_key.in_(part), GraphFactsRow.origin.not_like(f"{STATISTICAL}%")
        )
        read.update(((row.document_key, row.digest), row) for row in tx.execute(query))
    kept: dict[int, list[Read]] = {}
    for document in sorted({document for document, _ in read}):
        same = (ChunkRow.document_key == document) & (ChunkRow.generation == newest[document])
        for each in _readable(tx, select(*_READABLE).where(same)):
            if (row := read.get((document, each.digest))) is not None:
                told = Read(each.key, document, row.origin, row.digest, unpacked(row.facts))
                kept.setdefault(row.knowledge_base_id, []).append(told)
    for knowledge_base, told_again in kept.items():
        write_facts(tx, knowledge_base, told_again)


def forget_facts(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> None:
    """These chunks are to be read again."""
    for part in in_slices(sorted(keys)):
        own = GraphFactsRow.knowledge_base_id == knowledge_base
        tx.execute(delete(GraphFactsRow).where(own, GraphFactsRow.chunk_key.in_(part)))
    count_up(tx, graph_revision(knowledge_base))


def revision(tx: Connection, knowledge_base: int) -> int:
    """How often facts were read or aliases changed so far."""
    query = select(Counter.next).where(Counter.name == graph_revision(knowledge_base))
    return int(tx.execute(query).scalar() or 0)


def state(tx: Connection, knowledge_base: int) -> tuple[int, int]:
    """Another value whenever a graph may be another: a document came or went, facts were read, aliases changed."""
    return generation(tx, knowledge_base), revision(tx, knowledge_base)


def held(tx: Connection, knowledge_base: int) -> Held:
    """The served chunks whose facts are of record."""
    columns = (ChunkRow.key, ChunkRow.document_key, ChunkRow.generation, GraphFactsRow.revision, ChunkRow.kind)
    query = _served(knowledge_base, *columns).join(GraphFactsRow, GraphFactsRow.chunk_key == ChunkRow.key)
    rows = tx.execute(query.order_by(ChunkRow.key)).all()
    told = [(*numbers, kind == "table") for *numbers, kind in rows]
    table = np.array(told, dtype=np.int64).reshape(-1, 5)
    keys, documents, generations, revisions, are_tables = table.T
    return Held(keys, documents, generations, revisions, are_tables.astype(np.bool_))


def attributes(tx: Connection, knowledge_base: int, versions: Mapping[int, int]) -> dict[int, Attributes]:
    """By document: what a filter may ask about the prose of this version of it, as long as that is of record.

    Its tables differ in their kind alone.
    """
    found: dict[int, Attributes] = {}
    told = (VersionRow.user_id, VersionRow.project_id, VersionRow.content_type, VersionRow.tags, VersionRow.generation)
    query = select(DocumentRow.key, DocumentRow.doc_id, *told, VersionRow.extra.label("metadata"))
    query = query.join(VersionRow, VersionRow.document_key == DocumentRow.key)
    query = query.where(DocumentRow.knowledge_base_id == knowledge_base)
    for part in in_slices(sorted(versions)):
        for row in tx.execute(query.where(DocumentRow.key.in_(part))):
            if row.generation == versions[row.key]:
                found[row.key] = attributes_of(row.doc_id, row)
    return found


def facts_of(tx: Connection, knowledge_base: int, keys: Sequence[int]) -> list[ChunkFacts]:
    """The facts of these chunks, in key order, of those that serve and have any."""
    found: list[ChunkFacts] = []
    columns = (GraphFactsRow.chunk_key, GraphFactsRow.document_key, GraphFactsRow.facts, GraphFactsRow.origin)
    query = _served(knowledge_base, *columns).join(GraphFactsRow, GraphFactsRow.chunk_key == ChunkRow.key)
    for part in in_slices(sorted(keys)):
        rows = tx.execute(query.where(ChunkRow.key.in_(part)).order_by(ChunkRow.key))
        found.extend(ChunkFacts(key, document, unpacked(facts), origin) for key, document, facts, origin in rows)
    return found


def known(tx: Connection, knowledge_base: int, origin: str, digests: Iterable[str]) -> dict[str, Facts]:
    """By digest: what this reader found in the same text before."""
    found: dict[str, Facts] = {}
    for part in in_slices(sorted(set(digests))):
        query = select(GraphFactsRow.digest, GraphFactsRow.facts).where(
            GraphFactsRow.knowledge_base_id == knowledge_base,
            GraphFactsRow.digest.in_(part),
            GraphFactsRow.origin == origin[:220],
        )
        found.update((digest, unpacked(facts)) for digest, facts in tx.execute(query))
    return found


def origins(tx: Connection, knowledge_base: int) -> dict[str, int]:
    """Who read how many of the chunks that serve."""
    query = _served(knowledge_base, GraphFactsRow.origin, func.count())
    query = query.join(GraphFactsRow, GraphFactsRow.chunk_key == ChunkRow.key).group_by(GraphFactsRow.origin)
    return {row[0]: row[1] for row in tx.execute(query.order_by(GraphFactsRow.origin))}


def orphans(tx: Connection, knowledge_base: int) -> Keys:
    """Facts of chunks that belong to no served version: there are none once the index has caught up."""
    served = and_(DocumentRow.key == ChunkRow.document_key, DocumentRow.served == ChunkRow.generation)
    query = (
        select(GraphFactsRow.chunk_key)
        .outerjoin(ChunkRow, ChunkRow.key == GraphFactsRow.chunk_key)
        .outerjoin(DocumentRow, served)
        .where(GraphFactsRow.knowledge_base_id == knowledge_base, DocumentRow.key.is_(None))
        .order_by(GraphFactsRow.chunk_key)
    )
    return np.fromiter(tx.execute(query).scalars(), dtype=np.int64)


def drop_orphans(tx: Connection, knowledge_base: int) -> None:
    """Facts whose chunk is gone without them: nothing but a damaged database has any."""
    gone = select(GraphFactsRow.chunk_key).outerjoin(ChunkRow, ChunkRow.key == GraphFactsRow.chunk_key)
    gone = gone.where(GraphFactsRow.knowledge_base_id == knowledge_base, ChunkRow.key.is_(None))
    doomed = list(tx.execute(gone).scalars())
    if doomed:
        forget_facts(tx, knowledge_base, doomed)


# ── aliases ──────────────────────────────────────────────────────────────────────────────────────


def aliases(tx: Connection, knowledge_base: int) -> list[Alias]:
    """What was made one, in the order of the names that went."""
    query = select(GraphAliasRow.__table__).where(GraphAliasRow.knowledge_base_id == knowledge_base)
    rows = tx.execute(query.order_by(GraphAliasRow.alias))
    return [Alias(row.name, row.alias, row.origin, row.details) for row in rows]


def give_alias(tx: Connection, knowledge_base: int, alias: Alias) -> None:
    """From now on ``alias.alias`` is another name of ``alias.name``, whatever it was before. Raises BadInput."""
    for name in (alias.name, alias.alias):
        if not name.strip() or len(name) > LONGEST_NAME or not is_storable(name):
            raise BadInput(
                f"实体名须为 1–{LONGEST_NAME} 个字符：{storable(name)[:40]!r}", hint="用图谱里显示的实体名再试"
            )
    _forget_alias(tx, knowledge_base, alias.alias)
    tx.execute(
        insert(GraphAliasRow).values(
            knowledge_base_id=knowledge_base,
            alias=alias.alias,
            name=alias.name,
            origin=alias.origin[:220],
            details=dict(alias.details),
            created_at=datetime.now(UTC),
        )
    )
    count_up(tx, graph_revision(knowledge_base))


def take_alias(tx: Connection, knowledge_base: int, alias: str) -> bool:
    """The name stands for itself again; answers whether it did not before."""
    if not is_storable(alias) or not _forget_alias(tx, knowledge_base, alias):
        return False
    count_up(tx, graph_revision(knowledge_base))
    return True


def _forget_alias(tx: Connection, knowledge_base: int, alias: str) -> bool:
    own = (GraphAliasRow.knowledge_base_id == knowledge_base) & (GraphAliasRow.alias == alias)
    return bool(tx.execute(delete(GraphAliasRow).where(own)).rowcount)


# ── summaries ────────────────────────────────────────────────────────────────────────────────────


def summaries(tx: Connection, knowledge_base: int, model: str, communities: Iterable[str]) -> dict[str, Summary]:
    """By community: what this model wrote about it."""
    found: dict[str, Summary] = {}
    for part in in_slices(sorted(set(communities))):
        query = select(GraphSummaryRow.community, GraphSummaryRow.title, GraphSummaryRow.summary).where(
            GraphSummaryRow.knowledge_base_id == knowledge_base,
            GraphSummaryRow.model == model,
            GraphSummaryRow.community.in_(part),
        )
        found.update((row.community, Summary(*row)) for row in tx.execute(query))
    return found


def keep_summaries(tx: Connection, knowledge_base: int, model: str, written: Sequence[Summary]) -> None:
    """What a model wrote, in the place of what it wrote about the same communities before."""
    now = datetime.now(UTC)
    for part in in_slices([each.community for each in written]):
        own = (GraphSummaryRow.knowledge_base_id == knowledge_base) & (GraphSummaryRow.model == model)
        tx.execute(delete(GraphSummaryRow).where(own, GraphSummaryRow.community.in_(part)))
    rows = [
        (knowledge_base, each.community, model, storable(each.title), storable(each.summary), now) for each in written
    ]
    insert_rows(
        tx, GraphSummaryRow, ("knowledge_base_id", "community", "model", "title", "summary", "created_at"), rows
    )


def forget_summaries(tx: Connection, knowledge_base: int, but: Iterable[str]) -> int:
    """Those of communities that are no more: a text that is gone must not be told on. Answers how many."""
    kept = set(but)
    held = tx.execute(
        select(GraphSummaryRow.community).where(GraphSummaryRow.knowledge_base_id == knowledge_base).distinct()
    ).scalars()
    gone = sorted(set(held) - kept)
    for part in in_slices(gone):
        own = GraphSummaryRow.knowledge_base_id == knowledge_base
        tx.execute(delete(GraphSummaryRow).where(own, GraphSummaryRow.community.in_(part)))
    return len(gone)
