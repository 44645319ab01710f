from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import AlreadyThere, BadInput, BadModelReply, NotFound
from qianxun.core.graph_types import Alias
from qianxun.core.ingest_types import Step
from qianxun.engine.engine import Engine
from tests.graph.reading_model import plants, reading_engine, reads_well
from tests.indexing.opened import doc
from tests.models.chat_service import ChatService, Reply, Request, chat_service

TEXTS = [
    "第1厂生产1号药。",
    "第2厂生产2号药。第2厂生产1号药。",
    "第3厂生产3号药。",
]


async def filled(engine: Engine, kb: int) -> None:
    await engine.add_documents(kb, [doc(f"文{at}", text) for at, text in enumerate(TEXTS)])
    await (await engine.graph_keeper(kb)).read()


async def shown(engine: Engine, kb: int) -> Any:
    """All that the graph tells."""
    graph = await engine.graph(kb)
    return graph.entities, tuple(map(graph.relation, range(len(graph.relations))))


def test_merge_then_split_is_as_if_nothing_had_been(tmp_path: Path) -> None:
    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            await filled(engine, kb)
            before = await shown(engine, kb)
            merged = await engine.admin.merge_entities(kb, "第1厂", "第2厂")
            assert (merged.name, merged.aliases, merged.chunks) == ("第1厂", ("第2厂",), 2)
            assert len(await engine.graph(kb)) == len(before[0]) - 1
            keeper = await engine.graph_keeper(kb)
            assert (await keeper.show("第2厂")).entity == merged
            assert [(row.name, row.alias) for row in await keeper.aliases()] == [("第1厂", "第2厂")]
            assert await engine.admin.split_entities(kb, "第2厂") == ("第2厂",)
            assert await shown(engine, kb) == before
            assert await keeper.aliases() == []

    with chat_service(reads_well) as service:
        asyncio.run(story(service))


def test_merges_hold_over_a_restart_and_a_deletion_leaves_the_graph_without_the_document(tmp_path: Path) -> None:
    async def graph_without(service: ChatService, folder: Path, kept: list[str]) -> Any:
        async with reading_engine(folder, service) as (engine, kb):
            await engine.add_documents(kb, [doc(each, TEXTS[int(each[1])]) for each in kept])
            await (await engine.graph_keeper(kb)).read()
            for name, alias in (("第1厂", "第2厂"), ("总厂", "第1厂")):
                await engine.admin.merge_entities(kb, name, alias)
            return {(each.name, each.aliases, each.chunks) for each in (await engine.graph(kb)).entities}

    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path / "甲", service) as (engine, kb):
            await filled(engine, kb)
            await engine.admin.merge_entities(kb, "第1厂", "第2厂")
            await engine.admin.merge_entities(kb, "总厂", "第1厂")
        async with reading_engine(tmp_path / "甲", service) as (engine, kb):
            keeper = await engine.graph_keeper(kb)
            assert (await keeper.show("总厂")).entity.aliases == ("第1厂", "第2厂")
            await engine.delete_document(kb, "文0")
            held = {(each.name, each.aliases, each.chunks) for each in (await engine.graph(kb)).entities}
        assert held == await graph_without(service, tmp_path / "乙", ["文1", "文2"])
        assert ("总厂", ("第2厂",), 1) in held

    with chat_service(reads_well) as service:
        asyncio.run(story(service))


def test_what_cannot_be_made_one_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            await filled(engine, kb)
            with pytest.raises(NotFound, match=r"第1厂|第2厂|第3厂"):
                await engine.admin.merge_entities(kb, "第一厂", "第9厂")
            with pytest.raises(BadInput):
                await engine.admin.merge_entities(kb, "第1厂", "第１厂")
            with pytest.raises(NotFound):
                await engine.admin.split_entities(kb, "第1厂")
            await engine.admin.merge_entities(kb, "第1厂", "第2厂")
            with pytest.raises(AlreadyThere, match="split"):
                await engine.admin.merge_entities(kb, "第3厂", "第2厂")
            with pytest.raises(AlreadyThere, match="split"):
                await engine.admin.merge_entities(kb, "第2厂", "第1厂")
            row = await engine.graph(kb)
            own = row.entity_at(0)
            assert (await (await engine.graph_keeper(kb)).show(own.id)).entity == own
            with pytest.raises(NotFound):
                await engine.of("别人").admin.merge_entities(kb, "第1厂", "第3厂")

    with chat_service(reads_well) as service:
        asyncio.run(story(service))


