"""Corrections of chunks and documents: searched at once, alive through everything that happens to a document, undone
without a trace in the results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.codec.plain import plain
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.filters import Eq
from qianxun.core.governance.corrections import CorrectionQuery
from qianxun.core.types import Chunk, Document, QAPair
from qianxun.engine.admin.copy import copy_database
from qianxun.engine.admin.transfer import clone_base, export_base, import_base
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, load
from qianxun.testing.scripted import HashEmbedding
from tests.indexing.opened import MODEL, NAME

RULES = (
    "第一章 门诊\n\n门诊费用在起付线以上的部分按百分之六十报销，每年封顶三千元，超出的由个人负担。\n\n"
    "第二章 住院\n\n住院费用按百分之八十五报销，需要在出院之后三个月之内提交发票和出院小结。\n\n"
    "第三章 附则\n\n本办法由医疗保障局负责解释，自发布之日起施行，以前的规定同时废止不再执行。"
)
SMALL = {"chunk_size": 60, "chunk_overlap": 0}


def story(told: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that awaits."""

    @wraps(told)
    def test(*given: Any, **named: Any) -> None:
        asyncio.run(told(*given, **named))  # type: ignore[arg-type]

    return test


@asynccontextmanager
async def opened(url: str, folder: Path, **config: Any) -> AsyncIterator[tuple[Engine, int]]:
    settings = load(arguments={"data": str(folder), **({"records.url": url} if url else {})})
    models = {model.name: model for model in (HashEmbedding(), HashEmbedding(32))}
    async with Engine.open(settings=settings, models=models, background=False) as engine:
        known = [base.id for base in await engine.knowledge_bases()]
        made = None if known else await engine.create_knowledge_base(NAME, model=MODEL, config={**SMALL, **config})
        yield engine, known[0] if made is None else made.id


async def rules(engine: Engine, kb: int, content: str = RULES, **about: Any) -> None:
    await engine.add_documents(kb, [Document("办法", content, name="办法.txt", **about)])


async def chunks(engine: Engine, kb: int, doc_id: str = "办法") -> list[Chunk]:
    return list(await engine.chunks(kb, doc_id))


async def named(engine: Engine, kb: int, word: str) -> str:
    return next(chunk.chunk_id for chunk in await chunks(engine, kb) if word in chunk.text)


async def texts(engine: Engine, kb: int, query: str, mode: Any = "hybrid") -> list[str]:
    return [found.chunk.text for found in (await engine.retrieve(kb, query, mode=mode, top_k=50)).results]


async def answers(engine: Engine, kb: int) -> Any:
    """What searches return, to the last digit; keys and generations are not part of it. From an index without deleted
    entries: these count among the words of a base until they are merged away, after every change of a document."""
    await engine.admin.rebuild(kb)
    found = []
    for query in ("住院报销多少", "门诊封顶", "谁负责解释", "百分之九十"):
        for mode in ("hybrid", "vector", "fulltext"):
            recall = await engine.retrieve(kb, query, mode=mode, top_k=50)  # type: ignore[arg-type]
            found.append(
                [{**plain(one), "chunk": {**plain(one.chunk), "key": 0, "generation": 0}} for one in recall.results]
            )
    return found


# ── chunks ───────────────────────────────────────────────────────────────────────────────────────


@story
async def test_an_edit_is_searched_at_once_and_undone_without_a_trace(records_url: str, tmp_path: Path) -> None:
    async with opened(records_url, tmp_path) as (engine, kb):
        await rules(engine, kb)
        corrections = engine.governance.corrections
        before = await answers(engine, kb)
        made = await corrections.add(
            kb, "edit", chunk_id=await named(engine, kb, "住院费用"), text="住院费用按百分之九十报销。", author="张三"
        )
        assert (made.state, made.author, made.kind) == ("applied", "张三", "edit")
        (shown,) = [chunk for chunk in await chunks(engine, kb) if chunk.corrected]
        assert shown.corrected is not None
        assert (shown.text, shown.corrected.ids) == ("住院费用按百分之九十报销。", (made.id,))
        assert "百分之八十五" in (shown.corrected.original or "")
        for mode in ("hybrid", "vector", "fulltext"):
            found = await texts(engine, kb, "住院 百分之九十 报销", mode)
            assert "住院费用按百分之九十报销。" in found
            assert not any("百分之八十五" in text for text in found)
        assert made.chunk_ids == (shown.chunk_id,)
        undone = await corrections.undo(kb, made.id, author="李四")
        assert (undone.state, undone.undone_by, undone.chunk_ids) == ("undone", "李四", ())
        assert await answers(engine, kb) == before
        assert (await engine.admin.verify(kb)).is_clean
        await corrections.apply(kb, made.id)
        assert "住院费用按百分之九十报销。" in await texts(engine, kb, "住院报销")


