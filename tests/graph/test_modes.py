"""The six query modes over a real engine: what they find, and what they promise whatever they find."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import get_args

import pytest

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadQuery, RetrieverUnavailable
from qianxun.core.options import QUERY_MODES, QueryMode, SearchOptions
from qianxun.core.types import EVERYTHING, Chunk, Document, Eq, Filter, Found
from qianxun.engine.engine import Engine
from qianxun.graph import build as graphing
from qianxun.graph import modes
from qianxun.graph.modes import FILL, UNRELATED, ModeRecall
from qianxun.records import bases
from qianxun.retrieve import candidate_pool, run
from tests.indexing.opened import opened

SEARCHING = tuple(mode for mode in QUERY_MODES if mode != "bypass")
QUESTION = "文森特·卡塞尔的代表作品的imdb编码是多少？"
TEXTS = {
    "片": "文森特·卡塞尔 的 代表作品 是 美女与野兽",
    "码": "美女与野兽 的 imdb编码 是 tt2316801",
    "国": "文森特·卡塞尔 的 国籍 是 法国",
    "都": "法国 的 首都 是 巴黎",
    "鲁": "鲁迅，原名周树人，浙江绍兴人，代表作品有《呐喊》。",
    "绍": "绍兴位于浙江省，是著名的水乡，鲁迅在这里长大。",
    "雨": "今日有雨，记得带伞。",
    "饭": "食堂十二点开饭。",
}


def documents(texts: dict[str, str], **labels: str) -> list[Document]:
    return [Document(doc_id, text, name=text.split(" ")[0][:20], **labels) for doc_id, text in texts.items()]


def over(
    folder: Path, ask: Callable[[Engine, int], Awaitable[object]], texts: dict[str, str] = TEXTS, model: str = "none"
) -> object:
    async def run() -> object:
        async with opened(folder, model=model) as (engine, kb):
            await engine.add_documents(kb, documents(texts))
            return await ask(engine, kb)

    return asyncio.run(run())


def told(found: tuple[Found, ...]) -> list[tuple[str, float]]:
    return [(each.chunk.doc_id, each.score) for each in found]


@pytest.mark.parametrize("mode", ["local", "hybrid", "mix"])
def test_both_steps_of_a_question_come_first(tmp_path: Path, mode: QueryMode) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        answer = await engine.gather(kb, QUESTION, mode=mode, top_k=4)
        assert {each.chunk.doc_id for each in answer.found[:2]} == {"片", "码"}
        assert all("graph" in each.arms for each in answer.found[:2])
        assert {"文森特·卡塞尔", "美女与野兽"} <= {each.name for each in answer.context.entities}
        assert {"代表作品", "imdb编码"} <= {each.type for each in answer.context.relations}
        ends = {end for each in answer.context.relations for end in (each.source, each.target)}
        assert ends <= {each.id for each in answer.context.entities}

    over(tmp_path, ask)


@pytest.mark.parametrize("model", ["none", "fake-64"])
def test_every_mode_keeps_its_promises(tmp_path: Path, model: str) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        for mode in SEARCHING:
            whole = await engine.gather(kb, QUESTION, mode=mode, top_k=len(TEXTS))
            count = len(TEXTS) if mode != "local" else len(whole.found)  # which is precise, and does not fill up
            assert 0 < len(whole.found) == count, mode
            scores = [each.score for each in whole.found]
            assert all(0.0 < score <= 1.0 for score in scores), mode
            assert scores == sorted(scores, reverse=True), mode
            assert len({each.chunk.key for each in whole.found}) == count, mode
            for top_k in (1, 3):
                short = await engine.gather(kb, QUESTION, mode=mode, top_k=top_k)
                assert told(short.found) == told(whole.found[:top_k]), mode
            again = await engine.gather(kb, QUESTION, mode=mode, top_k=len(TEXTS))
            assert (told(again.found), again.context) == (told(whole.found), whole.context), mode

    over(tmp_path, ask, model=model)


def test_bypass_looks_nothing_up(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        answer = await engine.gather(kb, "你好", mode="bypass")
        assert (answer.found, answer.context.entities, answer.degraded) == ((), (), ())
        assert answer.trace_id

    over(tmp_path, ask)


def test_global_tells_of_communities_with_their_sources(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        answer = await engine.gather(kb, "文森特·卡塞尔", mode="global", top_k=5)
        first = answer.context.communities[0]
        assert "文森特·卡塞尔" in first.summary
        assert first.sources
        assert first.score >= answer.context.communities[-1].score

    over(tmp_path, ask)


def test_what_fills_a_list_says_that_nothing_found_it(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        answer = await engine.gather(kb, "tt2316801", mode="mix", top_k=len(TEXTS))
        rest = [each for each in answer.found if each.source == FILL]
        assert rest
        assert {each.score for each in rest} == {UNRELATED}
        assert all(not each.arms for each in rest)

    over(tmp_path, ask)


def test_naive_says_that_a_base_without_a_model_is_searched_by_words(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        answer = await engine.gather(kb, QUESTION, mode="naive", top_k=2)
        assert [each.part for each in answer.degraded] == ["vector"]
        assert answer.found[0].chunk.doc_id == "片"

    over(tmp_path, ask)


def test_where_the_graph_knows_nothing_mix_is_the_bases_own_search(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        plain = await engine.retrieve(kb, "记得带什么出门", top_k=10)
        answer = await engine.gather(kb, "记得带什么出门", mode="mix", top_k=10)
        assert told(answer.found[: len(plain.found)]) == told(plain.found)

    over(tmp_path, ask)


# ── filters ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", SEARCHING)
def test_what_may_not_be_seen_changes_nothing_that_is_shown(tmp_path: Path, mode: QueryMode) -> None:
    """The bridge 美女与野兽 stands in another's document: without it there is no way to its code."""
    own = {key: TEXTS[key] for key in ("码", "国", "都", "雨")}
    others = {key: TEXTS[key] for key in ("片", "鲁", "绍", "饭")}

    async def shown(folder: Path, with_others: bool, where: Filter) -> ModeRecall:
        async with opened(folder, model="none") as (engine, kb):
            await engine.add_documents(kb, documents(own, user_id="我"))
            if with_others:
                await engine.add_documents(kb, documents(others, user_id="他"))
            return await engine.gather(kb, QUESTION, mode=mode, top_k=10, where=where)

    alone = asyncio.run(shown(tmp_path / "alone", False, EVERYTHING))
    filtered = asyncio.run(shown(tmp_path / "filtered", True, Eq("user_id", "我")))
    assert {each.chunk.doc_id for each in filtered.found} == {each.chunk.doc_id for each in alone.found}
    assert mode == "local" or len(filtered.found) == len(own)
    assert filtered.context.as_dict() == alone.context.as_dict()
    assert [each.entities for each in filtered.context.communities] == [
        each.entities for each in alone.context.communities
    ]


