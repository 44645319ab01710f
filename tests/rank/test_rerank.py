from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.errors import BadInput, BadModelReply
from qianxun.core.types import Found
from qianxun.engine.standalone_models import Reranker
from qianxun.rank.rerank import RerankCache, ResultRanker, rank_results, reranked
from qianxun.testing.scripted import ScriptedReranker
from tests.rank.results import found


def overlap(name: str = "overlap") -> ScriptedReranker:
    """A real, if simple, reranker: the share of the query's characters that are in the passage."""
    return ScriptedReranker(
        lambda query, passage: sum(letter in passage for letter in query) / len(query), name=name, share=0.75
    )


WORDS = ["住院费用报销比例", "门诊起付线", "异地就医备案手续", "药品目录", "更换机油的周期", "义务教育入学年龄"]


@st.composite
def results(draw: st.DrawFn, dated: bool = False) -> list[Found]:
    keys = draw(st.lists(st.integers(1, 50), unique=True, max_size=9))
    score = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0.0, 1.0))
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("，".join)
    dates = st.sampled_from([{}, {"date": "2020-01-01"}, {"日期": "2024年5月"}, {"updated_at": 1_700_000_000}])
    return [found(key, draw(score), draw(texts), draw(dates) if dated else {}) for key in keys]


def places(ranked: Sequence[Found]) -> list[tuple[float, int]]:
    return [(-each.score, each.chunk.key) for each in ranked]


def test_the_score_is_shared_between_fusion_and_reranker() -> None:
    first, second, third = reranked([found(1, 0.8), found(2, 0.4), found(3, 0.8)], [0.2, 0.9, 0.2], 0.75)
    assert (first.chunk.key, first.score) == (2, pytest.approx(0.25 * 0.4 + 0.75 * 0.9))
    assert (first.fused, first.rerank) == (0.4, 0.9)
    assert [second.chunk.key, third.chunk.key] == [1, 3]
    assert second.score == third.score == pytest.approx(0.25 * 0.8 + 0.75 * 0.2)


def test_reranking_again_starts_from_the_fused_score() -> None:
    once = reranked([found(1, 0.8), found(2, 0.4)], [0.2, 0.9], 0.5)
    assert reranked(once, [0.9, 0.2], 0.5) == once


@pytest.mark.parametrize("scores", [[math.nan], [math.inf], [-0.1], [1.1], [], [0.1, 0.2]])
def test_scores_that_are_none_are_refused(scores: list[float]) -> None:
    with pytest.raises(BadModelReply):
        reranked([found(1, 0.5)], scores, 0.5)


