"""Keys to the HTTP service, issued and revoked in the database of the settings, also while a service has it open."""

from __future__ import annotations

from collections.abc import Sequence

from qianxun.core.governance.access import Sees
from qianxun.engine.admin.database import open_records
from qianxun.engine.settings import Settings
from qianxun.records.secrets import keys
from qianxun.records.secrets.keys import KeyRow, Scope

__all__ = ["KeyRow", "Scope", "issue_key", "list_keys", "revoke_key"]


def issue_key(
    settings: Settings,
    tenant: str,
    scope: Scope,
    name: str = "",
    *,
    sees: Sees | None = None,
    vouches: bool = False,
    principal: Sequence[str] = (),
) -> tuple[KeyRow, str]:
    """The new key's row and, this once, the key itself. Creates the database where there is none.

    ``vouches``: its requests may name the principal on whose behalf they come; ``principal``: it always asks on behalf
    of one with these labels; ``sees``: what it shows without either (docs/operations/access.md).
    """
    with open_records(settings) as records, records.writing() as tx:
        return keys.create(tx, tenant, scope, name, sees=sees, vouches=vouches, principal=principal)


def list_keys(settings: Settings) -> list[KeyRow]:
    with open_records(settings) as records, records.reading() as tx:
        return keys.listed(tx)


def revoke_key(settings: Settings, key: int) -> KeyRow:
    """Raises NotFound for an id that no key has."""
    with open_records(settings) as records, records.writing() as tx:
        return keys.revoke(tx, key)
