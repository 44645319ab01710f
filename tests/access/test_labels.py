"""Labels of documents: their own, those of rules, what becomes of them, and that they go where the documents go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qianxun.core.errors import BadInput, Forbidden, NotFound
from qianxun.core.governance.access import LABEL_LIMIT, Principal, principal_in_claims, principal_of, read_principal
from qianxun.core.ingest_types import Labels
from qianxun.core.log_types import Feedback
from qianxun.core.types import Document
from qianxun.engine.admin.replay import replay
from qianxun.engine.admin.transfer import clone_base
from qianxun.engine.engine import Engine
from tests.indexing.opened import opened

Story = Callable[[Engine, int], Awaitable[None]]


def told(folder: Path, story: Story) -> None:
    async def run() -> None:
        async with opened(folder) as (engine, kb):
            await story(engine, kb)

    asyncio.run(run())


async def ids(engine: Engine, kb: int, *labels: str) -> set[str]:
    return {state.doc_id for state in await engine.as_principal(*labels).documents(kb)}


def test_own_labels_count_alone_and_else_the_longest_rule(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        access = engine.governance.access
        await access.set_rule(kb, "人事", ["group:人事"])
        await access.set_rule(kb, "人事/薪酬/", ["role:主管"])
        paths = {"a": "人事/手册.md", "b": "人事/薪酬/表.md", "c": "人事二/表.md", "d": "人事/薪酬/公开.md"}
        await engine.add_documents(
            kb, [Document(one, "内容", metadata={"path": path}) for one, path in paths.items() if one != "d"]
        )
        await engine.add_documents(kb, [Document("d", "内容", metadata={"path": paths["d"]}, access=())])
        assert await ids(engine, kb) == {"c", "d"}
        assert await ids(engine, kb, "group:人事") == {"a", "c", "d"}
        assert await ids(engine, kb, "role:主管") == {"b", "c", "d"}
        (changed,) = await access.set(kb, ["b"], ["user:alice", "user:alice"])
        assert (changed.labels, changed.is_own) == (("user:alice",), True)
        assert await ids(engine, kb, "role:主管") == {"c", "d"}
        await access.clear(kb, ["b", "d"])
        assert await ids(engine, kb, "role:主管") == {"b", "c", "d"}
        assert await access.remove_rule(kb, "人事/薪酬")
        assert await ids(engine, kb, "group:人事") == {"a", "b", "c", "d"}
        assert [rule.prefix for rule in await access.rules(kb)] == ["人事"]
        with pytest.raises(NotFound):
            await access.set(kb, ["a", "never"], [])
        with pytest.raises(BadInput):
            await access.set(kb, ["a"], ["everybody"])

    told(tmp_path, story)


def test_labels_stay_when_a_document_comes_again_and_change_when_it_is_unchanged(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.add_documents(kb, [Document("a", "旧", access=("user:alice",))])
        await engine.add_documents(kb, [Document("a", "新")])
        assert await ids(engine, kb) == set()
        await engine.add_documents(kb, [Document("a", "新", access=("user:bob",))])
        assert (await ids(engine, kb, "user:alice"), await ids(engine, kb, "user:bob")) == (set(), {"a"})
        file = tmp_path / "文件.md"
        file.write_text("同样的文字", encoding="utf-8")
        await engine.add(kb, [file])
        assert len(await ids(engine, kb)) == 1
        report = await engine.add(kb, [file], labels=Labels(access=("group:人事",)))
        assert (report.unchanged, await ids(engine, kb)) == (1, set())

    told(tmp_path, story)


def test_a_principal_reads_and_changes_nothing(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.add_documents(kb, [Document("a", "内容", access=("user:alice",))])
        alice = engine.as_principal("user:alice")
        for refused in (
            lambda: alice.add_documents(kb, [Document("b", "内容")]),
            lambda: alice.delete_document(kb, "a"),
            lambda: alice.governance.access.set(kb, ["a"], []),
            lambda: alice.rename(kb, "另一个"),
            lambda: alice.contents.delete(kb, ["a"]),
        ):
            with pytest.raises(Forbidden):
                await refused()
        with pytest.raises(Forbidden):
            _ = alice.governance.audit
        assert await ids(engine, kb, "user:alice") == {"a"}
        # Nor anything of a base in which nothing has labels, nor bases themselves.
        plain = (await engine.create_knowledge_base("人人可见", model="none")).id
        await engine.add_documents(plain, [Document("a", "内容")])
        for refused in (
            lambda: alice.add_documents(plain, [Document("b", "内容")]),
            lambda: alice.delete_document(plain, "a"),
            lambda: alice.contents.delete(plain, ["a"]),
            lambda: alice.configure(plain, {"search.fusion": "rrf"}),
            lambda: alice.rename(plain, "另一个"),
            lambda: alice.admin.rebuild(plain),
            lambda: alice.delete_knowledge_base(plain),
            lambda: alice.create_knowledge_base("我的"),
        ):
            with pytest.raises(Forbidden):
                await refused()
        assert [one.doc_id for one in await alice.documents(plain)] == ["a"]

    told(tmp_path, story)


def test_a_copy_of_a_base_has_its_labels_and_rules(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.governance.access.set_rule(kb, "机密", ["role:主管"])
        await engine.add_documents(
            kb,
            [
                Document("own", "内容", access=("user:alice",)),
                Document("ruled", "内容", metadata={"path": "机密/表.md"}),
                Document("open", "内容"),
            ],
        )
        made = await clone_base(engine, kb, "副本")
        for labels in ((), ("user:alice",), ("role:主管",)):
            assert await ids(engine, made.knowledge_base.id, *labels) == await ids(engine, kb, *labels)
        assert await ids(engine, made.knowledge_base.id) == {"open"}

    told(tmp_path, story)


def test_answers_are_cached_for_those_who_see_the_same(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.add_documents(kb, [Document("a", "报销比例"), Document("b", "报销比例", access=("user:alice",))])
        alice, bob = engine.as_principal("user:alice"), engine.as_principal("user:bob")
        first = await alice.retrieve(kb, "报销比例")
        assert (len(first.results), first.from_cache) == (2, False)
        second = await bob.retrieve(kb, "报销比例")
        assert (len(second.results), second.from_cache) == (1, False)
        assert (await engine.as_principal("user:carol").retrieve(kb, "报销比例")).from_cache
        assert len((await engine.retrieve(kb, "报销比例")).results) == 2
        entries = await bob.logs.list()
        assert [entry.principal for entry in entries] == ["user:bob"]

    told(tmp_path, story)


def test_a_search_of_another_is_as_unknown_by_its_number_as_one_that_never_was(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        await engine.add_documents(kb, [Document("a", "报销比例"), Document("b", "报销比例", access=("group:财务",))])
        others = [
            engine,
            engine.as_principal("user:alice", "group:财务"),
            engine.as_principal("group:人事", "group:财务"),
        ]
        numbers = []
        for other in others:
            await other.retrieve(kb, "报销比例")
            numbers.append((await engine.logs.list(limit=1))[0].id)
        for reader in (engine.as_principal("user:bob"), engine.as_principal("group:人事"), engine.as_principal()):
            unknown = await refusals(reader, 999)
            for number in numbers:
                shown = [text.replace(f" {number} ", " 999 ") for text in await refusals(reader, number)]
                assert shown == unknown
        assert all(entry.feedback is None for entry in await engine.logs.list())
        for other, number in zip(others, numbers, strict=True):
            assert (await other.logs.get(number)).id == number
            assert (await replay(other, number)).is_same
            assert (await other.logs.rate(number, Feedback("good"))).feedback is not None

    told(tmp_path, story)


async def refusals(engine: Engine, log_id: int) -> list[str]:
    """What is answered to whoever gets, replays or rates a search that is not there for it."""
    refused = []
    for work in (engine.logs.get(log_id), replay(engine, log_id), engine.logs.rate(log_id, Feedback("bad"))):
        with pytest.raises(NotFound) as error:
            await work
        refused.append(str(error.value))
    return refused


def test_a_principal_without_a_user_is_named_by_all_that_it_has() -> None:
    """Or a search on behalf of two groups would be taken for one of the first of them alone."""
    assert principal_of(["group:b", "group:a"]).name == "group:a,group:b"
    assert principal_of(["group:a", "user:bob", "user:alice"]).name == "user:alice,user:bob"
    many = [f"group:{number}" for number in range(100)]
    long, longer = principal_of(many).name, principal_of([*many, "group:z"]).name
    assert len(long) == len(longer) == LABEL_LIMIT
    assert long != longer


def test_principals_are_read_from_headers_and_claims() -> None:
    read = read_principal("user:alice, group:%E8%B4%A2%E5%8A%A1,role:hr")
    assert read == Principal(frozenset({"user:alice", "group:财务", "role:hr"}), "user:alice")
    for wrong in ("", "alice", "user:", "group:a b", "team:x", "user:bob group:财务", "user:bob;group:财务"):
        with pytest.raises(BadInput):
            read_principal(wrong)
    claims = {"sub": "alice", "groups": ["/财务", "有 空格", 7], "realm_access": {"roles": ["hr"]}}
    found = principal_in_claims(claims, "sub", "groups", "realm_access.roles")
    assert found.labels == {"user:alice", "group:财务", "role:hr"}
    for nobody in ({}, {"sub": ""}, {"sub": " "}):
        assert principal_in_claims(nobody, "sub", "groups", "roles") == Principal()
    long = [principal_in_claims({"sub": "x" * 200 + end}, "sub", "", "").name for end in "ab"]
    assert long[0] != long[1]  # who logs of searches are shown to
    assert max(map(len, long)) <= LABEL_LIMIT
