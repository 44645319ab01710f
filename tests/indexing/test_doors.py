"""What happens to a document does not depend on the way it comes in: the same content is stored alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from qianxun import Document, Engine
from qianxun.core.types import ContentFormat
from qianxun.records import graph as facts
from qianxun.testing.scripted import HashEmbedding
from tests.http.asking import asking
from tests.http.served import BASES

MARKDOWN = """# 医保手册

## 第一章 报销

住院费用的报销比例为85%。起付标准为600元。

| 医院 | 比例 |
| --- | --- |
| 一级 | 90% |
| 二级 | 85% |

## 第二章 备案

异地就医须先备案。
"""
HTML = """<html><body><h1>医保手册</h1><h2>第一章 报销</h2><p>住院费用的报销比例为85%。</p>
<table><tr><th>医院</th><th>比例</th></tr><tr><td>一级</td><td>90%</td></tr><tr><td>二级</td><td>85%</td></tr></table>
<h2>第二章 备案</h2><p>异地就医须先备案。</p></body></html>"""
TEXT = """医保手册

第一章 报销
住院费用的报销比例为85%。起付标准为600元。

各级医院的比例
医院 | 比例
一级 | 90%
二级 | 85%

第二章 备案

一、异地就医
异地就医须先备案，未备案的报销比例下降十个百分点。
二、急诊
急诊后五个工作日内补办备案手续，逾期的按未备案办理。
"""
CONTENTS: dict[ContentFormat, tuple[str, str]] = {
    "markdown": (".md", MARKDOWN),
    "html": (".html", HTML),
    "text": (".txt", TEXT),
}
SECTIONS: dict[ContentFormat, set[tuple[str, ...]]] = {
    "markdown": {("第一章 报销",), ("第二章 备案",)},
    "html": {("第一章 报销",), ("第二章 备案",)},
    "text": {("第一章 报销",), ("一、异地就医",), ("二、急诊",)},
}

Door: TypeAlias = Callable[[Engine, int, ContentFormat, Path], Awaitable[Any]]


def _document(kind: ContentFormat) -> Document:
    return Document("d", CONTENTS[kind][1], name=f"手册{CONTENTS[kind][0]}", format=kind)


async def _index_document(engine: Engine, kb: int, kind: ContentFormat, _: Path) -> None:
    assert await (await engine.manager(kb)).index_document(_document(kind)) > 0


async def _batch_index(engine: Engine, kb: int, kind: ContentFormat, _: Path) -> None:
    await (await engine.manager(kb)).batch_index([_document(kind)])


async def _stored(engine: Engine, kb: int, kind: ContentFormat, _: Path) -> None:
    await engine.add_documents(kb, [_document(kind)], wait=False)
    await engine.drain(kb)


def _event(kind: ContentFormat, **more: Any) -> dict[str, Any]:
    suffix, content = CONTENTS[kind]
    return {"document_id": "d", "content": content, "name": f"手册{suffix}", **more}


async def _created(engine: Engine, kb: int, kind: ContentFormat, _: Path) -> None:
    outcome = await (await engine.events(kb)).handle_document_created(_event(kind, format=kind))
    assert outcome.result == "accepted"
    await engine.drain(kb)


async def _uploaded(engine: Engine, kb: int, kind: ContentFormat, path: Path) -> None:
    await engine.add_file(kb, path, name=path.name, doc_id="d")


async def _uploaded_later(engine: Engine, kb: int, kind: ContentFormat, path: Path) -> None:
    await engine.add_file(kb, path, name=path.name, doc_id="d", wait=False)
    await engine.drain(kb)


DOORS: dict[str, Door] = {
    "add": lambda engine, kb, _, path: engine.add(kb, [path]),
    "add_file": _uploaded,
    "add_file, stored": _uploaded_later,
    "add_documents": lambda engine, kb, kind, _: engine.add_documents(kb, [_document(kind)]),
    "add_documents, stored": _stored,
    "index_document": _index_document,
    "batch_index": _batch_index,
    "event": _created,
}


async def _what_is_stored(engine: Engine, kb: int) -> list[tuple[Any, ...]]:
    (state,) = await engine.documents(kb)
    chunks = await engine.chunks(kb, state.doc_id)
    table = [(chunk.kind, chunk.text, chunk.headings, chunk.start, chunk.end) for chunk in chunks]
    vectors = (await (await engine.base(kb)).index.inventory()).vectors["content"].size
    assert vectors == len(table)
    return table


@pytest.mark.parametrize("kind", CONTENTS)
def test_every_door_stores_the_same(tmp_path: Path, kind: ContentFormat) -> None:
    path = tmp_path / f"手册{CONTENTS[kind][0]}"
    path.write_text(CONTENTS[kind][1], encoding="utf-8")

    async def story() -> None:
        models = {"hash-64": HashEmbedding()}
        async with Engine.open(tmp_path / "data", models=models, background=False) as engine:
            stored: dict[str, list[tuple[Any, ...]]] = {}
            for name, door in DOORS.items():
                kb = (await engine.create_knowledge_base(name, model="hash-64")).id
                await door(engine, kb, kind, path)
                stored[name] = await _what_is_stored(engine, kb)
                base = await engine.base(kb)
                # Facts for the graph are left to the background, whichever way a document came.
                assert await base.records.read(lambda tx, kb=kb: facts.origins(tx, kb)) == {}, name  # type: ignore[misc]
            expected = stored["add"]
            assert {row[2][-1:] for row in expected} >= SECTIONS[kind]
            assert {row[0] for row in expected} == {"text", "table"}
            if kind == "text":  # whose offsets are those of the given text
                assert all(TEXT[start:end] == text for _, text, _, start, end in expected)
            assert {name for name, rows in stored.items() if rows != expected} == set()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_the_format_may_be_named_by_metadata(tmp_path: Path, kind: ContentFormat) -> None:
    suffix, content = CONTENTS[kind]
    named = Document("d", content, name=f"手册{suffix}", metadata={"format": kind})

    async def story() -> None:
        models = {"hash-64": HashEmbedding()}
        async with Engine.open(tmp_path, models=models, background=False) as engine:
            stored = []
            for at in range(3):
                kb = (await engine.create_knowledge_base(str(at), model="hash-64")).id
                if at == 0:
                    await engine.add_documents(kb, [_document(kind)])
                elif at == 1:
                    await engine.add_documents(kb, [named])
                else:
                    event = _event(kind, metadata={"format": kind})
                    await (await engine.events(kb)).handle_document_created(event)
                    await engine.drain(kb)
                stored.append(await _what_is_stored(engine, kb))
            assert stored[1:] == stored[:1] * 2

    asyncio.run(story())


def test_a_format_in_metadata_that_is_none_of_ours_is_metadata(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = (await engine.create_knowledge_base("a", model="none")).id
            await engine.add_documents(kb, [Document("d", "住院。", metadata={"format": "pdf"})])
            outcome = await (await engine.events(kb)).handle_document_created(
                {"document_id": "e", "content": "住院。", "metadata": {"format": "pdf"}}
            )
            assert outcome.result == "accepted"

    asyncio.run(story())


@pytest.mark.parametrize("kind", CONTENTS)
def test_http_documents_uploads_and_events_store_the_same(tmp_path: Path, kind: ContentFormat) -> None:
    suffix, content = CONTENTS[kind]
    name = f"手册{suffix}"

    async def story() -> None:
        async with asking(tmp_path) as at:
            kbs = [await at.base(_document(kind), name="values")]
            for door in ("json", "file", "event"):
                kb = await at.base(name=door)
                kbs.append(kb)
                path = f"{BASES}/{kb}/documents"
                if door == "json":
                    answer = await at.post(path, {"name": name, "content": content, "format": kind})
                elif door == "file":
                    answer = await at.http.post(path, files={"file": (name, content.encode())})
                else:
                    body = {"type": "document.created", "knowledge_base_id": kb, **_event(kind, format=kind)}
                    answer = await at.post("/v1/events", body)
                assert answer.is_success, answer.text
                await at.engine.drain(kb)
            stored = [await _what_is_stored(at.engine, kb) for kb in kbs]
            assert stored[1:] == stored[:1] * 3

    asyncio.run(story())
