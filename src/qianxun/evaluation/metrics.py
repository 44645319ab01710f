"""How good a ranking is: the numbers of trec_eval, by `ir_measures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qianxun.core.errors import MissingExtra

NDCG, MRR, RECALL, DEEP_RECALL, HIT = "ndcg@10", "mrr@10", "recall@10", "recall@100", "hit@1"
METRICS = (NDCG, MRR, RECALL, DEEP_RECALL, HIT)

PerQuery = Mapping[str, Mapping[str, float]]  # metric → query → value


def available() -> None:
    """Raises MissingExtra where the library is not installed: call it before an index is built."""
    try:
        import ir_measures  # noqa: F401
    except ImportError as error:
        raise MissingExtra("ir-measures", "eval") from error


def measure(qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]) -> PerQuery:
    """Every metric for every query of ``qrels``; a query without a ranking has found nothing.

    The given order is measured. trec_eval would sort equal scores by document id, so it gets strictly falling ones; and
    it reads ids as C strings, so it gets numbers in their place.
    """
    available()
    import ir_measures
    from ir_measures import RR, R, Success, nDCG

    measures = {nDCG @ 10: NDCG, RR @ 10: MRR, R @ 10: RECALL, R @ 100: DEEP_RECALL, Success @ 1: HIT}
    numbers: dict[str, str] = {}

    def number(document: str) -> str:
        return numbers.setdefault(document, str(len(numbers)))

    queries = list(qrels)
    grades = {
        str(at): {number(document): max(0, grade) for document, grade in qrels[query].items()}
        for at, query in enumerate(queries)
    }
    ranked = {
        str(at): _falling([number(document) for document in rankings.get(query, ())])
        for at, query in enumerate(queries)
    }
    found: dict[str, dict[str, float]] = {metric: dict.fromkeys(queries, 0.0) for metric in METRICS}
    for value in ir_measures.iter_calc(list(measures), grades, ranked):
        found[measures[value.measure]][queries[int(value.query_id)]] = float(value.value)
    return found


def _falling(documents: Sequence[str]) -> dict[str, float]:
    if len(set(documents)) != len(documents):
        raise ValueError("a document is twice in one ranking")
    return {document: float(len(documents) - rank) for rank, document in enumerate(documents)}


def mean_scores(values: PerQuery) -> dict[str, float]:
    """The mean of each metric over its queries."""
    return {metric: sum(of.values()) / len(of) if of else 0.0 for metric, of in values.items()}