def test_chosen_and_named_documents_bound_the_graph_too(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        chosen = await engine.gather(kb, QUESTION, mode="local", top_k=10, doc_ids=["国", "都"])
        named = await engine.gather(kb, f"@国 @都 {QUESTION}", mode="local", top_k=10)
        for answer in (chosen, named):
            assert {each.chunk.doc_id for each in answer.found} == {"国", "都"}
            assert "美女与野兽" not in {each.name for each in answer.context.entities}

    over(tmp_path, ask)


def test_a_deleted_document_is_gone_from_every_mode(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        await engine.gather(kb, QUESTION, mode="local")
        await engine.delete_document(kb, "码")
        for mode in SEARCHING:
            answer = await engine.gather(kb, QUESTION, mode=mode, top_k=10)
            assert "码" not in {each.chunk.doc_id for each in answer.found}
            assert "tt2316801" not in {each.name for each in answer.context.entities}

    over(tmp_path, ask)


# ── when parts fail ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [RetrieverUnavailable("数据库连不上"), ZeroDivisionError("别的错")])
@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "mix"])
def test_without_its_graph_a_mode_gives_what_the_search_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: QueryMode, error: Exception
) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        async def broken(*_: object) -> None:
            raise error

        plain = await engine.retrieve(kb, QUESTION, top_k=3)
        monkeypatch.setattr(modes, "current_graph", broken)
        answer = await engine.gather(kb, QUESTION, mode=mode, top_k=3)
        assert told(answer.found) == told(plain.found)
        assert [str(error) in each.reason for each in answer.degraded if each.part == "graph"] == [True]

    over(tmp_path, ask)


def test_a_graph_that_takes_too_long_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        async def slow(*_: object) -> None:
            await asyncio.sleep(60)

        monkeypatch.setattr(modes, "current_graph", slow)
        monkeypatch.setattr(modes, "GRAPH_SECONDS", 0.05)
        answer = await engine.gather(kb, QUESTION, mode="mix", top_k=3)
        assert len(answer.found) == 3
        assert "graph" in {each.part for each in answer.degraded}

    over(tmp_path, ask)


def test_whoever_stops_waiting_leaves_the_graph_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        asking = asyncio.create_task(graphing.graph_of(base))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        graph = await engine.graph(kb)
        assert len(graph.chunks) == len(TEXTS)

    over(tmp_path, ask)


