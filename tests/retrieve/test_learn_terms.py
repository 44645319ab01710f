"""The words of a base: which are learnt, when, and what becomes of them beside writes, rebuilds and removals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from qianxun.bases.base import OpenBase
from qianxun.core.errors import ModelUnavailable, NotFound
from qianxun.core.types import Document, Vectors
from qianxun.engine.engine import Engine
from qianxun.records import terms
from qianxun.retrieve.terms import learn as learning
from qianxun.retrieve.terms.learn import SMALL, Learnt, chosen, learn_quietly, significant_words
from qianxun.text.chinese import Analyser
from tests.indexing.opened import doc, opened
from tests.retrieve.meanings import Gated, Meanings

LIBRARY = [doc("颈部", "颈部疼痛时应先热敷。"), doc("腰部", "腰部疼痛时应卧床休息。")]

Story = Callable[[Engine, int], Awaitable[None]]


def told(folder: Path, story: Story, *models: Meanings, background: bool = False) -> None:
    async def tell() -> None:
        held = models or (Meanings(),)
        async with opened(folder, *held, model=held[0].name, background=background) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            await story(engine, kb)

    asyncio.run(tell())


async def held(engine: Engine, kb: int, model: str = "meanings", dimension: int = 64) -> set[str]:
    return await engine.records.read(lambda tx: terms.stored(tx, kb, model, dimension))


# ── which words ──────────────────────────────────────────────────────────────────────────────────


def test_words_tell_that_are_words_and_no_numbers() -> None:
    found = significant_words("2023年第一季度，颈部疼痛的AI患者有三十名，均已出院。", Analyser())
    assert {"颈部", "疼痛", "患者", "季度"} <= found
    assert not {"2023", "ai", "的", "三十", "第一", "第一季度"} & found


def test_what_the_segmenter_merely_guesses_is_no_word_but_ones_own_are() -> None:
    text = "云溪市的统筹中心"
    assert "云溪市" not in significant_words(text, Analyser())
    assert "云溪市" in significant_words(text, Analyser(["云溪市"]))


def test_the_most_frequent_come_first_and_the_ubiquitous_not_at_all() -> None:
    counts = {"疼痛": 30, "颈部": 2, "腰部": 2, "孤词": 1, "我们单位": 90}
    assert list(chosen(counts, 200)) == ["疼痛", "腰部", "颈部"]
    assert list(chosen(counts, 200, limit=1)) == ["疼痛"]


def test_in_a_small_base_a_word_may_stand_once() -> None:
    assert chosen({"孤词": 1}, SMALL - 1) == {"孤词": 1}
    assert chosen({"孤词": 1}, SMALL) == {}


# ── learning ─────────────────────────────────────────────────────────────────────────────────────


def test_only_new_words_are_embedded_and_lost_ones_forgotten(tmp_path: Path) -> None:
    model = Meanings()

    async def story(engine: Engine, kb: int) -> None:
        first = await engine.admin.learn_terms(kb)
        assert first.added == first.terms == len(await held(engine, kb)) > 0
        await engine.add_documents(kb, [doc("膝盖", "膝盖疼痛要少爬楼梯。")])
        await engine.delete_document(kb, "腰部")
        model.asked.clear()
        second = await engine.admin.learn_terms(kb)
        now = await held(engine, kb)
        assert {"膝盖", "颈部", "疼痛"} <= now
        assert not {"腰部", "卧床"} & now
        assert set(model.asked) == {word for word in now if word in {"膝盖", "楼梯", "爬楼", "爬楼梯"}}
        assert (second.added, second.left) == (len(model.asked), 0)
        assert second.removed > 0
        assert second.terms == len(now)
        assert await engine.admin.learn_terms(kb) == Learnt(len(now), 0, 0, 0)

    told(tmp_path, story, model)


class Slow(Meanings):
    """Each call takes a second of the clock that the test gives."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.now += 1.0
        return super().embed_passages(texts)


