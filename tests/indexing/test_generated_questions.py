"""Questions all the way: into records and index with their document, found, replaced, removed, rebuilt."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import ModelUnavailable, NotFound
from qianxun.core.ports import ChatKind, ChatModel, EmbeddingModel, RerankModel
from qianxun.core.types import EVERYTHING, LOCAL_TENANT, Document, Eq, Filter, IndexBatch, QAPair, Query, Terms
from qianxun.engine.engine import Engine
from qianxun.indexing import outbox_indexer as indexing
from qianxun.models import ChatEndpoint
from qianxun.models.remote.chat import RemoteChat
from qianxun.records import bases, chunks, pairs
from qianxun.retrieve.arms import SearchContext
from qianxun.retrieve.arms.qa import QuestionArm
from qianxun.testing.scripted import HashEmbedding, ScriptedEmbedding
from tests.indexing.opened import FailingEmbedding, doc, opened
from tests.models.embedding_service import Answer, Exchange, Service, says, serving, status

TEXT = "参保人员在三级医院发生的费用，由统筹基金支付百分之八十五。"
ASKED = "开刀能省下几成"  # shares no character with the text
OTHERS = [doc(f"其他{n}", f"第{n}条 失业保险待遇的申领期限与标准，另行公布。") for n in range(20)]


def asking(doc_id: str, question: str = ASKED, text: str = TEXT, **labels: object) -> Document:
    return doc(doc_id, text, pairs=(QAPair(question, text[:20]),), **labels)


async def by_question(
    engine: Engine, kb: int, query: str, where: Filter = EVERYTHING, *, limit: int = 10
) -> list[tuple[str, float]]:
    """(document, score), best first, by the arm of questions alone."""
    base = await engine.base(kb)
    assert base.model is not None
    asked = Query(query, Terms(()), base.model.embed_query(query), where)
    found = await QuestionArm().search(asked, limit, SearchContext(base, base.serving))
    cosines = zip(found.keys.tolist(), [] if found.raw is None else found.raw.tolist(), strict=True)
    with engine.records.reading() as tx:
        held = chunks.by_keys(tx, kb, found.keys.tolist())
    return [(held[key].doc_id, round(min(cosine, 1.0), 5)) for key, cosine in cosines if cosine > 0.0]


async def first(engine: Engine, kb: int, query: str) -> tuple[str, float]:
    found = await by_question(engine, kb, query)
    return found[0] if found else ("", 0.0)


async def require_clean(engine: Engine, kb: int) -> None:
    verdict = await engine.admin.verify(kb)
    assert verdict.is_clean, verdict


# ── given questions ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wait", [True, False])
def test_a_question_finds_its_chunk_though_they_share_no_word(tmp_path: Path, wait: bool) -> None:
    assert not set(ASKED) & set(TEXT)

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [*OTHERS, asking("甲")], wait=wait)
            await engine.drain(kb)
            assert await first(engine, kb, ASKED) == ("甲", 1.0)
            recall = await engine.retrieve(kb, ASKED, mode="fulltext")
            assert recall.found[0].chunk.doc_id == "甲"
            assert recall.found[0].chunk.text == TEXT  # the question finds it and is no part of it
            await require_clean(engine, kb)

    asyncio.run(story())


def test_without_a_model_a_question_finds_its_chunk_by_words(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, [*OTHERS, asking("甲")])
            assert (await engine.retrieve(kb, ASKED)).found[0].chunk.doc_id == "甲"
            await require_clean(engine, kb)
            await engine.admin.rebuild(kb)
            assert (await engine.retrieve(kb, ASKED)).found[0].chunk.doc_id == "甲"

    asyncio.run(story())


def test_a_document_of_pairs_alone_is_searchable(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [doc("问答", "", pairs=(QAPair("丢了卡怎么办", "到窗口补办"),))])
            (chunk,) = await engine.chunks(kb, "问答")
            assert chunk.text == "丢了卡怎么办\n到窗口补办"
            assert await first(engine, kb, "丢了卡怎么办") == ("问答", 1.0)
            await require_clean(engine, kb)

    asyncio.run(story())


def test_an_update_replaces_and_a_delete_removes_the_questions(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [asking("甲"), *OTHERS])
            (again,) = await engine.add_documents(kb, [asking("甲")])
            assert again.outcome == "unchanged"
            (other,) = await engine.add_documents(kb, [asking("甲", "手术自付多少")])
            assert other.outcome == "updated"  # the same text with another question
            assert await first(engine, kb, "手术自付多少") == ("甲", 1.0)
            assert (await first(engine, kb, ASKED))[1] < 1.0
            assert (await engine.retrieve(kb, ASKED, mode="fulltext")).found == ()
            await engine.delete_document(kb, "甲")
            assert await by_question(engine, kb, "手术自付多少") == []  # at once, whether the index lags or not
            await engine.drain(kb)
            await require_clean(engine, kb)
            assert len((await (await engine.base(kb)).index.inventory()).vectors["question"]) == 0
            with engine.records.reading() as tx:
                assert tx.exec_driver_sql("SELECT count(*) FROM qa_pairs").scalar() == 0
                assert tx.exec_driver_sql("SELECT count(*) FROM pair_vectors").scalar() == 0

    asyncio.run(story())


def test_filters_hold_and_bases_do_not_mix(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            other = (await engine.create_knowledge_base("另一个", model="fake-64")).id
            await engine.add_documents(kb, [asking("甲", user_id="张三"), asking("乙", user_id="李四")])
            await engine.add_documents(other, [asking("丙")])
            assert [found for found, _ in await by_question(engine, kb, ASKED)] == ["甲", "乙"]
            assert await by_question(engine, kb, ASKED, Eq("user_id", "李四")) == [("乙", 1.0)]
            assert await by_question(engine, kb, ASKED, Eq("user_id", "王五")) == []
            assert await by_question(engine, other, ASKED) == [("丙", 1.0)]
            with engine.records.reading() as tx:
                mine = pairs.served_keys(tx, kb).tolist()
                assert pairs.chunks_of(tx, other, mine) == {}
                assert set(pairs.chunks_of(tx, kb, [*mine, 999])) == set(mine)
            await engine.delete_knowledge_base(kb)
            assert await by_question(engine, other, ASKED) == [("丙", 1.0)]

    asyncio.run(story())


def test_a_rebuild_embeds_nothing_and_gives_the_same_index(tmp_path: Path) -> None:
    async def story() -> None:
        model = ScriptedEmbedding()
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, [asking("甲"), *OTHERS, asking("乙", "手术自付多少")])
            base = await engine.base(kb)
            made = await _entries(engine, kb)
            inventory, found = await base.index.inventory(), await by_question(engine, kb, ASKED)
            embedded = len(model.passages)
            assert await engine.admin.rebuild(kb) == len(OTHERS) + 2  # chunks: a question is none
            assert len(model.passages) == embedded
            after = await base.index.inventory()
            assert after.keywords.tolist() == inventory.keywords.tolist()
            for field in ("content", "question"):
                assert after.vectors[field].tolist() == inventory.vectors[field].tolist()
            assert len(after.vectors["question"]) == 2
            assert await by_question(engine, kb, ASKED) == found
            assert await _entries(engine, kb) == made
        shutil.rmtree(tmp_path / "index")
        async with opened(tmp_path, model) as (engine, kb):
            assert await first(engine, kb, ASKED) == ("甲", 1.0)
            await require_clean(engine, kb)

    asyncio.run(story())


async def _entries(engine: Engine, kb: int) -> list[tuple[Any, ...]]:
    """What the index is given, read back from the records."""
    base = await engine.base(kb)
    with engine.records.reading() as tx:
        page = chunks.page(tx, kb, base.model_name, 0, 1000)
    return [(e.key, e.field, e.words, e.grams) for e in indexing.entries_of(base, page)]


def test_what_enters_at_once_is_what_a_rebuild_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            base = await engine.base(kb)
            taken: list[tuple[Any, ...]] = []
            apply = base.index.apply

            async def watched(batch: IndexBatch) -> None:
                taken.extend((e.key, e.field, e.words, e.grams) for e in batch.entries)
                await apply(batch)

            monkeypatch.setattr(base.index, "apply", watched)
            long = "".join(f"第{n}款：{TEXT}" for n in range(40))
            several = tuple(QAPair(f"{ASKED}{n}", f"第{n}款") for n in range(0, 40, 3))
            await engine.add_documents(kb, [asking("甲"), doc("长", long, pairs=several), *OTHERS])
            assert sorted(taken) == sorted(await _entries(engine, kb))
            assert sum(field == "question" for _, field, *_ in taken) == 15

    asyncio.run(story())


def test_another_model_embeds_the_questions_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, HashEmbedding(64), HashEmbedding(32)) as (engine, kb):
            await engine.add_documents(kb, [asking("甲"), *OTHERS])
            for model in ("fake-32", "none", "fake-64"):
                await engine.admin.rebuild(kb, model=model)
                await require_clean(engine, kb)
                if model != "none":
                    assert await first(engine, kb, ASKED) == ("甲", 1.0)
            with engine.records.reading() as tx:
                (held,) = tx.exec_driver_sql("SELECT model FROM pair_vectors").all()
                assert held.model == "fake-64"

    asyncio.run(story())


def test_verify_sees_a_question_that_the_index_lost_or_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [asking("甲"), *OTHERS])
            with engine.records.writing() as tx:
                tx.exec_driver_sql("DELETE FROM pair_vectors")
                tx.exec_driver_sql('UPDATE qa_pairs SET "key" = 77')
            kinds = {(each.kind, each.detail): each.count for each in (await engine.admin.verify(kb)).findings}
            assert kinds == {
                ("question_without_vector", ""): 1,
                ("missing_in_index", "questions"): 1,
                ("not_in_records", "questions"): 1,
            }
            await engine.admin.rebuild(kb)
            await require_clean(engine, kb)
            assert await first(engine, kb, ASKED) == ("甲", 1.0)

    asyncio.run(story())


def test_a_crash_between_records_and_index_loses_no_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [asking("甲"), *OTHERS])

            async def crash(_: IndexBatch) -> None:
                raise KeyError("power")

            monkeypatch.setattr((await engine.base(kb)).index, "apply", crash)
            with pytest.raises(KeyError):
                await engine.add_documents(kb, [asking("甲", "手术自付多少"), asking("乙", "生娃给钱吗")])
        async with opened(tmp_path) as (engine, kb):
            assert await first(engine, kb, "手术自付多少") == ("甲", 1.0)
            assert await first(engine, kb, "生娃给钱吗") == ("乙", 1.0)
            await require_clean(engine, kb)

    asyncio.run(story())


def test_an_outage_keeps_the_pairs_until_the_model_is_back(tmp_path: Path) -> None:
    async def story() -> None:
        model = FailingEmbedding(ASKED, ModelUnavailable("连不上"))  # the question alone cannot be embedded
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, [asking("甲")])
            assert (await engine.document(kb, "甲")).status == "retrying"
            model.error = None
            (done,) = await engine.add_documents(kb, [asking("甲")])
            assert done.outcome == "updated"
            assert await first(engine, kb, ASKED) == ("甲", 1.0)
            await require_clean(engine, kb)

    asyncio.run(story())


def test_pairs_of_a_file_are_found_by_their_questions(tmp_path: Path) -> None:
    rows = [{"问题": f"第{n}种病能报吗", "答案": f"按第{n}号目录执行"} for n in range(30)]
    (tmp_path / "问答.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")

    async def story() -> None:
        async with opened(tmp_path / "data") as (engine, kb):
            await engine.add(kb, [tmp_path / "问答.json"])
            base = await engine.base(kb)
            assert len((await base.index.inventory()).vectors["question"]) == 30
            for n in (0, 7, 29):
                recall = await engine.retrieve(kb, f"第{n}种病能报吗", mode="fulltext")
                assert f"按第{n}号目录执行" in recall.found[0].chunk.text
                assert (await first(engine, kb, f"第{n}种病能报吗"))[1] == 1.0
            await require_clean(engine, kb)

    asyncio.run(story())


# ── questions made by a model ────────────────────────────────────────────────────────────────────


class Chats:
    """`Models` with one chat model."""

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    def rerank(self, name: str, embedding: EmbeddingModel | None) -> RerankModel:
        raise NotFound(name)

    def chat(self, name: str, kind: ChatKind = "chat") -> ChatModel:
        if name != "出题":
            raise NotFound(f"没有模型 {name}")
        return self.model

    def configured(self, kind: ChatKind = "chat") -> str:
        return ""


def made(question: str) -> Answer:
    return says(json.dumps([{"question": question, "answer": "八成半"}], ensure_ascii=False))


def asked_about(service: Service) -> list[str]:
    return [each["messages"][-1]["content"] for each in service.asked]


async def base_with(engine: Engine, chat: ChatModel | None, name: str = "出题") -> int:
    about = await engine.create_knowledge_base("出题库", model="fake-64")
    kb = about.id
    with engine.records.writing() as tx:  # the engine itself would look for the model first
        bases.change_config(tx, kb, {**about.config, "qa_model": name}, tenant=LOCAL_TENANT)
    (await engine.base(kb)).models = Chats(chat) if chat is not None else None
    return kb


def chat_at(service: Service, **changes: Any) -> RemoteChat:
    return RemoteChat(ChatEndpoint(service.url, "qwen", **changes), sleep=lambda _: None)


@pytest.mark.parametrize("wait", [True, False])
def test_a_model_makes_questions_that_find_the_chunk(tmp_path: Path, wait: bool) -> None:
    async def story(service: Service) -> None:
        async with opened(tmp_path) as (engine, _):
            chat = chat_at(service)
            kb = await base_with(engine, chat)
            await engine.add_documents(kb, [doc("甲", TEXT)], wait=wait)
            await engine.drain(kb)
            assert await first(engine, kb, ASKED) == ("甲", 1.0)
            with engine.records.reading() as tx:
                (row,) = tx.exec_driver_sql("SELECT question, answer, origin FROM qa_pairs").all()
            assert tuple(row) == (ASKED, "八成半", "model:qwen")
            await engine.admin.rebuild(kb)
            await require_clean(engine, kb)
            assert len(service.asked) == 1
            assert TEXT in asked_about(service)[0]
            chat.close()

    with serving(made(ASKED)) as service:
        asyncio.run(story(service))


def test_an_unchanged_chunk_is_not_asked_about_twice(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        async with opened(tmp_path) as (engine, _):
            chat = chat_at(service)
            kb = await base_with(engine, chat)
            await engine.add_documents(kb, [doc("甲", TEXT), doc("乙", TEXT)])
            assert len(service.asked) == 1  # one text
            await engine.add_documents(kb, [doc("甲", TEXT, tags=("新",))])
            assert len(service.asked) == 1
            assert {found for found, _ in await by_question(engine, kb, ASKED)} == {"甲", "乙"}
            await engine.add_documents(kb, [doc("甲", TEXT + "自付其余部分。")])
            assert len(service.asked) == 2
            with engine.records.reading() as tx:
                assert tx.exec_driver_sql("SELECT count(*) FROM qa_pairs").scalar() == 2
            await require_clean(engine, kb)
            chat.close()

    with serving(made(ASKED)) as service:
        asyncio.run(story(service))


def sleeps(exchange: Exchange) -> None:
    exchange.service.released.wait(120)


TROUBLES: dict[str, tuple[Answer, str]] = {
    "rubbish": (says("好的，我来出题。"), "JSON"),
    "failing": (status(500), "没有生成问题"),
    "slow": (sleeps, "没有生成问题"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_without_its_questions_a_document_is_searchable_all_the_same(tmp_path: Path, trouble: str) -> None:
    answer, reason = TROUBLES[trouble]
    (tmp_path / "甲.txt").write_text(TEXT, encoding="utf-8")

    async def story(service: Service) -> None:
        async with opened(tmp_path / "data") as (engine, _):
            chat = chat_at(service, timeout_seconds=0.1 if trouble == "slow" else 60)
            kb = await base_with(engine, chat)
            report = await engine.add(kb, [tmp_path / "甲.txt"])
            assert (report.added, report.refused) == (1, ())
            assert any(reason in warning for warning in report.warnings), report.warnings
            assert (await engine.retrieve(kb, "三级医院的费用")).found[0].chunk.text == TEXT
            assert await by_question(engine, kb, ASKED) == []
            await require_clean(engine, kb)
            chat.close()

    with serving(answer) as service:
        asyncio.run(story(service))


@pytest.mark.parametrize("wired", [True, False])
def test_a_model_that_nobody_knows_is_said_aloud(tmp_path: Path, wired: bool) -> None:
    (tmp_path / "甲.txt").write_text(TEXT, encoding="utf-8")

    async def story(service: Service) -> None:
        async with opened(tmp_path / "data") as (engine, _):
            chat = chat_at(service)
            kb = await base_with(engine, chat if wired else None, "没有")
            report = await engine.add(kb, [tmp_path / "甲.txt"])
            assert any("没有生成问题" in warning for warning in report.warnings)
            assert (await engine.retrieve(kb, "三级医院")).found
            chat.close()

    with serving(made(ASKED)) as service:
        asyncio.run(story(service))


def test_given_and_made_questions_stand_side_by_side(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
        async with opened(tmp_path) as (engine, _):
            chat = chat_at(service)
            kb = await base_with(engine, chat)
            await engine.add_documents(kb, [asking("甲", "手术自付多少")], wait=False)
            await engine.drain(kb)
            for query in (ASKED, "手术自付多少"):
                assert await by_question(engine, kb, query) == [("甲", 1.0)]
            await engine.add_documents(kb, [asking("甲", "手术自付多少", tags=("新",))], wait=False)
            await engine.drain(kb)
            with engine.records.reading() as tx:
                held = tx.exec_driver_sql("SELECT origin FROM qa_pairs ORDER BY position").scalars().all()
            assert held == ["given", "model:qwen"]  # the made one did not come back as a given one
            await require_clean(engine, kb)
            chat.close()

    with serving(made(ASKED)) as service:
        asyncio.run(story(service))


def test_adding_side_by_side_keeps_every_question_with_its_chunk(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            batches = [[asking(f"{n}-{m}", f"第{n}组第{m}问", f"{n}-{m}：{TEXT}") for m in range(10)] for n in range(5)]
            await asyncio.gather(*(engine.add_documents(kb, batch) for batch in batches))
            for n in range(5):
                for m in range(0, 10, 4):
                    assert await first(engine, kb, f"第{n}组第{m}问") == (f"{n}-{m}", 1.0)
            await require_clean(engine, kb)

    asyncio.run(story())
