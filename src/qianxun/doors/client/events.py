"""Document events, sent to a service: what `Engine.events` does, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qianxun.core.errors import BadInput, QianxunError
from qianxun.core.ingest_types import EventOutcome
from qianxun.doors.client.connection import Connection, Request

REJECTED = "rejected"  # the service's word for an event that makes no sense


@dataclass(frozen=True, slots=True)
class EventSender:
    """Sends events to one knowledge base: durable when it returns. One that makes no sense is answered `rejected`."""

    connection: Connection
    knowledge_base: int

    async def handle_document_created(self, event_data: Mapping[str, Any]) -> EventOutcome:
        return await self._send("document.created", event_data)

    async def handle_document_updated(self, event_data: Mapping[str, Any]) -> EventOutcome:
        return await self._send("document.updated", event_data)

    async def handle_document_deleted(self, event_data: Mapping[str, Any]) -> EventOutcome:
        return await self._send("document.deleted", event_data)

    async def _send(self, kind: str, event_data: Mapping[str, Any]) -> EventOutcome:
        body = {**event_data, "type": kind, "knowledge_base_id": self.knowledge_base}
        is_named = bool(event_data.get("event_id") or event_data.get("generation"))  # a repeat changes nothing
        try:
            data = await self.connection.ask(Request("POST", "v1/events", body, repeatable=is_named))
        except BadInput as error:
            return _rejected(event_data, error)
        except QianxunError as error:
            if error.word != REJECTED:
                raise
            return _rejected(event_data, error)
        return EventOutcome(data["result"], data["document_id"], data["generation"], data["reason"])


def _rejected(event_data: Mapping[str, Any], error: QianxunError) -> EventOutcome:
    return EventOutcome("rejected", str(event_data.get("document_id", "")), reason=str(error))
