"""Receipts of deletions, as they were signed."""

from __future__ import annotations

import json

from sqlalchemy import Connection, insert, select

from qianxun.core.errors import NotFound
from qianxun.core.governance.receipts import Receipt, read_receipt, written_receipt
from qianxun.core.unicode import is_storable
from qianxun.records.schema import ReceiptRow


def add(tx: Connection, receipt: Receipt) -> None:
    tx.execute(
        insert(ReceiptRow).values(
            id=receipt.id,
            tenant=receipt.tenant,
            knowledge_base_id=receipt.knowledge_base_id,
            kind=receipt.kind,
            created_at=receipt.created_at,
            body=json.dumps(written_receipt(receipt), ensure_ascii=True),
        )
    )


def get(tx: Connection, receipt_id: str, *, tenant: str) -> Receipt:
    """Raises NotFound."""
    own = select(ReceiptRow.body).where(ReceiptRow.id == receipt_id, ReceiptRow.tenant == tenant)
    body = tx.execute(own).scalar() if is_storable(receipt_id) else None
    if body is None:
        raise NotFound("没有这个编号的删除凭证", hint="用 qianxun receipts list 查看")
    return read_receipt(body)


def listed(tx: Connection, *, tenant: str, limit: int = 50, before: str = "") -> list[Receipt]:
    """The newest first: ids begin with the time. ``before`` is the id at which the last page ended."""
    query = select(ReceiptRow.body).where(ReceiptRow.tenant == tenant)
    if before and is_storable(before):
        query = query.where(ReceiptRow.id < before)
    found = tx.execute(query.order_by(ReceiptRow.id.desc()).limit(max(limit, 0)))
    return [read_receipt(body) for body in found.scalars()]
