"""Work to be done and who does it: numbers, the outbox, leases, events that came in."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Index, String

from qianxun.records.schema.base import Base, BigKey, Moment, column


class Counter(Base):
    """The next free number of each kind: document, chunk, table, pair, outbox, log; and each base's revisions."""

    __tablename__ = "counters"

    name: ColumnElement[str] = column(String(32), primary_key=True)
    next: ColumnElement[int] = column(BigKey)


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
