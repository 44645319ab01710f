"""The tables of record. Column types are chosen so that SQLite, PostgreSQL and MySQL take the same queries.

Keys of documents and chunks and the outbox sequence come from `counters`, not from the database's own sequences: the
counter's row stays locked until the transaction commits, so sequence order *is* commit order (a consumer can never
skip a row that commits late), keys are never reused, and bulk inserts need no RETURNING, which MySQL lacks.

Rows with text, vectors or settings have a ``checksum`` of their other columns (`checksums`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
)
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.schema import SchemaItem

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


class Base:
    """A table whose columns are the attributes of a class, which is used in statements.

    Without SQLAlchemy's ORM: it is not needed, and loading it would take a tenth of a process that opens a base and
    runs one query.
    """

    metadata: ClassVar = MetaData()
    __tablename__: ClassVar[str]
    __table_args__: ClassVar[tuple[SchemaItem, ...]] = ()
    __table__: ClassVar[Table]

    def __init_subclass__(cls) -> None:
        columns = {name: value for name, value in vars(cls).items() if isinstance(value, Column)}
        for name, item in columns.items():
            item.name, item.key = item.name or name, item.key or name
        cls.__table__ = Table(cls.__tablename__, cls.metadata, *columns.values(), *cls.__table_args__)

    @classmethod
    def __clause_element__(cls) -> Table:
        return cls.__table__


def column(*arguments: Any, nullable: bool = False, **options: Any) -> Column[Any]:
    """A column that is not null by default."""
    return Column(*arguments, nullable=nullable, **options)


VERSIONS = Table(  # as Alembic has it
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


class Counter(Base):
    """The next free number of each kind: document, chunk, table, pair, outbox, log; and each base's revisions."""

    __tablename__ = "counters"

    name: ColumnElement[str] = column(String(32), primary_key=True)
    next: ColumnElement[int] = column(BigKey)


