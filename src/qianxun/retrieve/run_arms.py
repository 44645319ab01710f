"""The arms of a recall, side by side, each under its own deadline. One that fails or is late is said aloud."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, Serving, read
from qianxun.core.errors import BadInput, IndexUnusable, QianxunError, RecallFailed, RetrieverUnavailable
from qianxun.core.ports import Retriever
from qianxun.core.types import NOTHING, Degraded, Ranking, Scores, StepTime, Vector
from qianxun.rank.calibrate import clipped
from qianxun.rank.fuse import best_of, joined
from qianxun.records import pairs
from qianxun.retrieve.arm_results import WITH_VECTOR, ArmOutcomes, listen
from qianxun.retrieve.arms.dense import DenseRetriever
from qianxun.retrieve.arms.keyword import KeywordRetriever
from qianxun.retrieve.arms.qa import QARetriever
from qianxun.retrieve.query_plan import QueryPlan

log = logging.getLogger(__name__)

# Two questions on one matter lie nearer to each other than a question to the passage that answers it: the curve of a
# query–query set has its middle at .735 (kuake_qtr), those of query–passage sets at .557 and .588 (cmrc2018,
# dureader_robust). The lead is a cautious part of that.
QUESTION_LEAD: Final = 0.1


@dataclass(frozen=True, slots=True)
class ArmResults:
    """What the arms answered: one ranking each, over all queries."""

    rankings: Mapping[str, Ranking]
    own: Mapping[str, Ranking]  # the same for the user's own queries alone, guesses left out
    degraded: tuple[Degraded, ...]
    steps: tuple[StepTime, ...]
    vectors: tuple[Vector, ...] = ()  # of the queries, where they were asked for
    # What the vector arm would have said of the candidates that only others found, in no order.
    behind: Ranking = field(default_factory=lambda: NOTHING)

    @property
    def sides(self) -> tuple[str, ...]:
        """What is fused, by name: see `scores`."""
        return tuple(dict.fromkeys("vector" if arm in WITH_VECTOR else arm for arm in self.rankings))

    def scores(self) -> dict[str, Ranking]:
        """What is fused: words on one side, meaning on the other. A question stands for the chunk that answers it."""
        meaning = [self.rankings[arm] for arm in WITH_VECTOR if arm in self.rankings]
        # What only questions found stands behind, too; otherwise nothing is in two of them.
        one = best_of if len(self.rankings.get("qa", NOTHING)) else joined
        sides = {"vector": one([*meaning, self.behind])} if meaning else {}
        return sides | {arm: ranking for arm, ranking in self.rankings.items() if arm not in WITH_VECTOR}


def standard_arms(base: OpenBase, serving: Serving) -> tuple[Retriever, ...]:
    """One file each in ``recall/``."""

    async def chunk_of(keys: Sequence[int]) -> Mapping[int, int]:
        return await read(base, pairs.chunks_of, keys)

    return (
        DenseRetriever(serving.index, clipped),
        KeywordRetriever(serving.index),
        QARetriever(serving.index, chunk_of, _led, serving.index.is_here and base.records.is_here),
    )


def _led(cosines: Scores) -> Scores:
    return clipped(cosines - QUESTION_LEAD)


async def run_arms(
    base: OpenBase, serving: Serving, asked: QueryPlan, names: Sequence[str], depth: int, seconds: float
) -> ArmResults:
    """Every named arm on every query. Raises RecallFailed when none answers."""
    arms = [arm for arm in (base.arms or standard_arms)(base, serving) if arm.name in names]
    if not arms:
        raise RecallFailed("没有一路检索可用", hint=f"这种检索要用到：{'、'.join(names)}")
    return _heard(arms, await listen(base, serving, arms, asked.queries, depth, seconds), asked)


# ── what they said ───────────────────────────────────────────────────────────────────────────────


def _heard(arms: Sequence[Retriever], said: ArmOutcomes, asked: QueryPlan) -> ArmResults:
    rankings: dict[str, Ranking] = {}
    own: dict[str, Ranking] = {}
    failed: list[Degraded] = []
    steps: list[StepTime] = []
    for arm in arms:
        outcome = said.outcomes[arm.name]
        if isinstance(outcome, BadInput):
            raise outcome  # the request's own fault, whichever arm says it first
        if isinstance(outcome, BaseException):
            failed.append(Degraded(arm.name, _reason(arm, outcome)))
        else:
            rankings[arm.name] = best_of(outcome.rankings)
            own[arm.name] = best_of(outcome.rankings[: len(asked.own)]) if asked.corrected else rankings[arm.name]
            steps.append(StepTime(f"recall.{arm.name}", outcome.seconds, len(rankings[arm.name]), outcome.started))
    failed = _told_once(failed) if said.lacks_vectors else failed
    if not rankings:
        raise RecallFailed(
            "每一路检索都失败了：" + "；".join(f"{each.part}：{each.reason}" for each in failed),
            hint="按上面的原因处理后重试；qianxun doctor 可以检查环境",
        )
    return ArmResults(rankings, own, tuple(failed), tuple(steps), said.vectors)


def together(heard: ArmResults, meant: ArmResults) -> ArmResults:
    """What the arms said of the user's own queries, and of a guess at what was meant."""
    rankings = {
        arm: best_of(filter(None, (heard.rankings.get(arm), meant.rankings.get(arm))))
        for arm in dict.fromkeys((*heard.rankings, *meant.rankings))
    }
    more = {step.name: step.seconds for step in meant.steps}
    steps = [replace(step, seconds=step.seconds + more.get(step.name, 0.0)) for step in heard.steps]
    return ArmResults(
        rankings,
        heard.own,
        tuple(dict.fromkeys((*heard.degraded, *meant.degraded))),
        tuple(steps),
        (*heard.vectors, *meant.vectors),
    )


def _told_once(failed: Sequence[Degraded]) -> list[Degraded]:
    """Without what two arms say of the same cause: both wait for the one vector of the query."""
    told = [each.reason for each in failed if each.part in WITH_VECTOR][:1]
    later = [each for each in failed if each.part in WITH_VECTOR][1:]
    return [each for each in failed if not (each in later and each.reason in told)]


def _reason(arm: Retriever, error: BaseException) -> str:
    if isinstance(error, QianxunError):
        return str(error)
    # The door of an arm, which may be anybody's: whatever it raises must not take the others down.
    log.error("arm %s failed", arm.name, exc_info=error)
    return f"出错：{type(error).__name__}: {error}"


async def completed(serving: Serving, heard: ArmResults) -> ArmResults:
    """Cosines also for what only other arms found: an arm's silence beyond its last candidate is not a zero."""
    if "vector" not in heard.rankings or len(heard.rankings) < 2:
        return heard
    seen = set(heard.rankings["vector"].keys.tolist())
    others = {key for arm, ranking in heard.rankings.items() if arm != "vector" for key in ranking.keys.tolist()}
    unseen = np.array(sorted(others - seen), dtype=np.int64)
    if len(unseen) == 0:
        return heard
    try:
        by_query = [await serving.index.cosines(vector, unseen) for vector in heard.vectors]
    except (IndexUnusable, RetrieverUnavailable) as error:
        return replace(heard, degraded=(*heard.degraded, Degraded("vector", str(error))))
    cosines = by_query[0] if len(by_query) == 1 else np.fmax.reduce(by_query)
    unknown = np.isnan(cosines)
    if unknown.any():
        unseen, cosines = unseen[~unknown], cosines[~unknown]
    return replace(heard, behind=Ranking(unseen, clipped(cosines), 1.0, cosines))
