"""What language models read and wrote for a base is paid for once: it goes along when the base moves."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from qianxun.core.errors import ModelUnavailable
from qianxun.core.types import Document, Vectors
from qianxun.engine.admin.transfer import VERSION, WITHOUT_CORRECTIONS, clone_base, export_base, import_base
from qianxun.engine.engine import Engine
from qianxun.engine.settings import RecordsSettings
from qianxun.graph.curate import GraphCurator
from qianxun.graph.llm_build import extract_with_model
from qianxun.graph.summaries import communities, summarise_communities
from qianxun.records.schema import PairRow
from qianxun.testing.scripted import HashEmbedding
from tests.graph.reading_model import origins, settings_of
from tests.graph.test_base_summaries import stories, writes_well
from tests.models.chat_service import ChatService, Request, chat_service

MODELS = {"fake-64": HashEmbedding(), "fake-32": HashEmbedding(32)}


def engine_of(folder: Path, service: ChatService) -> Any:
    return Engine.open(settings=settings_of(folder, service), models=MODELS, background=False)


async def read_base(engine: Engine, model: str, documents: Sequence[Document], name: str = "药厂") -> int:
    about = await engine.create_knowledge_base(name, model=model, config={"graph_model": "qwen"})
    await engine.add_documents(about.id, documents)
    base = await engine.base(about.id)
    await extract_with_model(base)
    await summarise_communities(base)
    return about.id


async def shown(engine: Engine, kb: int) -> list[Any]:
    """The graph as people see it, and who read it."""
    base = await engine.base(kb)
    curator = GraphCurator(base)
    found = await curator.show("第1厂")
    relations = sorted((row.type, found.names[row.target], row.weight) for row in found.relations)
    written = [(one.title, one.summary, one.origin) for one in await communities(base)]
    return [origins(base), relations, written, (await curator.cost()).reading.cost.calls]


@pytest.mark.parametrize(
    ("model", "other"),
    [("none", None), ("fake-64", None), ("fake-64", "fake-32"), ("fake-64", "none"), ("none", "fake-64")],
)
def test_no_model_reads_or_writes_again_what_was_exported(tmp_path: Path, model: str, other: str | None) -> None:
    async def story(service: ChatService) -> None:
        file = tmp_path / "base"
        async with engine_of(tmp_path / "one", service) as engine:
            kb = await read_base(engine, model, stories(1, 2))
            before = await shown(engine, kb)
            assert before[0] == {"model:qwen": 2}
            assert "model:qwen" in {origin for _, _, origin in before[2]}
            await export_base(engine, kb, file)
        calls = len(service.requests)
        async with engine_of(tmp_path / "two", service) as engine:
            made = (await import_base(engine, file, model=other)).knowledge_base
            assert await shown(engine, made.id) == before
            base = await engine.base(made.id)
            assert (await extract_with_model(base)).calls == 0
            assert (await summarise_communities(base)).written == 0
            assert (await engine.admin.verify(made.id)).is_clean
            again = await clone_base(engine, made.id, "又一个")
            assert await shown(engine, again.knowledge_base.id) == before
        assert len(service.requests) == calls

    with chat_service(writes_well) as service:
        asyncio.run(story(service))


def test_a_base_moves_to_another_tenant_of_another_database_with_all_that_was_read(
    tmp_path: Path, records_url: str
) -> None:
    async def story(service: ChatService) -> None:
        file = tmp_path / "base"
        async with engine_of(tmp_path / "one", service) as engine:
            kb = await read_base(engine, "fake-64", stories(1, 2))
            before = [await shown(engine, kb), await _found(engine, kb)]
            await export_base(engine, kb, file)
        calls = len(service.requests)
        settings = replace(settings_of(tmp_path / "two", service), records=RecordsSettings(url=records_url))
        async with Engine.open(settings=settings, models=MODELS, background=False) as engine:
            other = engine.of("乙")
            made = (await import_base(other, file)).knowledge_base
            assert made.tenant == "乙"
            assert [await shown(other, made.id), await _found(other, made.id)] == before
            assert (await other.admin.verify(made.id)).is_clean
            assert not await engine.knowledge_bases()
        assert len(service.requests) == calls

    with chat_service(writes_well) as service:
        asyncio.run(story(service))


async def _found(engine: Engine, kb: int) -> list[Any]:
    recall = await engine.retrieve(kb, "哪家厂生产1号药")
    return [(one.chunk.doc_id, one.chunk.text, one.score, one.source) for one in recall.results]


def test_what_is_no_longer_what_the_model_read_is_read_again(tmp_path: Path) -> None:
    """A file in which the facts are of another text: they are not given to this one."""

    async def story(service: ChatService) -> None:
        file = tmp_path / "base"
        async with engine_of(tmp_path / "one", service) as engine:
            kb = await read_base(engine, "none", stories(1, 2))
            await export_base(engine, kb, file)
            lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
            changed = next(line for line in lines if "document" in line)
            changed["facts"][0][2] = "0" * 40
            _write(file, lines)
            made = (await import_base(engine, file, name="改过的")).knowledge_base
            assert origins(await engine.base(made.id)) == {"model:qwen": 1}
            assert (await extract_with_model(await engine.base(made.id))).read == 1

    with chat_service(writes_well) as service:
        asyncio.run(story(service))


def _write(file: Path, lines: Sequence[dict[str, Any]]) -> None:
    data = [json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines[:-1]]
    digest = hashlib.sha256(b"".join(data)).hexdigest()
    last = json.dumps({**lines[-1], "sha256": digest}).encode() + b"\n"
    file.write_bytes(gzip.compress(b"".join([*data, last])))


def test_a_base_that_no_model_has_read_is_a_file_for_earlier_programs(tmp_path: Path) -> None:
    async def story(service: ChatService) -> None:
        async with engine_of(tmp_path / "one", service) as engine:
            about = await engine.create_knowledge_base("药厂", model="none")
            await engine.add_documents(about.id, stories(1))
            await engine.admin.build_graph(about.id)
            await export_base(engine, about.id, tmp_path / "by rules")
            read = await read_base(engine, "none", stories(1), "读过的")
            await export_base(engine, read, tmp_path / "by a model")
        heads = [
            json.loads(gzip.decompress((tmp_path / name).read_bytes()).splitlines()[0])
            for name in ("by rules", "by a model")
        ]
        assert [head["version"] for head in heads] == [WITHOUT_CORRECTIONS, VERSION]

    with chat_service(writes_well) as service:
        asyncio.run(story(service))


def makes_questions(request: Request) -> str:
    return json.dumps([{"question": "一号药是哪家厂的？", "answer": "第1厂"}], ensure_ascii=False)


@pytest.mark.parametrize("other", [None, "none", "fake-32"])
def test_questions_that_a_model_made_are_not_made_again(tmp_path: Path, other: str | None) -> None:
    async def story(service: ChatService) -> None:
        async with engine_of(tmp_path, service) as engine:
            about = await engine.create_knowledge_base("药厂", model="fake-64", config={"qa_model": "qwen"})
            await engine.add_documents(about.id, stories(1, 2))
            calls = len(service.requests)
            assert calls > 0
            file = tmp_path / "base"
            await export_base(engine, about.id, file)
            made = (await import_base(engine, file, name="另一个", model=other)).knowledge_base
            assert len(service.requests) == calls
            found = [await _questions(engine, kb) for kb in (about.id, made.id)]
            assert found[0] == found[1] != []
            assert (await engine.admin.verify(made.id)).is_clean

    with chat_service(makes_questions) as service:
        asyncio.run(story(service))


async def _questions(engine: Engine, kb: int) -> list[str]:
    query = select(PairRow.question).where(PairRow.knowledge_base_id == kb)
    return sorted(await engine.records.read(lambda tx: list(tx.execute(query).scalars())))


class Down(HashEmbedding):
    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        raise ModelUnavailable("模型没有回应", hint="稍后再试")


def test_a_model_that_is_down_leaves_no_half_of_a_base(tmp_path: Path) -> None:
    async def story() -> None:
        models = {"fake-64": HashEmbedding(), "down": Down(32, "down")}
        async with Engine.open(tmp_path, models=models, background=False) as engine:
            about = await engine.create_knowledge_base("药厂", model="fake-64")
            await engine.add_documents(about.id, stories(1))
            await export_base(engine, about.id, tmp_path / "base")
            with pytest.raises(ModelUnavailable):
                await import_base(engine, tmp_path / "base", name="另一个", model="down")
            assert [base.id for base in await engine.knowledge_bases()] == [about.id]

    asyncio.run(story())