class KnowledgeBaseRow(Base):
    __tablename__ = "knowledge_bases"
    __table_args__ = (UniqueConstraint("tenant", "name", name="uq_knowledge_bases_tenant_name"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    tenant: ColumnElement[str] = column(String(64))
    name: ColumnElement[str] = column(String(200))
    kind: ColumnElement[str] = column(String(32))
    embedding_model: ColumnElement[str] = column(String(200))
    dimension: ColumnElement[int] = column(Integer)
    config: ColumnElement[dict[str, Any]] = column(JSON)
    # Outbox rows up to here are in the index and have been removed: an index that knows less must be rebuilt.
    indexed_sequence: ColumnElement[int] = column(BigKey)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class DocumentRow(Base):
    """A document's identity and state. A deleted document leaves its row, so that late events find its generation."""

    __tablename__ = "documents"
    __table_args__ = (
        UniqueConstraint("knowledge_base_id", "doc_id", name="uq_documents_base_doc"),
        Index("ix_documents_base_status", "knowledge_base_id", "status"),
    )

    key: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"))
    doc_id: ColumnElement[str] = column(DocId)
    generation: ColumnElement[int] = column(BigKey)  # the latest accepted
    served: ColumnElement[int] = column(BigKey)  # the generation whose chunks are stored; 0: none yet
    status: ColumnElement[str] = column(String(16))  # a `DocumentStatus`
    attempts: ColumnElement[int] = column(Integer)  # that failed, for a reason of its own
    outages: ColumnElement[int] = column(Integer)  # attempts that failed because the model could not be reached
    retry_at: ColumnElement[datetime | None] = column(Moment, nullable=True)
    reason: ColumnElement[str | None] = column(Text, nullable=True)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)
    # Who may see it: an `AccessSetRow`, 0 for everybody; and its own labels where it has them, else a rule's count.
    access_set: ColumnElement[int] = column(BigKey, server_default="0")
    own_access: ColumnElement[list[str] | None] = column(JSON(none_as_null=True), nullable=True)


class AccessSetRow(Base):
    """Labels that documents have together. A set never changes: other labels are another set."""

    __tablename__ = "access_sets"
    __table_args__ = (UniqueConstraint("knowledge_base_id", "digest", name="uq_access_sets_labels"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"))
    digest: ColumnElement[str] = column(String(64))
    labels: ColumnElement[list[str]] = column(JSON)


class AccessRuleRow(Base):
    """What labels the documents of a folder, or of a source, have that have none of their own."""

    __tablename__ = "access_rules"

    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    digest: ColumnElement[str] = column(String(64), primary_key=True)  # of the prefix: no index takes one so long
    prefix: ColumnElement[str] = column(Text)
    labels: ColumnElement[list[str]] = column(JSON)
    created_at: ColumnElement[datetime] = column(Moment)


class VersionRow(Base):
    """The content of a document at one generation. The served version stays until the next one is searchable."""

    __tablename__ = "document_versions"

    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"), primary_key=True)
    generation: ColumnElement[int] = column(BigKey, primary_key=True)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    name: ColumnElement[str] = column(String(512))
    format: ColumnElement[str] = column(String(16))
    content_type: ColumnElement[str] = column(String(64))
    user_id: ColumnElement[str] = column(String(128))
    project_id: ColumnElement[str] = column(String(128))
    tags: ColumnElement[list[str]] = column(JSON)
    # `metadata` itself is SQLAlchemy's name for the tables.
    extra: ColumnElement[dict[str, Any]] = column("metadata", JSON)
    source: ColumnElement[str] = column(Text)
    fingerprint: ColumnElement[str] = column(String(64))
    structure: ColumnElement[dict[str, Any] | None] = column(JSON, nullable=True)
    content: ColumnElement[str] = column(LongText)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class ValidityRow(Base):
    """When a version of a document is in force, and what it replaces: as stated in its metadata, or read from its text.

    Only versions of which something is known have one.
    """

    __tablename__ = "document_validity"
    __table_args__ = (Index("ix_document_validity_base", "knowledge_base_id"),)

    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"), primary_key=True)
    generation: ColumnElement[int] = column(BigKey, primary_key=True)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    valid_from: ColumnElement[str] = column(String(10))  # ISO days; "": not known
    valid_until: ColumnElement[str] = column(String(10))
    supersedes: ColumnElement[list[str]] = column(JSON)  # ids or names of documents
    read: ColumnElement[list[str]] = column("read_fields", JSON)  # names of the above that were read from the text


class ChunkRow(Base):
    __tablename__ = "chunks"
    __table_args__ = (
        Index("ix_chunks_document", "document_key", "generation"),
        Index("ix_chunks_base", "knowledge_base_id", "key"),
    )

    key: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"))
    generation: ColumnElement[int] = column(BigKey)
    position: ColumnElement[int] = column(Integer)
    start: ColumnElement[int] = column(Integer)
    end: ColumnElement[int] = column(Integer)
    kind: ColumnElement[str] = column(String(8))
    page: ColumnElement[int | None] = column(Integer, nullable=True)
    table_position: ColumnElement[int | None] = column(Integer, nullable=True)
    headings: ColumnElement[list[str]] = column(JSON)
    text: ColumnElement[str] = column(LongText)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)
    corrected: ColumnElement[dict[str, Any] | None] = column(JSON(none_as_null=True), nullable=True)  # a `Corrected`


class VectorRow(Base):
    """A chunk's vector under one model: stored so that a lost index is rebuilt without embedding again."""

    __tablename__ = "chunk_vectors"

    chunk_key: ColumnElement[int] = column(BigKey, ForeignKey("chunks.key"), primary_key=True)
    model: ColumnElement[str] = column(String(200), primary_key=True)
    vector: ColumnElement[bytes] = column(LargeBinary)  # little-endian float32
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class TableRow(Base):
    __tablename__ = "tables"
    __table_args__ = (Index("ix_tables_document", "document_key", "generation"),)

    key: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"))
    generation: ColumnElement[int] = column(BigKey)
    position: ColumnElement[int] = column(Integer)
    start: ColumnElement[int] = column(Integer)
    end: ColumnElement[int] = column(Integer)
    title: ColumnElement[str] = column(Text)
    source: ColumnElement[str] = column(Text)
    notes: ColumnElement[str] = column(LongText)
    columns: ColumnElement[list[Any]] = column(JSON)
    rows: ColumnElement[list[Any]] = column(JSON)
    texts: ColumnElement[list[Any]] = column(JSON)
    row_starts: ColumnElement[list[int]] = column(JSON)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)
    # By the numbers of rows, what corrections put in their place (values and texts): nothing where they took them out.
    corrected_rows: ColumnElement[dict[str, Any] | None] = column(JSON(none_as_null=True), nullable=True)


class CorrectionRow(Base):
    """What people corrected: of a document that it names by id, which may be gone by now, or come back.

    ``revision`` is raised by everything that changes what the document's chunks are; ``chunk_keys`` are those that
    have it now. ``vector`` is of a rule's question, under ``vector_model``.
    """

    __tablename__ = "corrections"
    __table_args__ = (Index("ix_corrections_document", "knowledge_base_id", "doc_id"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"))
    doc_id: ColumnElement[str] = column(DocId)
    kind: ColumnElement[str] = column(String(20))  # a `CorrectionKind`
    change: ColumnElement[dict[str, Any]] = column("payload", JSON)
    anchor: ColumnElement[dict[str, Any] | None] = column(JSON(none_as_null=True), nullable=True)
    state: ColumnElement[str] = column(String(16))  # a `CorrectionState`
    reason: ColumnElement[str] = column(Text)
    author: ColumnElement[str] = column(String(128))
    origin: ColumnElement[str] = column(String(64))
    created_at: ColumnElement[datetime] = column(Moment)
    undone_by: ColumnElement[str] = column(String(128))
    undone_at: ColumnElement[datetime | None] = column(Moment, nullable=True)
    original: ColumnElement[dict[str, Any]] = column(JSON)
    revision: ColumnElement[int] = column(BigKey)
    chunk_keys: ColumnElement[list[int]] = column(JSON)
    vector_model: ColumnElement[str] = column(String(200))
    vector: ColumnElement[bytes | None] = column(LargeBinary, nullable=True)  # little-endian float32


class PairRow(Base):
    """A question and answer of a document; ``chunk_key`` is the chunk that holds the answer, once there are chunks.

    ``chunk_digest`` identifies the text that a model generated the question for, so that it is not done again.
    """

    __tablename__ = "qa_pairs"
    __table_args__ = (
        Index("ix_pairs_document", "document_key", "generation"),
        Index("ix_pairs_chunk", "knowledge_base_id", "chunk_key"),
        Index("ix_pairs_digest", "knowledge_base_id", "chunk_digest"),
    )

    key: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey, ForeignKey("documents.key"))
    generation: ColumnElement[int] = column(BigKey)
    position: ColumnElement[int] = column(Integer)
    chunk_key: ColumnElement[int | None] = column(BigKey, nullable=True)
    question: ColumnElement[str] = column(LongText)
    answer: ColumnElement[str] = column(LongText)
    origin: ColumnElement[str] = column(String(220), server_default="given")  # given | model:<name>
    chunk_digest: ColumnElement[str | None] = column(String(40), nullable=True)
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class PairVectorRow(Base):
    """A question's vector under one model, stored for the same reason as those of chunks."""

    __tablename__ = "pair_vectors"

    pair_key: ColumnElement[int] = column(BigKey, ForeignKey("qa_pairs.key"), primary_key=True)
    model: ColumnElement[str] = column(String(200), primary_key=True)
    vector: ColumnElement[bytes] = column(LargeBinary)  # little-endian float32
    checksum: ColumnElement[int | None] = column(BigKey, nullable=True)


class TermRow(Base):
    """A word of a base and its vector under one model: related words of a query are searched among them."""

    __tablename__ = "terms"

    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    model: ColumnElement[str] = column(String(200), primary_key=True)
    term: ColumnElement[str] = column(String(64), primary_key=True)
    vector: ColumnElement[bytes] = column(LargeBinary)  # little-endian float32


class GraphFactsRow(Base):
    """The facts of a chunk by one reader: statistical:<version> or model:<name>. Deleted with the chunk.

    ``digest`` identifies what was read, so that a model does not read the same again; ``revision`` is the base's own
    count of changes to its graph, as it was with this one.
    """

    __tablename__ = "graph_facts"
    __table_args__ = (Index("ix_graph_facts_digest", "knowledge_base_id", "digest"),)

    chunk_key: ColumnElement[int] = column(BigKey, ForeignKey("chunks.key"), primary_key=True)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey)
    revision: ColumnElement[int] = column(BigKey)
    origin: ColumnElement[str] = column(String(220))
    digest: ColumnElement[str] = column(String(40))
    facts: ColumnElement[str] = column(LongText)


class GraphAliasRow(Base):
    """Two names of one entity, confirmed by a user or a model."""

    __tablename__ = "graph_aliases"

    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    alias: ColumnElement[str] = column(DocId, primary_key=True)
    name: ColumnElement[str] = column(DocId)
    origin: ColumnElement[str] = column(String(220))
    details: ColumnElement[dict[str, Any]] = column(JSON)
    created_at: ColumnElement[datetime] = column(Moment)


class GraphSummaryRow(Base):
    """What a model wrote about a community, whose id is made of its content: another content has another row."""

    __tablename__ = "graph_summaries"

    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"), primary_key=True)
    community: ColumnElement[str] = column(String(64), primary_key=True)
    model: ColumnElement[str] = column(String(200), primary_key=True)
    title: ColumnElement[str] = column(Text)
    summary: ColumnElement[str] = column(LongText)
    created_at: ColumnElement[datetime] = column(Moment)


class OutboxRow(Base):
    """Changes that are not in the index yet, in commit order."""

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_base", "knowledge_base_id", "sequence"),)

    sequence: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    document_key: ColumnElement[int] = column(BigKey)
    generation: ColumnElement[int] = column(BigKey)
    kind: ColumnElement[str] = column(String(8))  # created | updated | deleted
    created_at: ColumnElement[datetime] = column(Moment)


class OutboxClaimRow(Base):
    """Outbox rows that the process which accepted them is chunking and embedding: others leave them to it for now."""

    __tablename__ = "outbox_claims"
    __table_args__ = (Index("ix_outbox_claims_base", "knowledge_base_id", "last_sequence"),)

    first_sequence: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    last_sequence: ColumnElement[int] = column(BigKey)
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    holder: ColumnElement[int] = column(BigKey)
    expires_at: ColumnElement[datetime] = column(Moment)  # by the database's clock


class LeaseRow(Base):
    """What one process at a time may do, until when, and how often it changed hands (`leases`)."""

    __tablename__ = "leases"

    name: ColumnElement[str] = column(String(64), primary_key=True)
    holder: ColumnElement[int] = column(BigKey)  # the number of a process; 0: nobody
    fence: ColumnElement[int] = column(BigKey)
    expires_at: ColumnElement[datetime] = column(Moment)  # by the database's clock


class SchemaReaderRow(Base):
    """The newest migration that a program knows which may work on these tables although they are newer."""

    __tablename__ = "schema_readers"

    revision: ColumnElement[str] = column(String(32), primary_key=True)


class EventRow(Base):
    """Events already handled, so that a repeated one changes nothing."""

    __tablename__ = "handled_events"

    knowledge_base_id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    event_id: ColumnElement[str] = column(String(200), primary_key=True)
    handled_at: ColumnElement[datetime] = column(Moment, index=True)


class RetrievalLogRow(Base):
    """One retrieval: enough to repeat it and to see whether the result is still the same.

    No foreign key: the log is written in the background, and its base may be deleted by then.
    """

    __tablename__ = "knowledge_retrieval_log"
    __table_args__ = (
        Index("idx_kb_created", "knowledge_base_id", "created_at"),
        Index("ix_retrieval_log_created", "created_at"),
        Index("ix_retrieval_log_trace", "trace_id"),
        Index("ix_retrieval_log_tenant", "tenant", "id"),
    )

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    tenant: ColumnElement[str] = column(String(64))
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    trace_id: ColumnElement[str] = column(String(64))
    query: ColumnElement[str] = column(String(2048))
    retrieval_params: ColumnElement[dict[str, Any]] = column(JSON)
    mode: ColumnElement[str] = column(String(16))
    tier: ColumnElement[str] = column(String(16))  # "" when nothing was found
    chunk_count: ColumnElement[int] = column(Integer)
    zero: ColumnElement[bool] = column(Boolean)
    time_cost_ms: ColumnElement[int] = column(Integer)
    from_cache: ColumnElement[bool] = column(Boolean)
    generation: ColumnElement[str] = column(Text)
    digest: ColumnElement[str] = column(String(64))  # sha256 of the answer's canonical bytes
    steps: ColumnElement[list[Any]] = column(JSON)
    degraded: ColumnElement[list[Any]] = column(JSON)
    results: ColumnElement[list[Any]] = column(JSON)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)
    # A user's rating of the answer; NULL without one.
    rating: ColumnElement[str | None] = column(String(8), nullable=True)  # good | bad
    rated_chunks: ColumnElement[list[Any] | None] = column(JSON, nullable=True)
    comment: ColumnElement[str | None] = column(Text, nullable=True)
    rated_at: ColumnElement[datetime | None] = column(Moment, nullable=True)
    principal: ColumnElement[str | None] = column(String(128), nullable=True)  # who asked; NULL: one who sees all


