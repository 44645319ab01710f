"""The tables of record. Column types are chosen so that SQLite, PostgreSQL and MySQL take the same queries.

Keys of documents and chunks and the outbox sequence come from `counters`, not from the database's own sequences: the
counter's row stays locked until the transaction commits, so sequence order *is* commit order (a consumer can never
skip a row that commits late), keys are never reused, and bulk inserts need no RETURNING, which MySQL lacks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

BigKey = BigInteger().with_variant(Integer, "sqlite")
DocId = String(255).with_variant(String(255, collation="C"), "postgresql")  # listed in the order of their bytes
LongText = Text().with_variant(LONGTEXT, "mysql")


class Moment(TypeDecorator[datetime]):
    """A point in time, always in UTC and always aware: SQLite and MySQL keep no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    pass


class Counter(Base):
    """The next free number of each kind: document, chunk, table, pair, outbox, log; and each base's revisions."""

    __tablename__ = "counters"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    next: Mapped[int] = mapped_column(BigKey)


class KnowledgeBaseRow(Base):
    __tablename__ = "knowledge_bases"
    __table_args__ = (UniqueConstraint("tenant", "name", name="uq_knowledge_bases_tenant_name"),)

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    tenant: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(32))
    embedding_model: Mapped[str] = mapped_column(String(200))
    dimension: Mapped[int] = mapped_column(Integer)
    config: Mapped[dict[str, Any]] = mapped_column(JSON)
    # Outbox rows up to here are in the index and have been removed: an index that knows less must be rebuilt.
    indexed_sequence: Mapped[int] = mapped_column(BigKey)
    created_at: Mapped[datetime] = mapped_column(Moment)
    updated_at: Mapped[datetime] = mapped_column(Moment)


class DocumentRow(Base):
    """A document's identity and state. A deleted document leaves its row, so that late events find its generation."""

    __tablename__ = "documents"
    __table_args__ = (
        UniqueConstraint("knowledge_base_id", "doc_id", name="uq_documents_base_doc"),
        Index("ix_documents_base_status", "knowledge_base_id", "status"),
    )

    key: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: Mapped[int] = mapped_column(BigKey, ForeignKey("knowledge_bases.id"))
    doc_id: Mapped[str] = mapped_column(DocId)
    generation: Mapped[int] = mapped_column(BigKey)  # the latest accepted
    served: Mapped[int] = mapped_column(BigKey)  # the generation whose chunks are in the records; 0: none yet
    status: Mapped[str] = mapped_column(String(16))  # pending | indexed | retrying | quarantined | deleted
    attempts: Mapped[int] = mapped_column(Integer)  # that failed, for a reason of its own
    outages: Mapped[int] = mapped_column(Integer)  # attempts that failed because the model could not be reached
    retry_at: Mapped[datetime | None] = mapped_column(Moment)
    reason: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Moment)
    updated_at: Mapped[datetime] = mapped_column(Moment)


class VersionRow(Base):
    """What a document said at one generation. The served version stays until the next one is searchable."""

    __tablename__ = "document_versions"

    document_key: Mapped[int] = mapped_column(BigKey, ForeignKey("documents.key"), primary_key=True)
    generation: Mapped[int] = mapped_column(BigKey, primary_key=True)
    knowledge_base_id: Mapped[int] = mapped_column(BigKey)
    name: Mapped[str] = mapped_column(String(512))
    format: Mapped[str] = mapped_column(String(16))
    content_type: Mapped[str] = mapped_column(String(64))
    user_id: Mapped[str] = mapped_column(String(128))
    project_id: Mapped[str] = mapped_column(String(128))
    tags: Mapped[list[str]] = mapped_column(JSON)
    # "metadata" is a reserved attribute name of declarative classes.
    extra: Mapped[dict[str, Any]] = mapped_column("metadata", JSON)
    source: Mapped[str] = mapped_column(Text)
    fingerprint: Mapped[str] = mapped_column(String(64))
    structure: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    content: Mapped[str] = mapped_column(LongText)


class ChunkRow(Base):
    __tablename__ = "chunks"
    __table_args__ = (
        Index("ix_chunks_document", "document_key", "generation"),
        Index("ix_chunks_base", "knowledge_base_id", "key"),
    )

    key: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: Mapped[int] = mapped_column(BigKey)
    document_key: Mapped[int] = mapped_column(BigKey, ForeignKey("documents.key"))
    generation: Mapped[int] = mapped_column(BigKey)
    position: Mapped[int] = mapped_column(Integer)
    start: Mapped[int] = mapped_column(Integer)
    end: Mapped[int] = mapped_column(Integer)
    kind: Mapped[str] = mapped_column(String(8))
    page: Mapped[int | None] = mapped_column(Integer)
    table_position: Mapped[int | None] = mapped_column(Integer)
    headings: Mapped[list[str]] = mapped_column(JSON)
    text: Mapped[str] = mapped_column(LongText)


