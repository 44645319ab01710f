"""One engine, several tenants: each has its own bases, documents, logs and names, and nobody else's exist for it."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import (
    AlreadyThere,
    BadInput,
    Forbidden,
    NotFound,
    QianxunError,
    TooLarge,
    Unreadable,
    UnsupportedFile,
)
from qianxun.core.ingest_types import Labels
from qianxun.core.limits import MIB
from qianxun.core.log_types import Feedback, IndexTime
from qianxun.core.types import LOCAL_TENANT, Accepted
from qianxun.engine.facades import Admin
from qianxun.engine.settings import load
from qianxun.records import Records, bases, listing
from qianxun.records.tenancy import BaseRecords
from qianxun.testing.scripted import HashEmbedding
from tests.indexing.opened import GatedEmbedding

SOURCE = Path(__file__).resolve().parents[1] / "src" / "qianxun"
TENANTS = ("甲方", "乙方", "丙方")
SECRET = "起付标准为八百元"
Call = Callable[[Engine, int], Awaitable[object]]


async def _events(engine: Engine, kb: int) -> object:
    handler = await engine.events(kb)
    return await handler.handle_document_created({"document_id": "e", "content": "别人的事件"})


async def _file(engine: Engine, kb: int) -> object:
    return await engine.add_file(kb, Path(__file__), name="上传.txt")


# Every way of an engine that takes the id of a base.
CALLS: dict[str, Call] = {
    "knowledge_base": lambda engine, kb: engine.knowledge_base(kb),
    "rename": lambda engine, kb: engine.rename(kb, "改了名"),
    "configure": lambda engine, kb: engine.configure(kb, {"search.top_k": 3}),
    "delete_knowledge_base": lambda engine, kb: engine.delete_knowledge_base(kb),
    "statistics": lambda engine, kb: engine.statistics(kb),
    "add": lambda engine, kb: engine.add(kb, [Path(__file__)]),
    "add_file": _file,
    "add_documents": lambda engine, kb: engine.add_documents(kb, [Document("x", "外人")]),
    "delete_document": lambda engine, kb: engine.delete_document(kb, "d"),
    "document": lambda engine, kb: engine.document(kb, "d"),
    "documents": lambda engine, kb: engine.documents(kb),
    "chunks": lambda engine, kb: engine.chunks(kb, "d"),
    "events": _events,
    "manager": lambda engine, kb: engine.manager(kb),
    "retrieve": lambda engine, kb: engine.retrieve(kb, "起付标准"),
    "retrieve_many": lambda engine, kb: engine.retrieve_many([kb], "起付标准"),
    "explain": lambda engine, kb: engine.explain(kb, "起付标准", f"c_{kb}_d_0"),
    "hybrid_search": lambda engine, kb: engine.hybrid_search(kb),
    "logs": lambda engine, kb: engine.logs.list(knowledge_base=kb),
    "verify": lambda engine, kb: engine.admin.verify(kb),
    "rebuild": lambda engine, kb: engine.admin.rebuild(kb),
    "move": lambda engine, kb: engine.admin.move(kb, "丁方"),
    "drain": lambda engine, kb: engine.drain(kb),
    "run_background_work": lambda engine, kb: engine.admin.run_background_work(kb),
    "learn_terms": lambda engine, kb: engine.admin.learn_terms(kb),
    "search_texts": lambda engine, kb: engine.search_texts(kb, "起付标准"),
    "search_tables": lambda engine, kb: engine.search_tables(kb, "起付标准"),
    "ask": lambda engine, kb: engine.ask(kb, "起付标准是多少"),
    "answering": lambda engine, kb: engine.answering(kb),
    "ask_stream": lambda engine, kb: anext(engine.ask_stream(kb, "起付标准是多少")),
    "gather": lambda engine, kb: engine.gather(kb, "起付标准是多少"),
    "graph": lambda engine, kb: engine.graph(kb),
    "build_graph": lambda engine, kb: engine.admin.build_graph(kb),
    "graph_keeper": lambda engine, kb: engine.graph_keeper(kb),
    "merge_entities": lambda engine, kb: engine.admin.merge_entities(kb, "起付标准", "起付线"),
    "split_entities": lambda engine, kb: engine.admin.split_entities(kb, "起付标准"),
    "base": lambda engine, kb: engine.base(kb),
}


@asynccontextmanager
async def shared(folder: Path, *, background: bool = False) -> AsyncIterator[tuple[Engine, dict[str, int]]]:
    """(engine, tenant → its base), each base with one document of the same words and the same id."""
    async with Engine.open(folder, models={"fake-64": HashEmbedding()}, background=background) as engine:
        held = {}
        for tenant in TENANTS:
            own = engine.of(tenant)
            held[tenant] = (await own.create_knowledge_base("医保", model="fake-64")).id
            await own.add_documents(held[tenant], [Document("d", f"{tenant}：{SECRET}。")])
        yield engine, held


def test_every_part_is_one_and_the_same_for_all_tenants(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            other = engine.of("甲方")
            assert (engine.tenant, other.tenant) == (LOCAL_TENANT, "甲方")
            own = [each.name for each in fields(Engine) if getattr(other, each.name) is not getattr(engine, each.name)]
            assert own == ["tenant"]
            assert all(each.init for each in fields(Engine))  # `of` would make another of a field that is not
            assert other.of("甲方") is other

    asyncio.run(story())


@pytest.mark.parametrize("tenant", ["", " ", "甲 ", "a" * 65, "a\nb", "a\x00"])
def test_a_name_that_no_tenant_can_have_is_refused(tmp_path: Path, tenant: str) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            with pytest.raises(BadInput):
                engine.of(tenant)

    asyncio.run(story())


def test_every_call_that_takes_a_base_is_tried() -> None:
    told = {
        name
        for part in (Engine, Admin)
        for name, method in vars(part).items()
        if not name.startswith("_")
        and "knowledge_base" in getattr(getattr(method, "__code__", None), "co_varnames", ())
    }
    assert told | {"knowledge_base", "logs"} == set(CALLS)  # those of the log take it as one of `LogChoices`


def test_another_tenants_base_is_not_there_on_any_way(tmp_path: Path) -> None:
    async def story() -> None:
        async with shared(tmp_path) as (engine, held):
            for stranger in (*TENANTS, LOCAL_TENANT, "无人"):
                for owner in (tenant for tenant in TENANTS if tenant != stranger):
                    for name, call in CALLS.items():
                        with pytest.raises(NotFound) as refusal:
                            await call(engine.of(stranger), held[owner])
                        assert str(refusal.value) == str(bases.missing(held[owner])), name
                        assert SECRET not in str(refusal.value)
            for tenant in TENANTS:  # and nothing of it has changed
                own = engine.of(tenant)
                assert [(base.id, base.name) for base in await own.knowledge_bases()] == [(held[tenant], "医保")]
                assert [each.doc_id for each in await own.documents(held[tenant])] == ["d"]
                (found,) = (await own.retrieve(held[tenant], "起付标准")).found
                assert found.chunk.text.startswith(tenant)

    asyncio.run(story())


@pytest.mark.parametrize("number", [0, -1, 999, 2**31, 2**63 - 1, 2**63, 2**70, -(2**70)])
def test_a_number_that_no_base_has_is_not_found_on_any_way(tmp_path: Path, number: int) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            for call in CALLS.values():
                with pytest.raises(NotFound):
                    await call(engine, number)
            with pytest.raises(NotFound):
                await engine.logs.get(number)
            with pytest.raises(NotFound):
                await engine.logs.rate(number, Feedback("good"))
            assert await engine.knowledge_bases(after=number) == ()
            assert await engine.logs.list(before=number) == []

    asyncio.run(story())


def test_names_are_a_tenants_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with shared(tmp_path) as (engine, held):
            first, second = engine.of(TENANTS[0]), engine.of(TENANTS[1])
            with pytest.raises(AlreadyThere):
                await first.create_knowledge_base(" 医保 ")
            other = await first.create_knowledge_base("小说")
            with pytest.raises(AlreadyThere):
                await first.rename(other.id, "医保")
            with pytest.raises(BadInput):
                await first.rename(other.id, " ")
            assert (await second.rename(held[TENANTS[1]], "小说")).name == "小说"
            assert (await first.rename(other.id, "小说")).name == "小说"
            assert (await second.knowledge_base("小说")).id == held[TENANTS[1]]
            assert (await second.base(held[TENANTS[1]])).about.name == "小说"
            with pytest.raises(NotFound):
                await second.knowledge_base("医保")
            with pytest.raises(NotFound):
                await engine.knowledge_base("小说")

    asyncio.run(story())


def test_a_base_is_handed_over_with_everything_in_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with shared(tmp_path) as (engine, held):
            giver, base = engine.of("甲方"), held["甲方"]
            assert (await giver.retrieve(base, "起付标准")).found  # it is open, and the answer cached
            moved = await giver.admin.move(base, "丁方")
            assert (moved.id, moved.tenant) == (base, "丁方")
            assert {(one.id, one.tenant) for one in await engine.admin.knowledge_bases()} >= {(base, "丁方")}
            taker = engine.of("丁方")
            assert "甲方" in (await taker.retrieve(base, "起付标准")).found[0].chunk.text
            assert (await taker.admin.verify(base)).is_clean
            for name, call in CALLS.items():
                with pytest.raises(NotFound) as refusal:
                    await call(giver, base)
                assert str(refusal.value) == str(bases.missing(base)), name
            await taker.add_documents(base, [Document("e", "丁方放的。")])
        async with Engine.open(tmp_path, models={"fake-64": HashEmbedding()}, background=False) as engine:
            assert (await engine.of("丁方").statistics(base))["indexed"] == 2

    asyncio.run(story())


def test_a_base_is_not_handed_over_where_it_could_not_serve(tmp_path: Path) -> None:
    async def story() -> None:
        async with shared(tmp_path) as (engine, held):
            giver, base = engine.of("甲方"), held["甲方"]
            with pytest.raises(AlreadyThere):  # 乙方 has a base of this name
                await giver.admin.move(base, "乙方")
            for nobody in ("甲方", "", "a\nb"):
                with pytest.raises(BadInput):
                    await giver.admin.move(base, nobody)
            await giver.configure(base, {"rewrite_model": "default"})  # of the base's owner, a user of this tenant
            with pytest.raises(BadInput, match="default"):
                await giver.admin.move(base, "丁方")
            assert (await giver.retrieve(base, "起付标准")).found

    asyncio.run(story())


def test_bases_are_listed_a_page_at_a_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            made = []
            for at in range(5):
                made.append((await engine.create_knowledge_base(f"第{at}个")).id)
                await engine.of("甲方").create_knowledge_base(f"第{at}个")
            first = [base.id for base in await engine.knowledge_bases(limit=2)]
            rest = [base.id for base in await engine.knowledge_bases(limit=9, after=first[-1])]
            assert first + rest == made

    asyncio.run(story())


def test_a_tenant_cannot_have_any_model_of_the_world_loaded_here(tmp_path: Path) -> None:
    async def story() -> None:
        async with shared(tmp_path) as (engine, held):
            own = engine.of(TENANTS[0])
            for name in ("sentence-transformers:/etc", "sentence-transformers:somebody/anything"):
                with pytest.raises(Forbidden):
                    await own.create_knowledge_base("别处", model=name)
                with pytest.raises(Forbidden):
                    await own.admin.rebuild(held[TENANTS[0]], model=name)
            assert [base.name for base in await own.knowledge_bases()] == ["医保"]

    asyncio.run(story())


# ── the log ──────────────────────────────────────────────────────────────────────────────────────


def test_logs_and_what_people_think_of_an_answer_are_a_tenants_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with shared(tmp_path) as (engine, held):
            for tenant in TENANTS:
                await engine.of(tenant).retrieve(held[tenant], "起付标准", trace_id=f"trace-{held[tenant]}")
            first, second = engine.of(TENANTS[0]), engine.of(TENANTS[1])
            (own,) = await first.logs.list()  # a moment after the search
            assert (own.tenant, own.trace_id) == (TENANTS[0], f"trace-{held[TENANTS[0]]}")
            assert own.feedback is None
            said = Feedback("bad", (own.results[0][0], "c_1_\ud800_0"), "答非所问\x00")
            rated = await first.logs.rate(own.id, said)
            assert rated.feedback == Feedback("bad", said.chunk_ids, "答非所问\ufffd")
            with pytest.raises(NotFound):
                await second.logs.get(own.id)
            with pytest.raises(NotFound):
                await second.logs.rate(own.id, Feedback("good"))
            assert (await first.logs.get(own.id)).feedback == rated.feedback
            assert (await first.logs.rate(own.id, Feedback("good"))).feedback == Feedback("good")
            assert [each.tenant for each in await second.logs.list()] == [TENANTS[1]]
            assert await engine.logs.list() == []

    asyncio.run(story())


@pytest.mark.parametrize(
    "said",
    [
        Feedback("fine"),  # type: ignore[arg-type]
        Feedback("good", comment="长" * 2001),
        Feedback("good", tuple("c" * 101)),
        Feedback("good", ("c" * 301,)),
    ],
)
def test_what_cannot_be_kept_of_an_opinion_is_refused(tmp_path: Path, said: Feedback) -> None:
    async def story() -> None:
        async with shared(tmp_path) as (engine, held):
            own = engine.of(TENANTS[0])
            await own.retrieve(held[TENANTS[0]], "起付标准")
            (entry,) = await own.logs.list()
            with pytest.raises(BadInput):
                await own.logs.rate(entry.id, said)
            assert (await own.logs.get(entry.id)).feedback is None

    asyncio.run(story())


# ── the records' door ────────────────────────────────────────────────────────────────────────────


def test_the_door_of_the_records_opens_for_the_bases_tenant_alone() -> None:
    records = Records.open("sqlite://")
    with records.writing() as tx:
        kb = bases.create(tx, "医保", tenant="甲方").id
    with BaseRecords(records, kb, "甲方").reading() as tx:
        assert listing.tally(tx, kb)["chunks"] == 0
    for door in (BaseRecords(records, kb, "乙方"), BaseRecords(records, kb + 1, "甲方"), BaseRecords(records, kb, "")):
        for transaction in (door.reading, door.writing):
            with pytest.raises(NotFound), transaction():
                raise AssertionError("the door was open")
    with records.writing() as tx:
        for change in (
            lambda tx: bases.rename(tx, kb, "新", tenant="乙方"),
            lambda tx: bases.change_config(tx, kb, {}, tenant="乙方"),
            lambda tx: bases.change_model(tx, kb, "m", 3, tenant="乙方"),
            lambda tx: bases.remove(tx, kb, tenant="乙方"),
        ):
            with pytest.raises(NotFound):
                change(tx)
        assert bases.get(tx, kb, tenant="甲方").name == "医保"
    records.close()


def test_without_that_door_a_stranger_would_see_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the tests above: it is the door that keeps strangers out."""

    async def story() -> None:
        async with shared(tmp_path) as (engine, held):
            monkeypatch.setattr(bases, "require", lambda *_, **__: None)
            (chunk,) = await engine.of(TENANTS[1]).chunks(held[TENANTS[0]], "d")
            assert SECRET in chunk.text

    asyncio.run(story())


