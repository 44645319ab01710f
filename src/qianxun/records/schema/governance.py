"""Who may see and change what, what people decided, and the record of both."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    false,
)

from qianxun.records.schema.base import Base, BigKey, DocId, LongText, Moment, column


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
    """The searches of a tenant in one second, where several processes serve it and it has a quota of them."""

    __tablename__ = "search_counts"

    tenant: ColumnElement[str] = column(String(64), primary_key=True)
    second: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)  # since 1970
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
