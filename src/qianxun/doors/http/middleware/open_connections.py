"""How many connections are open, of everybody and of one address, and which of them gives way to a new one.

A connection costs its client nothing. Those that wait for their clients (a head or a body half sent, a pause between
two requests, a response that is not read) give way: of the address that has the most of them, the one that has not
been heard of for longest. Where all are at work, a new one is let in for a health check alone.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

log = logging.getLogger(__name__)

WANTED_DESCRIPTORS: Final = 65_536
FEW_DESCRIPTORS: Final = 4_096
# Descriptors for files, models and workers: a quarter of all, within these bounds.
LEAST_RESERVED, MOST_RESERVED = 48, 512
LEAST_CONNECTIONS: Final = 8
HEALTH_ROOM: Final = 16  # connections beyond the limit, for health checks


class Connection(Protocol):
    """What is counted."""

    def give_way(self) -> None:
        """Closes it: it waits for its client."""


@dataclass
class OpenConnections:
    most: int
    most_of_address: int
    is_trusted: Callable[[str], bool] = lambda address: False  # a proxy, which connects for many
    _all: dict[Connection, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _idle: dict[str, dict[Connection, None]] = field(default_factory=dict)  # by address, the longest waiting first

    def opened(self, connection: Connection, address: str) -> bool:
        """Counts a connection, which is idle at first. Returns False if there is only room for a health check."""
        owner = network_of(address)
        self._all[connection] = owner
        self._counts[owner] += 1
        if self._counts[owner] > self.most_of_address and not self.is_trusted(address):
            is_let_in = self._make_room(owner)
        else:
            is_let_in = len(self._all) <= self.most or self._make_room(
                max(self._idle, key=self._idle_count, default="")
            )
        if connection in self._all:
            self.idle(connection)
        return is_let_in

    @property
    def is_overfull(self) -> bool:
        """Whether there is no room for a health check, either."""
        return len(self._all) > self.most + HEALTH_ROOM

    def busy(self, connection: Connection) -> None:
        """A request of it has come whole, and is being answered."""
        owner = self._all.get(connection, "")
        if connection in (idle := self._idle.get(owner, {})):
            del idle[connection]
            if not idle:
                del self._idle[owner]

    def idle(self, connection: Connection) -> None:
        """It waits for its client, of whom something was just seen."""
        if (owner := self._all.get(connection)) is not None:
            waiting = self._idle.setdefault(owner, {})
            waiting.pop(connection, None)
            waiting[connection] = None

    def closed(self, connection: Connection) -> None:
        self.busy(connection)
        if (owner := self._all.pop(connection, None)) is not None:
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]

    def _make_room(self, owner: str) -> bool:
        """Has the longest waiting connection of an address give way. Returns False if all of them are at work."""
        longest = next(iter(self._idle.get(owner, ())), None)
        if longest is None:
            return False
        self.closed(longest)
        longest.give_way()
        return True

    def _idle_count(self, owner: str) -> int:
        return len(self._idle[owner])


def open_connections(most: int, most_of_address: int, is_trusted: Callable[[str], bool]) -> OpenConnections:
    """0 stands for as many as there are descriptors for, and for half of them."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = WANTED_DESCRIPTORS if limit == resource.RLIM_INFINITY else limit
    room = max(LEAST_CONNECTIONS, limit - min(max(limit // 4, LEAST_RESERVED), MOST_RESERVED) - HEALTH_ROOM)
    most = min(most or room, room)
    return OpenConnections(most, most_of_address or max(1, most // 2), is_trusted)


def raise_descriptor_limit() -> None:
    """As far as this process may; says what to do where that is not far enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= WANTED_DESCRIPTORS:
        return
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(WANTED_DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted < FEW_DESCRIPTORS:
        log.warning(
            "只能同时打开 %d 个文件与连接，人多时会不够：启动前用 ulimit -n %d 调高（systemd 里是 LimitNOFILE）",
            wanted,
            WANTED_DESCRIPTORS,
        )


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """What counts as one address: of IPv6 the first 64 bits, which a single customer has all of."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64))) if parsed.version == 6 else address
