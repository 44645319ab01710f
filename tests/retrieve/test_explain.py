"""Why a chunk was not returned: what is suggested is tried here as a user would, by another search."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.errors import BadQuery, ModelUnavailable, NotFound
from qianxun.core.explanation import Explanation
from qianxun.core.ports import never
from qianxun.core.types import (
    EVERYTHING,
    And,
    Attributes,
    Chunk,
    Document,
    Eq,
    Filter,
    In,
    IndexBatch,
    Message,
    Not,
    Or,
    QAPair,
    Range,
    matches,
)
from qianxun.engine.engine import Engine
from qianxun.records import document_retries
from qianxun.retrieve.explain import filter_text, loosened
from qianxun.testing.scripted import HashEmbedding
from tests.hypothesis_settings import SLOW_OR_SHARED, examples
from tests.indexing.opened import FailingEmbedding, OpenedLibrary, doc, opened

T = TypeVar("T")


class Reader:
    """A reranker with a mind of its own, always the same."""

    name = "reader"

    def __init__(self, share: float = 0.6) -> None:
        self.share = share

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
        return [blake2b((query + each).encode("utf-8"), digest_size=1).digest()[0] / 255 for each in passages]


LIBRARY = [
    doc("住院", "参保职工住院的报销比例为百分之八十五，起付标准另行规定。", user_id="张三", metadata={"年份": 2023}),
    doc("门诊", "门诊慢性病的报销比例为百分之七十。", user_id="张三", content_type="note", tags=("慢病",)),
    doc("生育", "生育津贴按照上年度职工月平均工资计发。", user_id="李四", metadata={"年份": 2024}),
    doc("发票", "医院开具的发票应当妥善保管，作为报销凭证。", user_id="李四", project_id="p2"),
    doc("长文", "异地就医需要先备案，再按照参保地的比例结算。" * 60, user_id="王五", metadata={"年份": 2022}),
    Document("问答", "药店购药刷卡即可。", name="问答", pairs=(QAPair("住院能报多少", "药店购药刷卡即可。"),)),
    doc("天文", "黑洞视界附近时空弯曲。"),
]


class Room(OpenedLibrary):
    def __init__(self, folder: Path, library: Sequence[Document], *models: Any, model: str = "fake-64") -> None:
        super().__init__(folder, library, *models, model=model)
        self.chunks = [chunk for each in library for chunk in self.run(self.engine.chunks(self.kb, each.id))]

    def returns(self, chunk_id: str, query: str, **options: Any) -> bool:
        return chunk_id in [each.chunk.chunk_id for each in self.ask(query, **options).found]

    def why(self, chunk_id: str, query: str, **options: Any) -> Explanation:
        found = self.run(self.engine.explain(self.kb, query, chunk_id, **options)).chunk
        assert found is not None
        return found

    def id(self, doc_id: str, position: int = 0) -> str:
        return f"c_{self.kb}_{doc_id}_{position}"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    held = Room(tmp_path_factory.mktemp("room"), LIBRARY, HashEmbedding(), Reader())
    yield held
    held.close()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """More chunks than an arm brings along."""
    many = [doc(f"同{number}", f"报销比例，编号{number}。") for number in range(260)]
    last = doc("末", "关于别的事情的长长的一段说明，里面只顺带提到一个比例，与问题几乎不相干，放在最后。")
    held = Room(tmp_path_factory.mktemp("crowd"), [*many, last], HashEmbedding(), Reader())
    yield held
    held.close()


# ── what is suggested is true, and the least ─────────────────────────────────────────────────────

WHERES: list[Filter] = [
    EVERYTHING,
    Eq("user_id", "张三"),
    And((Eq("user_id", "李四"), Range("metadata.年份", ge=2024))),
    Or((Eq("tags", "慢病"), And((Eq("user_id", "王五"), Eq("project_id", "p2"))))),
    Not(Eq("user_id", "张三")),
    Eq("doc_id", "住院"),
]
searches = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["hybrid", "hybrid", "vector", "fulltext"]),
        "fusion": st.sampled_from(["weighted", "min_max", "rrf"]),
        "threshold": st.sampled_from([0.0, 0.0]) | st.floats(0, 1),
        "top_k": st.integers(1, 8),
        "fuzzy": st.booleans(),
        "rerank": st.sampled_from(["", "reader"]),
        "where": st.sampled_from([EVERYTHING] * 12 + WHERES),
        "doc_ids": st.sampled_from([()] * 8 + [("住院",), ("门诊", "生育"), ("没有",)]),
        "weights": st.sampled_from(
            [
                None,
                None,
                {"vector": 1.0, "keyword": 0.0},
                {"vector": 0.0, "keyword": 1.0},
                {"vector": 0.3, "keyword": 3.0},
            ]
        ),
    }
)
questions = st.sampled_from(
    [
        "住院报销比例",
        "包销比例",
        "异地就医备案",
        "发票",
        "@住院 报销比例",
        "@没有 报销",
        "黑洞",
        "职工 比例",
        "ＺＺ",
        "？",
    ]
)


@examples(40, suppress_health_check=SLOW_OR_SHARED)
@given(query=questions, options=searches, pick=st.integers(0, 10**6))
def test_a_search_with_the_changes_returns_the_chunk_and_with_any_less_it_does_not(
    room: Room, query: str, options: dict[str, Any], pick: int
) -> None:
    chunk = room.chunks[pick % len(room.chunks)]
    why = room.why(chunk.chunk_id, query, **options)
    answer = room.ask(query, **options)
    ranks = {each.chunk.chunk_id: rank for rank, each in enumerate(answer.found, 1)}
    assert why.is_returned == (chunk.chunk_id in ranks)
    if why.is_returned:
        best = answer.found[ranks[chunk.chunk_id] - 1]
        assert (why.rank, why.score, why.tier) == (ranks[chunk.chunk_id], best.score, best.tier)
        assert (why.arms, why.matched, why.coverage, dict(why.changes)) == (best.arms, best.matched, best.coverage, {})
    elif why.changes:
        _is_least(room, chunk.chunk_id, query, options, dict(why.changes))
    else:
        _is_hopeless(room, chunk, query, options)
        assert why.hint
    assert why.reason


def _is_least(room: Room, chunk_id: str, query: str, options: dict[str, Any], changes: dict[str, Any]) -> None:
    assert room.returns(chunk_id, query, **options | changes)
    for name in changes:
        fewer = {other: value for other, value in changes.items() if other != name}
        assert not room.returns(chunk_id, query, **options | fewer), name
    if "top_k" in changes:
        assert not room.returns(chunk_id, query, **options | changes | {"top_k": changes["top_k"] - 1})
    if "threshold" in changes:
        higher = math.nextafter(changes["threshold"], 1.0)
        assert not room.returns(chunk_id, query, **options | changes | {"threshold": higher})


def _is_hopeless(room: Room, chunk: Chunk, query: str, options: dict[str, Any]) -> None:
    open_wide = options | {"threshold": 0.0, "top_k": 100, "where": EVERYTHING, "fuzzy": True}
    ways = product(
        [options["mode"], "hybrid"],
        [options["fusion"], "weighted"],
        [options["rerank"], ""],
        [options["weights"], None],
        [(), (chunk.doc_id,)],
    )
    for mode, fusion, rerank, weights, doc_ids in ways:
        chosen = {"mode": mode, "fusion": fusion, "rerank": rerank, "weights": weights, "doc_ids": doc_ids}
        assert not room.returns(chunk.chunk_id, query, **open_wide | chosen), chosen


@examples(40, suppress_health_check=SLOW_OR_SHARED)
@given(query=questions, options=searches)
def test_the_figures_of_a_sum_give_the_score(room: Room, query: str, options: dict[str, Any]) -> None:
    told = room.run(room.engine.explain(room.kb, query, **options))
    assert [each.chunk.chunk_id for each in told.answer.found] == [
        each.chunk.chunk_id for each in room.ask(query, **options).found
    ]
    for found, figures in zip(told.answer.found, told.sums, strict=True):
        weights = sum(vote.weight for vote in figures.votes.values())
        fused = sum(vote.weight * vote.score for vote in figures.votes.values()) / weights
        assert fused == pytest.approx(figures.fused) == pytest.approx(found.fused)
        if figures.rerank is not None:
            assert figures.total == pytest.approx(0.4 * fused + 0.6 * figures.rerank)
        assert figures.shown == found.score == pytest.approx(figures.total)  # this model has no curve
        assert {side: vote.weight for side, vote in figures.votes.items()}.items() <= told.weights.items()


names = st.sampled_from(["doc_id", "user_id", "tags", "metadata.年份"])
values = st.sampled_from(["住院", "张三", "慢病", 2023, True])
leaves: st.SearchStrategy[Filter] = st.one_of(
    st.just(EVERYTHING),
    st.builds(Eq, names, values),
    st.builds(In, names, st.lists(values, max_size=3).map(tuple)),
    st.builds(Range, names, ge=st.sampled_from([2022, 2024, "住院", "张"])),
)


def grown(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(parts, max_size=3).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, parts))


@examples(300)
@given(where=st.recursive(leaves, grown, max_leaves=6))
def test_a_loosened_filter_lets_it_through_and_names_what_failed(where: Filter) -> None:
    attributes = Attributes("住院", user_id="张三", tags=("慢病", "门诊"), metadata={"年份": 2023})
    looser, failing = loosened(where, attributes)
    assert matches(looser, attributes)
    assert (looser == where) == (not failing) == matches(where, attributes)
    assert not any(matches(part, attributes) for part in failing)
    assert all(filter_text(part) for part in failing)


# ── each step by name ────────────────────────────────────────────────────────────────────────────


def test_ranked_behind_top_k(room: Room) -> None:
    why = room.why(room.id("发票"), "住院报销比例", top_k=1)
    assert (why.step, dict(why.changes)) == ("top_k", {"top_k": why.rank})
    assert f"第 {why.rank}" in why.reason


def test_below_the_threshold(room: Room) -> None:
    why = room.why(room.id("发票"), "住院报销比例", threshold=0.95)
    assert (why.step, dict(why.changes)) == ("threshold", {"threshold": why.score})


def test_below_the_threshold_and_behind_top_k(room: Room) -> None:
    why = room.why(room.id("发票"), "住院报销比例", threshold=0.95, top_k=1)
    assert (why.step, dict(why.changes)) == ("threshold", {"threshold": why.score, "top_k": why.rank})


def test_not_let_in_because_fuzzy_is_not_allowed(room: Room) -> None:
    why = room.why(room.id("发票"), "住院报销比例", fuzzy=False)
    assert (why.step, why.tier, dict(why.changes)) == ("tier", "fuzzy", {"fuzzy": True})
    assert why.similarity is not None
    assert 0 < why.coverage < 1
    assert "模糊" in why.reason


def test_the_part_of_the_filter_that_failed_is_named(room: Room) -> None:
    where = And((Eq("user_id", "张三"), Range("metadata.年份", ge=2024)))
    why = room.why(room.id("住院"), "报销比例", where=where)
    assert (why.step, why.failing) == ("filter", (Range("metadata.年份", ge=2024),))
    assert dict(why.changes) == {"where": Eq("user_id", "张三")}
    assert "metadata.年份 ≥ 2024" in why.reason
    assert why.arms  # what it would have scored is told all the same
    assert why.score is not None


def test_another_document_was_chosen(room: Room) -> None:
    assert dict(room.why(room.id("门诊"), "报销比例", doc_ids=("住院",)).changes) == {"doc_ids": ("住院", "门诊")}


def test_another_document_was_mentioned(room: Room) -> None:
    why = room.why(room.id("门诊"), "@住院 报销比例")
    assert (why.step, why.failing, dict(why.changes)) == ("filter", (In("doc_id", ("住院",)),), {"doc_ids": ("门诊",)})


def test_pushed_down_by_the_reranker(room: Room) -> None:
    """With some query and some top_k it must happen to some chunk: the reader reads tea leaves."""
    pushed = [
        why
        for query in ("报销比例", "职工 比例")
        for chunk in room.chunks
        if (why := room.why(chunk.chunk_id, query, top_k=2, rerank="reader")).step == "rerank"
    ]
    assert pushed
    for why in pushed:
        assert (why.rank_before or 9) <= 2 < (why.rank or 0)
        assert dict(why.changes) == {"top_k": why.rank}


def test_beyond_the_candidates_of_every_arm(crowd: Room) -> None:
    why = crowd.why(crowd.id("末"), "报销比例")
    assert (why.step, dict(why.changes)) == ("recall", {"doc_ids": ("末",)})
    assert why.arms["keyword"].rank == 0 < why.arms["keyword"].score
    assert why.score is not None
    assert crowd.returns(crowd.id("末"), "报销比例", doc_ids=("末",))


def test_a_rank_beyond_a_hundred_needs_its_document(crowd: Room) -> None:
    whys = [crowd.why(crowd.id(f"同{at}"), "报销比例") for at in range(0, 260, 26)]
    deep = [why for why in whys if why.rank is not None and why.rank > 100]
    assert deep
    for why in deep:
        assert set(why.changes) == {"doc_ids"}
        assert crowd.returns(why.chunk_id, "报销比例", **why.changes)


def test_an_arm_that_counts_for_nothing(room: Room) -> None:
    why = room.why(room.id("问答"), "住院能报多少", mode="hybrid", weights={"vector": 0.0, "keyword": 1.0}, top_k=8)
    assert why.is_returned or set(why.changes) <= {"weights", "top_k"}


def test_nothing_in_common_is_said_without_a_promise(room: Room) -> None:
    why = room.why(room.id("天文"), "住院报销", mode="fulltext", fuzzy=False)
    assert (why.step, dict(why.arms)) == ("recall", {})
    if not why.changes:
        assert why.hint


# ── not of record ────────────────────────────────────────────────────────────────────────────────


async def explained(engine: Engine, kb: int, query: str, chunk_id: str) -> Explanation:
    found = (await engine.explain(kb, query, chunk_id)).chunk
    assert found is not None
    return found


def test_a_deleted_document_a_shorter_version_and_a_stranger(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            await engine.delete_document(kb, "住院")
            await engine.add_documents(kb, [doc("长文", "异地就医先备案。")])
            gone = await explained(engine, kb, "报销", f"c_{kb}_住院_0")
            assert (gone.step, gone.status) == ("records", "deleted")
            assert "已删除" in gone.reason
            assert gone.hint
            shorter = await explained(engine, kb, "备案", f"c_{kb}_长文_1")
            assert (shorter.step, shorter.status) == ("records", "superseded")
            assert "只有 1 个片段" in shorter.reason
            for never_was in (f"c_{kb}_没有_0", "c_7_住院_0", "住院", f"c_{kb}_住院_x", f"c_{kb}_住院_", "_"):
                with pytest.raises(NotFound):
                    await engine.explain(kb, "报销", never_was)

    asyncio.run(work())


@pytest.mark.parametrize(("patient", "status"), [(True, "retrying"), (False, "quarantined")])
def test_a_document_that_could_not_be_taken_in(tmp_path: Path, patient: bool, status: str) -> None:
    async def work() -> None:
        model = FailingEmbedding("坏", ModelUnavailable("模型服务连不上"))
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, LIBRARY[:2])
            accepted = await engine.add_documents(kb, [doc("坏", "坏的文档")], wait=False)
            waiting = await explained(engine, kb, "坏", f"c_{kb}_坏_0")
            assert waiting.status == "pending"
            await engine.drain(kb)
            if not patient:
                with engine.records.writing() as tx:
                    document_retries.fail(tx, accepted[0].document_key, accepted[0].generation, "模型服务连不上", None)
            why = await explained(engine, kb, "坏", f"c_{kb}_坏_0")
            assert (why.step, why.status) == ("records", status)
            assert "模型服务连不上" in why.reason
            assert why.hint

    asyncio.run(work())


def test_a_chunk_that_the_index_has_lost(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            index = (await engine.base(kb)).index
            key = (await engine.add_documents(kb, LIBRARY[:1]))[0].document_key
            await index.apply(IndexBatch(await index.watermark() + 1, removed=(key,)))
            why = await explained(engine, kb, "住院报销比例", f"c_{kb}_住院_0")
            assert (why.step, why.status) == ("index", "missing")
            assert "rebuild" in why.hint

    asyncio.run(work())


def test_a_base_without_a_model(tmp_path: Path) -> None:
    held = Room(tmp_path, LIBRARY, model="none")
    try:
        why = held.why(held.id("发票"), "住院报销比例", top_k=1)
        assert (why.step, why.similarity, dict(why.changes)) == ("top_k", None, {"top_k": why.rank})
        lost = held.why(held.id("天文"), "住院报销比例")
        assert (lost.step, dict(lost.changes)) == ("recall", {})
        assert [part.part for part in lost.degraded] == ["vector"]
    finally:
        held.close()


def test_a_bad_search_is_refused_and_not_explained(room: Room) -> None:
    with pytest.raises(BadQuery):
        room.why(room.id("发票"), "报销", top_k=101)
    with pytest.raises(BadQuery):
        room.why(room.id("发票"), "  ")


def test_a_reranker_that_fails_leaves_the_fused_sum(tmp_path: Path) -> None:
    class Mute(Reader):
        def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
            raise ModelUnavailable("连不上")

    held = Room(tmp_path, LIBRARY, HashEmbedding(), Mute())
    try:
        told = held.run(held.engine.explain(held.kb, "报销比例", held.id("发票"), rerank="reader", top_k=3))
        assert [part.part for part in told.answer.degraded] == ["rerank"]
        assert all(each.total == each.fused == each.shown and each.share == 0.0 for each in told.sums)
        assert told.chunk is not None
        assert told.chunk.step != "rerank"
    finally:
        held.close()


def test_a_rewriting_is_asked_for_once(tmp_path: Path) -> None:
    class Rewriter:
        name = "rewriter"
        asked = 0

        def complete(self, messages: Sequence[Message]) -> str:
            self.asked += 1
            return f'["门诊的规定", "第 {self.asked} 种说法"]'

    async def work() -> None:
        model = Rewriter()
        async with opened(tmp_path, HashEmbedding(), model) as (engine, _):  # type: ignore[arg-type]
            made = await engine.create_knowledge_base("改写", model="fake-64", config={"rewrite_model": "rewriter"})
            await engine.add_documents(made.id, LIBRARY)
            told = await engine.explain(made.id, "报销比例", f"c_{made.id}_发票_0", top_k=1, fuzzy=False)
            assert model.asked == 1
            assert told.answer.queries == ("报销比例", "门诊的规定", "第 1 种说法")
            assert told.chunk is not None
            assert told.chunk.changes

    asyncio.run(work())


def test_explanations_hold_while_the_base_is_written_to(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path, HashEmbedding(), Reader()) as (engine, kb):  # type: ignore[arg-type]
            await engine.add_documents(kb, LIBRARY)

            async def write() -> None:
                for round_ in range(5):
                    await engine.add_documents(
                        kb, [doc("发票", f"第 {round_} 版：发票是报销凭证，比例另定。" * (round_ + 1))]
                    )
                    await engine.delete_document(kb, "门诊")
                    await engine.add_documents(kb, [LIBRARY[1]])
                    if round_ == 3:
                        await engine.admin.rebuild(kb)

            async def explained() -> set[str]:
                steps = set()
                for doc_id in ("发票", "门诊", "住院"):
                    told = await engine.explain(kb, "报销比例", f"c_{kb}_{doc_id}_0", rerank="reader", top_k=1)
                    assert len(told.sums) == len(told.answer.found)
                    assert told.chunk is not None
                    steps.add(told.chunk.step)
                return steps

            writing = asyncio.create_task(write())
            steps = set()
            while not writing.done():
                steps |= await explained()
            await writing
            steps |= await explained()  # at least once when nobody writes: then one of them is the best
            assert steps <= {"returned", "top_k", "rerank", "records", "index", "recall"}
            assert "returned" in steps

    asyncio.run(work())
