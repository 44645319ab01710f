from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.testing.scripted import HashEmbedding


def test_a_document_is_said_to_be_searchable_only_when_the_index_has_seen_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunks are of record before the index holds them: whoever asks in between is told that it is on its way."""
    seen: list[str] = []
    counted: list[dict[str, int]] = []

    async def work() -> None:
        async with Engine.open(tmp_path, models={"fake-64": HashEmbedding()}, background=False) as engine:
            base = await engine.create_knowledge_base("手册", model="fake-64")
            await engine.add_documents(base.id, [Document("a", "年休假为 7 天。")], wait=False)
            opened = await engine.base(base.id)
            apply = opened.index.apply

            async def watched(batch: Any) -> None:
                state = await engine.document(base.id, "a")
                (listed,) = await engine.documents(base.id)
                seen.extend((state.status, listed.status, str(state.chunks)))
                counted.append(await engine.statistics(base.id))
                await apply(batch)

            monkeypatch.setattr(opened.index, "apply", watched)
            await engine.drain(base.id)
            assert (await engine.document(base.id, "a")).status == "indexed"
            counted.append(await engine.statistics(base.id))
            assert (await engine.retrieve(base.id, "年休假")).found

    asyncio.run(work())
    assert seen == ["pending", "pending", "1"]
    assert counted == [{"pending": 1, "chunks": 1, "tables": 0}, {"indexed": 1, "chunks": 1, "tables": 0}]
