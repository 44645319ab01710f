"""Questions of two steps, over texts that were read in as any text is, without a model of any kind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.options import QueryMode
from qianxun.engine.engine import Engine
from qianxun.evaluation.dataset import Dataset, limited, load
from qianxun.evaluation.metrics import NDCG, mean_scores, measure
from tests.shared import DATA, needs_data

pytestmark = needs_data

OTHERS = 3_000  # documents beside those that answer a question


def sampled(name: str, queries: int, others: int | None = None) -> Dataset:
    dataset = limited(load(DATA / "beir" / name), queries)
    return dataset if others is None else _thinned(dataset, others)


def _thinned(dataset: Dataset, others: int) -> Dataset:
    wanted = {document for query in dataset.queries for document in dataset.qrels[query]}
    step = max(1, len(dataset.documents) // others)
    kept = tuple(each for at, each in enumerate(dataset.documents) if each.id in wanted or at % step == 0)
    return replace(dataset, documents=kept)


def found_by(folder: Path, dataset: Dataset, *modes: QueryMode) -> dict[str, dict[str, list[str]]]:
    """Way of searching → query → documents, the base's own search among the ways."""

    async def asked() -> dict[str, dict[str, list[str]]]:
        async with Engine.open(folder, background=False) as engine:
            kb = (await engine.create_knowledge_base("多跳", model="none")).id
            await engine.add_documents(kb, dataset.documents)
            found: dict[str, dict[str, list[str]]] = {way: {} for way in ("plain", *modes)}
            for query, text in dataset.queries.items():
                found["plain"][query] = _documents(await engine.retrieve(kb, text, top_k=20))
                for mode in modes:
                    found[mode][query] = _documents(await engine.gather(kb, text, mode=mode, top_k=20))
            return found

    return asyncio.run(asked())


def _documents(answer: Any) -> list[str]:
    return list(dict.fromkeys(each.chunk.doc_id for each in answer.found))


def test_both_facts_of_a_question_are_among_the_first_ten(tmp_path: Path) -> None:
    dataset = sampled("kbqa_zh_mh_train", 60, OTHERS)
    found = found_by(tmp_path, dataset, "local", "mix")

    def complete(way: str) -> float:
        met = [set(dataset.qrels[query]) <= set(found[way][query][:10]) for query in dataset.queries]
        return sum(met) / len(met)

    assert complete("plain") < 0.7  # or the sample would show nothing
    assert complete("local") >= 0.9
    assert complete("mix") >= 0.9


@pytest.mark.long
def test_english_prose_is_found_no_worse_with_its_graph(tmp_path: Path) -> None:
    dataset = sampled("hotpotqa_train100", 50)
    found = found_by(tmp_path, dataset, "mix")
    qrels = {query: dataset.qrels[query] for query in dataset.queries}
    plain, mix = (mean_scores(measure(qrels, found[way]))[NDCG] for way in ("plain", "mix"))
    assert mix >= plain + 0.01