# Transactions that are about no one base, or look for their tenant themselves.
OPEN_TO_ALL = {
    "engine/engine.py",  # bases, by tenant
    "engine/open_bases.py",  # bases, by tenant
    "engine/facades.py",  # logs, by tenant; how much is pending in all; whose the bases are, for an operator
    "engine/example_library.py",  # the example library, which is one for all tenants
    "jobs/background.py",  # which bases have work
    "jobs/follow_writes.py",  # how far their indexes are
    "retrieve/search_log.py",  # the log of all
    "models/registry.py",  # registered models, by tenant
    "engine/admin/keys.py",
    "engine/admin/evaluation_sets.py",  # sets, by tenant
    "engine/admin/bases.py",  # whose they are, for an operator
    "engine/admin/transfer.py",  # which name is free for an imported base, by tenant
    "engine/across_tenants.py",  # keys
    "engine/governance/audit.py",  # what was changed, by tenant; all of it for an operator
    "engine/governance/deletion.py",  # what is left of a tenant's documents, bases and users
    "engine/governance/quotas.py",  # quotas, by tenant; all of them for an operator
    "engine/governance/receipts.py",  # receipts, by tenant
    "engine/governance/webhooks.py",  # webhooks, by tenant
    "jobs/webhooks.py",  # what is on its way to those of all tenants
}