class ApiKeyRow(Base):
    """A key to the service. The key itself is not stored; a revoked one keeps its row, so that it is recognised."""

    __tablename__ = "api_keys"
    __table_args__ = (UniqueConstraint("digest", name="uq_api_keys_digest"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    digest: ColumnElement[str] = column(String(64))  # sha256 of the key, which has 256 random bits: no salt is needed
    tenant: ColumnElement[str] = column(String(64))
    scope: ColumnElement[str] = column(String(8))  # read | write
    name: ColumnElement[str] = column(String(200))
    created_at: ColumnElement[datetime] = column(Moment)
    revoked_at: ColumnElement[datetime | None] = column(Moment, nullable=True)
    # What it shows without a principal: everything | unlabelled; NULL: everything if it may write.
    sees: ColumnElement[str | None] = column(String(16), nullable=True)
    vouches: ColumnElement[bool] = column(Boolean, server_default=false())  # may say on whose behalf it asks
    principal: ColumnElement[list[str] | None] = column(JSON(none_as_null=True), nullable=True)  # it always asks for


class UserModelRow(Base):
    """A model that a user registered. Its key is sealed (`sealing`) before it comes near SQL."""

    __tablename__ = "user_models"
    __table_args__ = (Index("ix_user_models_user", "tenant", "user_id", "model_type"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    tenant: ColumnElement[str] = column(String(64))
    user_id: ColumnElement[str] = column(String(128))
    config_name: ColumnElement[str] = column(String(200))
    base_url: ColumnElement[str] = column(Text)
    model_name: ColumnElement[str] = column(String(200))
    model_type: ColumnElement[str] = column(String(16))
    model_dim: ColumnElement[int] = column(Integer)
    max_tokens: ColumnElement[int] = column(Integer)
    temperature: ColumnElement[float] = column(Double)
    top_p: ColumnElement[float] = column(Double)
    timeout: ColumnElement[int] = column(Integer)  # seconds
    status: ColumnElement[int] = column(Integer)  # 1: in use, 0: disabled
    is_default: ColumnElement[int] = column(Integer)
    masked_key: ColumnElement[str] = column(String(16))
    sealed_key: ColumnElement[bytes | None] = column(LargeBinary, nullable=True)
    version: ColumnElement[int] = column(Integer)  # raised by every change: clients opened for another one are stale
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)


class EvaluationSetRow(Base):
    """Labelled questions about one base; they go with it, also to another tenant."""

    __tablename__ = "evaluation_sets"
    __table_args__ = (UniqueConstraint("knowledge_base_id", "name", name="uq_evaluation_sets_base_name"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"))
    name: ColumnElement[str] = column(String(200))
    created_at: ColumnElement[datetime] = column(Moment)


class EvaluationCaseRow(Base):
    """A question and what should be found; ``question_digest`` is unique within a set, as the question is."""

    __tablename__ = "evaluation_cases"
    __table_args__ = (UniqueConstraint("set_id", "question_digest", name="uq_evaluation_cases_question"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    set_id: ColumnElement[int] = column(BigKey, ForeignKey("evaluation_sets.id"))
    question: ColumnElement[str] = column(String(2048))
    question_digest: ColumnElement[str] = column(String(40))
    relevant: ColumnElement[list[Any]] = column(JSON)
    expected: ColumnElement[str] = column(LongText)
    origin: ColumnElement[str] = column(String(16))  # a `CaseOrigin`
    log_id: ColumnElement[int | None] = column(BigKey, nullable=True)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)


class EvaluationRunRow(Base):
    """``updated_at`` is also the sign of life of a run: one that has been silent for long was interrupted."""

    __tablename__ = "evaluation_runs"
    __table_args__ = (Index("ix_evaluation_runs_set", "set_id", "id"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    set_id: ColumnElement[int] = column(BigKey, ForeignKey("evaluation_sets.id"))
    name: ColumnElement[str] = column(String(200))
    mode: ColumnElement[str] = column(String(16))
    choices: ColumnElement[dict[str, Any]] = column(JSON)
    status: ColumnElement[str] = column(String(16))  # a `RunStatus`
    done: ColumnElement[int] = column(Integer)
    total: ColumnElement[int] = column(Integer)
    metrics: ColumnElement[dict[str, float]] = column(JSON)
    p50_ms: ColumnElement[float] = column(Double)
    p95_ms: ColumnElement[float] = column(Double)
    setup: ColumnElement[dict[str, str]] = column(JSON)
    notes: ColumnElement[list[str]] = column(JSON)
    reason: ColumnElement[str] = column(Text)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)


class EvaluationResultRow(Base):
    """What a run achieved on a case; it outlives the case, so that a run's numbers stay explained."""

    __tablename__ = "evaluation_results"

    run_id: ColumnElement[int] = column(BigKey, ForeignKey("evaluation_runs.id"), primary_key=True)
    case_id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    question: ColumnElement[str] = column(String(2048))
    digest: ColumnElement[str] = column(String(40))  # of question and labels
    metrics: ColumnElement[dict[str, float]] = column(JSON)
    milliseconds: ColumnElement[float] = column(Double)
    first_rank: ColumnElement[int | None] = column(Integer, nullable=True)
    chunk_ids: ColumnElement[list[str]] = column(JSON)


class AuditRow(Base):
    """Who changed what, and when. Rows are only appended; each has the hash of the one before (`governance.audit`).

    The hash covers a salted digest of what the row says: a name that must go can be taken out, and the chain still
    holds.
    """

    __tablename__ = "audit_log"
    __table_args__ = (Index("ix_audit_log_tenant", "tenant", "sequence"),)

    sequence: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    created_at: ColumnElement[datetime] = column(Moment)
    tenant: ColumnElement[str] = column(String(64))
    knowledge_base_id: ColumnElement[int] = column(BigKey)  # 0: of no base
    action: ColumnElement[str] = column(String(64))
    # NULL once taken out: what is left is that something was done, not to what.
    who: ColumnElement[str | None] = column(String(255), nullable=True)
    subject: ColumnElement[str | None] = column(Text, nullable=True)
    details: ColumnElement[str | None] = column(LongText, nullable=True)  # JSON, in the very bytes that were hashed
    salt: ColumnElement[str | None] = column(String(32), nullable=True)
    digest: ColumnElement[str] = column(String(64))
    previous: ColumnElement[str] = column(String(64))
    hash: ColumnElement[str] = column(String(64))


class ReceiptRow(Base):
    """A signed receipt of a deletion, in the very bytes that were signed. It names what was deleted by digests only."""

    __tablename__ = "deletion_receipts"
    __table_args__ = (Index("ix_deletion_receipts_tenant", "tenant", "created_at"),)

    id: ColumnElement[str] = column(String(32), primary_key=True)
    tenant: ColumnElement[str] = column(String(64))
    knowledge_base_id: ColumnElement[int] = column(BigKey)  # 0: of several
    kind: ColumnElement[str] = column(String(16))  # documents | subject | knowledge_base
    created_at: ColumnElement[datetime] = column(Moment)
    body: ColumnElement[str] = column(LongText)


class QuotaRow(Base):
    """What a tenant may have at most, and search in a minute; NULL: as much as there is room for."""

    __tablename__ = "quotas"

    tenant: ColumnElement[str] = column(String(64), primary_key=True)
    documents: ColumnElement[int | None] = column(BigKey, nullable=True)
    chunks: ColumnElement[int | None] = column(BigKey, nullable=True)
    bytes: ColumnElement[int | None] = column(BigKey, nullable=True)  # of text, in UTF-8
    searches_per_minute: ColumnElement[int | None] = column(BigKey, nullable=True)
    updated_at: ColumnElement[datetime] = column(Moment)


class SearchCountRow(Base):
    """The searches of a tenant in one minute, where several processes serve it and it has a quota of them."""

    __tablename__ = "search_counts"

    tenant: ColumnElement[str] = column(String(64), primary_key=True)
    minute: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)  # since 1970
    searches: ColumnElement[int] = column(BigKey)


class WebhookRow(Base):
    """An address that is told of events. Its secret is sealed (`sealing`) before it comes near SQL."""

    __tablename__ = "webhooks"
    __table_args__ = (Index("ix_webhooks_tenant", "tenant", "id"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    tenant: ColumnElement[str] = column(String(64))
    knowledge_base_id: ColumnElement[int] = column(BigKey)  # 0: of every base of the tenant
    url: ColumnElement[str] = column(Text)
    events: ColumnElement[list[str]] = column(JSON)
    sealed_secret: ColumnElement[bytes] = column(LargeBinary)
    created_at: ColumnElement[datetime] = column(Moment)


class DeliveryRow(Base):
    """An event on its way to an address: until it has arrived, or was tried for too long."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_due", "status", "next_at"),
        Index("ix_webhook_deliveries_hook", "webhook_id", "id"),
    )

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    webhook_id: ColumnElement[int] = column(BigKey)
    event: ColumnElement[str] = column(String(32))
    payload: ColumnElement[str] = column(LongText)  # JSON, in the very bytes that are signed and sent
    status: ColumnElement[str] = column(String(16))  # pending | delivered | failed
    attempts: ColumnElement[int] = column(Integer)
    reason: ColumnElement[str | None] = column(Text, nullable=True)  # of the last failure
    created_at: ColumnElement[datetime] = column(Moment)
    next_at: ColumnElement[datetime] = column(Moment)  # by the database's clock
