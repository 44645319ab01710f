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
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

from benchmarks.quality import SETS
from qianxun.bases.base import OpenBase
from qianxun.core.options import SearchOptions
from qianxun.core.types import Document
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
    codes: Numbers  # the share of the question's codes that each has; NaN where there are none
    grades: NDArray[np.int64]
    documents: tuple[str, ...]  # of each candidate
    ideal: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    likeness: float
    tables: float
    questions: tuple[Question, ...]
    codes: tuple[Question, ...]  # made-up ones that ask for a code: chances are fitted on them, too


# ── what the arms say ────────────────────────────────────────────────────────────────────────────


def material(
    name: str, most: int = 10_000
) -> tuple[list[Document], Mapping[str, str], Mapping[str, Mapping[str, int]]]:
    """Documents, at most so many where not more of them are relevant, queries and grades of a set."""
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
    most = min(most, MOST.get(name, MOST_ELSEWHERE))
    chosen = relevant | {document.id for document in others[: max(0, most - len(relevant))]}
    return [document for document in known.documents if document.id in chosen], known.queries, known.qrels


def gathered(name: str, folder: Path, most: int) -> Gathered:
    """As stored in the folder, or else gathered and stored there."""
    stored = folder / f"{name}.pickle"
    if stored.exists():
        known: Gathered = pickle.loads(stored.read_bytes())  # noqa: S301
        return known
    found = asyncio.run(gather(name, folder, most))
    folder.mkdir(parents=True, exist_ok=True)
    stored.write_bytes(pickle.dumps(found))
    return found


async def gather(name: str, folder: Path, most: int) -> Gathered:
    documents, queries, grades = material(name, most)
    settings = Settings(data=str(folder / name), vectorization=Vectorization(model_folders=(str(MODELS),)))
    settings = replace(settings, search=replace(settings.search, arm_seconds=600.0))
    async with Engine.open(settings=settings, background=False) as engine:
        known = [about for about in await engine.knowledge_bases() if about.name == "rotations"]
        about = known[0] if known else await engine.create_knowledge_base("rotations", model="bge-small-zh-v1.5")
        await engine.add_documents(about.id, documents)  # those that are there already are not embedded again
        base = await engine.base(about.id)
        with base.records.reading() as tx:
            keys = chunks.served_keys(tx, base.id).tolist()
            owners = {key: chunk.doc_id for key, chunk in chunks.by_keys(tx, base.id, keys).items()}
            tables = chunks.table_share(tx, base.id)
        asked = [await _asked(base, text, owners, grades[query]) for query, text in queries.items()]
        codes = [await _asked(base, text, owners, graded) for text, graded in code_questions(documents)]
        return Gathered(await base.serving.index.likeness(), tables, tuple(asked), tuple(codes))


async def _asked(base: OpenBase, text: str, owners: Mapping[int, str], grades: Mapping[str, int]) -> Question:
    traced = await trace(base, base.serving, text, SearchOptions(mode="hybrid", top_k=100))
    vector, keyword = traced.candidates.signals["vector"], traced.candidates.signals.get("keyword")
    by_words = dict(zip(keyword.keys.tolist(), keyword.scores.tolist(), strict=True)) if keyword is not None else {}
    keys = vector.keys.tolist()
    documents = tuple(owners[key] for key in keys)
    held = [traced.candidates.codes.share(key) for key in keys]
    return Question(
        vector.scores,
        np.array([by_words.get(key, 0.0) for key in keys]),
        np.array([np.nan if share is None else share for share in held]),
        np.array([max(0, grades.get(document, 0)) for document in documents]),
        documents,
        tuple(sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:10]),
    )


CODE: Final = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z0-9./_-]*[0-9])(?=[A-Za-z0-9./_-]*[A-Za-z])[A-Za-z0-9]+(?:[./_-][A-Za-z0-9]+)*"
)
CODES: Final = 60  # a set
ASKING: Final = ("{}", "{}是什么", "{} 多少钱", "请问{}是哪家的", "{}有哪些参数", "查一下 {} 的情况")


def code_questions(documents: Sequence[Document]) -> list[tuple[str, Mapping[str, int]]]:
    """Questions for codes of letters and digits that stand in at most three documents, which are right; in every third
    a digit is changed, so that no document has the code and none is right."""
    holders: dict[str, set[str]] = {}
    for document in documents:
        for code in CODE.findall(document.content):
            if 4 <= len(code) <= 20:
                holders.setdefault(code.lower(), set()).add(document.id)
    rng = random.Random(20261117)
    rare = sorted(code for code, held in holders.items() if len(held) <= 3)
    asked: list[tuple[str, Mapping[str, int]]] = []
    for at, code in enumerate(rng.sample(rare, min(CODES, len(rare)))):
        held = holders[code]
        if at % 3 == 2:
            code = "".join(str((int(one) + rng.randint(1, 9)) % 10) if one.isdecimal() else one for one in code)
            held = holders.get(code, set())
        asked.append((rng.choice(ASKING).format(code.upper()), dict.fromkeys(held, 1)))
    return asked


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


# A chunk may have the code that was asked for and not answer, or write it in another way and answer: of questions that
# were made up neither is known.
CODES_SURE: Final = 0.9


class Samples(NamedTuple):
    rows: Numbers  # 1, how far the first stands out, distance from the first; codes that it has, and has not
    right: Numbers
    weights: Numbers
    is_first: NDArray[np.bool_]


