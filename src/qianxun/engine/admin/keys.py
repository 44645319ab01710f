"""Keys to the HTTP service, issued and revoked in the database of the settings, also while a service has it open."""

from __future__ import annotations

from qianxun.engine.admin.database import open_records
from qianxun.engine.settings import Settings
from qianxun.records import keys
from qianxun.records.keys import KeyRow, Scope

__all__ = ["KeyRow", "Scope", "issue_key", "list_keys", "revoke_key"]


def issue_key(settings: Settings, tenant: str, scope: Scope, name: str = "") -> tuple[KeyRow, str]:
    """The new key's row and, this once, the key itself. Creates the database where there is none."""
    with open_records(settings) as records, records.writing() as tx:
        return keys.create(tx, tenant, scope, name)


def list_keys(settings: Settings) -> list[KeyRow]:
    with open_records(settings) as records, records.reading() as tx:
        return keys.listed(tx)


def revoke_key(settings: Settings, key: int) -> KeyRow:
    """Raises NotFound for an id that no key has."""
    with open_records(settings) as records, records.writing() as tx:
        return keys.revoke(tx, key)