def test_time_bounds_it_and_the_rest_is_learnt_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Slow()
    monkeypatch.setattr(learning, "TOGETHER", 1)
    monkeypatch.setattr(learning, "time", model)

    async def story(engine: Engine, kb: int) -> None:
        some = await engine.admin.learn_terms(kb, seconds=1.5)
        assert some.added == some.terms == len(await held(engine, kb)) == 2
        assert some.left
        assert (await engine.base(kb)).terms.is_due(0.0)
        rest = await engine.admin.learn_terms(kb, seconds=60.0)
        assert (rest.added, rest.left) == (some.left, 0)

    told(tmp_path, story, model)


def test_without_the_time_to_read_a_base_it_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "READING_SECONDS", 1.0)

    async def story(engine: Engine, kb: int) -> None:
        assert await engine.admin.learn_terms(kb, seconds=1.9) == Learnt(0, 0, 0, None)
        assert (await engine.base(kb)).terms.is_due(0.0)
        assert (await engine.admin.learn_terms(kb, seconds=60.0)).left == 0

    told(tmp_path, story)


def test_a_large_base_is_read_by_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "CHUNKS", 5)

    async def story(engine: Engine, kb: int) -> None:
        more = [doc(f"多{number}", "膝盖疼痛要少爬楼梯。") for number in range(30)]
        await engine.add_documents(kb, more)
        await engine.admin.learn_terms(kb)
        assert "膝盖" in await held(engine, kb)

    told(tmp_path, story)