@story
async def test_disabled_words_are_nowhere(tmp_path: Path) -> None:
    async with opened("", tmp_path) as (engine, kb):
        await rules(engine, kb, pairs=(QAPair("出院后多久提交发票", "住院费用按百分之八十五报销"),))
        await engine.admin.build_graph(kb)
        assert any("出院小结" in text for text in await texts(engine, kb, "出院后多久提交发票"))
        await engine.governance.corrections.add(kb, "disable", chunk_id=await named(engine, kb, "住院费用"))
        for query in ("出院后多久提交发票", "住院费用", "百分之八十五"):
            assert not any("出院小结" in text for text in await texts(engine, kb, query))
        answer = await engine.ask(kb, "出院后多久提交发票")
        assert "三个月" not in answer.answer
        graph = await engine.graph(kb)
        assert not any("出院小结" in entity.name for entity in graph.entities)
        content = await engine.contents.document(kb, "办法")
        assert not content.pairs


@story
async def test_split_join_keywords_questions_and_notes(tmp_path: Path) -> None:
    async with opened("", tmp_path) as (engine, kb):
        await rules(engine, kb)
        corrections = engine.governance.corrections
        own = next(chunk for chunk in await chunks(engine, kb) if "门诊费用" in chunk.text)
        at = own.text.index("每年")
        await corrections.add(kb, "split", chunk_id=own.chunk_id, parts=(own.text[:at], own.text[at:]))
        parts = [chunk for chunk in await chunks(engine, kb) if chunk.corrected]
        assert [chunk.text for chunk in parts] == [own.text[:at].strip(), own.text[at:].strip()]
        joined = await corrections.add(kb, "join", chunk_id=[chunk.chunk_id for chunk in parts])
        whole = [chunk for chunk in await chunks(engine, kb) if chunk.corrected and joined.id in chunk.corrected.ids]
        assert [chunk.text for chunk in whole] == [own.text]
        target = await named(engine, kb, "附则")
        await corrections.add(kb, "keywords", chunk_id=target, keywords=("医保局电话",))
        await corrections.add(kb, "questions", chunk_id=target, questions=("这份文件谁说了算",))
        await corrections.add(kb, "note", chunk_id=target, note="待法务核对")
        assert "附则" in (await texts(engine, kb, "医保局电话", "fulltext"))[0]
        recall = await engine.retrieve(kb, "这份文件谁说了算")
        assert "附则" in recall.results[0].chunk.text
        assert "qa" in recall.results[0].arms
        marks = recall.results[0].chunk.corrected
        assert marks is not None
        assert (marks.note, marks.keywords, marks.original) == ("待法务核对", ("医保局电话",), None)


@story
async def test_what_cannot_be_applied_is_refused_and_nothing_is_recorded(tmp_path: Path) -> None:
    async with opened("", tmp_path) as (engine, kb):
        await rules(engine, kb)
        corrections = engine.governance.corrections
        first, second, third = [chunk.chunk_id for chunk in await chunks(engine, kb)][:3]
        with pytest.raises(NotFound):
            await corrections.add(kb, "edit", chunk_id=f"c_{kb}_办法_99", text="甲")
        with pytest.raises(NotFound):
            await corrections.add(kb, "rename", doc_id="没有", name="甲")
        with pytest.raises(BadInput):
            await corrections.add(kb, "join", chunk_id=[first, third])
        with pytest.raises(BadInput):
            await corrections.add(kb, "split", chunk_id=first, parts=("别的话", "更别的话"))
        await corrections.add(kb, "edit", chunk_id=second, text="改过")
        with pytest.raises(BadInput):
            await corrections.add(kb, "join", chunk_id=[first, second])
        with pytest.raises(BadInput):
            await corrections.add(kb, "metadata", doc_id="办法", metadata={"valid_from": "昨天"})
        assert [one.kind for one in await corrections.page(kb)] == ["edit"]