def samples(base: Gathered, vector: float, questions: Sequence[Question]) -> Samples:
    rows, right, firsts = [], [], []
    for one in questions:
        scores = vector * one.cosines + (1.0 - vector) * one.shares
        first = first_documents(one, scores)
        best = first[0]
        standing, held = one.cosines[best] - background(one.cosines, base.likeness), one.codes[best]
        codes = (0.0, 0.0) if np.isnan(held) else (held, 1.0 - held)
        for rank, at in enumerate(first):
            rows.append((1.0, standing, scores[at] - scores[best], *codes))
            right.append(float(one.grades[at] > 0))
            firsts.append(rank == 0)
    is_first = np.array(firsts, dtype=bool)
    weights = np.where(is_first, 1.0, 0.1) / max(1, len(questions))
    return Samples(np.array(rows).reshape(-1, 5), np.array(right), weights, is_first)


def fitted_chance(bases: Sequence[Gathered]) -> Numbers:
    """(offset, standing, slope) of the likeliest logistic on questions without codes, every set weighing the same; and
    (held, missing) beside them on those for codes."""
    plain = [samples(one, weight_in_force(one), [q for q in one.questions if np.isnan(q.codes).all()]) for one in bases]
    common = _likeliest([one._replace(rows=one.rows[:, :3]) for one in plain])
    codes = [samples(one, weight_in_force(one), one.codes) for one in bases if one.codes]
    smoothed = [
        one._replace(
            right=np.where(one.is_first, 1.0 - CODES_SURE + (2.0 * CODES_SURE - 1.0) * one.right, one.right),
            weights=one.weights * min(1.0, one.is_first.sum() / CODES),
        )
        for one in codes
    ]
    return np.concatenate([common, _likeliest(smoothed, common)])


def _likeliest(sets: Sequence[Samples], common: Numbers | None = None) -> Numbers:
    """The coefficients of the rows; with the ``common`` ones given, of those columns that come after."""
    rows, right, weights = (np.concatenate([one[column] for one in sets]) for column in range(3))
    given = np.zeros(len(rows)) if common is None else rows[:, : len(common)] @ common
    free = rows if common is None else rows[:, len(common) :]

    def loss(at: Numbers) -> tuple[float, Numbers]:
        logits = given + free @ at
        odds = weights * (1.0 / (1.0 + np.exp(-logits)) - right)
        return float((weights * (np.logaddexp(0.0, logits) - right * logits)).sum()), free.T @ odds

    found: Numbers = minimize(loss, np.zeros(free.shape[1]), jac=True, method="L-BFGS-B").x
    return found


def calibration_error(
    base: Gathered, vector: float, chance: Numbers, questions: Sequence[Question]
) -> tuple[float, float, float]:
    """Of first results, in ten bins: the error, the mean chance shown, the share that is right."""
    sampled = samples(base, vector, questions)
    rows, right = sampled.rows[sampled.is_first], sampled.right[sampled.is_first]
    if not len(rows):
        return float("nan"), float("nan"), float("nan")
    shown = 1.0 / (1.0 + np.exp(-(rows @ chance)))
    places = np.clip((shown * 10).astype(int), 0, 9)
    gaps = np.bincount(places, shown - right, 10)
    return float(np.abs(gaps).sum() / len(shown)), float(shown.mean()), float(right.mean())


# ── rotations ────────────────────────────────────────────────────────────────────────────────────


def rotations(sets: Mapping[str, Measured]) -> Iterator[str]:
    yield "| 留出的集 | 问题 | 词语 | 向量 | 混合 | 混合 − 最好的一路 | 首条：显示 / 对的 | ECE | 编号：对的 / ECE |"
    yield "| --- " * 9 + "|"
    gains, errors = [], []
    for name, own in sets.items():
        others = [one.base for other, one in sets.items() if DOMAINS[other] != DOMAINS[name]]
        vector = fitted_rule([one for other, one in sets.items() if DOMAINS[other] != DOMAINS[name]]).vector(own.base)
        chance = fitted_chance(others)
        error, shown, right = calibration_error(own.base, vector, chance, own.base.questions)
        code_error, _, code_right = calibration_error(own.base, vector, chance, own.base.codes)
        gains.append(own.gain(vector))
        errors.append(error)
        hybrid = own.gain(vector) + max(own.means[0], own.means[-1])
        scores = f"{own.means[0]:.4f} | {own.means[-1]:.4f} | {hybrid:.4f} | {gains[-1]:+.4f}"
        firsts = f"{shown:.2f} / {right:.2f} | {error:.3f} | {code_right:.2f} / {code_error:.3f}"
        yield f"| {name} | {len(own.base.questions)} | {scores} | {firsts} |"
    yield f"| **平均** | | | | | **{np.mean(gains):+.4f}** | | **{np.mean(errors):.3f}** | |"
    yield ""
    yield f"hybrid ≥ best arm − {TOLERANCE}: {sum(gain >= -TOLERANCE for gain in gains)} of {len(gains)}"
    yield f"ECE ≤ {ERROR}: {sum(error <= ERROR for error in errors)} of {len(errors)}, at most {max(errors):.3f}"


def weight_in_force(base: Gathered) -> float:
    return fitting_weights(base.likeness, base.tables)["vector"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(".bench-cache/rotations"), help="where the arms' scores are")
    parser.add_argument("--most", type=int, default=10_000, help="documents a set, where not more are relevant")
    parser.add_argument("--sets", nargs="*", default=list(DOMAINS))
    chosen = parser.parse_args()
    sets = {}
    for name in chosen.sets:
        base = gathered(name, chosen.data, chosen.most)
        sets[name] = Measured(base, np.array([mean_ndcg(base.questions, float(step)) for step in STEPS]))
    print("\n".join(rotations(sets)))
    every = list(sets.values())
    rule = fitted_rule(every)
    chance = fitted_chance([one.base for one in every])
    print(f"on all: {rule}, words in full from a share of {ENOUGH_WORDS:g}; chance {np.round(chance, 2).tolist()}")


if __name__ == "__main__":
    main()
