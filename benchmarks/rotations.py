"""Weights and chances fitted on all sets but one and measured on that one, each set in turn: `python -m
benchmarks.rotations` prints the tables of docs/quality.md.

What the arms say of every question is gathered once through the engine and stored in the cache folder; fitting and
measuring take seconds from then on. Large sets are sampled: every relevant document, and others at random.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

from benchmarks.quality import SETS
from qianxun.core.options import SearchOptions
from qianxun.core.types import Document, Ranking
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, Vectorization
from qianxun.evaluation.dataset import limited, load
from qianxun.rank.calibrate import background
from qianxun.rank.fuse import ENOUGH_WORDS, fitting_weights
from qianxun.records import chunks
from qianxun.retrieve.run import trace

OWN: Final = Path(__file__).resolve().parents[1] / "tests" / "quality"
MODELS: Final = SETS.parents[1] / "models"
# Sets that share documents or makers are left out together.
DOMAINS: Final = {
    "rageval_zh_fin": "finance",
    "insuranceqa_zh": "insurance",
    "dureader_robust": "web",
    "rgb_zh": "news",
    "imtqa": "tables of reports",
    "dusql_tables_train": "tables of databases",
    "cmrc2018": "encyclopaedia",
    "kuake_qtr": "medicine",
    "kbqa_zh_1hop": "facts",
    "kbqa_zh_mh_train": "facts",
    "lay_questions": "other words",
    "paraphrases": "other words",
}
MOST: Final = {"insuranceqa_zh": 7000, "dureader_robust": 5000, "cmrc2018": 900, "rgb_zh": 1700}
MOST_ELSEWHERE: Final = 4000
QUESTIONS: Final = 300
BESIDE: Final = 848  # paragraphs of CMRC2018 beside the project's own passages
TOLERANCE, GAIN, ERROR = 0.003, 0.02, 0.10

Numbers = NDArray[np.float64]


class Question(NamedTuple):
    cosines: Numbers
    shares: Numbers  # of words, as fused
    grades: NDArray[np.int64]
    documents: tuple[str, ...]  # of each candidate
    ideal: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    likeness: float
    tables: float
    questions: tuple[Question, ...]


# ── what the arms say ────────────────────────────────────────────────────────────────────────────


def material(name: str) -> tuple[list[Document], Mapping[str, str], Mapping[str, Mapping[str, int]]]:
    """Documents, queries and grades of a set."""
    if (own := OWN / f"{name}.jsonl").exists():
        items = [json.loads(line) for line in own.read_text("utf-8").splitlines()]
        lines = (SETS / "cmrc2018" / "corpus.jsonl").read_text("utf-8").strip().split("\n")
        random.Random(20261116).shuffle(lines)
        others = [Document(entry["_id"], entry["text"][:100]) for entry in map(json.loads, lines[:BESIDE])]
        passages = [Document(f"p-{item['id']}", item["passage"]) for item in items]
        grades = {item["id"]: {f"p-{item['id']}": 1} for item in items}
        return passages + others, {item["id"]: item["query"] for item in items}, grades
    known = limited(load(SETS / name), QUESTIONS)
    relevant = {document for graded in known.qrels.values() for document, grade in graded.items() if grade > 0}
    others = [document for document in known.documents if document.id not in relevant]
    random.Random(7).shuffle(others)
    most = MOST.get(name, MOST_ELSEWHERE)
    chosen = relevant | {document.id for document in others[: max(0, most - len(relevant))]}
    return [document for document in known.documents if document.id in chosen], known.queries, known.qrels


def gathered(name: str, folder: Path) -> Gathered:
    """As stored in the folder, or else gathered and stored there."""
    stored = folder / f"{name}.pickle"
    if stored.exists():
        known: Gathered = pickle.loads(stored.read_bytes())  # noqa: S301
        return known
    found = asyncio.run(gather(name, folder))
    stored.write_bytes(pickle.dumps(found))
    return found


async def gather(name: str, folder: Path) -> Gathered:
    documents, queries, grades = material(name)
    settings = Settings(data=str(folder / name), vectorization=Vectorization(model_folders=(str(MODELS),)))
    settings = replace(settings, search=replace(settings.search, arm_seconds=600.0))
    async with Engine.open(settings=settings, background=False) as engine:
        about = await engine.create_knowledge_base("rotations", model="bge-small-zh-v1.5")
        await engine.add_documents(about.id, documents)
        base = await engine.base(about.id)
        with base.records.reading() as tx:
            keys = chunks.served_keys(tx, base.id).tolist()
            owners = {key: chunk.doc_id for key, chunk in chunks.by_keys(tx, base.id, keys).items()}
            tables = chunks.table_share(tx, base.id)
        asked = []
        for query, text in queries.items():
            traced = await trace(base, base.serving, text, SearchOptions(mode="hybrid", top_k=100))
            signals = traced.candidates.signals
            asked.append(_question(signals["vector"], signals.get("keyword"), owners, grades[query]))
        return Gathered(await base.serving.index.likeness(), tables, tuple(asked))


def _question(
    vector: Ranking, keyword: Ranking | None, owners: Mapping[int, str], grades: Mapping[str, int]
) -> Question:
    by_words = dict(zip(keyword.keys.tolist(), keyword.scores.tolist(), strict=True)) if keyword is not None else {}
    documents = tuple(owners[key] for key in vector.keys.tolist())
    return Question(
        vector.scores,
        np.array([by_words.get(key, 0.0) for key in vector.keys.tolist()]),
        np.array([max(0, grades.get(document, 0)) for document in documents]),
        documents,
        tuple(sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:10]),
    )


# ── weights ──────────────────────────────────────────────────────────────────────────────────────


def first_documents(question: Question, scores: Numbers, count: int = 10) -> list[int]:
    """The best candidate of each of the first documents."""
    seen: dict[str, int] = {}
    for at in np.argsort(-scores, kind="stable").tolist():
        seen.setdefault(question.documents[at], at)
        if len(seen) == count:
            break
    return list(seen.values())


def ndcg(question: Question, scores: Numbers) -> float:
    found = question.grades[first_documents(question, scores)]
    gains = found / np.log2(np.arange(len(found)) + 2.0)
    best = sum(grade / np.log2(at + 2.0) for at, grade in enumerate(question.ideal))
    return float(gains.sum() / best) if best else 0.0


def mean_ndcg(questions: Iterable[Question], vector: float) -> float:
    return float(np.mean([ndcg(one, vector * one.cosines + (1.0 - vector) * one.shares) for one in questions]))


STEPS: Final = np.round(np.arange(0.0, 1.001, 0.05), 2)


@dataclass(frozen=True, slots=True)
class Rule:
    """The weight of meaning in a base: by its likeness, and among tables."""

    most: float
    least: float
    tables: float

    def vector(self, base: Gathered) -> float:
        prose = float(np.interp(base.likeness, [0.36, 0.54], [self.most, self.least]))
        return (1.0 - base.tables) * prose + base.tables * self.tables


RULES: Final = [
    Rule(most, least, tables)
    for most, least, tables in product((0.65, 0.7, 0.75, 0.8, 0.85), (0.4, 0.45, 0.5, 0.55, 0.6), (0.1, 0.2, 0.3))
]


@dataclass(frozen=True, slots=True)
class Measured:
    """nDCG@10 of a set under every weight."""

    base: Gathered
    means: Numbers

    def gain(self, vector: float) -> float:
        """Over the better of words and meaning alone."""
        return float(np.interp(vector, STEPS, self.means)) - max(self.means[0], self.means[-1])


def fitted_rule(sets: Sequence[Measured]) -> Rule:
    """The best rule on these; a loss counts three times a gain."""

    def worth(rule: Rule) -> float:
        gains = np.array([one.gain(rule.vector(one.base)) for one in sets])
        return float(np.where(gains < 0.0, 3.0 * gains, gains).mean())

    return max(RULES, key=worth)


# ── chances ──────────────────────────────────────────────────────────────────────────────────────


def samples(base: Gathered, vector: float) -> tuple[Numbers, NDArray[np.bool_], Numbers]:
    """(1, how far the first stands out, distance from the first), right, and weight of the first results."""
    rows, right, weights = [], [], []
    for one in base.questions:
        scores = vector * one.cosines + (1.0 - vector) * one.shares
        first = first_documents(one, scores)
        standing = one.cosines[first[0]] - background(one.cosines, base.likeness)
        for rank, at in enumerate(first):
            rows.append((1.0, standing, scores[at] - scores[first[0]]))
            right.append(one.grades[at] > 0)
            weights.append(1.0 if rank == 0 else 0.1)
    return np.array(rows), np.array(right), np.array(weights) / len(base.questions)


def fitted_chance(sets: Sequence[tuple[Numbers, NDArray[np.bool_], Numbers]]) -> Numbers:
    """(offset, standing, slope) of the likeliest logistic, every set weighing the same."""
    rows, right, weights = (np.concatenate([one[column] for one in sets]) for column in range(3))

    def loss(at: Numbers) -> tuple[float, Numbers]:
        logits = rows @ at
        odds = weights * (1.0 / (1.0 + np.exp(-logits)) - right)
        return float((weights * (np.logaddexp(0.0, logits) - right * logits)).sum()), rows.T @ odds

    found: Numbers = minimize(loss, np.zeros(3), jac=True, method="L-BFGS-B").x
    return found


def calibration_error(base: Gathered, vector: float, chance: Numbers) -> tuple[float, float, float]:
    """Of first results, in ten bins: the error, the mean chance shown, the share that is right."""
    rows, right, weights = samples(base, vector)
    first = weights == weights.max()
    shown = 1.0 / (1.0 + np.exp(-(rows[first] @ chance)))
    places = np.clip((shown * 10).astype(int), 0, 9)
    gaps = np.bincount(places, shown - right[first], 10)
    return float(np.abs(gaps).sum() / len(shown)), float(shown.mean()), float(right[first].mean())


# ── rotations ────────────────────────────────────────────────────────────────────────────────────


def rotations(sets: Mapping[str, Measured]) -> Iterator[str]:
    yield "| 留出的集 | 块 | 词语 | 向量 | 混合 | 混合 − 最好的一路 | 首条：显示 / 对的 | ECE |"
    yield "| --- " * 8 + "|"
    gains, errors = [], []
    for name, own in sets.items():
        others = [one for other, one in sets.items() if DOMAINS[other] != DOMAINS[name]]
        vector = fitted_rule(others).vector(own.base)
        in_force = [samples(one.base, fitting_weights(one.base.likeness, one.base.tables)["vector"]) for one in others]
        error, shown, right = calibration_error(own.base, vector, fitted_chance(in_force))
        gains.append(own.gain(vector))
        errors.append(error)
        hybrid = own.gain(vector) + max(own.means[0], own.means[-1])
        scores = f"{own.means[0]:.4f} | {own.means[-1]:.4f} | {hybrid:.4f} | {gains[-1]:+.4f}"
        yield f"| {name} | {len(own.base.questions)} 问 | {scores} | {shown:.2f} / {right:.2f} | {error:.3f} |"
    yield f"| **平均** | | | | | **{np.mean(gains):+.4f}** | | **{np.mean(errors):.3f}** |"
    yield ""
    yield f"hybrid ≥ best arm − {TOLERANCE}: {sum(gain >= -TOLERANCE for gain in gains)} of {len(gains)}"
    yield f"ECE ≤ {ERROR}: {sum(error <= ERROR for error in errors)} of {len(errors)}, at most {max(errors):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(".bench-cache/rotations"), help="where the arms' scores are")
    parser.add_argument("--sets", nargs="*", default=list(DOMAINS))
    chosen = parser.parse_args()
    sets = {}
    for name in chosen.sets:
        base = gathered(name, chosen.data)
        sets[name] = Measured(base, np.array([mean_ndcg(base.questions, float(step)) for step in STEPS]))
    print("\n".join(rotations(sets)))
    every = list(sets.values())
    rule = fitted_rule(every)
    chance = fitted_chance([samples(one.base, rule.vector(one.base)) for one in every])
    print(f"on all: {rule}, words in full from a share of {ENOUGH_WORDS:g}; chance {np.round(chance, 2).tolist()}")


if __name__ == "__main__":
    main()