@pytest.mark.parametrize(
    ("query", "options"), [("", {}), ("x", {"mode": "nearby"}), ("x", {"top_k": 0}), ("x", {"top_k": 1000})]
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, query: str, options: dict[str, object]) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        with pytest.raises(BadQuery):
            await engine.gather(kb, query, **options)  # type: ignore[arg-type]

    over(tmp_path, ask)


def test_every_mode_of_the_contract_is_there() -> None:
    assert set(get_args(QueryMode)) == set(QUERY_MODES) == {*SEARCHING, "bypass"}


def test_without_the_context_a_mode_finds_the_same(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        whole, bare = await modes.gather(base, QUESTION), await modes.gather(base, QUESTION, has_context=False)
        assert whole.context.entities
        assert not bare.context.entities
        assert whole.results == bare.results

    over(tmp_path, ask)


# ── results of a page that is read alone ─────────────────────────────────────────────────────────

PLACES = {
    f"{at}": f"{name} 的 首都 是 {name}城，{name}人口{at}万" for at, name in enumerate("甲乙丙丁戊己庚辛壬癸子丑寅卯")
}
ASKED = ("甲的首都是什么", "乙人口多少", "qwxyz", "丙与丁的首都", "首都")


async def both_ways(engine: Engine, kb: int, question: str, top_k: int, patch: pytest.MonkeyPatch) -> list[ModeRecall]:
    """As it is found, and with all candidates read."""

    async def all_read(*_: object) -> None:
        return None

    found = [await engine.gather(kb, question, top_k=top_k)]
    with patch.context() as reading:
        reading.setattr(modes, "unread_recall", all_read)
        return [*found, await engine.gather(kb, question, top_k=top_k)]


@pytest.mark.parametrize("model", ["none", "fake-64"])
def test_a_page_that_is_read_alone_is_that_of_all_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        for question in ASKED:
            for top_k in (1, 3, 10):
                page, whole = await both_ways(engine, kb, question, top_k, monkeypatch)
                assert page.results == whole.results, (question, top_k)

    over(tmp_path, ask, PLACES, model)


def test_a_candidate_that_is_no_result_is_on_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector puts any text somewhere; one that shares nothing with the question is no result."""
    texts = {**{f"{at}": f"天地玄黄{at}" for at in range(30)}, "a": "qwxyz 说明"}

    async def ask(engine: Engine, kb: int) -> None:
        page, whole = await both_ways(engine, kb, "qwxyz", 3, monkeypatch)
        assert page.results == whole.results
        assert page.results[0].chunk.doc_id == "a"

    over(tmp_path, ask, texts, "fake-64")


def test_few_of_many_candidates_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    by_keys = candidate_pool.chunks_by_keys

    async def counted(base: OpenBase, keys: Sequence[int]) -> dict[int, Chunk]:
        read.append(len(keys))
        return await by_keys(base, keys)

    async def ask(engine: Engine, kb: int) -> None:
        monkeypatch.setattr(candidate_pool, "chunks_by_keys", counted)
        await engine.gather(kb, "首都", top_k=2)
        assert sum(read) <= 3

    over(tmp_path, ask, PLACES)


def test_what_the_index_has_not_taken_up_yet_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hit may have been deleted, or be of a version that another has replaced."""

    async def ask(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        generation = await run.current_generation(base, base.serving)
        options = SearchOptions(top_k=100, threshold=0.0)
        assert await run.unread_recall(base, "首都", options, generation) is not None
        monkeypatch.setattr(bases, "is_indexed", lambda *_: False)
        assert await run.unread_recall(base, "首都", options, generation) is None

    over(tmp_path, ask, PLACES)


def test_a_page_of_a_base_that_changed_meanwhile_is_none(tmp_path: Path) -> None:
    async def ask(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        options = SearchOptions(top_k=100, threshold=0.0)
        found = await run.unread_recall(base, "甲的首都是什么", options)
        assert found is not None
        page = await found.page(lambda ranking: ranking, 3)
        assert page is not None
        assert [one.chunk.key for one in page[1]] == page[0].keys.tolist()
        await engine.delete_document(kb, "13")
        assert await found.page(lambda ranking: ranking, 3) is None

    over(tmp_path, ask, PLACES)


def test_a_list_that_is_filled_up_takes_one_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def again(*_: object) -> None:
        raise AssertionError("a second search")

    async def ask(engine: Engine, kb: int) -> None:
        monkeypatch.setattr(modes, "brief_recall", again)
        answer = await engine.gather(kb, QUESTION, mode="mix", top_k=100)
        assert len(answer.results) == len(TEXTS)
        assert len({step.name for step in answer.steps}) == len(answer.steps)

    over(tmp_path, ask)
