"""Who may see which documents, as owners set it: labels of documents, rules of folders and sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qianxun.core.governance.access import AccessRule, DocumentAccess, checked_label
from qianxun.records.governance import access
from qianxun.records.tenancy import BaseRecords


@dataclass(frozen=True, slots=True)
class Access:
    """The labels of a tenant's documents. What is set counts for every later request, in every process.

    Raises NotFound for a base or document that the tenant does not have, Forbidden for an engine that reads on behalf
    of a principal.
    """

    records_of: Callable[[int], BaseRecords]

    async def list(
        self, knowledge_base: int, *, label: str = "", limit: int = 100, after: str = ""
    ) -> tuple[DocumentAccess, ...]:
        """The documents that have labels, or this one, in the order of their ids."""
        wanted = checked_label(label) if label else ""
        found = await self.records_of(knowledge_base).read(
            lambda tx: access.page(tx, knowledge_base, label=wanted, limit=limit, after=after)
        )
        return tuple(found)

    async def labels(self, knowledge_base: int) -> dict[str, int]:
        """Label → the number of documents that have it."""
        return await self.records_of(knowledge_base).read(lambda tx: access.labels_in_use(tx, knowledge_base))

    async def get(self, knowledge_base: int, doc_ids: Sequence[str]) -> tuple[DocumentAccess, ...]:
        """The labels of these documents; one that does not exist is not among them."""
        return tuple(await self.records_of(knowledge_base).read(lambda tx: access.listed(tx, knowledge_base, doc_ids)))

    async def set(
        self, knowledge_base: int, doc_ids: Sequence[str], labels: Sequence[str]
    ) -> tuple[DocumentAccess, ...]:
        """Gives documents labels of their own, in the place of those they had; none: they are for everybody."""
        return await self._set(knowledge_base, doc_ids, labels)

    async def clear(self, knowledge_base: int, doc_ids: Sequence[str]) -> tuple[DocumentAccess, ...]:
        """Takes away documents' own labels: those of the rules count again."""
        return await self._set(knowledge_base, doc_ids, None)

    async def _set(
        self, knowledge_base: int, doc_ids: Sequence[str], labels: Sequence[str] | None
    ) -> tuple[DocumentAccess, ...]:
        own = self.records_of(knowledge_base)
        return tuple(await own.write(lambda tx: access.set_labels(tx, knowledge_base, doc_ids, labels)))

    # ── rules ────────────────────────────────────────────────────────────────────────────────────

    async def rules(self, knowledge_base: int) -> tuple[AccessRule, ...]:
        return tuple(await self.records_of(knowledge_base).read(lambda tx: access.rules(tx, knowledge_base)))

    async def set_rule(self, knowledge_base: int, prefix: str, labels: Sequence[str]) -> AccessRule:
        """What is in the folder, or comes from the source, has these labels, unless it has its own: what is there
        already, and what comes."""
        return await self.records_of(knowledge_base).write(
            lambda tx: access.set_rule(tx, knowledge_base, prefix, labels)
        )

    async def remove_rule(self, knowledge_base: int, prefix: str) -> bool:
        """Returns True if there was such a rule."""
        return await self.records_of(knowledge_base).write(lambda tx: access.remove_rule(tx, knowledge_base, prefix))
