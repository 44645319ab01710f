"""A query in other words, over a real base: what its user, the shipped list and the base itself know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qianxun.core.errors import ModelUnavailable
from qianxun.core.types import EVERYTHING, Eq, Filter
from qianxun.engine.engine import Engine
from qianxun.retrieve.terms import related as related_terms
from qianxun.retrieve.terms.related import IN_BASE, NOT_IN_BASE, expanded
from qianxun.text.expansion import Expansion
from tests.indexing.opened import doc, opened
from tests.retrieve.meanings import Gated, Meanings

LIBRARY = [
    doc("报账", "差旅费在每月五日前报账，逾期不予受理。", user_id="甲"),
    doc("颈部", "颈部疼痛时应先热敷，再请医师检查。", user_id="乙"),
    doc("假", "员工每年有带薪休假十天，年休假可以跨年。"),
]

Story = Callable[[Engine, int], Awaitable[None]]


def told(folder: Path, story: Story, *models: Meanings, model: str = "meanings", learn: bool = True) -> None:
    async def tell() -> None:
        async with opened(folder, *(models or (Meanings(),)), model=model) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            if learn:
                await engine.admin.learn_terms(kb)
            await story(engine, kb)

    asyncio.run(tell())


async def said(engine: Engine, kb: int, text: str, where: Filter = EVERYTHING) -> tuple[Expansion, ...]:
    base = await engine.base(kb)
    with base.serving.borrow() as serving:
        return await expanded(base, serving, text, where=where)


async def others(engine: Engine, kb: int, text: str, where: Filter = EVERYTHING) -> list[tuple[str, str]]:
    """What is said instead, and who knows it."""
    found = await said(engine, kb, text, where)
    return [(related.by, related.origin) for each in found for related in each.related]


# ── written down ─────────────────────────────────────────────────────────────────────────────────


def test_only_synonyms_that_the_base_holds_are_said(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert [each.text for each in await said(engine, kb, "差旅费怎么报销")] == ["差旅费怎么报账"]
        assert await said(engine, kb, "高血压怎么办") == ()
        assert await said(engine, kb, "天气") == ()
        found = {each.text for each in await said(engine, kb, "年假有几天")}
        assert {"带薪休假有几天", "年休假有几天"} <= found

    told(tmp_path, story, learn=False)


def test_a_base_without_a_model_has_what_is_written_down(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert await others(engine, kb, "脖子的差旅费怎么报销") == [("报账", "shipped")]

    told(tmp_path, story, model="none")


def test_a_users_synonyms_hold_at_once_and_without_a_new_index(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        rebuilt: list[int] = []
        await engine.configure(kb, {"synonyms": [["出差的钱", "差旅费"]]}, watch=rebuilt.append)
        (one,) = await said(engine, kb, "出差的钱找谁")
        assert (one.text, one.related[0].origin) == ("差旅费找谁", "user")
        await engine.configure(kb, {"synonyms": [["报销"]]}, watch=rebuilt.append)
        assert await said(engine, kb, "怎么报销") == await said(engine, kb, "出差的钱找谁") == ()
        await engine.configure(kb, {"synonyms": None}, watch=rebuilt.append)
        assert await others(engine, kb, "怎么报销") == [("报账", "shipped")]
        assert rebuilt == []

    told(tmp_path, story)


def test_a_long_query_is_left_as_it_is(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert await said(engine, kb, "怎么报销" + "，" * related_terms.LONGEST) == ()

    told(tmp_path, story, learn=False)


def test_traditional_and_wide_writing_is_understood(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert [each.text for each in await said(engine, kb, "差旅費怎麼報銷")] == ["差旅費怎麼报账"]

    told(tmp_path, story, learn=False)


# ── learnt ───────────────────────────────────────────────────────────────────────────────────────


def test_words_of_the_base_that_are_near_are_said(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        (one,) = await said(engine, kb, "脖子不舒服")
        (related,) = one.related
        assert (one.text, related.word, related.by, related.origin) == ("颈部不舒服", "脖子", "颈部", "learnt")
        assert related.weight == pytest.approx(0.9 * 0.8, abs=0.001)
        assert related.weight < 0.75  # less than anything that is written down

    told(tmp_path, story)


def test_words_that_are_not_near_enough_are_not(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert await said(engine, kb, "脖子不舒服") == ()

    told(tmp_path, story, Meanings(cosine=NOT_IN_BASE.apart - 0.02))


def test_a_word_that_the_base_has_itself_wants_a_nearer_one(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert await others(engine, kb, "脖子不舒服") == [("颈部", "learnt")]
        await engine.add_documents(kb, [doc("脖子", "脖子上长了疹子。")])
        assert await others(engine, kb, "脖子不舒服") == []

    told(tmp_path, story, Meanings(cosine=(NOT_IN_BASE.apart + IN_BASE.apart) / 2))


def test_what_is_written_down_comes_before_what_was_learnt(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert await others(engine, kb, "脖子的费用怎么报销") == [("报账", "shipped"), ("颈部", "learnt")]
        await engine.configure(kb, {"synonyms": [["脖子", "医师"]]})
        assert await others(engine, kb, "脖子不舒服") == [("医师", "user")]
        await engine.configure(kb, {"synonyms": [["脖子"]]})
        assert await others(engine, kb, "脖子不舒服") == []

    told(tmp_path, story)


def test_a_filter_hides_the_words_of_what_it_does_not_let_through(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert await others(engine, kb, "脖子", Eq("user_id", "乙")) == [("颈部", "learnt")]
        assert await others(engine, kb, "脖子", Eq("user_id", "甲")) == []

    told(tmp_path, story)


def test_the_words_of_a_deleted_document_are_not_said_any_more(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert await others(engine, kb, "脖子") == [("颈部", "learnt")]
        await engine.delete_document(kb, "颈部")
        assert await others(engine, kb, "脖子") == []

    told(tmp_path, story)


def test_the_words_of_another_base_are_never_said(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        assert await others(engine, kb, "脖子") == [("颈部", "learnt")]
        for tenant in ("local", "别家"):
            whose = engine.of(tenant)
            other = (await whose.create_knowledge_base(f"{tenant}的库", model="meanings")).id
            await whose.add_documents(other, [doc("字", "脖子是连接头和躯干的部位，颈椎在其中。")])
            await whose.admin.learn_terms(other)
            assert await others(whose, other, "脖子") == []

    told(tmp_path, story)


def test_a_word_is_embedded_once(tmp_path: Path) -> None:
    model = Meanings()

    async def story(engine: Engine, kb: int) -> None:
        model.asked.clear()
        first = await said(engine, kb, "脖子不舒服")
        assert "脖子" in model.asked
        model.asked.clear()
        assert await said(engine, kb, "脖子不舒服") == first
        assert model.asked == []

    told(tmp_path, story, model)


def test_a_model_that_fails_or_is_late_costs_what_was_learnt_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Gated):
        error: Exception | None = None

        def embed_passages(self, texts):  # type: ignore[no-untyped-def]
            if self.error is not None:
                raise self.error
            return super().embed_passages(texts)

    model = Failing()

    async def story(engine: Engine, kb: int) -> None:
        for model.error in (ModelUnavailable("不在"), RuntimeError("of somebody's own making")):
            assert await others(engine, kb, "脖子怎么报销") == [("报账", "shipped")]
        model.error = None
        model.armed = True
        monkeypatch.setattr(related_terms, "SECONDS", 0.05)
        assert await others(engine, kb, "脖子怎么报销") == [("报账", "shipped")]
        assert model.entered.is_set()
        model.gate.set()
        monkeypatch.setattr(related_terms, "SECONDS", 60.0)
        assert await others(engine, kb, "脖子怎么报销") == [("报账", "shipped"), ("颈部", "learnt")]

    told(tmp_path, story, model)


def test_a_base_of_which_nothing_was_learnt_asks_for_it(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        base.terms._written = None  # as if opened from records of another version
        assert await others(engine, kb, "脖子") == []
        assert base.terms.is_due(0.0)

    told(tmp_path, story, learn=False)
