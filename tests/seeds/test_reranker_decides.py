"""Document 003, 3.3.3: the fused Top N go to the rerank model, which puts out the final Top K. What it put first is
first, however little the words or the vectors say for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from qianxun.core.types import Document, Recall
from qianxun.engine.settings import Search
from qianxun.rank.calibrate import Curves
from tests.answer.asked import FakeRerank, Opened

BEST = "看医生的花费能退回大半。"  # has no character of the query, and a cosine just above zero
OTHERS = ("城市公园的花卉养护记录。", "腾讯会议每逢周三举行。")
QUERY = "住院报销比例"


def verdict(best: float, rest: float) -> Any:
    return lambda passages: [best if BEST in passage else rest for passage in passages]


def reversed_order(passages: Sequence[str]) -> list[float]:
    return [(at + 1) / 100 for at in range(len(passages))]


RERANKERS = (
    FakeRerank("sure", 1.0, verdict(0.95, 0.05)),
    FakeRerank("doubtful", 1.0, verdict(0.2, 0.001)),
    FakeRerank("adverse", 1.0, verdict(0.01, 0.05)),
    FakeRerank("silent", 1.0, verdict(0.0, 0.0)),
    FakeRerank("mixed", 0.6, verdict(0.95, 0.05)),
    FakeRerank("reversing", 1.0, reversed_order),
)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    documents = [Document(f"d{number}", f"第{number}条 住院报销比例的规定。") for number in range(20)]
    documents += [Document("best", BEST), *(Document(text[:4], text) for text in OTHERS)]
    folder = tmp_path_factory.mktemp("verdicts")
    with Opened(folder, documents, *RERANKERS, search=Search(cache_entries=0)) as opened:
        # By this curve the cosine of an unrelated text is far below every tier.
        opened.run(opened.engine.base(opened.kb)).curves = Curves((0.6, 30.0))
        yield opened


def doc_ids(recall: Recall) -> list[str]:
    assert recall.degraded == ()
    return [found.chunk.doc_id for found in recall.found]


def test_without_a_reranker_no_tier_admits_it(shelf: Opened) -> None:
    assert "best" not in doc_ids(shelf.ask(QUERY, mode="vector", top_k=100))


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
@pytest.mark.parametrize("fuzzy", [True, False])
@pytest.mark.parametrize("fusion", ["weighted", "min_max", "rrf"])
def test_what_the_reranker_put_first_is_first(shelf: Opened, mode: str, fuzzy: bool, fusion: str) -> None:
    recall = shelf.ask(QUERY, mode=mode, fusion=fusion, rerank="sure", fuzzy=fuzzy, top_k=100)
    assert doc_ids(recall)[0] == "best"
    best = recall.found[0]
    assert (best.tier, best.rerank, best.score) == ("strict", 0.95, 0.95)
    short = shelf.ask(QUERY, mode=mode, fusion=fusion, rerank="sure", fuzzy=fuzzy, top_k=1)
    assert doc_ids(short) == ["best"]


def test_what_it_put_first_with_little_certainty_is_first_and_fuzzy(shelf: Opened) -> None:
    recall = shelf.ask(QUERY, mode="vector", rerank="doubtful", top_k=100)
    assert (doc_ids(recall)[0], recall.found[0].tier) == ("best", "fuzzy")
    assert "best" not in doc_ids(shelf.ask(QUERY, mode="vector", rerank="doubtful", fuzzy=False, top_k=100))


def test_a_reranker_with_a_part_of_the_score_admits_what_it_prefers(shelf: Opened) -> None:
    assert "best" in doc_ids(shelf.ask(QUERY, mode="vector", rerank="mixed", top_k=100))


@pytest.mark.parametrize("rerank", ["adverse", "silent"])
def test_what_it_thinks_nothing_of_is_still_left_out(shelf: Opened, rerank: str) -> None:
    assert "best" not in doc_ids(shelf.ask(QUERY, mode="vector", rerank=rerank, top_k=100))


def test_the_explanation_agrees(shelf: Opened) -> None:
    chunk_id = f"c_{shelf.kb}_best_0"
    told = shelf.run(shelf.engine.explain(shelf.kb, QUERY, chunk_id, mode="vector", rerank="sure"))
    assert told.chunk is not None
    assert (told.chunk.step, told.chunk.rank, told.chunk.tier) == ("returned", 1, "strict")
    told = shelf.run(shelf.engine.explain(shelf.kb, QUERY, chunk_id, mode="vector", rerank="adverse"))
    assert told.chunk is not None
    assert told.chunk.step == "tier"
    assert "重排 0.01" in told.chunk.reason


def test_its_order_is_the_order_of_the_results(shelf: Opened) -> None:
    scores = [found.rerank for found in shelf.ask(QUERY, rerank="reversing", top_k=100).found]
    assert scores == sorted(scores, key=lambda score: -(score or 0.0))
