"""What the operators of a service account for: `qianxun.engine.governance` over HTTP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from qianxun.core.governance.access import AccessRule, DocumentAccess, checked_prefix
from qianxun.core.governance.audit import AuditEntry, AuditVerdict
from qianxun.core.governance.quotas import QuotaUse
from qianxun.core.governance.receipts import Receipt, read_receipt
from qianxun.core.governance.webhooks import Webhook
from qianxun.doors.client.connection import Request
from qianxun.doors.client.corrections import ServiceCorrections
from qianxun.doors.client.payloads import Ask, params_of, segment, value_of, values_of

BASES: Final = "v1/knowledge-bases"
HOOKS: Final = "v1/webhooks"
RULES: Final = values_of(AccessRule, "rules")


@dataclass(frozen=True, slots=True)
class ServiceGovernance:
    """Of the tenant of a key."""

    ask: Ask

    @property
    def audit(self) -> ServiceAudit:
        return ServiceAudit(self.ask)

    @property
    def quotas(self) -> ServiceQuotas:
        return ServiceQuotas(self.ask)

    @property
    def webhooks(self) -> ServiceWebhooks:
        return ServiceWebhooks(self.ask)

    @property
    def receipts(self) -> ServiceReceipts:
        return ServiceReceipts(self.ask)

    @property
    def corrections(self) -> ServiceCorrections:
        return ServiceCorrections(self.ask)

    @property
    def access(self) -> ServiceAccess:
        return ServiceAccess(self.ask)


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """Who may see which documents: `qianxun.engine.governance.access` over HTTP."""

    ask: Ask

    async def list(
        self, knowledge_base: int, *, label: str = "", limit: int = 100, after: str = ""
    ) -> tuple[DocumentAccess, ...]:
        """The documents that have labels, or this one, in the order of their ids."""
        params = params_of(label=label, limit=limit, after=after)
        return await self.ask(Request("GET", f"{BASES}/{knowledge_base}/access", params=params), _access)

    async def labels(self, knowledge_base: int) -> dict[str, int]:
        """Label → the number of documents that have it."""
        request = Request("GET", f"{BASES}/{knowledge_base}/access", params={"limit": "1"})
        return await self.ask(request, lambda data: dict(data["labels"]))

    async def set(
        self, knowledge_base: int, doc_ids: Sequence[str], labels: Sequence[str]
    ) -> tuple[DocumentAccess, ...]:
        """Gives documents labels of their own; none: they are for everybody."""
        return await self._set(knowledge_base, doc_ids, [*labels])

    async def clear(self, knowledge_base: int, doc_ids: Sequence[str]) -> tuple[DocumentAccess, ...]:
        """Takes away documents' own labels: those of the rules count again."""
        return await self._set(knowledge_base, doc_ids, None)

    async def _set(self, knowledge_base: int, doc_ids: Sequence[str], labels: Any) -> tuple[DocumentAccess, ...]:
        body = {"doc_ids": [*doc_ids], "labels": labels}
        return await self.ask(Request("PUT", f"{BASES}/{knowledge_base}/access", body), _access)

    async def rules(self, knowledge_base: int) -> tuple[AccessRule, ...]:
        return tuple(await self.ask(Request("GET", f"{BASES}/{knowledge_base}/access/rules"), RULES))

    async def set_rule(self, knowledge_base: int, prefix: str, labels: Sequence[str]) -> AccessRule:
        """What is in the folder, or comes from the source, has these labels, unless it has its own."""
        body = {"prefix": prefix, "labels": [*labels]}
        found = await self.ask(Request("PUT", f"{BASES}/{knowledge_base}/access/rules", body), RULES)
        return next(rule for rule in found if rule.prefix == checked_prefix(prefix))

    async def remove_rule(self, knowledge_base: int, prefix: str) -> bool:
        """Returns True if there was such a rule."""
        request = Request("DELETE", f"{BASES}/{knowledge_base}/access/rules", params={"prefix": prefix})
        return await self.ask(request, lambda data: bool(data["removed"]))


