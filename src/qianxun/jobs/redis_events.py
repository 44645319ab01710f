"""Document events from a Redis or Valkey stream, for senders that do not wait for an answer.

An entry has one field, ``event``: the JSON that ``POST /v1/events`` takes, with ``tenant`` where its base is another
tenant's. It is acknowledged once its effect is durable in the records; until then it is read again, after a restart or
by another process of the group. So an event arrives at least once, and takes effect once: one without an ``event_id``
is known by the id of its entry. What can never take effect is put into the stream ``<name>:rejected`` with its reason.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from qianxun.core.errors import BadInput, BadSettings, MissingExtra, NotFound, QianxunError
from qianxun.core.ingest_types import EventOutcome

log = logging.getLogger(__name__)

FIELD: Final = b"event"
REJECTED: Final = ":rejected"
REJECTED_ENTRIES: Final = 10_000  # about as many are kept
BATCH: Final = 100
BLOCK_SECONDS: Final = 2.0  # to wait for entries
IDLE_SECONDS: Final = 60.0  # after which an entry that somebody read and did not acknowledge is read again
RETRY_SECONDS: Final = (0.2, 10.0)  # between attempts: at first, at most

Handle: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[EventOutcome]]
Entry: TypeAlias = tuple[bytes, Mapping[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class EventStream:
    """``group``: each gets every entry once, shared among its processes."""

    url: str
    stream: str
    group: str
    idle_seconds: float = IDLE_SECONDS


def open_client(url: str) -> Any:
    """Raises MissingExtra, or BadSettings for an address that is none."""
    try:
        from redis.asyncio import Redis
    except ImportError as error:
        raise MissingExtra("redis", "redis") from error
    try:
        return Redis.from_url(url, socket_connect_timeout=5.0, socket_timeout=BLOCK_SECONDS + 5.0)
    except ValueError as error:
        raise BadSettings(
            f"events.url 不是 Redis 的地址：{error}", hint="应为 redis://用户:密码@主机:6379/0，加密的用 rediss://"
        ) from error


async def run_event_stream(source: EventStream, handle: Handle) -> None:
    """Goes on until it is cancelled, whatever becomes of the server or of one event."""
    from redis.exceptions import RedisError

    client, is_away, pause = open_client(source.url), False, RETRY_SECONDS[0]
    try:
        while True:
            try:
                await _join(client, source)
                if is_away:
                    log.info("the event stream answers again")
                is_away, pause = False, RETRY_SECONDS[0]
                while True:
                    await _take(client, source, handle)
                    _check_cancelled()
            except (RedisError, OSError) as error:
                if not is_away:
                    log.warning("the event stream does not answer; it is tried again: %s", error)
                is_away = True
            except Exception:  # the door of a background loop: it must outlive any one failure
                log.exception("the event stream goes on after an unexpected failure")
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS[1])
    finally:
        await client.connection_pool.disconnect()


def _check_cancelled() -> None:
    """The driver loses a cancellation that comes together with a reply."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _join(client: Any, source: EventStream) -> None:
    """Creates stream and group where they are missing; a new group begins with the oldest entry."""
    from redis.exceptions import ResponseError

    try:
        await client.xgroup_create(source.stream, source.group, id="0", mkstream=True)
    except ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


async def _take(client: Any, source: EventStream, handle: Handle) -> None:
    """Reads a few entries and handles them in their order: first those that were read and never acknowledged."""
    name = f"{platform.node()}-{os.getpid()}"
    idle = int(source.idle_seconds * 1000)
    _, entries, *_ = await client.xautoclaim(source.stream, source.group, name, idle, count=BATCH)
    if not entries:
        block = int(BLOCK_SECONDS * 1000)
        read = await client.xreadgroup(source.group, name, {source.stream: ">"}, count=BATCH, block=block)
        entries = _entries(read)
    for key, fields in entries:
        await _handled(client, source, handle, (key, fields or {}))  # one that was deleted meanwhile has no fields


def _entries(read: Any) -> Sequence[Entry]:
    """Of one stream; the two versions of the protocol differ in how they give it."""
    if not read:
        return ()
    found = next(iter(read.values())) if isinstance(read, Mapping) else read[0][1]
    return found[0] if found and isinstance(found[0], list) else found


async def _handled(client: Any, source: EventStream, handle: Handle, entry: Entry) -> None:
    """Has one entry take effect, however long the records are away, or sets it aside."""
    key, fields = entry
    pause = RETRY_SECONDS[0]
    while True:
        try:
            outcome = await handle(_event(source.stream, key, fields))
            reason = outcome.reason if outcome.result == "rejected" else ""
            break
        except (BadInput, NotFound) as error:
            reason = str(error)
            break
        except QianxunError as error:
            log.warning("an event waits until it can be stored: %s", error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, RETRY_SECONDS[1])
    steps = client.pipeline()
    if reason:
        log.error("entry %s of the event stream is set aside: %s", key.decode(), reason)
        about = {b"id": key, FIELD: fields.get(FIELD, b""), b"reason": reason.encode()}
        steps.xadd(source.stream + REJECTED, about, maxlen=REJECTED_ENTRIES, approximate=True)
    await steps.xack(source.stream, source.group, key).execute()


def _event(stream: str, key: bytes, fields: Mapping[bytes, bytes]) -> Mapping[str, Any]:
    """Raises BadInput."""
    try:
        event = json.loads(fields[FIELD])
    except KeyError as error:
        raise BadInput("条目里没有 event 字段", hint="XADD 流 * event '{…}'") from error
    except ValueError as error:
        raise BadInput(f"event 不是 JSON：{error}", hint="写成与 POST /v1/events 相同的 JSON") from error
    if not isinstance(event, dict):
        raise BadInput("event 不是 JSON 对象", hint="写成与 POST /v1/events 相同的 JSON")
    return {"event_id": f"{stream}/{key.decode()}", **event}