# ── documents ────────────────────────────────────────────────────────────────────────────────────


@story
async def test_a_document_is_renamed_given_metadata_and_disabled(records_url: str, tmp_path: Path) -> None:
    async with opened(records_url, tmp_path) as (engine, kb):
        await rules(engine, kb, metadata={"dept": "社保", "year": 2020})
        corrections = engine.governance.corrections
        before = await answers(engine, kb)
        renamed = await corrections.add(kb, "rename", doc_id="办法", name="医保办法（2024）")
        marked = await corrections.add(
            kb, "metadata", doc_id="办法", metadata={"dept": "财务", "level": 3}, removed=("year",)
        )
        assert renamed.original == {"name": "办法.txt"}
        assert marked.original == {"dept": "社保", "level": None, "year": 2020}
        (found, *_) = (await engine.retrieve(kb, "住院报销", where=Eq("metadata.dept", "财务"))).results
        assert (found.chunk.doc_name, dict(found.chunk.metadata)) == ("医保办法（2024）", {"dept": "财务", "level": 3})
        assert not (await engine.retrieve(kb, "住院报销", where=Eq("metadata.dept", "社保"))).results
        # The next version is corrected in its turn, and remembers what it gave itself.
        await rules(engine, kb, RULES + "\n\n第四章 补充", metadata={"dept": "人事"})
        state = await engine.document(kb, "办法")
        assert (state.name, dict(state.metadata)) == ("医保办法（2024）", {"dept": "财务", "level": 3})
        assert (await corrections.get(kb, marked.id)).original == {"dept": "人事", "level": None, "year": None}
        await rules(engine, kb, metadata={"dept": "社保", "year": 2020})
        hidden = await corrections.add(kb, "disable_document", doc_id="办法")
        assert await texts(engine, kb, "住院报销") == []
        disabled = await engine.document(kb, "办法")
        assert (disabled.chunks, disabled.disabled) == (0, True)
        for one in (hidden, renamed, marked):
            await corrections.undo(kb, one.id)
        assert await answers(engine, kb) == before
        assert (await engine.admin.verify(kb)).is_clean


@story
async def test_a_disabled_successor_does_not_replace_anything(tmp_path: Path) -> None:
    async with opened("", tmp_path) as (engine, kb):
        await rules(engine, kb)
        await engine.add_documents(
            kb, [Document("新办法", "住院费用按百分之七十报销。", name="新办法", metadata={"supersedes": "办法.txt"})]
        )
        assert not any("百分之八十五" in text for text in await texts(engine, kb, "住院费用报销"))
        await engine.governance.corrections.add(kb, "disable_document", doc_id="新办法")
        assert any("百分之八十五" in text for text in await texts(engine, kb, "住院费用报销"))


# ── what happens to documents ────────────────────────────────────────────────────────────────────


