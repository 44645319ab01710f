"""How good a ranking is: the numbers of trec_eval (a test compares them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

NDCG, MRR, RECALL, DEEP_RECALL, HIT = "ndcg@10", "mrr@10", "recall@10", "recall@100", "hit@1"
METRICS = (NDCG, MRR, RECALL, DEEP_RECALL, HIT)
CUT, DEEP_CUT = 10, 100

PerQuery = Mapping[str, Mapping[str, float]]  # metric → query → value


def measure(qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]) -> PerQuery:
    """Every metric for every query of ``qrels``; a query without a ranking has found nothing."""
    values = {query: measured(grades, rankings.get(query, ())) for query, grades in qrels.items()}
    return {metric: {query: of[metric] for query, of in values.items()} for metric in METRICS}


def measured(grades: Mapping[str, int], ranking: Sequence[str]) -> dict[str, float]:
    """Every metric of one ranking, in the given order. A grade of 0 or below is not relevant."""
    if len(set(ranking)) != len(ranking):
        raise ValueError("a document is twice in one ranking")
    gains = [max(0, grades.get(document, 0)) for document in ranking]
    relevant = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    first = next((rank for rank, gain in enumerate(gains[:CUT], 1) if gain), None)
    return {
        NDCG: _discounted(gains[:CUT]) / _discounted(relevant[:CUT]) if relevant else 0.0,
        MRR: 1 / first if first else 0.0,
        RECALL: _share(gains[:CUT], len(relevant)),
        DEEP_RECALL: _share(gains[:DEEP_CUT], len(relevant)),
        HIT: 1.0 if first == 1 else 0.0,
    }


def _discounted(gains: Sequence[int]) -> float:
    """The cumulated gain, discounted by rank (Järvelin and Kekäläinen, TOIS 2002)."""
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _share(gains: Sequence[int], relevant: int) -> float:
    return sum(gain > 0 for gain in gains) / relevant if relevant else 0.0


def mean_scores(values: PerQuery) -> dict[str, float]:
    """The mean of each metric over its queries."""
    return {metric: sum(of.values()) / len(of) if of else 0.0 for metric, of in values.items()}