class VectorRow(Base):
    """A chunk's vector under one model: kept here so that a lost index is rebuilt without embedding again."""

    __tablename__ = "chunk_vectors"

    chunk_key: Mapped[int] = mapped_column(BigKey, ForeignKey("chunks.key"), primary_key=True)
    model: Mapped[str] = mapped_column(String(200), primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)  # little-endian float32


class TableRow(Base):
    __tablename__ = "tables"
    __table_args__ = (Index("ix_tables_document", "document_key", "generation"),)

    key: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: Mapped[int] = mapped_column(BigKey)
    document_key: Mapped[int] = mapped_column(BigKey, ForeignKey("documents.key"))
    generation: Mapped[int] = mapped_column(BigKey)
    position: Mapped[int] = mapped_column(Integer)
    start: Mapped[int] = mapped_column(Integer)
    end: Mapped[int] = mapped_column(Integer)
    title: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(Text)
    notes: Mapped[str] = mapped_column(LongText)
    columns: Mapped[list[Any]] = mapped_column(JSON)
    rows: Mapped[list[Any]] = mapped_column(JSON)
    texts: Mapped[list[Any]] = mapped_column(JSON)
    row_starts: Mapped[list[int]] = mapped_column(JSON)


class PairRow(Base):
    """A question and answer of a document; ``chunk_key`` is the chunk that holds the answer, once there are chunks.

    ``chunk_digest`` names the text that a model was asked about, so that the same text is not asked about again.
    """

    __tablename__ = "qa_pairs"
    __table_args__ = (
        Index("ix_pairs_document", "document_key", "generation"),
        Index("ix_pairs_chunk", "knowledge_base_id", "chunk_key"),
        Index("ix_pairs_digest", "knowledge_base_id", "chunk_digest"),
    )

    key: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: Mapped[int] = mapped_column(BigKey)
    document_key: Mapped[int] = mapped_column(BigKey, ForeignKey("documents.key"))
    generation: Mapped[int] = mapped_column(BigKey)
    position: Mapped[int] = mapped_column(Integer)
    chunk_key: Mapped[int | None] = mapped_column(BigKey)
    question: Mapped[str] = mapped_column(LongText)
    answer: Mapped[str] = mapped_column(LongText)
    origin: Mapped[str] = mapped_column(String(220), server_default="given")  # given | model:<name>
    chunk_digest: Mapped[str | None] = mapped_column(String(40))


class PairVectorRow(Base):
    """A question's vector under one model, kept for the same reason as those of chunks."""

    __tablename__ = "pair_vectors"

    pair_key: Mapped[int] = mapped_column(BigKey, ForeignKey("qa_pairs.key"), primary_key=True)
    model: Mapped[str] = mapped_column(String(200), primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)  # little-endian float32


class TermRow(Base):
    """A word of a base and its vector under one model: among these the words related to a query's are looked for."""

    __tablename__ = "terms"

    knowledge_base_id: Mapped[int] = mapped_column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    model: Mapped[str] = mapped_column(String(200), primary_key=True)
    term: Mapped[str] = mapped_column(String(64), primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)  # little-endian float32


class GraphFactsRow(Base):
    """What a chunk tells the graph, by one reader: statistical:<version> or model:<name>. Goes when the chunk goes.

    ``digest`` names what was read, so that a model is not asked about the same again; ``revision`` is the base's own
    count of changes to its graph, as it was with this one.
    """

    __tablename__ = "graph_facts"
    __table_args__ = (Index("ix_graph_facts_digest", "knowledge_base_id", "digest"),)

    chunk_key: Mapped[int] = mapped_column(BigKey, ForeignKey("chunks.key"), primary_key=True)
    knowledge_base_id: Mapped[int] = mapped_column(BigKey)
    document_key: Mapped[int] = mapped_column(BigKey)
    revision: Mapped[int] = mapped_column(BigKey)
    origin: Mapped[str] = mapped_column(String(220))
    digest: Mapped[str] = mapped_column(String(40))
    facts: Mapped[str] = mapped_column(LongText)


class GraphAliasRow(Base):
    """Two names that were said to be one thing's, by a person or by a model that one asked; taken back by removal."""

    __tablename__ = "graph_aliases"

    knowledge_base_id: Mapped[int] = mapped_column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    alias: Mapped[str] = mapped_column(DocId, primary_key=True)
    name: Mapped[str] = mapped_column(DocId)
    origin: Mapped[str] = mapped_column(String(220))
    details: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(Moment)


class GraphSummaryRow(Base):
    """What a model wrote about a community, whose id is made of its content: another content has another row."""

    __tablename__ = "graph_summaries"

    knowledge_base_id: Mapped[int] = mapped_column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    community: Mapped[str] = mapped_column(String(64), primary_key=True)
    model: Mapped[str] = mapped_column(String(200), primary_key=True)
    title: Mapped[str] = mapped_column(Text)
    summary: Mapped[str] = mapped_column(LongText)
    created_at: Mapped[datetime] = mapped_column(Moment)


