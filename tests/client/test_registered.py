"""Registered models through the client: as the engine's registry has them; a key goes in and never comes back."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.model_types import NewModel
from qianxun.doors.client import Client
from tests.http.served import Served, serving

KEY = "sk-canary-0123456789abcdef"
ALLOW = {"outbound.allow": "127.0.0.1"}
EMBEDDING = NewModel("嵌入", "http://127.0.0.1:9/v1", "bge", "embedding", KEY, model_dim=8, is_default=1)
RERANK = NewModel("重排", "http://127.0.0.1:9/v1", "reranker", "rerank", timeout=1)


def test_models_are_the_same_through_the_service(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path, ALLOW) as served, Client(served.url) as client:
            for user in ("7", "007", "张 三?#%", ".."):
                await compare(served, client, user)

    async def compare(served: Served, client: Client, user: str) -> None:
        theirs, mine = served.engine.registry, client.registry
        first, second = await mine.add(user, EMBEDDING), await mine.add(user, RERANK)
        assert await mine.list(user) == await theirs.list(user) == [first, second]
        assert await mine.list(user, "rerank") == [second]
        assert await mine.get(user, first.id) == await theirs.get(user, first.id) == first
        assert (first.user_id, first.is_default, first.ref) == (user, 1, f"user-model:{first.id}")
        changed = await mine.change(user, second.id, {"status": 0, "top_p": 0.5})
        assert changed == await theirs.get(user, second.id)
        assert (changed.status, changed.top_p) == (0, 0.5)
        assert KEY not in str([asdict(each) for each in await mine.list(user)])
        assert first.masked_key.endswith(KEY[-4:])
        tried = await mine.test(user, second.id)
        assert (tried.ok, tried.dimension) == (False, None)
        assert tried.reason
        await mine.remove(user, second.id)
        assert await theirs.list(user) == [first]
        for missing in (mine.get(user, second.id), mine.remove(user, second.id), mine.get("别人", first.id)):
            with pytest.raises(NotFound):
                await missing

    asyncio.run(work())


def test_what_cannot_be_registered_is_refused_without_showing_the_key(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as served, Client(served.url) as client:
            nowhere = NewModel("x", "no address", "m", "chat", KEY)
            for wrong in (EMBEDDING, nowhere, NewModel("x", "http://h", "m", "?", KEY)):
                with pytest.raises(BadInput) as caught:
                    await client.registry.add("7", wrong)
                assert KEY not in f"{caught.value} {caught.value!r} {wrong!r}"
            for user in ("", "张三/李四"):
                with pytest.raises(BadInput):
                    await client.registry.list(user)
            with pytest.raises(BadInput):
                await client.registry.list("7", "nonsense")

    asyncio.run(work())
