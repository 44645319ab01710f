"""The library as the settings mean it: beside the records, through an engine, on its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from qianxun import Engine
from qianxun.core.errors import ModelUnavailable, RecordsUnavailable
from qianxun.core.types import Document
from qianxun.engine.example_library import get_embedding_model, import_from_excel, open_examples
from qianxun.engine.settings import Settings, load
from qianxun.examples.importing import import_file
from qianxun.examples.library import ExampleLibrary
from qianxun.examples.store import ExampleStore
from qianxun.testing.scripted import HashEmbedding
from tests.examples.conftest import Write, stored

MODELS = {"形似": HashEmbedding(64, "形似")}


def told(folder: Path, **more: str) -> Settings:
    settings = {"data": str(folder / "数据"), "vectorization.model": "形似", **more}
    return load(environment={}, arguments=settings, folder=folder)


@pytest.fixture(params=["sqlite", "postgres", "schema"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    if request.param == "sqlite":
        return told(tmp_path)
    url = request.getfixturevalue("postgres_url")
    schema = {"records.schema": "own"} if request.param == "schema" else {}
    return told(tmp_path, **{"records.url": url, **schema})


def test_the_engine_has_the_library_beside_its_records(settings: Settings, workbook: Write) -> None:
    path = workbook({"qa_examples": [("高血压能喝酒吗", "最好不喝。")]})

    async def work() -> tuple[int, int]:
        async with Engine.open(settings=settings, models=MODELS) as engine:
            base = await engine.create_knowledge_base("手册", model="none")
            documents = [Document(f"{number}.txt", "正文") for number in range(20)]
            adding = asyncio.create_task(engine.add_documents(base.id, documents))
            report = await asyncio.to_thread(import_file, path, engine.examples)
            await adding
            library = ExampleLibrary(engine.examples)
            found = await asyncio.to_thread(library.vector_db_search, "高血压能喝酒吗 最好不喝。")
            library.close()
            return report.total("added"), len(found)

    assert asyncio.run(work()) == (1, 1)


def test_it_comes_in_beside_an_open_engine_and_is_seen_there(settings: Settings, workbook: Write) -> None:
    path = workbook({"greeting_examples": [("你好", "您好")]})

    async def work() -> list[Any]:
        async with Engine.open(settings=settings, models=MODELS) as engine:
            with open_examples(settings, MODELS) as store:
                import_file(path, store)
            await asyncio.to_thread(engine.examples.prepare)
            return await asyncio.to_thread(stored, engine.examples, "greeting_examples")

    (row,) = asyncio.run(work())
    assert row.user_input == "你好"


def test_a_library_may_be_there_before_anything_else(settings: Settings, workbook: Write) -> None:
    with open_examples(settings, MODELS) as store:
        import_file(workbook({"qa_examples": [("问", "答")]}), store)

    async def work() -> int:
        async with Engine.open(settings=settings, models=MODELS) as engine:
            await engine.create_knowledge_base("手册", model="none")
            await asyncio.to_thread(engine.examples.prepare)
            return len(await asyncio.to_thread(stored, engine.examples))

    assert asyncio.run(work()) == 1


def test_a_long_import_keeps_no_writer_of_the_records_waiting(postgres_url: str, tmp_path: Path) -> None:
    settings = told(tmp_path, **{"records.url": postgres_url})

    async def work() -> None:
        async with Engine.open(settings=settings, models=MODELS) as engine:
            await asyncio.to_thread(engine.examples.prepare)
            with engine.examples.writing() as connection:
                connection.execute(text("SELECT 1"))
                timeout = connection.execute(text("SHOW statement_timeout")).scalar()
                assert timeout == "0"  # an index over many examples takes longer than a statement of the records may
                await asyncio.wait_for(engine.create_knowledge_base("手册", model="none"), 120)

    asyncio.run(work())


def test_a_database_that_is_not_there_says_so(tmp_path: Path) -> None:
    settings = told(tmp_path, **{"records.url": "postgresql://nobody@127.0.0.1:1/x"})
    with open_examples(settings, MODELS) as store, pytest.raises(RecordsUnavailable, match="连不上数据库"):
        store.prepare()


def test_the_model_of_the_settings_is_taken_where_none_is_given(
    store: ExampleStore, workbook: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", "none")
    get_embedding_model.cache_clear()
    path = workbook({"qa_examples": [("问", "答")]})
    with store.engine.connect() as connection, pytest.raises(ModelUnavailable, match="models pull"):
        import_from_excel(path, connection)


def test_the_prefix_of_the_settings_is_taken_where_none_is_given(
    store: ExampleStore, workbook: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIANXUN_EXAMPLES_PREFIX", "own_")
    with store.engine.connect() as connection:
        import_from_excel(workbook({"qa_examples": [("问", "答")]}), connection, model=HashEmbedding(64))
        assert connection.execute(text("SELECT count(*) FROM own_qa_examples")).scalar() == 1
