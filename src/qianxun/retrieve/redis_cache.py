"""Answers and rerank scores in a Redis or Valkey server, shared by every process that searches the same records.

`RedisCache` caches answers (`ports.Cache`), its `scores` those of rerankers. A key names the state of the base that its
answer was made from, so none is ever read that a write has outdated. A server that is away, slow or full delays a
search by `WAIT_SECONDS` at most, a few times; then it is left alone for a pause, and the log says so once. What is
stored is JSON: a server that somebody else writes to can give a wrong answer, but run nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from qianxun.core.codec.plain import plain, read
from qianxun.core.errors import BadSettings, MissingExtra
from qianxun.core.system.cache import LRUCache, MemoryCache
from qianxun.core.types import Recall
from qianxun.models.remote.breaker import Breaker, Outage, Paused

log = logging.getLogger(__name__)

WAIT_SECONDS: Final = 0.02  # what a search waits for an answer
CONNECT_SECONDS: Final = 2.0  # in the background
FAILURES, PAUSE_SECONDS = 3, 5.0  # as many in a row, and the server is left alone for so long
FORGET_SECONDS: Final = 60.0  # in which all keys of the server are looked through
CONNECTIONS: Final = 8
STORING: Final = 64  # answers on their way to the server; more are not stored
SCORE_SECONDS: Final = 24 * 3600
HISTORIES: Final = 10_000  # bases whose history is remembered
GENERATIONS, EPOCHS = "rag:generations", "rag:epochs"  # base → its latest state, and the name of its history

Result = TypeVar("Result")


def _driver() -> Any:
    try:
        import redis.asyncio
    except ImportError as error:
        raise MissingExtra("redis", "redis") from error
    return redis


def _pool(kind: Any, url: str, wait: float) -> Any:
    """Connections that try once: what comes too late is of no use to a search. Raises BadSettings."""
    from redis.backoff import NoBackoff

    retry = kind.retry.Retry(NoBackoff(), 0)
    try:
        return kind.BlockingConnectionPool.from_url(
            url, max_connections=CONNECTIONS, timeout=WAIT_SECONDS, retry=retry,
            socket_connect_timeout=wait, socket_timeout=wait,
        )  # fmt: skip
    except ValueError as error:
        raise BadSettings(
            f"cache.url 不是 Redis 的地址：{error}", hint="应为 redis://用户:密码@主机:6379/0，加密的用 rediss://"
        ) from error


class ServerState:
    """Whether the server is asked. The first failure is logged, and its return; nothing in between."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._breaker = Breaker(FAILURES, PAUSE_SECONDS)
        self.is_away = False
        self._errors = (_driver().RedisError, OSError, TimeoutError)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Raises Paused while the server is left alone, and Outage where it fails."""
        with self._breaker.attempt():
            try:
                yield
            except self._errors as error:
                if not self.is_away:
                    self.is_away = True
                    log.warning("%s does not answer; searches go on without it: %s", self._name, error)
                raise Outage(str(error)) from error
        if self.is_away:
            self.is_away = False
            log.info("%s answers again", self._name)


@dataclass(frozen=True, slots=True)
class _History:
    epoch: str
    generation: int  # the latest state that the server knows of


class RedisCache:
    """Implements `ports.Cache`; answers of this process are in ``near``, too."""

    def __init__(self, url: str, near: MemoryCache, near_seconds: float, ranking: str = "") -> None:
        """``ranking`` names what answers depend on beside the base: software and settings. Raises MissingExtra, or
        BadSettings for an address that is none."""
        module = _driver().asyncio
        self._client = module.Redis(connection_pool=_pool(module, url, CONNECT_SECONDS))
        self._near, self._near_seconds = near, near_seconds
        self.scores = RedisScores(url)
        self._reading, self._writing = ServerState("the cache server"), ServerState("the cache server's memory")
        self._is_connected = False
        self._connecting: asyncio.Task[None] | None = None
        self._storing: set[asyncio.Task[None]] = set()
        self._ranking = ranking
        self._own_epoch = secrets.token_hex(8)  # of histories that the server cannot name: no other process uses it
        self._histories = LRUCache[str, _History](HISTORIES)

    async def get(self, key: str) -> Recall | None:
        found = await self._near.get(key)
        if found is not None:
            return found
        written = await self._ask(lambda: self._client.get(key))
        if written is None:
            return None
        try:
            answer = read(Recall, json.loads(written))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("what the cache server has under %s is no answer: %s", key, error)
            return None
        await self._near.put(key, answer, self._near_seconds)
        return answer

    async def put(self, key: str, answer: Recall, seconds: float) -> None:
        """Does not wait for the server."""
        await self._near.put(key, answer, seconds)
        if seconds > 0 and len(self._storing) < STORING and self._can_ask():
            task = asyncio.create_task(self._store(key, answer, seconds))
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)

    async def _store(self, key: str, answer: Recall, seconds: float) -> None:
        written = json.dumps(plain(answer), separators=(",", ":"))
        await _attempt(self._writing, CONNECT_SECONDS, lambda: self._client.set(key, written, ex=max(int(seconds), 1)))

    async def epoch(self, base: str, generation: int) -> str:
        known = self._histories.get(base)
        if known is None or generation > known.generation:
            epoch = await self._ask(lambda: self._announce(base, generation, known))
            if epoch is None:
                return self._own_epoch
            self._histories.put(base, known := _History(epoch, generation))
        return known.epoch + self._ranking

    async def _announce(self, base: str, generation: int, known: _History | None) -> str:
        """Names a state to the server before any answer is stored under it; returns the name of the base's history."""
        if known is not None:
            await self._client.zadd(GENERATIONS, {base: generation}, gt=True)
            return known.epoch
        latest, new = await self._client.zscore(GENERATIONS, base), secrets.token_hex(8)
        if latest is not None and latest > generation:
            await self._client.pipeline().hset(EPOCHS, base, new).zadd(GENERATIONS, {base: generation}).execute()
            return new
        steps = self._client.pipeline().hsetnx(EPOCHS, base, new).hget(EPOCHS, base)
        return str((await steps.zadd(GENERATIONS, {base: generation}, gt=True).execute())[1], "ascii")

    async def _ask(self, command: Callable[[], Awaitable[Result]]) -> Result | None:
        if not self._can_ask():
            return None
        found = await _attempt(self._reading, WAIT_SECONDS, command)
        if self._reading.is_away:
            self._is_connected = False
        return found

    def _can_ask(self) -> bool:
        """Connecting takes longer than a search may wait: it is done in the background."""
        if not self._is_connected and (self._connecting is None or self._connecting.done()):
            self._connecting = asyncio.create_task(self._connect())
        return self._is_connected

    async def _connect(self) -> None:
        def ping_all() -> Awaitable[list[Any]]:
            return asyncio.gather(*(self._client.ping() for _ in range(CONNECTIONS)))

        self._is_connected = await _attempt(self._reading, CONNECT_SECONDS, ping_all) is not None

    async def outdate(self, knowledge_base: int, records: int) -> None:
        await self._near.outdate(knowledge_base, records)

    async def forget(self, knowledge_base: int, identity: str) -> int:
        await asyncio.gather(*self._storing, return_exceptions=True)  # what is on its way would come after this
        await self._near.forget(knowledge_base, identity)
        patterns = (f"rag:retrieval:{knowledge_base}:*", f"rag:rerank:{identity}:*")

        async def remove() -> int:
            for pattern in patterns:
                async for key in self._client.scan_iter(match=pattern, count=1000):
                    await self._client.delete(key)
            left = 0
            for pattern in patterns:
                async for _ in self._client.scan_iter(match=pattern, count=1000):
                    left += 1
            return left

        found = await _attempt(self._writing, FORGET_SECONDS, remove)
        return -1 if found is None else found

    async def aclose(self) -> None:
        """What is on its way is given up."""
        tasks = [*self._storing, *([self._connecting] if self._connecting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.connection_pool.disconnect()
        self.scores.close()


async def _attempt(state: ServerState, seconds: float, command: Callable[[], Awaitable[Result]]) -> Result | None:
    try:
        with state.attempt():
            async with asyncio.timeout(seconds):
                return await command()
    except (Outage, Paused):
        return None


class RedisScores:
    """Implements `rank.rerank.SharedScores`. Blocking."""

    def __init__(self, url: str) -> None:
        """Raises MissingExtra, or BadSettings for an address that is none."""
        module = _driver()
        self._client = module.Redis(connection_pool=_pool(module, url, WAIT_SECONDS))
        self._state = ServerState("the cache server for rerank scores")

    def get(self, key: str, fields: Sequence[str]) -> dict[str, float]:
        try:
            with self._state.attempt():
                found = self._client.hmget(key, fields)
        except (Outage, Paused):
            return {}
        try:
            return {name: float(score) for name, score in zip(fields, found, strict=True) if score is not None}
        except ValueError as error:
            log.warning("what the cache server has under %s are no scores: %s", key, error)
            return {}

    def put(self, key: str, scores: Mapping[str, float]) -> None:
        try:
            with self._state.attempt():
                self._client.pipeline().hset(key, mapping=dict(scores)).expire(key, SCORE_SECONDS).execute()
        except (Outage, Paused):
            return

    def close(self) -> None:
        self._client.close()
