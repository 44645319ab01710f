"""A base whose index cannot be made is not made either: who asked was told so, and asks again under the same name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.errors import QianxunError, RetrieverUnavailable
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, load

NO_LOCAL_RESULT = "postgresql://nobody@127.0.0.1:1/nothing"


def settings(folder: Path, **told: str) -> Settings:
    arguments = {"data": str(folder), "vectorization.model": "none", **told}
    return load(environment={}, arguments=arguments, folder=folder)


async def created(chosen: Settings) -> tuple[str, ...]:
    """Makes a base; the names of all there are."""
    async with Engine.open(settings=chosen, background=False) as engine:
        await engine.create_knowledge_base("手册")
        return tuple(base.name for base in await engine.knowledge_bases())


async def names(chosen: Settings) -> tuple[str, ...]:
    async with Engine.open(settings=chosen, background=False) as engine:
        return tuple(base.name for base in await engine.knowledge_bases())


def test_without_the_indexs_server_no_base_is_left_behind(tmp_path: Path, postgres_url: str) -> None:
    away = settings(tmp_path, **{"index.backend": "postgres", "index.url": NO_LOCAL_RESULT})
    with pytest.raises(RetrieverUnavailable):
        asyncio.run(created(away))
    assert asyncio.run(names(away)) == ()
    back = settings(tmp_path, **{"index.backend": "postgres", "index.url": postgres_url})
    assert asyncio.run(created(back)) == ("手册",)


def test_without_room_for_the_index_no_base_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("an index has no room here")
    chosen = settings(tmp_path)
    with pytest.raises((QianxunError, OSError)):
        asyncio.run(created(chosen))
    assert asyncio.run(names(chosen)) == ()
    (tmp_path / "index").unlink()
    assert asyncio.run(created(chosen)) == ("手册",)
