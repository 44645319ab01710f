"""Document 004, 3.3 and 5.1: `index_document` reads a document as its metadata's ``format`` says, and so do events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qianxun import Document, Engine
from qianxun.testing.scripted import HashEmbedding

HTML = """<html><head><style>p {color: red}</style><script>var secret = 1;</script></head>
<body><h1>第一章</h1><p>林黛玉初进荣国府。</p></body></html>"""
FIELDS: dict[str, Any] = {"user_id": "u1", "project_id": "p1", "content": HTML, "content_type": "chapter"}
METADATA = {"format": "html"}


async def _index(engine: Engine, kb: int) -> int:
    return await (await engine.manager(kb)).index_document(Document(id="d1", **FIELDS, metadata=METADATA))


async def _batch(engine: Engine, kb: int) -> int:
    counts = await (await engine.manager(kb)).batch_index([Document(id="d1", **FIELDS, metadata=METADATA)])
    return counts["d1"]


async def _created(engine: Engine, kb: int) -> int:
    event_data = {"document_id": "d1", **FIELDS, "metadata": METADATA}
    await (await engine.events(kb)).handle_document_created(event_data)
    return 1


@pytest.mark.parametrize("index", [_index, _batch, _created])
def test_html_is_indexed_without_tags_scripts_and_styles(tmp_path: Path, index: Any) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, models={"fake-64": HashEmbedding()}, background=False) as engine:
            kb = (await engine.create_knowledge_base("小说", model="fake-64")).id
            assert await index(engine, kb) == 1
            await engine.drain(kb)
            (found,) = (await engine.retrieve(kb, "林黛玉")).found
            assert found.chunk.text.strip().endswith("林黛玉初进荣国府。")
            assert not set("<>{}") & set(found.chunk.text)
            assert "secret" not in found.chunk.text
            attributes = found.chunk.attributes
            assert (attributes.user_id, attributes.project_id, attributes.content_type) == ("u1", "p1", "chapter")
            assert attributes.metadata["format"] == "html"

    asyncio.run(story())
