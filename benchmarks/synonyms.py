"""How many more answers a keyword search finds when a query is also asked in other words.

    python -m benchmarks.synonyms tests/quality/paraphrases.jsonl --beside ../shared/data/beir/cmrc2018
    python -m benchmarks.synonyms ../shared/data/beir/dureader_robust --queries 600 --documents 6000

The first form takes passages with one query each, and puts them among documents of a set. ``--model`` adds what is
learnt from the base (its weights where `vectorization.model_folders` says); without it only synonyms that are written
down are used. A result found by another wording counts by that wording's weight. ``--lacking .68,.80 --learnt-alone``
tries other thresholds for words that the base lacks, without the shipped list.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qianxun.bases.base import OpenBase
from qianxun.core.types import Document, Query
from qianxun.engine.engine import Engine
from qianxun.evaluation import dataset
from qianxun.evaluation.metrics import mean_scores, measure
from qianxun.records import chunks
from qianxun.retrieve.arms import SearchContext
from qianxun.retrieve.arms.keyword import KeywordArm
from qianxun.retrieve.terms import related as related_terms
from qianxun.retrieve.terms.related import Nearness, expanded
from qianxun.text.expansion import Expansion
from qianxun.text.synonyms import NO_SYNONYMS

DEPTH = 30
SEED = 20261116
TOGETHER = 2_000


def material(arguments: argparse.Namespace) -> tuple[list[Document], dict[str, str], dict[str, Mapping[str, int]]]:
    """Documents, queries, and which documents answer which query."""
    if arguments.set.is_dir():
        told = dataset.load(arguments.set)
        asked = sorted(told.queries)
        random.Random(SEED).shuffle(asked)
        asked = asked[: arguments.queries]
        answers = {query: told.qrels[query] for query in asked}
        queries = {query: told.queries[query] for query in asked}
        return _among(told.documents, {doc for own in answers.values() for doc in own}, arguments), queries, answers
    items = [json.loads(line) for line in arguments.set.read_text(encoding="utf-8").splitlines()]
    own = [Document(item["id"], item["passage"]) for item in items]
    others = _among(dataset.load(arguments.beside).documents, set(), arguments) if arguments.beside else []
    return (
        [*own, *others],
        {item["id"]: item["query"] for item in items},
        {item["id"]: {item["id"]: 1} for item in items},
    )


def _among(documents: Sequence[Document], needed: set[str], arguments: argparse.Namespace) -> list[Document]:
    others = [document for document in documents if document.id not in needed]
    random.Random(SEED).shuffle(others)
    return [document for document in documents if document.id in needed] + others[: arguments.documents]


async def found(base: OpenBase, text: str, expansions: Sequence[Expansion]) -> list[str]:
    """Documents, best first: by the query itself and by its other wordings."""
    scores: dict[int, float] = {}
    arm, context = KeywordArm(), SearchContext(base, base.serving)
    for said, weight in ((text, 1.0), *((each.text, each.weight) for each in expansions)):
        ranking = await arm.search(Query(said, base.analyser.analyse_query(said), None), DEPTH, context)
        for key, score in zip(ranking.keys.tolist(), arm.calibrate(ranking).tolist(), strict=True):
            scores[key] = max(scores.get(key, 0.0), score * weight)
    best = sorted(scores, key=lambda key: (-scores[key], key))
    with base.records.reading() as tx:
        held = chunks.by_keys(tx, base.id, best)
    return list(dict.fromkeys(held[key].doc_id for key in best if key in held))


async def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    documents, queries, answers = material(arguments)
    with tempfile.TemporaryDirectory() as folder:
        async with Engine.open(folder, background=False) as engine:
            kb = (await engine.create_knowledge_base("benchmark", model=arguments.model)).id
            for start in range(0, len(documents), TOGETHER):
                await engine.add_documents(kb, documents[start : start + TOGETHER])
            learnt = await engine.admin.learn_terms(kb, seconds=3_600.0)
            base = await engine.base(kb)
            plain, otherwise = {}, {}
            origins: Counter[str] = Counter()
            for query, text in queries.items():
                expansions = await expanded(base, base.serving, text)
                origins.update({related.origin for each in expansions for related in each.related})
                plain[query] = await found(base, text, ())
                otherwise[query] = await found(base, text, expansions) if expansions else plain[query]
    sizes = {"documents": len(documents), "queries": len(queries), "learnt": learnt.terms, "expanded_by": dict(origins)}
    return {"set": arguments.set.stem, **sizes, **_compared(answers, plain, otherwise)}


def _compared(
    answers: Mapping[str, Mapping[str, int]], plain: Mapping[str, list[str]], otherwise: Mapping[str, list[str]]
) -> dict[str, Any]:
    def hits(ranked: Mapping[str, list[str]]) -> set[str]:
        return {query for query, best in ranked.items() if set(best[:10]) & set(answers[query])}

    before, after = hits(plain), hits(otherwise)
    rounded = {
        name: {metric: round(value, 4) for metric, value in mean_scores(measure(answers, ranked)).items()}
        for name, ranked in (("plain", plain), ("in_other_words", otherwise))
    }
    return {**rounded, "gained": len(after - before), "lost": len(before - after)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("--beside", type=Path, default=None)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--model", default="none")
    parser.add_argument("--lacking", type=lambda pair: Nearness(*map(float, pair.split(","))), default=None)
    parser.add_argument("--learnt-alone", action="store_true")
    arguments = parser.parse_args()
    if arguments.lacking is not None:
        setattr(related_terms, "NOT_IN_BASE", arguments.lacking)  # noqa: B010
    if arguments.learnt_alone:
        setattr(related_terms, "shipped", lambda: NO_SYNONYMS)  # noqa: B010
    print(json.dumps(asyncio.run(measured(arguments)), ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