class OutboxRow(Base):
    """Work the index has not seen yet, in commit order."""

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_base", "knowledge_base_id", "sequence"),)

    sequence: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: Mapped[int] = mapped_column(BigKey)
    document_key: Mapped[int] = mapped_column(BigKey)
    generation: Mapped[int] = mapped_column(BigKey)
    kind: Mapped[str] = mapped_column(String(8))  # created | updated | deleted
    created_at: Mapped[datetime] = mapped_column(Moment)


class EventRow(Base):
    """Events already handled, so that a repeated one changes nothing."""

    __tablename__ = "handled_events"

    knowledge_base_id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    event_id: Mapped[str] = mapped_column(String(200), primary_key=True)
    handled_at: Mapped[datetime] = mapped_column(Moment, index=True)


class RetrievalLogRow(Base):
    """One recall as it was answered: enough to ask the same again and to see whether the answer is still the same.

    No foreign key: the log is written behind the searches' backs, and its base may be gone by then.
    """

    __tablename__ = "knowledge_retrieval_log"
    __table_args__ = (
        Index("ix_retrieval_log_base_created", "knowledge_base_id", "created_at"),
        Index("ix_retrieval_log_created", "created_at"),
        Index("ix_retrieval_log_trace", "trace_id"),
        Index("ix_retrieval_log_tenant", "tenant", "id"),
    )

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    tenant: Mapped[str] = mapped_column(String(64))
    knowledge_base_id: Mapped[int] = mapped_column(BigKey)
    trace_id: Mapped[str] = mapped_column(String(64))
    query: Mapped[str] = mapped_column(String(2048))
    retrieval_params: Mapped[dict[str, Any]] = mapped_column(JSON)
    mode: Mapped[str] = mapped_column(String(16))
    tier: Mapped[str] = mapped_column(String(16))  # "" when nothing was found
    chunk_count: Mapped[int] = mapped_column(Integer)
    zero: Mapped[bool] = mapped_column(Boolean)
    time_cost_ms: Mapped[float] = mapped_column(Double)
    from_cache: Mapped[bool] = mapped_column(Boolean)
    generation: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(String(64))  # sha256 of the answer's canonical bytes
    steps: Mapped[list[Any]] = mapped_column(JSON)
    degraded: Mapped[list[Any]] = mapped_column(JSON)
    results: Mapped[list[Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(Moment)
    updated_at: Mapped[datetime] = mapped_column(Moment)
    # What a person thinks of the answer; NULL where nobody has said.
    rating: Mapped[str | None] = mapped_column(String(8))  # good | bad
    rated_chunks: Mapped[list[Any] | None] = mapped_column(JSON)
    comment: Mapped[str | None] = mapped_column(Text)
    rated_at: Mapped[datetime | None] = mapped_column(Moment)


class ApiKeyRow(Base):
    """A key to the service. The key itself is kept nowhere; a revoked one keeps its row, so that it can be told."""

    __tablename__ = "api_keys"
    __table_args__ = (UniqueConstraint("digest", name="uq_api_keys_digest"),)

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    digest: Mapped[str] = mapped_column(String(64))  # sha256 of the key, which has 256 random bits: no salt is needed
    tenant: Mapped[str] = mapped_column(String(64))
    scope: Mapped[str] = mapped_column(String(8))  # read | write
    name: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(Moment)
    revoked_at: Mapped[datetime | None] = mapped_column(Moment)


class UserModelRow(Base):
    """A model that a user registered. Its key is sealed (`sealing`) before it comes near SQL."""

    __tablename__ = "user_models"
    __table_args__ = (Index("ix_user_models_user", "tenant", "user_id", "model_type"),)

    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=False)
    tenant: Mapped[str] = mapped_column(String(64))
    user_id: Mapped[str] = mapped_column(String(128))
    config_name: Mapped[str] = mapped_column(String(200))
    base_url: Mapped[str] = mapped_column(Text)
    model_name: Mapped[str] = mapped_column(String(200))
    model_type: Mapped[str] = mapped_column(String(16))
    model_dim: Mapped[int] = mapped_column(Integer)
    max_tokens: Mapped[int] = mapped_column(Integer)
    temperature: Mapped[float] = mapped_column(Double)
    top_p: Mapped[float] = mapped_column(Double)
    timeout: Mapped[int] = mapped_column(Integer)  # seconds
    status: Mapped[int] = mapped_column(Integer)  # 1: in use, 0: disabled
    is_default: Mapped[int] = mapped_column(Integer)
    masked_key: Mapped[str] = mapped_column(String(16))
    sealed_key: Mapped[bytes | None] = mapped_column(LargeBinary)
    version: Mapped[int] = mapped_column(Integer)  # raised by every change: clients opened for another one are stale
    created_at: Mapped[datetime] = mapped_column(Moment)
    updated_at: Mapped[datetime] = mapped_column(Moment)
