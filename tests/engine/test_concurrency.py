"""Many at once on one engine: what was added is found, what was deleted is not, and a base that goes takes its users
along with NotFound and nothing else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import AlreadyThere, NotFound
from qianxun.core.types import Accepted
from qianxun.engine.settings import Search, Settings
from qianxun.testing.scripted import HashEmbedding
from tests.indexing.opened import GatedEmbedding
from tests.sampling import share

WRITERS = READERS = share(8, 5)  # `make torture` has sixteen of each, over HTTP, too
ROUNDS = 2
MODEL = {"fake-64": HashEmbedding()}


@dataclass
class Ledger:
    """What may be asked of the base at this moment: only finished writes are noted, before their next one begins."""

    live: dict[str, str] = field(default_factory=dict)  # document → the word that only it has
    gone: set[str] = field(default_factory=set)
    seen: dict[str, asyncio.Event] = field(default_factory=dict)  # document → a reader has found it


def _word(rng: random.Random) -> str:
    """A word that no other document has, of rare characters."""
    return "".join(chr(rng.randrange(0x4E00, 0x9FA0)) for _ in range(8))


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Engine]:
    """With time for every arm of a search, however many search at once and however slow the machine is."""
    settings = Settings(data=str(folder), search=Search(arm_seconds=600.0))
    async with Engine.open(settings=settings, models=MODEL) as engine:
        yield engine


async def _ask(engine: Engine, kb: int, word: str, top_k: int = 3) -> set[str]:
    recall = await engine.retrieve(kb, word, top_k=top_k, fuzzy=True)
    assert not recall.degraded, recall.degraded
    return {each.chunk.doc_id for each in recall.found}


async def _write(engine: Engine, kb: int, ledger: Ledger, writer: int) -> None:
    rng = random.Random(writer)
    for round_ in range(ROUNDS):
        doc_id, first, second = f"w{writer}-{round_ % 2}", _word(rng), _word(rng)
        ledger.gone.discard(doc_id)
        await engine.add_documents(kb, [Document(doc_id, f"第一版 {first}")])
        assert doc_id in await _ask(engine, kb, first), "added, and not found"
        await engine.add_documents(kb, [Document(doc_id, f"第二版 {second}")])
        assert doc_id in await _ask(engine, kb, second), "replaced, and not found"
        texts = [each.chunk.text for each in (await engine.retrieve(kb, first, doc_ids=[doc_id])).found]
        assert all(second in text for text in texts), "the old version is found after the new one was acknowledged"
        ledger.seen[doc_id] = asyncio.Event()
        ledger.live[doc_id] = second
        await ledger.seen[doc_id].wait()
        del ledger.live[doc_id]
        assert await engine.delete_document(kb, doc_id)
        assert doc_id not in await _ask(engine, kb, second, top_k=50), "deleted, and found"
        ledger.gone.add(doc_id)


async def _read(engine: Engine, kb: int, ledger: Ledger, reader: int, writing: asyncio.Task[object]) -> None:
    rng = random.Random(1000 + reader)
    while not writing.done():
        gone, live = set(ledger.gone), dict(ledger.live)
        doc_id, word = rng.choice(sorted(live.items())) if live else ("", _word(rng))
        found = await _ask(engine, kb, word, top_k=10)
        # Who began another write meanwhile is no witness.
        assert not found & gone & ledger.gone, "what was deleted before the question is in its answer"
        if doc_id and ledger.live.get(doc_id) == word:
            assert doc_id in found, "what was there before and after the question is not in its answer"
            ledger.seen[doc_id].set()
        await asyncio.sleep(0.03)


def test_added_is_found_and_deleted_is_not_under_many_writers_and_readers(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as engine:
            kb = (await engine.create_knowledge_base("医保", model="fake-64")).id
            await engine.add_documents(kb, [Document(f"n{at}", f"邻居第{at}篇，讲住院报销。") for at in range(50)])
            ledger = Ledger()
            async with asyncio.TaskGroup() as group:
                writing = asyncio.gather(*(_write(engine, kb, ledger, at) for at in range(WRITERS)))
                whole = group.create_task(_finish(writing))
                for at in range(READERS):
                    group.create_task(_read(engine, kb, ledger, at, whole))
            assert len(ledger.gone) == 2 * WRITERS
            assert (await engine.admin.verify(kb)).is_clean
            assert await engine.admin.queue_depth() == 0

    asyncio.run(story())


async def _finish(writing: Awaitable[object]) -> object:
    return await writing


@pytest.mark.parametrize("broken", ["add", "delete"])
def test_that_check_catches_a_write_that_is_acknowledged_too_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    whole = Engine.add_documents

    async def hasty_add(engine: Engine, kb: int, batch: Sequence[Document]) -> list[Accepted]:
        return await whole(engine, kb, batch, wait=False)

    async def hasty_delete(engine: Engine, kb: int, doc_id: str) -> bool:
        return True

    async def story() -> None:
        async with Engine.open(tmp_path, models=MODEL, background=False) as engine:
            kb = (await engine.create_knowledge_base("医保", model="fake-64")).id
            ledger = Ledger()
            writing = asyncio.create_task(_write(engine, kb, ledger, 1))
            reading = asyncio.create_task(_read(engine, kb, ledger, 1, writing))
            with pytest.raises(AssertionError, match="added, and not" if broken == "add" else "deleted, and"):
                await writing
            await reading

    if broken == "add":
        monkeypatch.setattr(Engine, "add_documents", hasty_add)
    else:
        monkeypatch.setattr(Engine, "delete_document", hasty_delete)
    asyncio.run(story())


# ── bases that come and go ───────────────────────────────────────────────────────────────────────

USES: dict[str, Callable[[Engine, int], Awaitable[object]]] = {
    "retrieve": lambda engine, kb: engine.retrieve(kb, "住院报销"),
    "explain": lambda engine, kb: engine.explain(kb, "住院报销", f"c_{kb}_d0_0"),
    "add": lambda engine, kb: engine.add_documents(kb, [Document(f"x{random.random()}", "新来的文档")]),
    "accept": lambda engine, kb: engine.add_documents(kb, [Document(f"x{random.random()}", "新来的")], wait=False),
    "delete": lambda engine, kb: engine.delete_document(kb, "d1"),
    "list": lambda engine, kb: engine.documents(kb),
    "count": lambda engine, kb: engine.statistics(kb),
    "configure": lambda engine, kb: engine.configure(kb, {"dictionary": ["起付标准"]}),
    "rename": lambda engine, kb: engine.rename(kb, "改名"),
    "rebuild": lambda engine, kb: engine.admin.rebuild(kb),
    "verify": lambda engine, kb: engine.admin.verify(kb),
    "drain": lambda engine, kb: engine.drain(kb),
}


@pytest.mark.parametrize("background", [True, False])
def test_a_base_that_goes_is_not_found_and_nothing_worse(tmp_path: Path, background: bool) -> None:
    async def use(engine: Engine, kb: int, name: str) -> int:
        """How often it worked before the base was gone."""
        for times in range(10_000):
            try:
                await USES[name](engine, kb)
            except NotFound:
                return times
        raise AssertionError("the base never went")

    async def story() -> None:
        async with Engine.open(tmp_path, models=MODEL, background=background) as root:
            engine = root.of("甲方")
            for round_ in range(share(6, 3)):
                kb = (await engine.create_knowledge_base("医保", model="fake-64")).id
                await engine.add_documents(kb, [Document(f"d{at}", f"住院报销第{at}条") for at in range(20)])
                using = [asyncio.create_task(use(engine, kb, name)) for name in USES for _ in range(2)]
                await asyncio.sleep(0.04 * round_)
                await engine.delete_knowledge_base(kb)
                await asyncio.wait_for(asyncio.gather(*using), 300)
                assert await engine.knowledge_bases() == ()
                assert not list((tmp_path / "index").glob(f"{kb}*")), "files are left of a base that is gone"
            assert await engine.admin.queue_depth() == 0
            assert await engine.logs.list() == []

    asyncio.run(story())


def test_of_many_who_delete_a_base_one_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, models=MODEL, background=False) as engine:
            kb = (await engine.create_knowledge_base("医保", model="fake-64")).id
            told = await asyncio.gather(*(engine.delete_knowledge_base(kb) for _ in range(8)), return_exceptions=True)
            assert sorted(type(each).__name__ for each in told) == ["NoneType"] + ["NotFound"] * 7

    asyncio.run(story())


def test_tenants_make_and_remove_bases_of_the_same_name_side_by_side(tmp_path: Path) -> None:
    async def live(engine: Engine) -> None:
        for _ in range(4):
            made = await asyncio.gather(
                *(engine.create_knowledge_base("医保", model="fake-64") for _ in range(3)), return_exceptions=True
            )
            (base,) = [each for each in made if not isinstance(each, BaseException)]
            assert all(isinstance(each, AlreadyThere) for each in made if isinstance(each, BaseException))
            await engine.add_documents(base.id, [Document("d", f"{engine.tenant}的文档")])
            (found,) = (await engine.retrieve(base.id, "文档")).found
            assert found.chunk.text == f"{engine.tenant}的文档"
            await engine.delete_knowledge_base(base.id)
            assert await engine.knowledge_bases() == ()

    async def story() -> None:
        async with Engine.open(tmp_path, models=MODEL) as engine:
            await asyncio.gather(*(live(engine.of(f"租户{at}")) for at in range(6)))
        assert not [path for path in (tmp_path / "index").rglob("*") if path.is_file()]

    asyncio.run(story())


def test_a_base_can_be_used_and_removed_the_moment_it_is_listed(tmp_path: Path) -> None:
    """Its maker may still be busy with its first index."""

    async def hasty(engine: Engine, removed: asyncio.Event, done: asyncio.Event) -> None:
        while not done.is_set():
            for base in await engine.knowledge_bases():
                await engine.add_documents(base.id, [Document("d", "抢先")])
                await engine.delete_knowledge_base(base.id)
                removed.set()
            await asyncio.sleep(0)

    async def story() -> None:
        async with Engine.open(tmp_path, models=MODEL, background=False) as engine:
            removed, done = asyncio.Event(), asyncio.Event()
            racing = asyncio.create_task(hasty(engine, removed, done))
            for at in range(20):
                await engine.create_knowledge_base(f"第{at}个", model="fake-64")
            async with asyncio.timeout(60):
                await removed.wait()
            done.set()
            await racing
            for base in await engine.knowledge_bases():
                await engine.delete_knowledge_base(base.id)
        assert not [path for path in (tmp_path / "index").rglob("*") if path.is_file()]

    asyncio.run(story())


def test_a_base_is_removed_while_its_model_hangs(tmp_path: Path) -> None:
    async def story() -> None:
        gated = GatedEmbedding("卡住")
        async with Engine.open(tmp_path, models={"fake-64": gated}, background=False) as engine:
            kb = (await engine.create_knowledge_base("医保", model="fake-64")).id
            await engine.add_documents(kb, [Document("d", "卡住的文档")], wait=False)
            draining = asyncio.create_task(engine.drain(kb))
            assert await asyncio.to_thread(gated.entered.wait, 30)
            removing = asyncio.create_task(engine.delete_knowledge_base(kb))
            try:
                for _ in range(3_000):
                    if not await engine.knowledge_bases():
                        break
                    await asyncio.sleep(0.01)
                with pytest.raises(NotFound):
                    await engine.retrieve(kb, "文档")
            finally:
                gated.gate.set()
            await removing
            with pytest.raises(NotFound):
                await draining
            assert not list((tmp_path / "index").glob(f"{kb}*"))

    asyncio.run(story())


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.01])
def test_a_caller_that_leaves_harms_nobody(tmp_path: Path, delay: float) -> None:
    """A client that disconnects cancels its request, wherever that is."""

    async def left(work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None

    async def story() -> None:
        async with Engine.open(tmp_path, models=MODEL, background=False) as engine:
            kept = (await engine.create_knowledge_base("留下", model="fake-64")).id
            await engine.add_documents(kept, [Document("d", "住院报销")])
        async with Engine.open(tmp_path, models=MODEL) as engine:
            await left(engine.retrieve(kept, "住院报销"))  # while it is being opened
            await left(engine.add_documents(kept, [Document("e", "住院报销的后续")]))
            await left(engine.create_knowledge_base("离开", model="fake-64"))
            for base in await engine.knowledge_bases():
                if base.id != kept:
                    await engine.add_documents(base.id, [Document("d", "仍然可用")])
                    await left(engine.delete_knowledge_base(base.id))
            assert {each.chunk.doc_id for each in (await engine.retrieve(kept, "住院报销")).found} >= {"d"}
            assert (await engine.admin.verify(kept)).is_clean
        async with Engine.open(tmp_path, models=MODEL) as engine:
            held = [base.id for base in await engine.knowledge_bases()]
            assert kept in held  # and perhaps the one whose maker did not stay to hear of it
            for kb in held:
                assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())
