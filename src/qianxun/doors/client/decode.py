"""Bases, documents and log entries as the service tells them. Searches are read by `qianxun.core.codec.results`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qianxun.core.codec.wire import read_log
from qianxun.core.log_types import LogEntry
from qianxun.core.types import Accepted, DocumentState, KnowledgeBase

Read = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Readiness:
    """A service that takes requests."""

    queue_depth: int  # writes that wait for an index
    unusable: int  # bases whose index could not be opened


def read_base(data: Read) -> KnowledgeBase:
    return KnowledgeBase(
        id=data["id"],
        name=data["name"],
        kind=data["kind"],
        embedding_model=data["embedding_model"],
        dimension=data["dimension"],
        config=dict(data["config"]),
        created_at=data["created_at"],
    )


def read_bases(data: Read) -> list[KnowledgeBase]:
    return [read_base(each) for each in data["knowledge_bases"]]


def read_statistics(data: Read) -> dict[str, int]:
    return {str(name): int(count) for name, count in data["statistics"].items()}


def read_accepted(data: Read) -> Accepted:
    """As many chunk keys as there are chunks; which they are is the service's own affair."""
    return Accepted(
        doc_id=data["doc_id"],
        document_key=0,
        generation=data["generation"],
        outcome=data["outcome"],
        chunk_keys=range(data["chunks"]),
    )


@dataclass(frozen=True, slots=True)
class Sent:
    """A document that the service has taken, and whether it is searchable yet."""

    accepted: Accepted
    is_searchable: bool


def read_sent(data: Read) -> Sent:
    return Sent(read_accepted(data), data["status"] == "indexed")


def read_document(data: Read) -> DocumentState:
    return DocumentState(
        doc_id=data["doc_id"],
        name=data["name"],
        status=data["status"],
        generation=data["generation"],
        served=data["served"],
        attempts=data["attempts"],
        reason=data["reason"],
        content_type=data["content_type"],
        user_id=data["user_id"],
        project_id=data["project_id"],
        chunks=data["chunks"],
        updated_at=data["updated_at"],
        source=data["source"],
    )


def read_documents(data: Read) -> list[DocumentState]:
    return [read_document(each) for each in data["documents"]]


def read_readiness(data: Read) -> Readiness:
    return Readiness(data["queue_depth"], data["unusable"])


def read_logs(data: Read) -> tuple[list[LogEntry], int | None]:
    """A page, and where the next begins: a service may give fewer than were asked for."""
    return [read_log(each) for each in data["list"]], data["next"]
