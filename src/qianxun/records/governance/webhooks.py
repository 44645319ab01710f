"""Webhooks and their queue: an event is queued in the transaction that it tells of, and goes once it has arrived.

`enqueue` is what others call. Where a tenant has no hook it is one statement.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.governance.webhooks import EVENTS, Delivery, Webhook
from qianxun.core.unicode import storable
from qianxun.records.database.clock import database_time
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import delete_in, insert_rows
from qianxun.records.governance import audit
from qianxun.records.schema import DeliveryRow, KnowledgeBaseRow, WebhookRow

log = logging.getLogger(__name__)

MOST_OF_A_TENANT: Final = 50
MOST_WAITING: Final = 10_000  # deliveries to one address; what happens beyond that is not queued
MOST_FAILED: Final = 10_000  # … that were given up; the newest stay
FIRST_WAIT: Final = 10.0  # seconds before the second attempt; twice as long before each one after it …
LONGEST_WAIT: Final = 3600.0  # … but no longer than this
ATTEMPTS: Final = 12  # five hours in all; then it is given up
FAILED_DAYS: Final = 7  # for which those are listed
URL_LIMIT: Final = 2000
REASON_LIMIT: Final = 500
COLUMNS: Final = (
    "id", "webhook_id", "event", "payload", "status", "attempts", "reason", "created_at", "next_at",
)  # fmt: skip
_BASE: Final = bindparam("base", type_=KnowledgeBaseRow.id.type)
_HOOKS: Final = (
    select(WebhookRow.id, WebhookRow.tenant, WebhookRow.events)
    .join(KnowledgeBaseRow, KnowledgeBaseRow.tenant == WebhookRow.tenant)
    .where(KnowledgeBaseRow.id == _BASE, (WebhookRow.knowledge_base_id == 0) | (WebhookRow.knowledge_base_id == _BASE))
)


class DueDelivery(NamedTuple):
    """A delivery that is to be tried now, and where to."""

    id: int
    webhook_id: int
    event: str
    payload: str
    attempts: int
    tenant: str
    url: str
    sealed_secret: bytes


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────


def next_id(tx: Connection) -> int:
    (number,) = allocate(tx, "webhook", 1)
    return number


def add(
    tx: Connection, number: int, url: str, events: Sequence[str], secret: bytes, *, tenant: str, knowledge_base: int = 0
) -> Webhook:
    """Under an id of `next_id`. Raises BadInput."""
    chosen = list(dict.fromkeys(events))
    if not chosen or any(event not in EVENTS for event in chosen):
        raise BadInput("没有这样的事件", hint=f"可用：{'、'.join(EVENTS)}")
    count = tx.execute(select(func.count()).select_from(WebhookRow).where(WebhookRow.tenant == tenant)).scalar_one()
    if count >= MOST_OF_A_TENANT:
        raise BadInput(f"一个租户至多登记 {MOST_OF_A_TENANT} 个地址", hint="先删去不用的")
    if len(url) > URL_LIMIT:
        raise BadInput(f"地址不得超过 {URL_LIMIT} 个字符", hint="换一个短些的")
    values = {"id": number, "tenant": tenant, "knowledge_base_id": knowledge_base, "url": url, "events": chosen}
    tx.execute(insert(WebhookRow).values(**values, sealed_secret=secret, created_at=datetime.now(UTC)))
    about = {"url": url, "events": chosen}
    audit.append(tx, "", "webhook.add", f"webhook:{number}", tenant=tenant, details=about)
    return get(tx, number, tenant=tenant)


def remove(tx: Connection, number: int, *, tenant: str) -> None:
    """With what is on its way. Raises NotFound."""
    url = _row(tx, number, tenant).url
    tx.execute(delete(DeliveryRow).where(DeliveryRow.webhook_id == number))
    tx.execute(delete(WebhookRow).where(WebhookRow.id == number))
    audit.append(tx, "", "webhook.remove", f"webhook:{number}", tenant=tenant, details={"url": url})


def get(tx: Connection, number: int, *, tenant: str) -> Webhook:
    """Raises NotFound."""
    return _webhook(tx, _row(tx, number, tenant))


def secret(tx: Connection, number: int, *, tenant: str) -> bytes:
    found: bytes = _row(tx, number, tenant).sealed_secret
    return found


def listed(tx: Connection, *, tenant: str) -> list[Webhook]:
    query = select(WebhookRow.__table__).where(WebhookRow.tenant == tenant)
    return [_webhook(tx, row) for row in tx.execute(query.order_by(WebhookRow.id)).all()]


def _row(tx: Connection, number: int, tenant: str) -> Row[Any]:
    own = select(WebhookRow.__table__).where(WebhookRow.id == number, WebhookRow.tenant == tenant)
    row = tx.execute(own).first() if 0 <= number < 2**63 else None
    if row is None:
        raise NotFound(f"没有编号为 {number} 的通知地址", hint="用 qianxun webhooks list 查看")
    return row


def _webhook(tx: Connection, row: Row[Any]) -> Webhook:
    own = DeliveryRow.webhook_id == row.id
    by_status = select(DeliveryRow.status, func.count().label("number")).where(own).group_by(DeliveryRow.status)
    counts = {row.status: row.number for row in tx.execute(by_status)}
    last = select(DeliveryRow.reason).where(own, DeliveryRow.reason.is_not(None)).order_by(DeliveryRow.id.desc())
    reason = tx.execute(last.limit(1)).scalar() or ""
    numbers = (counts.get("pending", 0), counts.get("failed", 0))
    return Webhook(row.id, row.url, tuple(row.events), row.knowledge_base_id, row.created_at, *numbers, reason)


def counts(tx: Connection) -> dict[str, int]:
    """The deliveries of all tenants by status: for metrics and doctors."""
    found = tx.execute(select(DeliveryRow.status, func.count().label("number")).group_by(DeliveryRow.status))
    return {"pending": 0, "failed": 0, **{row.status: row.number for row in found}}


# ── the queue ────────────────────────────────────────────────────────────────────────────────────


def enqueue(tx: Connection, knowledge_base: int, event: str, happened: Iterable[Mapping[str, Any]]) -> int:
    """Queues an event for every hook of the base's tenant that wants it; ``happened`` is called on only if one does.
    Returns how many."""
    hooks = [row for row in tx.execute(_HOOKS, {"base": knowledge_base}) if event in row.events]
    if not hooks:
        return 0
    events = list(happened)
    rooms = [(row, min(_room(tx, row.id), len(events))) for row in hooks]
    if lost := sum(len(events) - room for _, room in rooms):
        log.warning("%d events were not queued: %d wait for their address already", lost, MOST_WAITING)
    return _insert(
        tx, event, [(row.id, row.tenant, knowledge_base, data) for row, room in rooms for data in events[:room]]
    )


def _room(tx: Connection, number: int) -> int:
    waiting = select(DeliveryRow.id).where(DeliveryRow.webhook_id == number, DeliveryRow.status == "pending")
    count = select(func.count()).select_from(waiting.limit(MOST_WAITING).subquery())
    return MOST_WAITING - min(tx.execute(count).scalar_one(), MOST_WAITING)


def trial(tx: Connection, number: int, event: str, *, tenant: str) -> DueDelivery:
    """An event that is to be tried once, and is not queued. Raises NotFound."""
    row = _row(tx, number, tenant)
    (delivery,) = allocate(tx, "webhook_delivery", 1)
    payload = _payload(delivery, event, tenant, 0, {}, datetime.now(UTC))
    return DueDelivery(delivery, number, event, payload, 0, tenant, row.url, row.sealed_secret)


def _insert(tx: Connection, event: str, queued: Sequence[tuple[int, str, int, Mapping[str, Any]]]) -> int:
    if not queued:
        return 0
    now = datetime.now(UTC)
    at = tx.execute(select(database_time())).scalar_one()
    rows = []
    for number, (hook, tenant, base, data) in zip(allocate(tx, "webhook_delivery", len(queued)), queued, strict=True):
        payload = _payload(number, event, tenant, base, data, now)
        rows.append((number, hook, event, payload, "pending", 0, None, now, at))
    insert_rows(tx, DeliveryRow, COLUMNS, rows)
    return len(rows)


def _payload(number: int, event: str, tenant: str, base: int, data: Mapping[str, Any], now: datetime) -> str:
    about = {"id": number, "event": event, "created_at": now.isoformat(), "tenant": tenant}
    return json.dumps({**about, "knowledge_base_id": base, "data": dict(data)})


def due(tx: Connection, most_of_a_hook: int) -> list[DueDelivery]:
    """What is to be tried now, the longest overdue first: so many of each hook, since one may have thousands."""
    waiting = (DeliveryRow.status == "pending") & (DeliveryRow.next_at <= database_time())
    place = func.row_number().over(partition_by=DeliveryRow.webhook_id, order_by=(DeliveryRow.next_at, DeliveryRow.id))
    numbered = select(DeliveryRow.id, place.label("place")).where(waiting).subquery()
    columns = (DeliveryRow.id, DeliveryRow.webhook_id, DeliveryRow.event, DeliveryRow.payload, DeliveryRow.attempts)
    query = select(*columns, WebhookRow.tenant, WebhookRow.url, WebhookRow.sealed_secret)
    query = query.join(WebhookRow, WebhookRow.id == DeliveryRow.webhook_id)
    query = query.join(numbered, numbered.c.id == DeliveryRow.id).where(numbered.c.place <= most_of_a_hook)
    return [DueDelivery(*row) for row in tx.execute(query.order_by(DeliveryRow.next_at, DeliveryRow.id))]


def arrived(tx: Connection, deliveries: Collection[int]) -> None:
    delete_in(tx, DeliveryRow, DeliveryRow.id, sorted(deliveries))


def missed(tx: Connection, delivery: int, attempts: int, reason: str, jitter: float) -> None:
    """Notes a failed attempt: it is tried again later, or given up. ``jitter`` in [0, 1] spreads the next ones."""
    now = tx.execute(select(database_time())).scalar_one()
    wait = min(FIRST_WAIT * 2 ** (attempts - 1), LONGEST_WAIT) * (0.75 + 0.5 * jitter)
    tx.execute(
        update(DeliveryRow)
        .where(DeliveryRow.id == delivery)
        .values(
            attempts=attempts,
            reason=storable(reason)[:REASON_LIMIT],
            status="failed" if attempts >= ATTEMPTS else "pending",
            next_at=now + timedelta(seconds=wait),
        )
    )
    old = (DeliveryRow.status == "failed") & (DeliveryRow.next_at < now - timedelta(days=FAILED_DAYS))
    tx.execute(delete(DeliveryRow).where(old))
    if attempts >= ATTEMPTS:
        _keep_newest_failed(tx, tx.execute(select(DeliveryRow.webhook_id).where(DeliveryRow.id == delivery)).scalar())


def _keep_newest_failed(tx: Connection, number: int | None) -> None:
    own = (DeliveryRow.webhook_id == number) & (DeliveryRow.status == "failed")
    newest = select(DeliveryRow.id).where(own).order_by(DeliveryRow.id.desc())
    last = tx.execute(newest.offset(MOST_FAILED).limit(1)).scalar()
    if last is not None:
        tx.execute(delete(DeliveryRow).where(own, DeliveryRow.id <= last))


def forget_failed(tx: Connection, tenant: str) -> int:
    """Drops what was given up: it says what happened to what may be purged by now."""
    own = select(WebhookRow.id).where(WebhookRow.tenant == tenant)
    given_up = (DeliveryRow.status == "failed") & DeliveryRow.webhook_id.in_(own)
    return tx.execute(delete(DeliveryRow).where(given_up)).rowcount


def deliveries(tx: Connection, number: int, *, tenant: str, limit: int = 50) -> list[Delivery]:
    """What is on its way or was given up, the newest first. Raises NotFound."""
    _row(tx, number, tenant)
    query = select(DeliveryRow.__table__).where(DeliveryRow.webhook_id == number)
    return [
        Delivery(
            row.id, row.webhook_id, row.event, row.status, row.attempts, row.reason or "", row.created_at, row.next_at
        )
        for row in tx.execute(query.order_by(DeliveryRow.id.desc()).limit(max(limit, 0)))
    ]


def retry(tx: Connection, number: int, *, tenant: str) -> int:
    """Tries what was given up once more. Returns how many."""
    _row(tx, number, tenant)
    now = tx.execute(select(database_time())).scalar_one()
    own = (DeliveryRow.webhook_id == number) & (DeliveryRow.status == "failed")
    return tx.execute(update(DeliveryRow).where(own).values(status="pending", attempts=0, next_at=now)).rowcount
