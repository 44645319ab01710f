"""The lease on a base's outbox in this process: taken by the first task that works on it, given back by the last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.errors import QianxunError
from qianxun.records import Records, leases
from qianxun.records.leases import Lease

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 10.0  # after which another process takes over from one that shows no life
RENEWALS: Final = 3  # within that time


@dataclass
class WriteTurn:
    """The right to write to an index now. Without a ``lease`` no other process could."""

    lease: Lease | None = None
    is_barred: bool = True  # the index has refused, since this turn began, whatever an earlier holder still writes
    users: int = 0
    renewing: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def fence(self) -> int:
        return self.lease.fence if self.lease is not None else 0

    @contextmanager
    def required(self, tx: Connection) -> Iterator[Connection]:
        """A transaction whose writes need the turn. Raises LeaseLost."""
        leases.require(tx, self.lease)
        yield tx


class LeaseKeeper:
    """One for each base, or for another thing that one process at a time does. Used on the event loop."""

    def __init__(self, records: Records, name: str, seconds: float = LEASE_SECONDS) -> None:
        self._records, self._name, self._seconds = records, name, seconds
        self._turn: WriteTurn | None = None
        self._changing = asyncio.Lock()

    @property
    def is_shared(self) -> bool:
        """Whether other processes could do the same."""
        return self._records.process != 0

    @property
    def process(self) -> int:
        return self._records.process

    @property
    def seconds(self) -> float:
        return self._seconds

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[WriteTurn | None]:
        """None while another process has it."""
        if not self.is_shared:
            yield WriteTurn()
            return
        turn = await asyncio.shield(self._join())
        try:
            yield turn
        finally:
            if turn is not None:
                await asyncio.shield(self._leave(turn))

    async def confirm(self, turn: WriteTurn) -> None:
        """Before a write to what compares no fences itself. Raises LeaseLost."""

        def confirmed() -> None:
            with self._records.leasing() as tx:
                leases.require(tx, turn.lease)

        if turn.lease is not None:
            await asyncio.to_thread(confirmed)

    async def _join(self) -> WriteTurn | None:
        async with self._changing:
            if self._turn is None:
                lease = await asyncio.to_thread(self._take)
                if lease is None:
                    return None
                self._turn = WriteTurn(lease, is_barred=not lease.was_abandoned)
                self._turn.renewing = asyncio.create_task(self._renew(self._turn))
            self._turn.users += 1
            return self._turn

    async def _leave(self, turn: WriteTurn) -> None:
        async with self._changing:
            turn.users -= 1
            if turn.users:
                return
            if turn.renewing is not None:
                turn.renewing.cancel()
                await asyncio.wait([turn.renewing])
            if turn is self._turn:
                self._turn = None
                await asyncio.to_thread(self._give_back, turn)

    async def _renew(self, turn: WriteTurn) -> None:
        while True:
            await asyncio.sleep(self._seconds / RENEWALS)
            try:
                is_ours = await asyncio.to_thread(self._renewed, turn)
            except (QianxunError, SQLAlchemyError) as error:  # it may be back in time; the fence tells if it is not
                log.warning("the lease %s is not renewed: %s", self._name, error)
                continue
            if not is_ours:
                log.warning("the lease %s has lapsed, and another process has taken it", self._name)
                if self._turn is turn:
                    self._turn = None  # whoever works under it fails by its fence; others take the lease anew
                return

    def _take(self) -> Lease | None:
        with self._records.leasing() as tx:
            return leases.take(tx, self._name, self._records.process, self._seconds)

    def _renewed(self, turn: WriteTurn) -> bool:
        assert turn.lease is not None
        with self._records.leasing() as tx:
            return leases.renew(tx, turn.lease, self._seconds)

    def _give_back(self, turn: WriteTurn) -> None:
        assert turn.lease is not None
        try:
            with self._records.leasing() as tx:
                leases.give_back(tx, turn.lease)
        except (QianxunError, SQLAlchemyError) as error:
            log.warning("the lease %s is left to lapse: %s", self._name, error)