def test_impossible_arguments_are_refused() -> None:
    for share in (0.0, 1.5, math.nan):
        with pytest.raises(BadInput):
            reranked([found(1, 0.5)], [0.5], share)
    with pytest.raises(BadInput):
        reranked([found(1, math.nan)], [0.5], 0.5)
    with pytest.raises(BadInput):
        ResultRanker(overlap()).rerank("q", [found(1, 0.5)], top_k=-1)
    for wrong in ({"top_k": -1}, {"diversity": 1.1}, {"diversity": math.nan}, {"freshness": -1.0}):
        with pytest.raises(BadInput):
            rank_results([found(1, 0.5)], **wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        rank_results([found(1, math.nan)])
    with pytest.raises(BadInput):
        rank_results([found(1, 0.5)], half_life_days=0.0)


def test_a_ranker_reads_everything_and_keeps_the_best() -> None:
    model = overlap()
    given_results = [found(key, 0.5, text) for key, text in enumerate(WORDS)]
    ranked = Reranker(model).rerank("报销比例", given_results, top_k=2)
    assert [each.chunk.key for each in ranked] == [0, 1]
    assert ranked[0].rerank == 1.0
    assert model.passages == WORDS
    assert Reranker(model).rerank("报销比例", [], top_k=5) == []
    assert Reranker(model).rerank("报销比例", given_results, top_k=0) == []
    assert len(ResultRanker(model).rerank("报销比例", given_results)) == len(given_results)


@given(results(), st.integers(0, 10), st.sampled_from(["报销", "机油周期", "x"]))
def test_reranked_results_are_a_sorted_subset_whose_top_k_is_a_prefix(
    given_results: list[Found], top_k: int, query: str
) -> None:
    ranker = ResultRanker(overlap())
    every = ranker.rerank(query, given_results, top_k=100)
    assert places(every) == sorted(places(every))
    assert {each.chunk.key for each in every} == {each.chunk.key for each in given_results}
    assert ranker.rerank(query, given_results[::-1], top_k=top_k) == every[:top_k]
    assert ranker.rerank(query, every, top_k=100) == every
    assert all(0.0 <= each.score <= 1.0 for each in every)


@given(results(dated=True), st.integers(0, 10), st.sampled_from([0.0, 0.3, 0.7, 1.0]), st.randoms())
def test_ranked_results_are_sorted_whatever_order_they_came_in(
    given_results: list[Found], top_k: int, diversity: float, chance: object
) -> None:
    every = rank_results(given_results, diversity=diversity)
    assert places(every) == sorted(places(every))
    assert all(0.0 <= each.score <= 1.0 for each in every)
    originals = {each.chunk.key: each for each in given_results}
    assert all(each.score <= originals[each.chunk.key].score for each in every)
    shuffled = list(given_results)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rank_results(shuffled, diversity=diversity, top_k=top_k) == every[:top_k]


@given(results())
def test_ranking_twice_changes_nothing_where_nothing_is_dated(given_results: list[Found]) -> None:
    once = rank_results(given_results)
    assert rank_results(once) == once
    assert all(each in given_results for each in once)


def test_relevance_then_no_repeats_then_freshness() -> None:
    old, new = {"date": "2020-01-01"}, {"date": "2024-01-01"}
    ranked = ResultRanker(overlap()).rank_results(
        [found(1, 0.8, WORDS[0], old), found(2, 0.8, WORDS[0] + " ", new), found(3, 0.9, WORDS[1])],
        freshness=0.5,
        half_life_days=365.0,
        now=datetime(2024, 1, 1, tzinfo=UTC),
    )
    assert [(each.chunk.key, each.score) for each in ranked] == [(3, 0.9), (2, 0.8)]


def test_a_cache_asks_only_about_what_it_has_not_seen() -> None:
    model, cache = overlap(), RerankCache()
    ranker = ResultRanker(model, cache=cache)
    first = [found(key, 0.5, WORDS[key]) for key in range(3)]
    ranked = ranker.rerank("报销", first, top_k=9)
    assert ranker.rerank("报销", [*first, found(3, 0.5, WORDS[3])], top_k=9)[0] == ranked[0]
    assert model.passages == WORDS[:4]
    ranker.rerank("机油", first[:1])
    ResultRanker(overlap("other"), cache=cache).rerank("报销", first[:1])
    assert len(model.passages) == 5
    assert cache.scores(model, "报销", [first[0].chunk]) == [1.0]
    assert len(model.passages) == 5
    cache.scores(model, "\ud800", [first[0].chunk])
    assert len(model.passages) == 6


def test_a_cache_forgets_the_least_used_and_never_what_is_asked_now() -> None:
    model, cache = overlap(), RerankCache(2)
    chunks = [found(key, 0.5, word).chunk for key, word in enumerate(WORDS)]
    for asked in (chunks[:2], chunks[:1], chunks[2:3], chunks[:1]):
        cache.scores(model, "报销", asked)
    assert model.passages == WORDS[:3]
    cache.scores(model, "报销", chunks[1:2])
    assert model.passages == [*WORDS[:3], WORDS[1]]
    assert len(cache.scores(overlap(), "报销", chunks)) == len(WORDS)
    with pytest.raises(BadInput):
        RerankCache(-1)


def test_a_cache_does_not_keep_a_bad_reply() -> None:
    for reply in (lambda passages: [0.5], lambda passages: [math.nan] * len(passages)):
        model = ScriptedReranker(reply=reply)
        cache = RerankCache()
        with pytest.raises(BadModelReply):
            ResultRanker(model, cache=cache).rerank("报销", [found(1, 0.5), found(2, 0.5)])
        again = overlap()
        cache.scores(again, "报销", [found(1, 0.5).chunk, found(2, 0.5).chunk])
        assert len(again.passages) == 2


def test_a_cache_serves_threads_at_once() -> None:
    cache = RerankCache(3)
    chunks = [found(key, 0.5, word).chunk for key, word in enumerate(WORDS)]
    expected = overlap().score("报销比例", WORDS)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: cache.scores(overlap(), "报销比例", chunks), range(200)))
    assert answers == [expected] * 200
