"""What each layer of layered recall adds and costs: `python -m benchmarks.layers` gives the tables of docs/quality.md.

Every set is indexed as `qianxun eval` does it, and asked with one layer, then two, and so on: all else is the same.
With ``--fit`` it also fits the curves of tables that model cards hold (`table_cosine`, `table`) and the one for words
alone (`rank/calibrate.py`), each relevant table against the other candidates of its question.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from qianxun.core.layered_types import LayeredRecall
from qianxun.core.options import search_options
from qianxun.core.types import Eq
from qianxun.engine.admin.evaluate import embedding_model, evaluation_settings, ready_base
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings
from qianxun.engine.settings import load as settings_of
from qianxun.evaluation.calibration import expected_calibration_error, fit
from qianxun.evaluation.dataset import Dataset, limited, load
from qianxun.evaluation.experiment import run
from qianxun.question.question import read as read_question
from qianxun.retrieve.fuse import with_weights
from qianxun.retrieve.layered.search import LayeredSearch
from qianxun.retrieve.layered.table_fit import table_candidates
from qianxun.retrieve.query_plan import plan_query

SETS = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "beir"
TABLES = ("imtqa", "dusql_tables_train")
TEXTS = ("rageval_zh_fin", "cmrc2018")
# The switches of the layers after the first, in the order in which they are turned on.
SWITCHES = {
    "table_engine": ("use_semantic_search", "use_keyword_search", "use_expansion_search"),
    "text_engine": ("use_keyword_search", "use_expansion_search"),
}
NAMES = {"table_engine": ("结构", "+ 语义", "+ 关键词", "+ 扩展"), "text_engine": ("向量", "+ 关键词", "+ 扩展")}


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    ndcg: float
    recall: float
    results: float  # on average
    ran: float  # the share of questions for which the last of these layers had to run
    let_in: float  # … how many it let in where it ran
    ms: float  # … and its own time, p50


def up_to(settings: Settings, engine: str, layers: int) -> Settings:
    """The settings with the first so many layers alone."""
    switches = {name: at < layers - 1 for at, name in enumerate(SWITCHES[engine])}
    return replace(settings, **{engine: replace(getattr(settings, engine), **switches)})


async def measured(settings: Settings, dataset: Dataset, engine: str, layers: int) -> Row:
    heard: list[LayeredRecall] = []
    async with Engine.open(settings=up_to(settings, engine, layers), background=False) as opened:
        base, _, _ = await ready_base(opened, dataset, embedding_model(settings), lambda _: None)

        async def search(text: str) -> Sequence[str]:
            if engine == "table_engine":
                found = await opened.search_tables(base.id, text, answer=False)
            else:
                found = await opened.search_texts(base.id, text)
            heard.append(found)
            return [each.doc_id for each in found.results]

        await search("预热")
        heard.clear()
        done = await run(engine, dataset.queries, dataset.qrels, search)
    last = [each.layers[layers - 1] for each in heard]
    ran = [each for each in last if each.ran]
    return Row(
        NAMES[engine][layers - 1],
        done.mean_scores["ndcg@10"],
        done.mean_scores["recall@10"],
        statistics.mean(len(each.results) for each in heard),
        len(ran) / len(last),
        statistics.mean([each.count for each in ran] or [0]),
        statistics.median([each.seconds * 1000 for each in ran] or [0.0]),
    )


def told(dataset: Dataset, rows: Sequence[Row]) -> list[str]:
    lines = [f"{dataset.name}（{len(dataset.documents)} 个文档，{len(dataset.queries)} 个查询）", ""]
    lines += ["| 到这一层为止 | nDCG@10 | recall@10 | 平均结果数 | 轮到这一层的查询 | 它让进 | 它的用时（p50） |"]
    lines.append("| --- " * 7 + "|")
    for row in rows:
        shares = f"{row.ndcg:.4f} | {row.recall:.4f} | {row.results:.1f} | {row.ran:.0%}"
        lines.append(f"| {row.name} | {shares} | {row.let_in:.1f} 条 | {row.ms:.1f} ms |")
    return [*lines, ""]


# ── the curves of tables ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Sample:
    """A table among the candidates of a question."""

    cosine: float
    both: float  # words and meaning beside structure
    by_words: float  # words alone beside structure
    is_relevant: bool


async def samples(settings: Settings, dataset: Dataset) -> list[Sample]:
    found: list[Sample] = []
    async with Engine.open(settings=settings, background=False) as opened:
        about, _, _ = await ready_base(opened, dataset, embedding_model(settings), lambda _: None)
        base = await opened.base(about.id)
        weight = settings.table_engine.structure_weight
        chosen = replace(search_options(settings.search, {}, {}), where=Eq("kind", "table"))
        options = await with_weights(base, base.serving, chosen)
        for query, text in dataset.queries.items():
            asked = await plan_query(base, text, options)
            evidence = await LayeredSearch(base, base.serving, asked, options, "table", base.tables).evidence()
            question = read_question(text).for_table_search(evidence.criteria.weights[0])
            tables = await table_candidates(base, evidence, [question], weight)
            for key, candidate in tables.tables.items():
                chunk = candidate.found.chunk
                structure = tables.fits(key).score
                raw = candidate.found.arms["vector"].raw if "vector" in candidate.found.arms else 0.0
                both = (1.0 - weight) * evidence.fused.score(chunk.key) + weight * structure
                words = (1.0 - weight) * evidence.words.score(chunk.key) + weight * structure
                found.append(Sample(raw, both, words, dataset.qrels[query].get(chunk.doc_id, 0) > 0))
    return found


def fitted(every: Sequence[Sample]) -> list[str]:
    labels = np.array([each.is_relevant for each in every], dtype=np.bool_)
    lines = []
    for name in ("cosine", "both", "by_words"):
        scores = np.array([getattr(each, name) for each in every], dtype=np.float64)
        curve = fit(scores, labels)
        error = expected_calibration_error(curve(scores), labels)
        lines.append(f"{name}: midpoint {curve.midpoint:.3f}, slope {curve.slope:.1f}, calibration error {error:.3f}")
    return lines


async def work(chosen: argparse.Namespace) -> None:
    told_by = settings_of(arguments={"data": str(chosen.data)})
    every: list[Sample] = []
    for engine, sets in (("table_engine", chosen.tables), ("text_engine", chosen.texts)):
        for name in sets:
            dataset = limited(load(SETS / name), chosen.limit)
            settings = evaluation_settings(told_by, dataset, embedding_model(told_by))
            rows: list[Any] = []
            for layers in range(1, len(SWITCHES[engine]) + 2):
                rows.append(await measured(settings, dataset, engine, layers))
            print("\n".join(told(dataset, rows)), flush=True)
            if chosen.fit and engine == "table_engine":
                every += await samples(settings, dataset)
    if every:
        print("\n".join(fitted(every)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=300, help="queries per set")
    parser.add_argument("--data", type=Path, default=Path(".bench-cache/quality"), help="where indexes are kept")
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--texts", nargs="*", default=list(TEXTS))
    parser.add_argument("--fit", action="store_true", help="fit the curves of tables too")
    asyncio.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