@story
async def test_a_changed_document_keeps_its_corrections_or_sets_them_aside(records_url: str, tmp_path: Path) -> None:
    async with opened(records_url, tmp_path) as (engine, kb):
        await rules(engine, kb)
        corrections = engine.governance.corrections
        edit = await corrections.add(kb, "edit", chunk_id=await named(engine, kb, "住院费用"), text="住院报九成。")
        gone = await corrections.add(kb, "disable", chunk_id=await named(engine, kb, "门诊费用"))
        # Moved to the end, and something new before it.
        parts = RULES.split("\n\n第")
        moved = "\n\n第".join([f"前言一章，说明本办法的来历。\n\n{parts[0]}", parts[2], parts[1]])
        await rules(engine, kb, moved)
        assert "住院报九成。" in await texts(engine, kb, "住院报销")
        assert not any("门诊费用" in text for text in await texts(engine, kb, "门诊费用"))
        # One figure changes: it is another text, and the correction waits for somebody to look.
        await rules(engine, kb, RULES.replace("百分之八十五", "百分之七十五"))
        aside = await corrections.page(kb, CorrectionQuery(state="needs_a_look"))
        assert [(one.id, bool(one.reason), one.chunk_ids) for one in aside] == [(edit.id, True, ())]
        assert any("百分之七十五" in text for text in await texts(engine, kb, "住院费用报销"))
        assert (await corrections.get(kb, gone.id)).state == "applied"
        with pytest.raises(BadInput):
            await corrections.move(kb, edit.id, [])
        there = await corrections.move(kb, edit.id, await named(engine, kb, "百分之七十五"))
        assert there.state == "applied"
        assert "住院报九成。" in await texts(engine, kb, "住院报销")
        # The first text again: the words that it was moved to are gone now.
        await rules(engine, kb)
        assert (await corrections.get(kb, edit.id)).state == "needs_a_look"


@story
async def test_a_document_that_is_deleted_and_comes_back_is_corrected_again(tmp_path: Path) -> None:
    async with opened("", tmp_path) as (engine, kb):
        await rules(engine, kb)
        corrections = engine.governance.corrections
        made = await corrections.add(kb, "edit", chunk_id=await named(engine, kb, "住院费用"), text="住院报九成。")
        await engine.delete_document(kb, "办法")
        assert (await corrections.get(kb, made.id)).state == "needs_a_look"
        await rules(engine, kb)
        assert (await corrections.get(kb, made.id)).state == "applied"
        assert "住院报九成。" in await texts(engine, kb, "住院报销")


@story
async def test_corrections_survive_rebuild_another_model_and_another_size_of_chunks(tmp_path: Path) -> None:
    async with opened("", tmp_path) as (engine, kb):
        await rules(engine, kb)
        corrections = engine.governance.corrections
        await corrections.add(kb, "edit", chunk_id=await named(engine, kb, "住院费用"), text="住院报九成。")
        await corrections.add(kb, "disable", chunk_id=await named(engine, kb, "门诊费用"))
        await corrections.add(kb, "keywords", chunk_id=await named(engine, kb, "附则"), keywords=("医保局电话",))

        async def check() -> None:
            assert "住院报九成。" in await texts(engine, kb, "住院报销")
            found = await texts(engine, kb, "门诊费用 住院费用 附则")
            assert not any("百分之六十" in text or "百分之八十五" in text for text in found)
            assert "附则" in (await texts(engine, kb, "医保局电话", "fulltext"))[0]
            assert {one.state for one in await corrections.page(kb)} == {"applied"}

        await check()
        await engine.admin.rebuild(kb)
        await check()
        await engine.admin.rebuild(kb, model=HashEmbedding(32).name)
        await check()
        await engine.configure(kb, {"chunk_size": 400, "chunk_overlap": 40})
        await rules(engine, kb, RULES + "\n\n第四章 补充规定另行公布")
        await check()
        assert (await engine.admin.verify(kb)).is_clean


