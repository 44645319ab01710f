"""Long work of the engine that a door starts and looks at again later: `Operations.start`."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from qianxun.core.errors import NotFound, Overloaded, QianxunError

log = logging.getLogger(__name__)

AT_ONCE = 2  # each may keep a core busy
MOST_ACTIVE = 20  # with those that wait
MOST_OF_A_TENANT = 10
MOST_ENDED = 100  # that are still shown

OperationKind: TypeAlias = Literal["verify", "rebuild", "evaluate"]
OperationStatus: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
Advance: TypeAlias = Callable[[int], None]  # so many more are done
Work: TypeAlias = Callable[[Advance], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Operation:
    """The state of one. They are of the process that runs them, and gone with it."""

    id: int
    kind: OperationKind
    knowledge_base_id: int
    status: OperationStatus
    done: int
    total: int  # 0: not known
    created_at: datetime
    ended_at: datetime | None = None
    reason: str = ""  # why it failed
    result: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        return self.status in ("queued", "running")


@dataclass
class Operations:
    """The operations of all tenants, in the event loop of the engine. A few run at once, in the order they came."""

    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE), repr=False)
    _known: dict[int, tuple[str, Operation]] = field(default_factory=dict, repr=False)
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict, repr=False)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    def start(
        self,
        kind: OperationKind,
        tenant: str,
        knowledge_base: int,
        total: int,
        work: Work,
        *,
        takes_turns: bool = False,
    ) -> Operation:
        """Runs ``work``, which returns what is shown of its result; where it ``takes_turns`` it asks for a `turn` for
        each of its parts. Raises Overloaded where too many wait."""
        own = sum(self._known[active][0] == tenant for active in self._tasks)
        if len(self._tasks) >= MOST_ACTIVE or own >= MOST_OF_A_TENANT:
            raise Overloaded("后台的工作太多", hint="等其中一些结束，或取消它们")
        number = next(self._numbers)
        started = Operation(number, kind, knowledge_base, "queued", 0, total, datetime.now(UTC))
        self._known[number] = (tenant, started)
        # A context of its own: it is not part of the request that started it.
        self._tasks[number] = asyncio.create_task(self._run(number, work, takes_turns), context=Context())
        self._forget_oldest()
        return started

    def turn(self) -> AbstractAsyncContextManager[None]:
        """``async with operations.turn():`` around a part of a long work, so that others are not kept waiting."""
        return self._slots

    def list(self, tenant: str) -> list[Operation]:
        """The newest first."""
        return [one for whose, one in reversed(self._known.values()) if whose == tenant]

    def get(self, number: int, tenant: str) -> Operation:
        whose, found = self._known.get(number, ("", None))
        if found is None or whose != tenant:
            raise NotFound(f"没有编号为 {number} 的后台工作", hint="它可能已经结束很久，或服务重启过")
        return found

    def cancel(self, number: int, tenant: str) -> Operation:
        """Asks it to end; one that has ended stays as it is."""
        self.get(number, tenant)
        if (task := self._tasks.get(number)) is not None:
            task.cancel()
        return self.get(number, tenant)

    async def close(self) -> None:
        """Cancels all that run and waits for them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, number: int, work: Work, takes_turns: bool) -> None:
        try:
            async with nullcontext() if takes_turns else self.turn():
                self._change(number, status="running")
                result = await work(lambda count: self._advance(number, count))
            self._end(number, status="done", result=dict(result))
        except asyncio.CancelledError:
            self._end(number, status="cancelled")
            raise
        except QianxunError as error:
            self._end(number, status="failed", reason="　".join(filter(None, (error.message, error.hint))))
        except Exception:  # the outermost place of this task: nobody awaits it
            log.exception("operation %s failed", number)
            self._end(number, status="failed", reason="内部出错，见日志")

    def _advance(self, number: int, count: int) -> None:
        self._change(number, done=self._known[number][1].done + count)

    def _end(self, number: int, **changes: Any) -> None:
        self._tasks.pop(number, None)
        self._change(number, ended_at=datetime.now(UTC), **changes)

    def _change(self, number: int, **changes: Any) -> None:
        tenant, operation = self._known[number]
        self._known[number] = (tenant, replace(operation, **changes))

    def _forget_oldest(self) -> None:
        ended = [number for number, (_, one) in self._known.items() if not one.is_active]
        for number in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self._known[number]