def test_names_that_a_text_makes_one_are_parted_on_request(tmp_path: Path) -> None:
    def answers(request: Request) -> str:
        entities = [{"name": name, "type": "ORGANIZATION"} for name in ("世界卫生组织", "世卫组织")]
        told = {"n": 1, "entities": entities, "aliases": [{"name": "世界卫生组织", "alias": "世卫组织"}]}
        return json.dumps({"chunks": [told]}, ensure_ascii=False)

    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            await engine.add_documents(kb, [doc("文", "世界卫生组织（世卫组织）总部在日内瓦。")])
            keeper = await engine.graph_keeper(kb)
            await keeper.read()
            before = await shown(engine, kb)
            assert [each.aliases for each in before[0]] == [("世卫组织",)]
            for name in ("世卫组织", "世界卫生组织"):  # from either side
                assert await engine.admin.split_entities(kb, name) == ("世卫组织",)
                assert len(await engine.graph(kb)) == 2
                await engine.admin.merge_entities(kb, "世界卫生组织", "世卫组织")
                assert await shown(engine, kb) == before
                await engine.admin.split_entities(kb, "世卫组织")  # the merge, and with it back to being parted
                assert len(await engine.graph(kb)) == 2
                with engine.records.writing() as tx:
                    tx.exec_driver_sql("DELETE FROM graph_aliases")
                    tx.exec_driver_sql("UPDATE counters SET next = next + 1 WHERE name LIKE 'graph.%'")

    with chat_service(answers) as service:
        asyncio.run(story(service))


def test_a_model_proposes_and_decides_nothing(tmp_path: Path) -> None:
    replies: list[str | Reply] = []

    def answers(request: Request) -> str | Reply:
        return replies[-1] if "核对知识图谱" in request.text else reads_well(request)

    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            await filled(engine, kb)
            keeper = await engine.graph_keeper(kb)
            replies.append(json.dumps([{"name": "第1厂", "alias": "第3厂"}, {"name": "第1厂", "alias": "别的厂"}]))
            before = await shown(engine, kb)
            assert await keeper.propose() == (Alias("第1厂", "第3厂", "model:qwen"),)
            assert await shown(engine, kb) == before
            await engine.admin.merge_entities(kb, "第1厂", "第3厂")
            assert await keeper.propose() == ()
            replies.append("不知道")
            with pytest.raises(BadModelReply):
                await keeper.propose()

    with chat_service(answers) as service:
        asyncio.run(story(service))


def test_status_and_cost_are_told_before_and_after(tmp_path: Path) -> None:
    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            await engine.add_documents(kb, plants(range(4)))
            keeper = await engine.graph_keeper(kb)
            before = await keeper.status()
            assert (before.chunks, before.model, before.unread) == (4, "qwen", 4)
            assert (await keeper.cost()).reading.cost.calls == 4
            assert service.requests == []
            await keeper.read()
            after = await keeper.status()
            assert (after.entities, after.relations, after.communities, after.unread) == (8, 4, 4, 0)
            assert dict(after.readers) == {"model:qwen": 4}
            assert (await keeper.cost()).reading.cost.calls == 0

    with chat_service(reads_well) as service:
        asyncio.run(story(service))


def test_files_that_are_added_are_read_by_the_model_at_a_cost_that_is_told_first(tmp_path: Path) -> None:
    files = tmp_path / "文件"
    files.mkdir()
    for at, text in enumerate(TEXTS):
        (files / f"{at}.txt").write_text(text, "utf-8")

    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path / "data", service) as (engine, kb):
            steps: list[Step] = []
            asked: list[int] = []

            def watch(step: Step) -> None:
                steps.append(step)
                asked.append(len(service.requests))

            await engine.add(kb, [files], watch=watch)
            assert await engine.admin.run_background_work(kb, watch=watch) == ""
            kinds = [step.kind for step in steps]
            at = kinds.index("reading")
            assert asked[at] == 0
            assert "约 3 次调用" in steps[at].reason
            assert sum(step.count for step in steps if step.kind == "read") == 3
            assert (await (await engine.graph_keeper(kb)).status()).unread == 0
            await engine.configure(kb, {"graph": False})
            (files / "9.txt").write_text("第9厂生产9号药。", "utf-8")
            await engine.add(kb, [files])
            await engine.admin.run_background_work(kb)
            assert len(service.requests) == 3  # only on demand

    with chat_service(reads_well) as service:
        asyncio.run(story(service))


def test_files_are_taken_in_and_it_is_said_where_the_model_cannot_read_them(tmp_path: Path) -> None:
    (tmp_path / "甲.txt").write_text(TEXTS[0], "utf-8")

    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path / "data", service) as (engine, kb):
            report = await engine.add(kb, [tmp_path / "甲.txt"])
            assert report.added == 1
            assert "图谱模型 qwen" in await engine.admin.run_background_work(kb)
            assert (await engine.retrieve(kb, "第1厂")).found

    with chat_service(lambda _: Reply(status=400)) as service:
        asyncio.run(story(service))


def test_what_says_so_is_quoted_with_the_mark_that_closes_a_title(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = (await engine.create_knowledge_base("书", model="none")).id
            await engine.add_documents(kb, [doc("a", "鲁迅的代表作品是《呐喊》。鲁迅位于绍兴。")])
            shown = await (await engine.graph_keeper(kb)).show("鲁迅")
            words = [quote.text for quote in shown.quotes.values()]
            assert "鲁迅的代表作品是《呐喊》" in words
            assert all(each.count("《") == each.count("》") for each in words)

    asyncio.run(story())


def test_a_name_that_no_terminal_can_write_is_unknown_in_words_that_it_can(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            keeper = await engine.graph_keeper((await engine.create_knowledge_base("空", model="none")).id)
            for ask in (keeper.show, keeper.split):
                with pytest.raises(NotFound) as refused:
                    await ask("鲁\udcff迅")
                assert str(refused.value).encode()

    asyncio.run(story())