@story
async def test_a_copy_a_clone_and_an_import_have_the_corrections(tmp_path: Path) -> None:
    async with opened("", tmp_path / "one") as (engine, kb):
        await rules(engine, kb, metadata={"dept": "社保"})
        corrections = engine.governance.corrections
        made = await corrections.add(kb, "edit", chunk_id=await named(engine, kb, "住院费用"), text="住院报九成。")
        renamed = await corrections.add(kb, "rename", doc_id="办法", name="医保办法")
        undone = await corrections.add(kb, "disable", chunk_id=await named(engine, kb, "门诊费用"))
        await corrections.undo(kb, undone.id)
        clone = (await clone_base(engine, kb, "副本")).knowledge_base.id
        assert [(one.kind, one.state) for one in await corrections.page(clone)] == [
            ("edit", "applied"),
            ("rename", "applied"),
            ("disable", "undone"),
        ]
        assert "住院报九成。" in await texts(engine, clone, "住院报销")
        assert (await engine.document(clone, "办法")).name == "医保办法"
        copied = [one.id for one in await corrections.page(clone)]
        await corrections.undo(clone, copied[0])
        await corrections.undo(clone, copied[1])
        assert (await engine.document(clone, "办法")).name == "办法.txt"
        assert any("百分之八十五" in text for text in await texts(engine, clone, "住院费用报销"))
        other = (await engine.create_knowledge_base("另一个", model=MODEL, config=SMALL)).id
        await rules(engine, other)
        taken = await corrections.import_all(other, await corrections.export(kb))
        assert [one.state for one in taken] == ["applied", "applied", "undone"]
        assert "住院报九成。" in await texts(engine, other, "住院报销")
        assert await corrections.import_all(other, await corrections.export(kb)) == []
        empty = (await engine.create_knowledge_base("空的", model=MODEL)).id
        assert [one.state for one in await corrections.import_all(empty, await corrections.export(kb))][:2] == [
            "needs_a_look"
        ] * 2
        await rules(engine, empty)
        assert {one.state for one in await corrections.page(empty, CorrectionQuery(kind="edit"))} == {"applied"}
        with pytest.raises(BadInput):
            await corrections.import_all(other, [{"kind": "edit"}])
    folders = [Settings(data=tmp_path / name) for name in ("one", "two")]
    copy_database(*folders, lambda _: lambda _: None)
    async with opened("", tmp_path / "two") as (engine, kb):
        assert "住院报九成。" in await texts(engine, kb, "住院报销")
        await engine.governance.corrections.undo(kb, made.id)
        await engine.governance.corrections.undo(kb, renamed.id)
        assert (await engine.document(kb, "办法")).name == "办法.txt"


@story
async def test_a_correction_made_while_a_new_version_is_prepared_is_in_it(tmp_path: Path) -> None:
    from tests.indexing.opened import GatedEmbedding

    model = GatedEmbedding("第四章")
    settings = load(arguments={"data": str(tmp_path)})
    async with Engine.open(settings=settings, models={model.name: model}, background=False) as engine:
        kb = (await engine.create_knowledge_base(NAME, model=model.name, config=SMALL)).id
        await rules(engine, kb)
        adding = asyncio.create_task(rules(engine, kb, RULES + "\n\n第四章 补充规定另行公布，以公布之日为准施行。"))
        await asyncio.to_thread(model.entered.wait, 60)
        made = await engine.governance.corrections.add(kb, "disable", chunk_id=await named(engine, kb, "住院费用"))
        assert not any("百分之八十五" in text for text in await texts(engine, kb, "住院费用", "fulltext"))
        model.gate.set()
        await adding
        await engine.drain(kb)
        assert (await engine.document(kb, "办法")).generation == 2
        assert any("第四章" in chunk.text for chunk in await chunks(engine, kb))
        assert not any("百分之八十五" in chunk.text for chunk in await chunks(engine, kb))
        assert (await engine.governance.corrections.get(kb, made.id)).state == "applied"


TABLE = "# 门诊费用\n\n| 项目 | 费用（元） |\n| --- | --- |\n" + "".join(
    f"| 检查项目第{number}种 | {100 + number} |\n" for number in range(12)
)