def _access(data: Any) -> tuple[DocumentAccess, ...]:
    return tuple(values_of(DocumentAccess, "documents")(data))


@dataclass(frozen=True, slots=True)
class ServiceAudit:
    """Who changed what."""

    ask: Ask

    async def list(
        self, *, knowledge_base: int | None = None, action: str = "", limit: int = 50, before: int | None = None
    ) -> list[AuditEntry]:
        params = params_of(knowledge_base_id=knowledge_base, action=action, limit=limit, before=before)
        return await self.ask(Request("GET", "v1/audit", params=params), values_of(AuditEntry))

    async def verify(self, head: str = "") -> AuditVerdict:
        return await self.ask(Request("GET", "v1/audit/verify", params=params_of(head=head)), value_of(AuditVerdict))


@dataclass(frozen=True, slots=True)
class ServiceReceipts:
    """Deletions that can be proved."""

    ask: Ask

    async def delete(self, knowledge_base: int, doc_ids: Sequence[str], *, purge: bool = False) -> Receipt:
        """One after the other; the receipt is that of the last one. Raises NotFound if it does not exist."""
        found = [
            await self._delete(f"{BASES}/{knowledge_base}/documents/{segment(doc_id)}", purge) for doc_id in doc_ids
        ]
        return found[-1]

    async def delete_knowledge_base(self, knowledge_base: int, *, purge: bool = False) -> Receipt:
        return await self._delete(f"{BASES}/{knowledge_base}", purge)

    async def _delete(self, path: str, purge: bool) -> Receipt:
        request = Request("DELETE", path, params=params_of(purge=purge), takes_long=purge)
        receipt_id: str = await self.ask(request, lambda data: data["receipt"])
        return await self.get(receipt_id)

    async def purge_subject(self, user_id: str) -> Receipt:
        return await self.ask(Request("POST", f"v1/subjects/{segment(user_id)}/purge", {}, takes_long=True), _receipt)

    async def list(self, *, limit: int = 50, before: str = "") -> list[Receipt]:
        request = Request("GET", "v1/receipts", params=params_of(limit=limit, before=before))
        return await self.ask(request, lambda data: [_receipt(one) for one in data["list"]])

    async def get(self, receipt_id: str) -> Receipt:
        return await self.ask(Request("GET", f"v1/receipts/{segment(receipt_id)}"), _receipt)

    async def key(self) -> str:
        return await self.ask(Request("GET", "v1/receipts/key"), lambda data: str(data["public_key"]))


def _receipt(data: Any) -> Receipt:
    return read_receipt(json.dumps(data))


@dataclass(frozen=True, slots=True)
class ServiceQuotas:
    """What the tenant may have and do at most; set by who runs the service."""

    ask: Ask

    async def get(self) -> QuotaUse:
        return await self.ask(Request("GET", "v1/quota"), value_of(QuotaUse))


@dataclass(frozen=True, slots=True)
class ServiceWebhooks:
    """Addresses that are told of events."""

    ask: Ask

    async def add(self, url: str, events: Sequence[str], *, knowledge_base: int = 0) -> tuple[Webhook, str]:
        body = {"url": url, "events": list(events), "knowledge_base_id": knowledge_base}
        return await self.ask(Request("POST", HOOKS, body), _new_webhook)

    async def list(self) -> list[Webhook]:
        return await self.ask(Request("GET", HOOKS), values_of(Webhook))

    async def remove(self, webhook: int) -> None:
        await self.ask(Request("DELETE", f"{HOOKS}/{webhook}"), lambda _: None)

    async def test(self, webhook: int) -> str:
        return await self.ask(Request("POST", f"{HOOKS}/{webhook}/test", {}), lambda data: str(data["reason"]))


def _new_webhook(data: Any) -> tuple[Webhook, str]:
    return value_of(Webhook)(data), str(data["secret"])