def test_what_is_in_a_base_is_reached_through_that_door_alone() -> None:
    """Every transaction outside the records is opened on a base's own records, but for those that are listed."""
    free = set()
    for path in SOURCE.rglob("*.py"):
        if "records" in path.relative_to(SOURCE).parts:
            continue
        text = path.read_text("utf-8")
        if TRANSACTION.search(text) and _plain_transactions(text):  # to parse all of them takes seconds
            free.add(path.relative_to(SOURCE).as_posix())
    assert free <= OPEN_TO_ALL


TRANSACTION = re.compile(r"records\W*\.\s*(?:reading|writing|read|write)\b")


def _plain_transactions(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ("reading", "writing", "read", "write"):
            holder = ast.unparse(node.value)
            if holder.split(".")[-1] == "records" and not holder.endswith("base.records"):
                found.append(holder)
    return found


def test_that_look_finds_a_planted_transaction() -> None:
    assert _plain_transactions("with engine.records.reading() as tx: pass") == ["engine.records"]
    assert _plain_transactions("with base.records.reading() as tx: pass") == []


# ── the indexer ──────────────────────────────────────────────────────────────────────────────────


def test_the_indexer_serves_all_tenants_and_one_that_hangs_delays_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        gated = GatedEmbedding("卡住")
        heard: list[IndexTime] = []
        async with Engine.open(tmp_path, models={"fake-64": gated}) as engine:
            held = {
                tenant: (await engine.of(tenant).create_knowledge_base("医保", model="fake-64")).id
                for tenant in TENANTS
            }
            engine.of(TENANTS[2]).hooks.indexed = heard.append  # one hook for all
            await engine.of(TENANTS[0]).add_documents(held[TENANTS[0]], [Document("d", "卡住的文档")], wait=False)
            assert await asyncio.to_thread(gated.entered.wait, 30)
            for tenant in TENANTS[1:]:
                await engine.of(tenant).add_documents(held[tenant], [Document("d", "别人的文档")], wait=False)
            try:
                await _until_waiting(engine, 1)
                for tenant in TENANTS[1:]:
                    assert (await engine.of(tenant).document(held[tenant], "d")).status == "indexed"
            finally:
                gated.gate.set()
            await _until(lambda: len(heard) == len(held))  # a moment after nothing waits any more
            assert await engine.admin.queue_depth() == 0
        assert {(each.knowledge_base, each.documents, each.failed) for each in heard} == {
            (kb, 1, 0) for kb in held.values()
        }
        assert all(each.seconds > 0.0 for each in heard)

    asyncio.run(story())


async def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


async def _until_waiting(engine: Engine, count: int) -> None:
    for _ in range(3_000):
        if await engine.admin.queue_depth() == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{await engine.admin.queue_depth()} changes still wait for their index, not {count}")


def test_time_spent_before_the_index_counts_as_index_work(tmp_path: Path) -> None:
    async def story() -> None:
        gated = GatedEmbedding("慢")
        heard: list[IndexTime] = []
        async with Engine.open(tmp_path, models={"fake-64": gated}, background=False) as engine:
            engine.hooks.indexed = heard.append
            kb = (await engine.create_knowledge_base("医保", model="fake-64")).id
            adding = asyncio.create_task(engine.add_documents(kb, [Document("d", "慢慢来"), Document("e", "也来")]))
            assert await asyncio.to_thread(gated.entered.wait, 60)  # from here on its time counts, however busy it is
            await asyncio.sleep(0.3)
            gated.gate.set()
            await adding
        (done,) = heard
        assert (done.knowledge_base, done.documents, done.failed) == (kb, 2, 0)
        assert done.seconds >= 0.3

    asyncio.run(story())


# ── uploads ──────────────────────────────────────────────────────────────────────────────────────


def test_an_uploaded_file_is_searchable_under_its_own_name(tmp_path: Path) -> None:
    async def story() -> None:
        stored = tmp_path / "upload-17"  # as a service keeps it: under a name of its own
        stored.write_text("项目,报销比例\n住院,85%\n门诊,60%\n", encoding="utf-8")
        async with shared(tmp_path / "data") as (engine, held):
            own, kb = engine.of(TENANTS[0]), held[TENANTS[0]]
            taken = await own.add_file(kb, stored, name="价目.csv", labels=Labels(user_id="u", tags=("价",)))
            assert taken.outcome == "created"
            state = await own.document(kb, taken.doc_id)
            assert (state.name, state.status, state.user_id) == ("价目.csv", "indexed", "u")
            (chunk, *_) = await own.chunks(kb, taken.doc_id)
            assert chunk.kind == "table"
            assert "价目" in chunk.text  # a table without a title has the name of its file
            assert "upload-17" not in repr(await own.chunks(kb, taken.doc_id))
            found = await own.retrieve(kb, "住院报销比例", doc_ids=[taken.doc_id])
            assert {each.chunk.doc_id for each in found.found} == {taken.doc_id}

    asyncio.run(story())


def test_the_same_name_of_the_same_user_is_the_same_document(tmp_path: Path) -> None:
    async def story() -> None:
        stored = tmp_path / "f"
        stored.write_text("第一版", encoding="utf-8")
        async with shared(tmp_path / "data") as (engine, held):
            own, kb = engine.of(TENANTS[0]), held[TENANTS[0]]

            async def add(user: str = "", **told: Any) -> Accepted:
                return await own.add_file(kb, stored, name="手册.txt", labels=Labels(user_id=user), **told)

            first = await add()
            assert (await add()).outcome == "unchanged"
            named = await add(doc_id="我的编号")
            other = await add("别的用户")
            assert len({first.doc_id, named.doc_id, other.doc_id}) == 3
            assert named.doc_id == "我的编号"
            stored.write_text("第二版", encoding="utf-8")
            again = await add(wait=False)
            assert (again.doc_id, again.outcome, again.generation) == (first.doc_id, "updated", first.generation + 1)
            assert (await own.document(kb, first.doc_id)).status == "pending"
            await own.drain(kb)
            assert [each.text for each in await own.chunks(kb, first.doc_id)] == ["第二版"]
            await own.delete_document(kb, first.doc_id)
            assert (await add()).outcome == "created"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("空.txt", b"", Unreadable),
        ("程序.exe", b"\x7fELF" + bytes(range(256)) * 20, UnsupportedFile),
        ("坏.pdf", b"%PDF-1.7\n1 0 obj<</Type/Cat", Unreadable),
        ("大.txt", b"x" * (2 * MIB), TooLarge),
        ("只有空白.txt", b"  \n \n", Unreadable),
        ("", b"text", BadInput),
        ("../..", b"text", BadInput),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused_by_name_and_leaves_its_reason_alone(
    tmp_path: Path, name: str, content: bytes, error: type[QianxunError]
) -> None:
    async def story() -> None:
        stored = tmp_path / "stored"
        stored.write_bytes(content)
        settings = load(environment={}, arguments={"data": str(tmp_path / "data"), "parsing.file_megabytes": 1})
        async with Engine.open(settings=settings, background=False) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            with pytest.raises(error, match="没有名称" if error is BadInput else name):
                await engine.add_file(kb, stored, name=name)
            states = [(one.name, one.status, one.served, one.chunks) for one in await engine.documents(kb)]
            assert states == ([] if error is BadInput else [(name, "failed", 0, 0)])
            assert await engine.admin.queue_depth() == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd.txt",
        "C:\\boot\\手册.txt",
        "a\x00b.txt",
        "-rf.txt",
        "长" * 400 + ".txt",
        ".hidden.txt",
        "a/b/../c.txt",
    ],
)
def test_no_name_leads_out_of_its_folder(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        folder = tmp_path / "kept"
        folder.mkdir()
        (folder / "0001").write_text("正文在此", encoding="utf-8")
        async with Engine.open(tmp_path / "data", background=False) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            if "\x00" in name:
                with pytest.raises(BadInput):
                    await engine.add_file(kb, folder / "0001", name=name)
                return
            taken = await engine.add_file(kb, folder / "0001", name=name)
            assert [each.text for each in await engine.chunks(kb, taken.doc_id)] == ["正文在此"]
        assert [path.name for path in folder.iterdir()] == ["0001"]

    asyncio.run(story())