@story
async def test_rows_that_were_disabled_are_not_answered_from_cells(tmp_path: Path) -> None:
    async with opened("", tmp_path, chunk_size=120) as (engine, kb):
        await engine.add_documents(kb, [Document("费用", TABLE, name="费用.md", format="markdown")])
        asked = "检查项目第7种的费用是多少"
        before = await engine.search_tables(kb, asked)
        assert before.answer is not None
        assert "107" in before.answer.text
        cut = await chunks(engine, kb, "费用")
        assert len(cut) > 2
        target = next(chunk for chunk in cut if "第7种" in chunk.text)
        hidden = await engine.governance.corrections.add(kb, "disable", chunk_id=target.chunk_id)
        for query in (asked, "检查项目的费用合计"):
            found = await engine.search_tables(kb, query)
            assert "第7种" not in str(found.results)
            assert found.answer is None or "107" not in found.answer.text
        assert "107" not in (await engine.ask(kb, asked)).answer
        clone = (await clone_base(engine, kb, "副本")).knowledge_base.id
        copied = await engine.search_tables(clone, asked)
        assert copied.answer is None or "107" not in copied.answer.text
        other = await engine.search_tables(kb, "检查项目第0种的费用是多少")
        assert other.answer is not None
        assert "100" in other.answer.text
        await engine.governance.corrections.undo(kb, hidden.id)
        again = await engine.search_tables(kb, asked)
        assert again.answer is not None
        assert "107" in again.answer.text


@story
async def test_an_edit_of_a_table_changes_its_cells(tmp_path: Path) -> None:
    async with opened("", tmp_path, chunk_size=120) as (engine, kb):
        await engine.add_documents(kb, [Document("费用", TABLE, name="费用.md", format="markdown")])
        asked = "检查项目第7种的费用是多少"
        target = next(chunk for chunk in await chunks(engine, kb, "费用") if "第7种" in chunk.text)
        corrections = engine.governance.corrections
        written = target.text.replace("| 107 |", "| 7070 |").rstrip() + "\n| 检查项目加项 | 9 |"
        made = await corrections.add(kb, "edit", chunk_id=target.chunk_id, text=written)
        clone = (await clone_base(engine, kb, "副本")).knowledge_base.id
        await engine.add_documents(kb, [Document("费用", TABLE + "\n另见附件。", name="费用.md", format="markdown")])
        for base in (kb, clone):
            found = await engine.search_tables(base, asked)
            assert found.answer is not None
            assert "7070" in found.answer.text
            shown = found.results[0].table
            assert shown is not None
            assert (shown.rows, ("检查项目第7种", "7070") in shown.cells) == (13, True)
            added = await engine.search_tables(base, "检查项目加项的费用是多少")
            assert added.answer is not None
            assert "9" in added.answer.text
            highest = await engine.search_tables(base, "哪个项目的费用最高")
            assert highest.answer is not None
            assert "第7种" in highest.answer.text
            answer = await engine.ask(base, asked)
            assert "7070" in answer.answer
            assert answer.sources[0].original is not None
        # With another header it is no row of this table any more: text alone.
        current = next(chunk for chunk in await chunks(engine, kb, "费用") if "第7种" in chunk.text)
        await corrections.add(kb, "edit", chunk_id=current.chunk_id, text=written.replace("费用（元）", "费用（万元）"))
        found = await engine.search_tables(kb, asked)
        assert found.answer is None or "7070" not in found.answer.text
        for one in await corrections.page(kb):
            await corrections.undo(kb, one.id)
        again = await engine.search_tables(kb, asked)
        assert again.answer is not None
        assert "107" in again.answer.text
        assert made.kind == "edit"


@story
async def test_an_import_under_another_model_has_the_corrections(tmp_path: Path) -> None:
    async with opened("", tmp_path) as (engine, kb):
        await rules(engine, kb)
        corrections = engine.governance.corrections
        await corrections.add(kb, "edit", chunk_id=await named(engine, kb, "住院费用"), text="住院报九成。")
        pinned = await corrections.add(kb, "pin", chunk_id=await named(engine, kb, "附则"), question="谁说了算")
        file = tmp_path / "base.qianxun"
        await export_base(engine, kb, file)
        other = (await import_base(engine, file, name="另一个", model=HashEmbedding(32).name)).knowledge_base.id
        assert "住院报九成。" in await texts(engine, other, "住院报销")
        assert {one.state for one in await corrections.page(other)} == {"applied"}
        first = (await engine.retrieve(other, "谁说了算？")).results[0]
        assert "附则" in first.chunk.text
        assert first.pinned not in (0, pinned.id)
        assert (await engine.admin.verify(other)).is_clean