def test_without_a_model_there_is_nothing_to_learn(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.admin.learn_terms(kb)
        await engine.admin.rebuild(kb, model="none")
        assert await engine.admin.learn_terms(kb) == Learnt(0, 0, 0, 0)
        assert await held(engine, kb) == set()  # dropped with the model they belonged to

    told(tmp_path, story)


def test_another_model_has_words_of_its_own(tmp_path: Path) -> None:
    other = Meanings("other", dimension=32)

    async def story(engine: Engine, kb: int) -> None:
        await engine.admin.learn_terms(kb)
        before = await held(engine, kb)
        await engine.admin.rebuild(kb, model="other")
        assert await held(engine, kb) == set()
        await engine.admin.learn_terms(kb)
        assert await held(engine, kb, "other", 32) == before
        assert (await engine.admin.verify(kb)).is_clean

    told(tmp_path, story, Meanings(), other)


@pytest.mark.parametrize("error", [ModelUnavailable("不在"), RuntimeError("of somebody's own making")])
def test_a_model_that_fails_raises_for_who_asks_and_is_logged_for_who_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    class Failing(Meanings):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if "疼痛" in texts:
                raise error
            return super().embed_passages(texts)

    async def story(engine: Engine, kb: int) -> None:
        with pytest.raises(type(error)):
            await engine.admin.learn_terms(kb)
        await learn_quietly(await engine.base(kb))
        assert "not learnt" in caplog.text
        report = await engine.add(kb, [tmp_path / "文.txt"])
        assert len(report.refused) == 0

    (tmp_path / "文.txt").write_text("疼痛不止时应及时就医。", encoding="utf-8")
    told(tmp_path / "data", story, Failing())


# ── beside others ────────────────────────────────────────────────────────────────────────────────


async def _at_the_gate(model: Gated, work: Awaitable[object]) -> asyncio.Task[object]:
    model.armed = True
    task = asyncio.ensure_future(work)
    await asyncio.to_thread(model.entered.wait, 60)
    model.armed = False
    assert isinstance(task, asyncio.Task)
    return task


def test_writes_and_searches_do_not_wait_for_it(tmp_path: Path) -> None:
    model = Gated()

    async def story(engine: Engine, kb: int) -> None:
        learning = await _at_the_gate(model, engine.admin.learn_terms(kb))
        await engine.add_documents(kb, [doc("膝盖", "膝盖疼痛要少爬楼梯。")])
        await engine.delete_document(kb, "腰部")
        assert (await engine.retrieve(kb, "膝盖")).found
        model.gate.set()
        await learning
        assert (await engine.base(kb)).terms.is_due(0.0)  # what was written meanwhile is learnt another time
        await engine.admin.learn_terms(kb)
        assert "膝盖" in await held(engine, kb)
        assert "腰部" not in await held(engine, kb)
        assert (await engine.admin.verify(kb)).is_clean

    told(tmp_path, story, model)


def test_a_base_that_is_removed_meanwhile_keeps_nothing(tmp_path: Path) -> None:
    model = Gated()

    async def story(engine: Engine, kb: int) -> None:
        learning = await _at_the_gate(model, engine.admin.learn_terms(kb))
        await engine.delete_knowledge_base(kb)
        model.gate.set()
        with pytest.raises(NotFound):
            await learning
        assert await held(engine, kb) == set()

    told(tmp_path, story, model)


def test_a_model_that_is_changed_meanwhile_leaves_no_words_of_the_old_one(tmp_path: Path) -> None:
    model = Gated()

    async def story(engine: Engine, kb: int) -> None:
        learning = await _at_the_gate(model, engine.admin.learn_terms(kb))
        await engine.admin.rebuild(kb, model="other")
        model.gate.set()
        await learning
        assert await held(engine, kb) == set()
        await engine.admin.learn_terms(kb)
        assert "颈部" in await held(engine, kb, "other")

    told(tmp_path, story, model, Meanings("other"))


def test_two_who_learn_at_once_learn_once(tmp_path: Path) -> None:
    model = Meanings()

    async def story(engine: Engine, kb: int) -> None:
        model.asked.clear()
        one, other = await asyncio.gather(engine.admin.learn_terms(kb), engine.admin.learn_terms(kb))
        assert {one.added, other.added} == {one.terms, 0}
        assert len(model.asked) == len(set(model.asked)) == one.terms

    told(tmp_path, story, model)


def test_another_tenant_learns_nothing_of_it(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        with pytest.raises(NotFound):
            await engine.of("别家").admin.learn_terms(kb)
        assert await held(engine, kb) == set()

    told(tmp_path, story)


# ── behind everybody's back ──────────────────────────────────────────────────────────────────────


def test_files_that_are_added_are_learnt_from(tmp_path: Path) -> None:
    (tmp_path / "膝盖.txt").write_text("膝盖疼痛要少爬楼梯。", encoding="utf-8")

    async def story(engine: Engine, kb: int) -> None:
        await engine.add(kb, [tmp_path / "膝盖.txt"])
        await engine.admin.run_background_work(kb)
        assert "膝盖" in await held(engine, kb)

    told(tmp_path / "data", story)


def test_what_is_written_is_learnt_once_the_base_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(learning, "LOOK_SECONDS", 0.01)

    async def story(engine: Engine, kb: int) -> None:
        await engine.add_documents(kb, [Document("膝盖", "膝盖疼痛要少爬楼梯。")])
        for _ in range(6_000):
            if "膝盖" in await held(engine, kb):
                return
            await asyncio.sleep(0.01)
        pytest.fail("nobody learnt it")

    told(tmp_path, story, background=True)


def test_the_engine_closes_while_a_model_hangs_over_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(learning, "LOOK_SECONDS", 0.01)
    model = Gated()

    async def story(engine: Engine, kb: int) -> None:
        model.armed = True
        (await engine.base(kb)).terms.note_write()
        await asyncio.to_thread(model.entered.wait, 60)

    try:
        told(tmp_path, story, model, background=True)
    finally:
        model.gate.set()


def test_however_often_a_base_is_written_to_it_is_not_learnt_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(learning, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(learning, "RESTING", 1e9)
    gone: list[int] = []

    async def counted(base: OpenBase) -> None:
        base.terms.begin()
        gone.append(base.id)
        await asyncio.sleep(0.001)

    monkeypatch.setattr(learning, "learn_quietly", counted)

    async def story(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        async with asyncio.timeout(60):
            while not gone:
                base.terms.note_write()
                await asyncio.sleep(0.01)
        for _ in range(20):
            base.terms.note_write()
            await asyncio.sleep(0.005)
        assert gone == [kb]

    told(tmp_path, story, background=True)
