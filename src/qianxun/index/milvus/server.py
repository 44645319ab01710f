"""A Milvus server as the index sees it: threads that call it, its errors as ours, what its version can do.

The only module that imports the driver. Its calls are made without the retries that the driver wraps around them: they
would hold a search for as long as a server is away, and insert twice what was acknowledged too late.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import IndexUnusable, MissingExtra, QianxunError, RetrieverUnavailable
from qianxun.core.types import Keys, Scores
from qianxun.index.shared import unusable

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Row = Mapping[str, Any]


class Expression(Protocol):
    """What a row has to be like."""

    def bound(self) -> tuple[str, dict[str, Any]]:
        """A template, and what is bound to its names."""

    def written(self) -> str:
        """The same with the values in their places."""


THREADS: Final = 8
CONNECT_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 0.3  # after which a lost connection has been tried anew
# A server may hang up on whoever asks during a long call, as the driver does every ten seconds, whether it is alive.
CHANNEL: Final = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 200,
    "grpc.keepalive_time_ms": 300_000,
}
READ_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 120.0
MOST_HITS: Final = 16_384  # that Milvus gives at once, of a search or a query
LEAST_VERSION: Final = (2, 5)  # sparse vectors came with 2.4, templates of expressions with 2.5
NOT_FOUND: Final = (100, 4)  # of a collection or an alias
NOT_LOADED: Final = 101
LIGHT: Final = "milvus_lite"


@dataclass(frozen=True, slots=True)
class Address:
    uri: str
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True)
class SearchHits:
    """What a search found, best first. ``sparse`` has the bytes of each hit's sparse vector, where they were asked."""

    ids: Keys
    scores: Scores
    columns: Mapping[str, NDArray[np.int64]]
    sparse: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection by its own name, also where it was found by an alias."""

    name: str
    properties: Mapping[str, str]


class Milvus:
    """A connection, used from any thread. Everything blocks."""

    def __init__(self, address: Address) -> None:
        with our_errors():
            from pymilvus import MilvusClient

            self._client = MilvusClient(
                uri=address.uri,
                user=address.user,
                password=address.password,
                timeout=CONNECT_SECONDS,
                grpc_options=dict(CHANNEL),
            )
            self.version = str(self._client.get_server_version(timeout=CONNECT_SECONDS))
        self.is_light = self.version.startswith(LIGHT)
        self.binds = not self.is_light and version_of(self.version) >= LEAST_VERSION

    def close(self) -> None:
        self._client.close()

    def require_sparse(self) -> None:
        """Raises RetrieverUnavailable where the server is older than what an index needs."""
        if not self.is_light and version_of(self.version) < LEAST_VERSION:
            raise RetrieverUnavailable(
                f"Milvus {self.version} 太旧：没有稀疏向量与表达式模板，存不了全文检索",
                hint="请升级到 Milvus 2.5 或更新；旧服务器只能通过 qianxun.MilvusClient 存取向量",
            )

    # ── collections ──────────────────────────────────────────────────────────────────────────────

    def create(
        self,
        name: str,
        fields: Sequence[Mapping[str, Any]],
        indexes: Mapping[str, Mapping[str, Any]],
        properties: Mapping[str, str],
    ) -> None:
        """A collection with its indexes, loaded."""
        with our_errors():
            from pymilvus import CollectionSchema, DataType, FieldSchema

            described = [_field(FieldSchema, DataType, field) for field in fields]
            schema = CollectionSchema(described, enable_dynamic_field=False)
            self._call("create_collection", name, schema, properties=dict(properties), shards_num=1)
            for field, params in indexes.items():
                plain = {"index_type": params["index_type"], "params": dict(params.get("params", {}))}
                if "metric_type" in params:
                    plain["metric_type"] = params["metric_type"]
                self._call("create_index", name, field, plain, index_name=field, sync=False)
            self.load(name)

    def load(self, name: str) -> None:
        with our_errors():
            self._client.load_collection(name, timeout=WRITE_SECONDS)

    def flush(self, name: str) -> None:
        """Has the rows that came one by one indexed together: searches get quicker, nothing else changes."""
        try:
            with our_errors():
                self._client.flush(name, timeout=WRITE_SECONDS)
        except RetrieverUnavailable as error:
            log.info("%s was not flushed, which Milvus will do by itself: %s", name, error)

    def describe(self, name: str) -> CollectionInfo | None:
        """A collection by its name or alias; None where there is none.

        Once more where the connection turns out to be lost: the server may have been restarted since it was used.
        """
        with our_errors():
            try:
                found = self._again("describe_collection", name, timeout=READ_SECONDS)
            except Exception as error:
                if _code(error) in NOT_FOUND:
                    return None
                raise
        properties = {str(key): str(value) for key, value in found["properties"].items()}
        return CollectionInfo(found["collection_name"], properties)

    def schema(self, name: str) -> list[dict[str, Any]]:
        """The fields of a collection, each with its ``name`` and ``params``."""
        with our_errors():
            return list(self._call("describe_collection", name, timeout=READ_SECONDS)["fields"])

    def names(self) -> list[str]:
        with our_errors():
            return [str(name) for name in self._client.list_collections(timeout=READ_SECONDS)]

    def drop(self, name: str) -> None:
        with our_errors():
            self._client.drop_collection(name, timeout=WRITE_SECONDS)

    def set_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Durable when it returns, and seen by every describe that begins afterwards."""
        with our_errors():
            self._call("alter_collection_properties", name, dict(properties), timeout=WRITE_SECONDS)

    def drop_properties(self, name: str, keys: Sequence[str]) -> None:
        with our_errors():
            self._call("drop_collection_properties", name, list(keys), timeout=WRITE_SECONDS)

    def set_alias(self, alias: str, name: str) -> None:
        """Makes ``alias`` mean this collection and no other, at once."""
        with our_errors():
            if self.describe(alias) is None:
                self._client.create_alias(collection_name=name, alias=alias, timeout=WRITE_SECONDS)
            else:
                self._client.alter_alias(collection_name=name, alias=alias, timeout=WRITE_SECONDS)

    def drop_alias(self, alias: str) -> None:
        with our_errors():
            self._client.drop_alias(alias, timeout=WRITE_SECONDS)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def insert(self, name: str, rows: Sequence[Row]) -> int:
        """The server's time of the write, which a later read names to see it; 0 where it has none."""
        with our_errors():
            done = self._loaded(name, "insert_rows", name, [dict(row) for row in rows], timeout=WRITE_SECONDS)
            return int(done.timestamp or 0)

    def upsert(self, name: str, rows: Sequence[Row]) -> None:
        """Rows whose ids are there already take their places."""
        with our_errors():
            self._loaded(name, "upsert_rows", name, [dict(row) for row in rows], timeout=WRITE_SECONDS)

    def delete(self, name: str, where: Expression) -> int:
        with our_errors():
            text, values = self._expression(where)
            done = self._loaded(name, "delete", name, text, timeout=WRITE_SECONDS, **values)
            return int(done.timestamp or 0)

    def query(self, name: str, where: Expression, fields: Sequence[str], since: int = 0) -> list[dict[str, Any]]:
        """At most `MOST_HITS` rows that pass, in no order. ``since``: they include all that was written until then."""
        with our_errors():
            text, values = self._expression(where)
            found = self._loaded(
                name,
                "query",
                name,
                text,
                output_fields=list(fields),
                limit=MOST_HITS,
                timeout=READ_SECONDS,
                **_consistent(since),
                **values,
            )
            return list(found)

    def search(
        self,
        name: str,
        field: str,
        query: Any,
        limit: int,
        where: Expression,
        columns: Sequence[str],
        *,
        sparse: str = "",
        params: Mapping[str, Any] | None = None,
        metric: str = "IP",
        since: int = 0,
    ) -> SearchHits:
        with our_errors():
            text, values = self._expression(where)
            found = self._loaded(
                name,
                "search",
                name,
                field,
                {"metric_type": metric, "params": dict(params or {})},
                limit,
                data=[query],
                expression=text,
                output_fields=[*columns, *([sparse] if sparse else [])],
                timeout=READ_SECONDS,
                **_consistent(since),
                **values,
            )
        return _found(found[0], columns)

    def search_rows(
        self,
        name: str,
        field: str,
        query: Any,
        limit: int,
        where: Expression | None,
        fields: Sequence[str],
        *,
        params: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """The nearest by cosine, best first, with their ``id``, ``distance`` and fields. Sees every earlier write."""
        with our_errors():
            text, values = self._expression(where) if where is not None else ("", {})
            found = self._loaded(
                name,
                "search",
                name,
                field,
                {"metric_type": "COSINE", "params": dict(params)},
                limit,
                data=[query],
                expression=text,
                output_fields=list(fields),
                timeout=READ_SECONDS,
                **_consistent(0),
                **values,
            )
            return [{"id": hit["id"], "distance": hit["distance"], **hit["entity"]} for hit in found[0]]

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def _expression(self, where: Expression) -> tuple[str, dict[str, Any]]:
        if not self.binds:
            return where.written(), {}
        text, values = where.bound()
        return text, {"expr_params": values}

    def _loaded(self, name: str, call: str, *arguments: Any, **options: Any) -> Any:
        """A call on a collection that a server which was started again may not have loaded."""
        try:
            return self._call(call, *arguments, **options)
        except Exception as error:
            if _code(error) != NOT_LOADED:
                raise
        self.load(name)
        return self._call(call, *arguments, **options)

    def _again(self, call: str, *arguments: Any, **options: Any) -> Any:
        try:
            return self._call(call, *arguments, **options)
        except Exception as error:
            if not _is_away(error):
                raise
            log.info("the connection to Milvus is lost, trying again: %s", error)
        time.sleep(AGAIN_SECONDS)
        return self._call(call, *arguments, **options)

    def _call(self, call: str, *arguments: Any, **options: Any) -> Any:
        handler = self._client._get_connection()
        plain = inspect.unwrap(getattr(type(handler), call))
        return plain(handler, *arguments, **options)


def version_of(words: str) -> tuple[int, ...]:
    """``v2.5.4-dev`` is (2, 5)."""
    found = re.search(r"(?<!\d)(\d{1,6})\.(\d{1,6})", words)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _consistent(since: int) -> dict[str, Any]:
    """The rows written until ``since`` are waited for, and no later ones: after a moment that costs nothing."""
    from pymilvus.client.types import ConsistencyLevel

    if not since:
        return {"consistency_level": ConsistencyLevel.Strong}
    return {"consistency_level": ConsistencyLevel.Customized, "guarantee_timestamp": since}


def _field(schema: Any, types: Any, described: Mapping[str, Any]) -> Any:
    """``{"name": …, "type": "ARRAY", "element": "INT64", …}`` as the driver has it."""
    given = dict(described)
    options: dict[str, Any] = {}
    if "element" in given:
        options["element_type"] = getattr(types, given.pop("element"))
    return schema(given.pop("name"), getattr(types, given.pop("type")), **options, **given)


def _found(hits: Any, columns: Sequence[str]) -> SearchHits:
    rows = [hits.get_raw_item(at) for at in range(len(hits))]  # to ask for the hits would unpack every sparse vector
    sparse: Sequence[bytes] = ()
    for field in hits.lazy_field_data:
        sparse = field.vectors.sparse_float_vector.contents[hits.start : hits.start + len(rows)]
    return SearchHits(
        np.array(hits.ids, dtype=np.int64),
        np.array(hits.distances, dtype=np.float64),
        {name: np.array([row["entity"][name] for row in rows], dtype=np.int64) for name in columns},
        sparse,
    )


class Server:
    """Where the collections are. Every call runs in one of its threads."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._users = 0
        self._guard = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._milvus: Milvus | None = None

    def hold(self) -> None:
        """Its connection stays open until as many have called `release`."""
        with self._guard:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, "qianxun-milvus")
            self._users += 1

    def release(self) -> None:
        with self._guard:
            self._users -= 1
            if self._users or self._threads is None:
                return
            threads, self._threads = self._threads, None
            milvus, self._milvus = self._milvus, None
        threads.shutdown(wait=True)
        if milvus is not None:
            milvus.close()

    async def release_soon(self) -> None:
        """`release`, off the event loop: the last one waits for running calls."""
        await asyncio.to_thread(self.release)

    async def run(self, work: Callable[[Milvus], Result]) -> Result:
        threads = self._threads
        if threads is None:
            raise IndexUnusable("索引已经关闭", hint="请重新打开知识库")
        return await asyncio.get_running_loop().run_in_executor(threads, lambda: work(self._connected()))

    def _connected(self) -> Milvus:
        with self._guard:
            if self._milvus is None:
                self._milvus = Milvus(self._address)
            return self._milvus


# ── errors ─────────────────────────────────────────────────────────────────────────────


@contextmanager
def our_errors() -> Iterator[None]:
    """The driver's errors as ours."""
    try:
        import grpc
        import pymilvus
    except ImportError as error:
        raise MissingExtra("pymilvus", "milvus") from error
    try:
        yield
    except (grpc.RpcError, pymilvus.MilvusException) as error:
        raise _our_error(error) from error


def _is_away(error: Exception) -> bool:
    import grpc

    return isinstance(error, grpc.Call) and error.code() == grpc.StatusCode.UNAVAILABLE


def _code(error: Exception) -> int:
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else -1


def _our_error(error: Any) -> QianxunError:
    code = _code(error)
    details = error.details() if _is_away(error) else getattr(error, "message", "") or error
    words = " ".join(str(details).split())[:500]
    if code in NOT_FOUND:
        return unusable(f"集合不见了（{words}）")
    if code in (1100, 6, 1101, 1804):
        return RetrieverUnavailable(f"Milvus 不接受这个请求：{words}", hint="请查看 Milvus 的版本与日志")
    if code in (1400, 1401, 65535) or "auth" in words.lower():
        return RetrieverUnavailable(f"Milvus 拒绝登录：{words}", hint="检查 milvus.user 与 milvus.password")
    if code == 8 or "quota" in words.lower() or "memory" in words.lower():
        return RetrieverUnavailable(f"Milvus 资源不足：{words}", hint="检查内存、磁盘与限流的设置")
    return RetrieverUnavailable(
        f"连不上 Milvus，或它出了错：{words}", hint="检查服务器是否在运行，以及 milvus.host / port"
    )
