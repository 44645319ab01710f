"""One way of searching, measured on every query of a dataset; and two such runs compared."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.evaluation.metrics import NDCG, PerQuery, mean_scores, measure

Search: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]  # a query's text → document ids, best first

ROUNDS = 10_000  # of the randomisation test
EXACT_UP_TO = 13  # so many differences are tried with every sign: 2^13 is fewer than ROUNDS
SEED = 20260101
SIGNIFICANT = 0.05
MOVED = 10  # queries shown in a comparison


@dataclass(frozen=True, slots=True)
class Run:
    """What one way of searching achieved: every metric per query and in the mean, and how long searches took."""

    name: str
    per_query: PerQuery
    mean_scores: Mapping[str, float]
    p50_ms: float
    p95_ms: float


async def run(
    name: str,
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    search: Search,
    watch: Callable[[int], None] = lambda _: None,
) -> Run:
    """Searches for one query after the other, so that the times are those of a single user.

    A document that is found more than once counts at its first rank.
    """
    rankings: dict[str, list[str]] = {}
    seconds: list[float] = []
    for query, text in queries.items():
        started = time.perf_counter()
        found = await search(text)
        seconds.append(time.perf_counter() - started)
        rankings[query] = list(dict.fromkeys(found))
        watch(1)
    per_query = measure({query: qrels[query] for query in queries}, rankings)
    p50, p95 = np.percentile(seconds, [50, 95]) * 1000 if seconds else (0.0, 0.0)
    return Run(name, per_query, mean_scores(per_query), float(p50), float(p95))


# ── comparison ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class MovedQuestion:
    query: str
    text: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs over the same queries. ``difference`` is the second mean less the first."""

    metric: str
    names: tuple[str, str]
    mean_scores: tuple[float, float]
    difference: float
    p_value: float
    queries: int
    moved: tuple[MovedQuestion, ...]  # those that moved most, largest first

    @property
    def is_significant(self) -> bool:
        return self.p_value < SIGNIFICANT


def compare(first: Run, second: Run, texts: Mapping[str, str], metric: str = NDCG) -> Comparison:
    before, after = first.per_query[metric], second.per_query[metric]
    differences = np.array([after[query] - before[query] for query in texts], dtype=np.float64)
    moved = sorted(
        (MovedQuestion(query, text, before[query], after[query]) for query, text in texts.items()),
        key=lambda one: (-abs(one.after - one.before), one.query),
    )
    return Comparison(
        metric=metric,
        names=(first.name, second.name),
        mean_scores=(first.mean_scores[metric], second.mean_scores[metric]),
        difference=second.mean_scores[metric] - first.mean_scores[metric],
        p_value=randomisation_test(differences),
        queries=len(texts),
        moved=tuple(one for one in moved[:MOVED] if one.before != one.after),
    )


def randomisation_test(differences: NDArray[np.float64], rounds: int = ROUNDS) -> float:
    """How often chance alone gives a mean at least as far from zero: Fisher's paired randomisation test, two-sided.

    Were the two systems the same, each query's difference could as well have had the other sign. Few differences are
    tried with every combination of signs; many with ``rounds`` random ones, the observed one counted among them
    (Smucker, Allan and Carterette, CIKM 2007).
    """
    moved = differences[differences != 0.0]
    if not len(moved):
        return 1.0
    observed = abs(moved.sum()) * (1.0 - 1e-12)  # equal sums may differ in their last bit
    if len(moved) <= EXACT_UP_TO:
        patterns = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
        return float(np.mean(np.abs((2.0 * patterns - 1.0) @ moved) >= observed))
    random = np.random.default_rng(SEED)
    step = max(1, 4_000_000 // len(moved))  # signs in memory at a time
    as_far = 0
    for start in range(0, rounds, step):
        signs = random.integers(0, 2, size=(min(step, rounds - start), len(moved)), dtype=np.int8)
        as_far += int(np.count_nonzero(np.abs((2.0 * signs - 1.0) @ moved) >= observed))
    return (as_far + 1) / (rounds + 1)
