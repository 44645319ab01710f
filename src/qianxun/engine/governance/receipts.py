"""Receipts of deletions: issued, listed, and checked without a service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qianxun.core.errors import BadInput
from qianxun.core.governance.receipts import Receipt, ReceiptVerdict, matched, read_receipt
from qianxun.engine.governance import deletion
from qianxun.engine.governance.host import Host
from qianxun.engine.settings import Settings
from qianxun.records.governance import receipts, signing
from qianxun.records.secrets.sealing import FILE_NAME, Sealing


@dataclass(frozen=True, slots=True)
class Receipts:
    """Deletions of one tenant, each with its receipt."""

    host: Host

    async def delete(self, knowledge_base: int, doc_ids: Sequence[str], *, purge: bool = False) -> Receipt:
        """Deletes documents: no search finds them any more when this returns. With ``purge`` their bytes are gone from
        the files, too, and every mention of them. Raises NotFound if none of them exists."""
        return await deletion.delete_documents(self.host, knowledge_base, doc_ids, purge=purge)

    async def delete_knowledge_base(self, knowledge_base: int, *, purge: bool = False) -> Receipt:
        """Deletes a base with everything in it. Raises NotFound."""
        return await deletion.delete_base(self.host, knowledge_base, purge=purge)

    async def purge_subject(self, user_id: str) -> Receipt:
        """Purges everything of a user."""
        return await deletion.purge_subject(self.host, user_id)

    async def list(self, *, limit: int = 50, before: str = "") -> list[Receipt]:
        """The newest first; ``before`` is the id at which the last page ended."""
        return await self.host.records.read(
            lambda tx: receipts.listed(tx, tenant=self.host.tenant, limit=limit, before=before)
        )

    async def get(self, receipt_id: str) -> Receipt:
        """Raises NotFound."""
        return await self.host.records.read(lambda tx: receipts.get(tx, receipt_id, tenant=self.host.tenant))

    async def key(self) -> str:
        """The public key of the data folder; "" where receipts are signed by a secret alone."""
        return await asyncio.to_thread(signing.public_key, self.host.registered.sealing)


def verify_receipt(
    text: str, *, key: str = "", names: Sequence[str] = (), settings: Settings | None = None
) -> ReceiptVerdict:
    """Checks what a file says against its own signature, without any service or database.

    ``key`` is the public key that it should be of; without one, that of the data folder of ``settings`` where that has
    a secret. ``names`` are ids of documents, or a user's, that it may be about. Raises BadInput for what is no receipt.
    """
    receipt = read_receipt(text)
    sealing = _sealing(settings)
    expected = key or (signing.public_key(sealing) if sealing is not None else "")
    is_signed = signing.is_signed(receipt, sealing)
    is_trusted = (is_signed and receipt.public_key == expected) if expected else None
    if receipt.algorithm == signing.HMAC:
        is_trusted = is_signed if sealing is not None else None
    return ReceiptVerdict(
        receipt.id, is_signed, is_trusted, receipt.is_complete, receipt.public_key, matched(receipt, names)
    )


def read_file(file: Path) -> str:
    """Raises BadInput."""
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise BadInput(f"读不了 {file}", hint="检查路径") from error
    except ValueError as error:
        raise BadInput(f"{file} 不是凭证", hint="应是 qianxun receipts show -o 存下的文件") from error


def _sealing(settings: Settings | None) -> Sealing | None:
    """Where there is a secret already: none is made to check a receipt."""
    if settings is None or not (settings.secrets.key or (settings.folder / FILE_NAME).exists()):
        return None
    return Sealing(settings.secrets.key, settings.folder / FILE_NAME)
