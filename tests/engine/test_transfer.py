"""One base as a file: what comes back is what went out, and what is damaged is refused."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import AlreadyThere, BadInput, Refused
from qianxun.core.graph_types import Alias
from qianxun.core.types import Document, QAPair, Recall
from qianxun.engine.admin.transfer import clone_base, export_base, import_base
from qianxun.engine.engine import Engine
from qianxun.records import graph
from tests.indexing.opened import opened

LIBRARY = [
    Document(
        "手册",
        "# 报销\n\n住院报销比例为 85%。\n\n| 级别 | 比例 |\n| --- | --- |\n| 一级 | 90% |\n| 三级 | 80% |\n",
        name="手册.md",
        format="markdown",
        tags=("医保",),
        metadata={"年份": 2024, "地区": ("杭州", "宁波")},
        pairs=(QAPair("住院报多少", "85%"),),
    ),
    Document("规定", "差旅费按 650 元计。本办法自2024年1月1日起施行。", name="规定.txt", user_id="u1"),
    Document("長文", "異地就醫需要先備案。😀" * 200, name="长文.txt"),
]
QUERIES = ("住院报销比例", "三级医院比例", "差旅费多少", "异地就医备案")


async def found(engine: Engine, base: int) -> list[Any]:
    return [shown(await engine.retrieve(base, query)) for query in QUERIES]


def shown(recall: Recall) -> list[Any]:
    return [
        (one.chunk.doc_id, one.chunk.text, one.chunk.headings, one.score, one.source, dict(one.chunk.metadata))
        for one in recall.results
    ]


def test_a_base_comes_back_as_it_was(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "医保.qianxun"
        async with opened(tmp_path / "one") as (engine, kb):
            await engine.configure(kb, {"search.top_k": 7})
            await engine.add_documents(kb, LIBRARY)
            await engine.records.write(lambda tx: graph.add_alias(tx, kb, Alias("医疗保险", "医保", "user", {})))
            before, states = await found(engine, kb), await engine.documents(kb)
            out = await export_base(engine, kb, file)
            assert (out.documents, out.chunks > 3) == (3, True)
            with pytest.raises(BadInput, match="已经存在"):
                await export_base(engine, kb, file)
            with pytest.raises(AlreadyThere):
                await import_base(engine, file)
            again = await clone_base(engine, kb, "另一个")
            assert await found(engine, again.knowledge_base.id) == before
        async with opened(tmp_path / "two") as (other, _):
            made = await import_base(other, file, name="回来")
            base = made.knowledge_base.id
            assert await found(other, base) == before
            assert (await other.knowledge_base(base)).config["search"] == {"top_k": 7}
            assert [(one.doc_id, one.status, one.validity, one.tags) for one in await other.documents(base)] == [
                (one.doc_id, "indexed", one.validity, one.tags) for one in states
            ]
            assert (await other.admin.verify(base)).is_clean
            assert await other.records.read(lambda tx: graph.aliases(tx, base)) == [
                Alias("医疗保险", "医保", "user", {})
            ]
            (accepted,) = await other.add_documents(base, LIBRARY[:1])
            assert accepted.outcome == "unchanged"
            words = await import_base(other, file, name="只按词语", model="none")
            assert words.knowledge_base.embedding_model == ""
            assert (await other.retrieve(words.knowledge_base.id, "差旅费多少")).results[0].chunk.doc_id == "规定"

    asyncio.run(work())


def test_under_its_own_model_nothing_is_embedded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            model = (await engine.base(kb)).model
            assert model is not None

            def refuse(*_: object) -> None:
                raise AssertionError("embedded again")

            monkeypatch.setattr(type(model), "embed_passages", refuse)
            made = await clone_base(engine, kb, "另一个")
            assert len((await engine.base(made.knowledge_base.id)).about.embedding_model) > 0

    asyncio.run(work())


def damaged(lines: list[bytes], how: str) -> bytes:
    match how:
        case "cut":
            return gzip.compress(b"".join(lines[:-1]))
        case "changed":
            return gzip.compress(b"".join(lines).replace(b"85%", b"95%"))
        case "torn":
            return gzip.compress(b"".join(lines))[:-40]
        case "newer":
            first = json.loads(lines[0])
            return gzip.compress(json.dumps({**first, "version": 99}).encode() + b"\n" + b"".join(lines[1:]))
        case "longer":
            return gzip.compress(b"".join([*lines, lines[1]]))
    return b"plain text"


@pytest.mark.parametrize("how", ["cut", "changed", "torn", "newer", "longer", "other"])
def test_a_damaged_file_is_refused_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY[:1])
            file = tmp_path / "base"
            await export_base(engine, kb, file)
            lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
            file.write_bytes(damaged(lines, how))
            with pytest.raises(Refused):
                await import_base(engine, file, name="新")
            assert [base.id for base in await engine.knowledge_bases()] == [kb]

    asyncio.run(work())


def test_a_file_that_cannot_be_written_or_is_not_there_is_said(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            with pytest.raises(BadInput, match="写不了"):
                await export_base(engine, kb, tmp_path / "没有" / "base")
            with pytest.raises(BadInput, match="没有文件"):
                await import_base(engine, tmp_path / "没有")

    asyncio.run(work())
