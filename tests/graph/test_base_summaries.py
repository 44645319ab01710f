"""Communities in the words of a model behind a real chat service, or in those of their sources."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from qianxun.core.errors import NotFound
from qianxun.core.graph_types import Community, SummariesProgress
from qianxun.core.types import Document, Eq
from qianxun.graph.llm_build import extract_with_model
from qianxun.graph.summaries import communities, summaries_cost, summarise_communities
from qianxun.jobs.graph_worker import _update
from tests.graph.reading_model import reading_engine, reads_well
from tests.indexing.opened import doc
from tests.models.chat_service import ChatService, Reply, Request, chat_service


def stories(*numbers: int) -> list[Document]:
    """Each a community of its own: a factory, what it makes, and for whom."""
    return [
        doc(
            f"文{n}", f"第{n}厂生产{n}号药。\n第{n}厂与第{n}0厂都生产{n}号药。\n第{n}厂生产{n}5号药。", tags=(f"组{n}",)
        )
        for n in numbers
    ]


def writes_well(request: Request) -> str | Reply:
    if "写摘要" not in request.text:
        return reads_well(request)
    first = re.search(r"第\d+厂", request.last)
    assert first is not None
    return json.dumps({"title": f"{first.group()}的药", "summary": f"{first.group()}生产药品。"}, ensure_ascii=False)


def asked_for_summaries(service: ChatService) -> int:
    return sum("写摘要" in request.text for request in service.requests)


def told(found: Sequence[Community]) -> dict[str, str]:
    return {each.title: each.origin for each in found}


def test_what_comes_into_an_empty_base_is_written_of_without_a_pause(tmp_path: Path) -> None:
    """The pause between two goes is for summaries that change: to have looked at an empty base is none."""

    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            base = await engine.base(kb)
            for _ in range(3):
                await _update(base)
            await engine.add_documents(kb, stories(1))
            await engine.graph(kb)
            for _ in range(3):
                await _update(base)
            assert asked_for_summaries(service) == 1
            await engine.add_documents(kb, stories(2))
            await engine.graph(kb)
            for _ in range(3):
                await _update(base)
            assert asked_for_summaries(service) == 1  # now there is a pause

    with chat_service(writes_well) as service:
        asyncio.run(story(service))


def test_a_model_writes_of_each_community_once_and_of_changed_ones_again(tmp_path: Path) -> None:
    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            await engine.add_documents(kb, stories(1, 2))
            base = await engine.base(kb)
            await extract_with_model(base)
            quoted = await communities(base)
            assert {each.origin for each in quoted} == {"extractive"}
            expected = await summaries_cost(base)
            seen: list[SummariesProgress] = []
            done = await summarise_communities(base, seen.append)
            assert (done.written, done.known, done.failed) == (2, 0, 0)
            assert seen[0] == SummariesProgress("qwen", expected)
            assert asked_for_summaries(service) == expected.calls == 2
            written = await communities(base)
            assert {each.origin for each in written} == {"model:qwen"}
            assert [each.sources for each in written] == [each.sources for each in quoted]
            assert [each.id for each in written] == [each.id for each in quoted]
            assert (await summarise_communities(base)).known == 2
            assert (await summaries_cost(base)).calls == 0
            await engine.add_documents(kb, [doc("文2", "第2厂生产2号药。第2厂生产27号药。第2厂改名了。")])
            await extract_with_model(base)
            assert sorted(each.origin for each in await communities(base)) == ["extractive", "model:qwen"]
            await summarise_communities(base)
            assert asked_for_summaries(service) == 3
            with base.records.reading() as tx:  # what was written of the old one is gone
                assert tx.exec_driver_sql("SELECT count(*) FROM graph_summaries").scalar() == 2

    with chat_service(writes_well) as service:
        asyncio.run(story(service))


def test_words_about_sentences_that_changed_are_not_told_of_the_same_community(tmp_path: Path) -> None:
    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            (own,) = stories(1)
            await engine.add_documents(kb, [own])
            base = await engine.base(kb)
            await extract_with_model(base)
            await summarise_communities(base)
            (before,) = await communities(base)
            await engine.add_documents(kb, [replace(own, content=own.content.replace("第1厂生产", "据传第1厂生产"))])
            await extract_with_model(base)
            (after,) = await communities(base)
            assert (before.id, before.origin) == (after.id, "model:qwen")
            assert after.origin == "extractive"
            assert "据传" in after.summary

    with chat_service(writes_well) as service:
        asyncio.run(story(service))


def test_under_a_filter_no_words_about_other_documents_show(tmp_path: Path) -> None:
    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            together = doc("桥", "第1厂生产2号药。第1厂生产1号药。", tags=("组9",))
            await engine.add_documents(kb, [*stories(1, 2), together])
            base = await engine.base(kb)
            await extract_with_model(base)
            await summarise_communities(base)
            assert "model:qwen" in {each.origin for each in await communities(base)}
            for own, other in ((1, 2), (2, 1)):
                found = await communities(base, Eq("tags", f"组{own}"))
                assert found
                assert not [each for each in found if f"第{other}厂" in each.title + each.summary]

    with chat_service(writes_well) as service:
        asyncio.run(story(service))


@pytest.mark.parametrize(
    "trouble",
    [
        Reply("好的"),
        Reply('{"title": "编的", "summary": "年产 9999 吨。"}'),
        Reply('{"title": "x", "summary": "见 https://evil.example"}'),
        Reply(status=400),
    ],
)
def test_without_a_models_words_the_sources_speak(tmp_path: Path, trouble: Reply) -> None:
    def answers(request: Request) -> str | Reply:
        return trouble if "写摘要" in request.text else reads_well(request)

    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            await engine.add_documents(kb, stories(1, 2))
            base = await engine.base(kb)
            await extract_with_model(base)
            done = await summarise_communities(base)
            assert (done.written, done.failed) == (0, 2)
            assert done.reason
            found = await communities(base)
            assert {each.origin for each in found} == {"extractive"}
            assert "9999" not in "".join(each.summary for each in found)
            recall = await engine.gather(kb, "第1厂生产什么", mode="global")
            assert recall.found

    with chat_service(answers) as service:
        asyncio.run(story(service))


def test_a_mode_tells_of_communities_in_the_models_words_and_asks_nothing(tmp_path: Path) -> None:
    async def story(service: ChatService) -> None:
        async with reading_engine(tmp_path, service) as (engine, kb):
            await engine.add_documents(kb, stories(1, 2))
            base = await engine.base(kb)
            await extract_with_model(base)
            await summarise_communities(base)
            asked = len(service.requests)
            recall = await engine.gather(kb, "第1厂生产什么", mode="global")
            assert "model:qwen" in {each.origin for each in recall.context.communities}
            assert len(service.requests) == asked
            await engine.configure(kb, {"graph_model": None})
            recall = await engine.gather(kb, "第1厂生产什么", mode="global")
            assert {each.origin for each in recall.context.communities} == {"extractive"}
            with pytest.raises(NotFound):
                await summarise_communities(base)

    with chat_service(writes_well) as service:
        asyncio.run(story(service))
