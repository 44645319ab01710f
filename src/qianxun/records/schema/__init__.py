"""The tables of record. Column types are chosen so that SQLite, PostgreSQL and MySQL take the same queries.

Keys of documents and chunks and the outbox sequence come from `counters`, not from the database's own sequences: the
counter's row stays locked until the transaction commits, so sequence order *is* commit order (a consumer can never
skip a row that commits late), keys are never reused, and bulk inserts need no RETURNING, which MySQL lacks.

Rows with text, vectors or settings have a ``checksum`` of their other columns (`checksums`).
"""

from __future__ import annotations

from qianxun.records.schema.base import VERSIONS, Base, BigKey, DocId, LongText, Moment, column
from qianxun.records.schema.content import (
    ChunkRow,
    DocumentRow,
    GraphAliasRow,
    GraphFactsRow,
    GraphSummaryRow,
    KnowledgeBaseRow,
    PairRow,
    PairVectorRow,
    TableRow,
    TermRow,
    VectorRow,
    VersionRow,
)
from qianxun.records.schema.governance import (
    AccessRuleRow,
    AccessSetRow,
    ApiKeyRow,
    AuditRow,
    CorrectionRow,
    DeliveryRow,
    QuotaRow,
    ReceiptRow,
    SearchCountRow,
    UserModelRow,
    ValidityRow,
    WebhookRow,
)
from qianxun.records.schema.logs import (
    EvaluationCaseRow,
    EvaluationResultRow,
    EvaluationRunRow,
    EvaluationSetRow,
    RetrievalLogRow,
)
from qianxun.records.schema.work import Counter, EventRow, LeaseRow, OutboxClaimRow, OutboxRow, SchemaReaderRow

__all__ = [
    "VERSIONS",
    "AccessRuleRow",
    "AccessSetRow",
    "ApiKeyRow",
    "AuditRow",
    "Base",
    "BigKey",
    "ChunkRow",
    "CorrectionRow",
    "Counter",
    "DeliveryRow",
    "DocId",
    "DocumentRow",
    "EvaluationCaseRow",
    "EvaluationResultRow",
    "EvaluationRunRow",
    "EvaluationSetRow",
    "EventRow",
    "GraphAliasRow",
    "GraphFactsRow",
    "GraphSummaryRow",
    "KnowledgeBaseRow",
    "LeaseRow",
    "LongText",
    "Moment",
    "OutboxClaimRow",
    "OutboxRow",
    "PairRow",
    "PairVectorRow",
    "QuotaRow",
    "ReceiptRow",
    "RetrievalLogRow",
    "SchemaReaderRow",
    "SearchCountRow",
    "TableRow",
    "TermRow",
    "UserModelRow",
    "ValidityRow",
    "VectorRow",
    "VersionRow",
    "WebhookRow",
    "column",
]
