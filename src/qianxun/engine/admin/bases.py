"""Whose the knowledge bases are, read from the database of the settings, also while a service has it open."""

from __future__ import annotations

from qianxun.core.types import KnowledgeBase
from qianxun.engine.admin.database import open_records
from qianxun.engine.settings import Settings
from qianxun.records import bases, listing

__all__ = ["KnowledgeBase", "all_bases"]


def all_bases(settings: Settings) -> list[tuple[KnowledgeBase, dict[str, int]]]:
    """The bases of all tenants by id, with how many documents stand in which state, and how many chunks and tables."""
    with open_records(settings) as records, records.reading() as tx:
        return [(base, listing.tally(tx, base.id)) for base in bases.across_tenants(tx)]
