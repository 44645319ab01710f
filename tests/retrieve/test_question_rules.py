"""For this question, or one like it, a chunk comes first, or never; ratings propose that and change nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from qianxun.core.errors import BadInput, QianxunError
from qianxun.core.filters import Eq
from qianxun.core.governance.corrections import CorrectionQuery
from qianxun.core.log_types import Feedback
from qianxun.core.types import Document, Recall, Vector
from qianxun.engine.admin.evaluation_sets import Evaluations
from qianxun.engine.engine import Engine
from qianxun.records.schema import CorrectionRow
from qianxun.testing.scripted import HashEmbedding
from tests.indexing.opened import MODEL, opened

TEXTS = {
    "门诊": "门诊费用按百分之六十报销，每年封顶三千元。",
    "住院": "住院费用按百分之八十五报销，三个月内提交发票。",
    "假期": "员工每年有十天年假，可以分两次使用。",
    "食堂": "食堂中午十一点半开饭，刷工卡付款。",
}


async def filled(engine: Engine, kb: int) -> None:
    await engine.add_documents(kb, [Document(name, text, name=name) for name, text in TEXTS.items()])


def order(recall: Recall) -> list[str]:
    return [found.chunk.doc_id for found in recall.results]


def keeps_promises(recall: Recall) -> bool:
    scores = [found.score for found in recall.results]
    return scores == sorted(scores, reverse=True)


def test_a_pinned_chunk_comes_first_in_every_mode_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await filled(engine, kb)
            before = await engine.retrieve(kb, "住院能报多少", top_k=4)
            assert order(before)[0] != "食堂"
            corrections = engine.governance.corrections
            rule = await corrections.add(kb, "pin", chunk_id=f"c_{kb}_食堂_0", question="住院能报多少？")
            modes: tuple[Any, ...] = ("hybrid", "vector", "fulltext")
            for mode in modes:
                found = await engine.retrieve(kb, "住院能报多少", mode=mode, top_k=4)
                assert (order(found)[0], found.results[0].pinned, found.results[0].score) == ("食堂", rule.id, 1.0)
                assert keeps_promises(found)
                assert order(await engine.retrieve(kb, "住院能报多少", mode=mode, top_k=1)) == ["食堂"]
                assert order(await engine.retrieve(kb, "住院能报多少", mode=mode, threshold=1.0)) == ["食堂"]
                assert not any(one.pinned for one in (await engine.retrieve(kb, "年假有几天", mode=mode)).results)
            # A filter lets nothing through that it would not, and what is not pinned keeps its order.
            found = await engine.retrieve(kb, "住院能报多少", where=Eq("doc_id", "住院"))
            assert order(found) == ["住院"]
            rest = [one for one in order(await engine.retrieve(kb, "住院能报多少", top_k=4)) if one != "食堂"]
            assert rest == [one for one in order(before) if one != "食堂"]
            why = (await engine.explain(kb, "住院能报多少", f"c_{kb}_食堂_0")).chunk
            assert why is not None
            assert (why.step, why.rank, why.rule) == ("returned", 1, rule.id)
            assert str(rule.id) in why.reason
            modal = await engine.gather(kb, "住院能报多少", mode="mix", top_k=3)
            assert (modal.results[0].chunk.doc_id, modal.results[0].pinned) == ("食堂", rule.id)
            layered = (await engine.search_texts(kb, "住院能报多少", top_k=2)).results
            first = layered[0]
            assert (first.doc_id, first.score, first.match_details["pinned"]) == ("食堂", 1.0, rule.id)
            assert (len(layered), layered[1].doc_id) == (2, "住院")
            assert not any(
                "pinned" in one.match_details for one in (await engine.search_texts(kb, "年假有几天")).results
            )
            await corrections.undo(kb, rule.id)
            assert order(await engine.retrieve(kb, "住院能报多少", top_k=4)) == order(before)

    asyncio.run(story())


def test_a_pinned_chunk_puts_its_table_first(tmp_path: Path) -> None:
    rows = "| 项目 | 费用（元） |\n| --- | --- |\n| {0} | 12 |\n| 其他 | 7 |\n"

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await filled(engine, kb)
            given = [
                Document(name, rows.format(name), name=name, format="markdown") for name in ("体检", "午餐", "停车")
            ]
            await engine.add_documents(kb, given)
            before = [one.doc_id for one in (await engine.search_tables(kb, "体检费用")).results]
            assert before[0] == "体检"
            rule = await engine.governance.corrections.add(kb, "pin", chunk_id=f"c_{kb}_停车_0", question="体检费用")
            found = (await engine.search_tables(kb, "体检费用")).results
            assert [(one.doc_id, one.score) for one in found][:1] == [("停车", 1.0)]
            assert (found[0].match_details["pinned"], found[1].doc_id) == (rule.id, "体检")
            assert not any("pinned" in one.match_details for one in found[1:])

    asyncio.run(story())


def test_an_excluded_chunk_never_comes_for_its_question_and_for_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await filled(engine, kb)
            chunk = f"c_{kb}_住院_0"
            rule = await engine.governance.corrections.add(kb, "exclude", chunk_id=chunk, question="费用报销")
            assert "住院" not in order(await engine.retrieve(kb, "费用 报销", top_k=100))
            assert "住院" in order(await engine.retrieve(kb, "住院费用报销", top_k=100))
            assert "住院" not in order(await engine.retrieve(kb, "费用报销", mode="fulltext"))
            assert "住院" not in [one.chunk.doc_id for one in (await engine.gather(kb, "费用报销", mode="mix")).results]
            assert chunk not in [source.chunk_id for source in (await engine.ask(kb, "费用报销")).sources]
            why = (await engine.explain(kb, "费用报销", chunk)).chunk
            assert why is not None
            assert (why.step, why.rule) == ("rule", rule.id)

    asyncio.run(story())


def test_a_question_like_it_is_known_by_its_vector(tmp_path: Path) -> None:
    async def story() -> None:
        model = HashEmbedding()
        async with opened(tmp_path, model) as (engine, kb):
            await filled(engine, kb)
            own, like, unlike = "住院的费用能报销多少", "住院的费用可报销多少", "食堂几点开饭"
            cosine = float(model.embed_query(own) @ model.embed_query(like))
            assert float(model.embed_query(own) @ model.embed_query(unlike)) < cosine < 1.0
            add = engine.governance.corrections.add
            near = await add(kb, "pin", chunk_id=f"c_{kb}_假期_0", question=own, like=cosine - 0.01)
            assert order(await engine.retrieve(kb, like))[0] == "假期"
            assert order(await engine.retrieve(kb, unlike))[0] != "假期"
            assert order(await engine.retrieve(kb, like, mode="fulltext"))[0] == "假期"
            # Under another model its question is embedded anew.
            await engine.governance.corrections.undo(kb, near.id)
            await add(kb, "pin", chunk_id=f"c_{kb}_假期_0", question=own, like=1.0)
            assert order(await engine.retrieve(kb, like))[0] != "假期"
            assert order(await engine.retrieve(kb, own))[0] == "假期"

    asyncio.run(story())


def test_a_rule_has_its_vector_when_it_is_made_and_a_search_stores_none(tmp_path: Path) -> None:
    """Also not where there is none, since the model was away: then it is made once for as long as the base is open."""

    class Counting(HashEmbedding):
        def __init__(self) -> None:
            super().__init__()
            self.embedded: list[str] = []

        def embed_query(self, text: str) -> Vector:
            self.embedded.append(text)
            return super().embed_query(text)

    def stored(engine: Engine) -> list[str]:
        with engine.records.reading() as tx:
            return list(tx.execute(select(CorrectionRow.vector_model)).scalars())

    async def story() -> None:
        model, own, like = Counting(), "住院的费用能报销多少", "住院的费用可报销多少"
        async with opened(tmp_path, model) as (engine, kb):
            await filled(engine, kb)
            await engine.governance.corrections.add(kb, "pin", chunk_id=f"c_{kb}_假期_0", question=own, like=0.5)
            assert (stored(engine), model.embedded) == ([MODEL], [own])
            with engine.records.writing() as tx:
                tx.execute(update(CorrectionRow).values(vector_model="", vector=None))
            await engine.add_documents(kb, [Document("甲", "工伤认定要三十天。")])
            assert order(await engine.retrieve(kb, like))[0] == "假期"
            await engine.add_documents(kb, [Document("乙", "生育津贴按月发放。")])
            assert order(await engine.retrieve(kb, like, top_k=3))[0] == "假期"
            assert stored(engine) == [""]
            assert model.embedded.count(own) <= 2  # when it was made, and where it was missing
            await engine.admin.rebuild(kb)
            assert stored(engine) == [MODEL]

    asyncio.run(story())


def test_a_rule_goes_with_its_words_and_waits_when_they_are_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await filled(engine, kb)
            corrections = engine.governance.corrections
            rule = await corrections.add(kb, "pin", chunk_id=f"c_{kb}_食堂_0", question="几点吃饭")
            await engine.add_documents(kb, [Document("食堂", "后勤通知如下。\n\n" + TEXTS["食堂"], name="食堂")])
            assert "十一点半" in (await engine.retrieve(kb, "几点吃饭")).results[0].chunk.text
            assert (await engine.retrieve(kb, "几点吃饭")).results[0].pinned == rule.id
            await engine.add_documents(kb, [Document("食堂", "食堂中午十二点开饭，刷工卡付款。", name="食堂")])
            assert (await corrections.get(kb, rule.id)).state == "needs_a_look"
            assert not any(one.pinned for one in (await engine.retrieve(kb, "几点吃饭")).results)

    asyncio.run(story())


def test_ratings_propose_rules_and_cases_and_change_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await filled(engine, kb)
            corrections = engine.governance.corrections
            first = await engine.retrieve(kb, "报销比例")
            (entry,) = await engine.logs.list()
            returned, missed = first.results[0].chunk.chunk_id, f"c_{kb}_假期_0"
            assert missed not in [one.chunk.chunk_id for one in first.results[:1]]
            await engine.logs.rate(entry.id, Feedback("bad", (returned, missed, "c_1_没有_0"), "答非所问"))
            proposed = await corrections.page(kb, CorrectionQuery(state="proposed"))
            shown = {chunk_id for chunk_id, _ in entry.results}
            assert [(one.kind, one.origin, one.change.question) for one in proposed] == [
                ("exclude", f"log:{entry.id}", "报销比例"),
                ("exclude" if missed in shown else "pin", f"log:{entry.id}", "报销比例"),
            ]
            assert order(await engine.retrieve(kb, "报销比例")) == order(first)
            # Another rating of the same search takes the place of the first one's proposals.
            await engine.logs.rate(entry.id, Feedback("good", (returned, missed)))
            pin, other = await corrections.page(kb, CorrectionQuery(state="proposed"))
            assert (pin.kind, other.kind) == ("pin", "pin")
            found, case = await corrections.save_as_case(kb, pin.id, "常用")
            assert (case.question, case.origin, case.log_id) == ("报销比例", "feedback", entry.id)
            assert case.relevant[0].text in first.results[0].chunk.text
            assert (await corrections.get(kb, pin.id)).state == "undone"
            assert [one.id for one in await Evaluations(engine).sets(kb)] == [found.id]
            applied = await corrections.apply(kb, other.id)
            assert applied.state == "applied"
            assert order(await engine.retrieve(kb, "报销比例"))[0] == "假期"
            await engine.logs.rate(entry.id, Feedback("good"))
            assert (await corrections.get(kb, other.id)).state == "applied"  # decided: a later rating does not undo it
            excluded = await corrections.add(kb, "exclude", chunk_id=missed, question="报销比例")
            with pytest.raises(BadInput):
                await corrections.save_as_case(kb, excluded.id)

    asyncio.run(story())


def test_a_principal_sees_no_rule_for_what_it_may_not_see(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            public = [Document(name, text, name=name, access=()) for name, text in TEXTS.items() if name != "食堂"]
            secret = Document("食堂", TEXTS["食堂"], name="食堂", access=("group:hr",))
            await engine.add_documents(kb, [*public, secret])
            corrections = engine.governance.corrections
            hidden = await corrections.add(kb, "pin", chunk_id=f"c_{kb}_食堂_0", question="住院能报多少")
            shown = await corrections.add(kb, "pin", chunk_id=f"c_{kb}_假期_0", question="住院能报多少")
            both = await engine.retrieve(kb, "住院能报多少")
            assert [one.pinned for one in both.results[:2]] == [hidden.id, shown.id]
            guest = engine.as_principal("group:sales")
            found = await guest.retrieve(kb, "住院能报多少")
            assert (order(found)[0], found.results[0].pinned) == ("假期", shown.id)
            assert "食堂" not in order(found)
            assert [one.id for one in await guest.governance.corrections.page(kb)] == [shown.id]
            with pytest.raises(QianxunError):
                await guest.governance.corrections.undo(kb, shown.id)

    asyncio.run(story())
