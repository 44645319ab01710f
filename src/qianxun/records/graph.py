"""What the graph is built from: facts by chunk, aliases that users confirmed, summaries of communities by models.

Facts belong to their chunk and are deleted with it, in the same transaction. Everything else that a graph shows is
computed from the facts of the served chunks: nothing here depends on two documents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np
from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select

from qianxun.core.errors import BadInput
from qianxun.core.graph_types import Alias, ChunkFacts, Facts
from qianxun.core.types import Attributes, ChunkKind, Keys
from qianxun.core.unicode import is_storable, storable
from qianxun.records.bases import generation_and_graph, graph_revision
from qianxun.records.chunk_texts import SAME_VERSION, TEXT
from qianxun.records.database.counters import count_up
from qianxun.records.database.statements import delete_in, insert_rows, keys_of, select_in, served_chunks
from qianxun.records.governance import audit
from qianxun.records.rows import ATTRIBUTES, attributes_of, pack_facts, unpack_facts
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
STATISTICAL: Final = "statistical:"  # prefix of the origin of facts that no model has read
_READABLE: Final[tuple[Any, ...]] = (
    ChunkRow.key, ChunkRow.document_key, TEXT, ChunkRow.kind, ChunkRow.headings, VersionRow.name,
)  # fmt: skip
LONGEST_NAME: Final = 255  # characters, as the columns of aliases have it


class ReadableChunk(NamedTuple):
    """A served chunk with all that a reader of facts may use."""

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


class ExtractedFacts(NamedTuple):
    """Facts to be stored."""

    key: int
    document_key: int
    origin: str
    digest: str
    facts: Facts


class GraphChunks(NamedTuple):
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


def unread(tx: Connection, knowledge_base: int, origin: str, after: int, limit: int) -> list[ReadableChunk]:
    """The next served chunks, in key order, that this reader has still to read.

    A statistical reader leaves alone what a model has read; what another version of itself has read it reads again.
    """
    query = _unread(knowledge_base, origin, *_READABLE).where(ChunkRow.key > after)
    return _readable(tx, query.order_by(ChunkRow.key).limit(limit))


def _readable(tx: Connection, chunks: Select[Any]) -> list[ReadableChunk]:
    return [
        ReadableChunk(key, document, text, kind, tuple(headings), name)
        for key, document, text, kind, headings, name in tx.execute(chunks.join(VersionRow, SAME_VERSION))
    ]


def unread_count(tx: Connection, knowledge_base: int, origin: str, after: int = 0) -> int:
    query = _unread(knowledge_base, origin, func.count()).where(ChunkRow.key > after)
    return int(tx.execute(query).scalar_one())


def _unread(knowledge_base: int, origin: str, *columns: Any) -> Select[Any]:
    stale = GraphFactsRow.origin != origin
    if origin.startswith(STATISTICAL):
        stale = and_(stale, GraphFactsRow.origin.startswith(STATISTICAL, autoescape=True))
    return (
        served_chunks(knowledge_base, *columns)
        .outerjoin(GraphFactsRow, GraphFactsRow.chunk_key == ChunkRow.key)
        .where(or_(GraphFactsRow.chunk_key.is_(None), stale))
    )


def write_facts(tx: Connection, knowledge_base: int, read: Sequence[ExtractedFacts]) -> int:
    """Stores facts, replacing those of the same chunks. Returns how many; deleted chunks get none."""
    keys = [one.key for one in read]
    own = select(ChunkRow.key).where(ChunkRow.knowledge_base_id == knowledge_base)
    existing = {row.key for row in select_in(tx, own, ChunkRow.key, keys)}
    if not existing:
        return 0
    delete_in(tx, GraphFactsRow, GraphFactsRow.chunk_key, sorted(existing))
    revision = count_up(tx, graph_revision(knowledge_base))
    rows = [
        (one.key, knowledge_base, one.document_key, revision, one.origin[:220], one.digest, pack_facts(one.facts))
        for one in read
        if one.key in existing
    ]
    insert_rows(tx, GraphFactsRow, FACTS, rows)
    return len(rows)


def carry_over(tx: Connection, doomed: Sequence[int], newest: Mapping[int, int]) -> None:
    """Copies what models read in chunks that are about to be deleted to chunks of the document's newest generation with
    the same text: no model reads it twice. ``newest`` is document → generation."""
    query = select(GraphFactsRow.__table__).where(GraphFactsRow.origin.not_like(f"{STATISTICAL}%"))
    read = {(row.document_key, row.digest): row for row in select_in(tx, query, GraphFactsRow.chunk_key, doomed)}
    copies: dict[int, list[ExtractedFacts]] = {}
    for document in sorted({document for document, _ in read}):
        same = (ChunkRow.document_key == document) & (ChunkRow.generation == newest[document])
        for chunk in _readable(tx, select(*_READABLE).where(same)):
            if (row := read.get((document, chunk.digest))) is not None:
                copy = ExtractedFacts(chunk.key, document, row.origin, row.digest, unpack_facts(row.facts))
                copies.setdefault(row.knowledge_base_id, []).append(copy)
    for knowledge_base, facts in copies.items():
        write_facts(tx, knowledge_base, facts)


def has_model_facts(tx: Connection, knowledge_base: int) -> bool:
    """Whether a model has read any chunk of the base."""
    own = GraphFactsRow.knowledge_base_id == knowledge_base
    query = select(GraphFactsRow.chunk_key).where(own, GraphFactsRow.origin.not_like(f"{STATISTICAL}%"))
    return tx.execute(query.limit(1)).first() is not None


def model_facts(tx: Connection, keys: Sequence[int]) -> dict[int, ExtractedFacts]:
    """What models read in these chunks, by chunk."""
    query = select(GraphFactsRow.__table__).where(GraphFactsRow.origin.not_like(f"{STATISTICAL}%"))
    return {
        row.chunk_key: ExtractedFacts(row.chunk_key, row.document_key, row.origin, row.digest, unpack_facts(row.facts))
        for row in select_in(tx, query, GraphFactsRow.chunk_key, keys)
    }


def remove_facts(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> None:
    """These chunks have to be read again."""
    own = GraphFactsRow.knowledge_base_id == knowledge_base
    delete_in(tx, GraphFactsRow, GraphFactsRow.chunk_key, sorted(keys), own)
    count_up(tx, graph_revision(knowledge_base))


def revision(tx: Connection, knowledge_base: int) -> int:
    """How often facts were read or aliases changed so far."""
    query = select(Counter.next).where(Counter.name == graph_revision(knowledge_base))
    return int(tx.execute(query).scalar() or 0)


def state(tx: Connection, knowledge_base: int) -> tuple[int, int]:
    """Another value whenever a graph may be another: a document came or went, facts were read, aliases changed."""
    return generation_and_graph(tx, knowledge_base)


def graph_chunks(tx: Connection, knowledge_base: int) -> GraphChunks:
    """The served chunks with stored facts."""
    columns = (ChunkRow.key, ChunkRow.document_key, ChunkRow.generation, GraphFactsRow.revision, ChunkRow.kind)
    query = served_chunks(knowledge_base, *columns).join(GraphFactsRow, GraphFactsRow.chunk_key == ChunkRow.key)
    rows = tx.execute(query.order_by(ChunkRow.key)).all()
    table = np.array([(*numbers, kind == "table") for *numbers, kind in rows], dtype=np.int64).reshape(-1, 5)
    keys, documents, generations, revisions, are_tables = table.T
    return GraphChunks(keys, documents, generations, revisions, are_tables.astype(np.bool_))


def chunk_count(tx: Connection, knowledge_base: int, up_to: int) -> int:
    """How many chunks there are up to a key, served or not: read from an index alone."""
    query = select(func.count()).where(ChunkRow.knowledge_base_id == knowledge_base, ChunkRow.key <= up_to)
    return int(tx.execute(query).scalar_one())


def chunk_keys(tx: Connection, knowledge_base: int, up_to: int) -> Keys:
    """The keys of all chunks up to this one, served or not, sorted."""
    query = select(ChunkRow.key).where(ChunkRow.knowledge_base_id == knowledge_base, ChunkRow.key <= up_to)
    return keys_of(tx, query.order_by(ChunkRow.key))


def served_keys(tx: Connection, knowledge_base: int, after: int) -> Keys:
    """The keys of the served chunks after this one, sorted."""
    query = served_chunks(knowledge_base, ChunkRow.key).where(ChunkRow.key > after)
    return keys_of(tx, query.order_by(ChunkRow.key))


def last_settled_key(tx: Connection, knowledge_base: int, after: int = 0) -> int:
    """A key up to which no chunk will be served that is not served now: chunks of later versions have higher keys.
    ``after`` is one that was known before."""
    base = ChunkRow.knowledge_base_id == knowledge_base
    waiting = (
        select(func.min(ChunkRow.key))
        .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        .where(base, ChunkRow.key > after, ChunkRow.generation > DocumentRow.served)
    )
    first = tx.execute(waiting).scalar()
    last = tx.execute(select(func.max(ChunkRow.key)).where(base)).scalar()
    return int(first) - 1 if first is not None else max(after, int(last or 0))


def attributes(tx: Connection, knowledge_base: int, versions: Mapping[int, int]) -> dict[int, Attributes]:
    """Document → what a filter may test of the prose of this version, while it exists; tables differ only in kind."""
    query = (
        select(DocumentRow.key, DocumentRow.doc_id, VersionRow.generation, *ATTRIBUTES)
        .join(VersionRow, VersionRow.document_key == DocumentRow.key)
        .where(DocumentRow.knowledge_base_id == knowledge_base)
    )
    return {
        row.key: attributes_of(row.doc_id, row)
        for row in select_in(tx, query, DocumentRow.key, sorted(versions))
        if row.generation == versions[row.key]
    }


def facts_of(tx: Connection, knowledge_base: int, keys: Sequence[int]) -> list[ChunkFacts]:
    """The facts of these chunks, in key order, of those that serve and have any."""
    columns = (GraphFactsRow.chunk_key, GraphFactsRow.document_key, GraphFactsRow.facts, GraphFactsRow.origin)
    query = served_chunks(knowledge_base, *columns).join(GraphFactsRow, GraphFactsRow.chunk_key == ChunkRow.key)
    rows = select_in(tx, query.order_by(ChunkRow.key), ChunkRow.key, sorted(keys))
    return [ChunkFacts(key, document, unpack_facts(facts), origin) for key, document, facts, origin in rows]


def digests(tx: Connection, knowledge_base: int, keys: Sequence[int]) -> dict[int, str]:
    """Chunk → the digest of what was read in it, of those that have facts."""
    query = select(GraphFactsRow.chunk_key, GraphFactsRow.digest)
    query = query.where(GraphFactsRow.knowledge_base_id == knowledge_base)
    return {row.chunk_key: row.digest for row in select_in(tx, query, GraphFactsRow.chunk_key, keys)}


def known(tx: Connection, knowledge_base: int, origin: str, digests: Iterable[str]) -> dict[str, Facts]:
    """By digest: what this reader found in the same text before."""
    query = select(GraphFactsRow.digest, GraphFactsRow.facts).where(
        GraphFactsRow.knowledge_base_id == knowledge_base, GraphFactsRow.origin == origin[:220]
    )
    found = select_in(tx, query, GraphFactsRow.digest, sorted(set(digests)))
    return {row.digest: unpack_facts(row.facts) for row in found}


def origins(tx: Connection, knowledge_base: int) -> dict[str, int]:
    """Reader → how many of the served chunks it has read."""
    query = served_chunks(knowledge_base, GraphFactsRow.origin, func.count())
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
    return keys_of(tx, query)


def drop_orphans(tx: Connection, knowledge_base: int) -> None:
    """Facts whose chunk was deleted without them: only a damaged database has any."""
    query = select(GraphFactsRow.chunk_key).outerjoin(ChunkRow, ChunkRow.key == GraphFactsRow.chunk_key)
    query = query.where(GraphFactsRow.knowledge_base_id == knowledge_base, ChunkRow.key.is_(None))
    if doomed := list(tx.execute(query).scalars()):
        remove_facts(tx, knowledge_base, doomed)


# ── aliases ──────────────────────────────────────────────────────────────────────────────────────


def aliases(tx: Connection, knowledge_base: int) -> list[Alias]:
    """The stored aliases, in their order."""
    query = select(GraphAliasRow.__table__).where(GraphAliasRow.knowledge_base_id == knowledge_base)
    rows = tx.execute(query.order_by(GraphAliasRow.alias))
    return [Alias(row.name, row.alias, row.origin, row.details) for row in rows]


def add_alias(tx: Connection, knowledge_base: int, alias: Alias) -> None:
    """Makes ``alias.alias`` another name of ``alias.name``, whatever it was before. Raises BadInput."""
    for name in (alias.name, alias.alias):
        if not name.strip() or len(name) > LONGEST_NAME or not is_storable(name):
            raise BadInput(
                f"实体名须为 1–{LONGEST_NAME} 个字符：{storable(name)[:40]!r}", hint="用图谱里显示的实体名再试"
            )
    _delete_alias(tx, knowledge_base, alias.alias)
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
    about = {"name": alias.name, "origin": alias.origin}
    audit.append(tx, "", "graph.merge", alias.alias, knowledge_base=knowledge_base, details=about)


def remove_alias(tx: Connection, knowledge_base: int, alias: str) -> bool:
    """Removes an alias. Returns False if there was none."""
    if not is_storable(alias) or not _delete_alias(tx, knowledge_base, alias):
        return False
    count_up(tx, graph_revision(knowledge_base))
    audit.append(tx, "", "graph.split", alias, knowledge_base=knowledge_base)
    return True


def _delete_alias(tx: Connection, knowledge_base: int, alias: str) -> bool:
    own = (GraphAliasRow.knowledge_base_id == knowledge_base) & (GraphAliasRow.alias == alias)
    return bool(tx.execute(delete(GraphAliasRow).where(own)).rowcount)


# ── summaries ────────────────────────────────────────────────────────────────────────────────────


def summaries(tx: Connection, knowledge_base: int, model: str, communities: Iterable[str]) -> dict[str, Summary]:
    """By community: what this model wrote about it."""
    columns = (GraphSummaryRow.community, GraphSummaryRow.title, GraphSummaryRow.summary)
    query = select(*columns).where(GraphSummaryRow.knowledge_base_id == knowledge_base, GraphSummaryRow.model == model)
    found = select_in(tx, query, GraphSummaryRow.community, sorted(set(communities)))
    return {row.community: Summary(*row) for row in found}


def all_summaries(tx: Connection, knowledge_base: int) -> Iterator[tuple[str, Summary]]:
    """Everything that models wrote about communities, each with the model that did."""
    own = GraphSummaryRow.knowledge_base_id == knowledge_base
    columns = (GraphSummaryRow.model, GraphSummaryRow.community, GraphSummaryRow.title, GraphSummaryRow.summary)
    query = select(*columns).where(own).order_by(GraphSummaryRow.model, GraphSummaryRow.community)
    for model, *written in tx.execute(query):
        yield model, Summary(*written)


def store_summaries(tx: Connection, knowledge_base: int, model: str, written: Sequence[Summary]) -> None:
    """Stores what a model wrote, replacing what it wrote about the same communities before."""
    now = datetime.now(UTC)
    own = (GraphSummaryRow.knowledge_base_id == knowledge_base) & (GraphSummaryRow.model == model)
    delete_in(tx, GraphSummaryRow, GraphSummaryRow.community, [one.community for one in written], own)
    rows = [(knowledge_base, one.community, model, storable(one.title), storable(one.summary), now) for one in written]
    columns = ("knowledge_base_id", "community", "model", "title", "summary", "created_at")
    insert_rows(tx, GraphSummaryRow, columns, rows)


def remove_other_summaries(tx: Connection, knowledge_base: int, but: Iterable[str]) -> int:
    """Deletes the summaries of communities that no longer exist: a deleted text must not live on. Returns how many."""
    own = GraphSummaryRow.knowledge_base_id == knowledge_base
    stored = tx.execute(select(GraphSummaryRow.community).where(own).distinct()).scalars()
    outdated = sorted(set(stored) - set(but))
    delete_in(tx, GraphSummaryRow, GraphSummaryRow.community, outdated, own)
    return len(outdated)
