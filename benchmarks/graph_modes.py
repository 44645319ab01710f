"""What the query modes find beside the base's own search: `python -m benchmarks.graph_modes DIR...` prints the tables
of docs/decisions/0013-knowledge-graph.md.

Every set is indexed as `qianxun eval` does it, with the model of the settings or without one, its texts read as any
text is. Besides the usual figures it counts the questions of which every relevant document is among the first ten, and
takes the processor time of deriving the graph and of one walk around what a question names.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qianxun.core.options import QUERY_MODES, QueryMode
from qianxun.engine.admin.evaluate import embedding_model, evaluation_settings, ready_base
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings
from qianxun.engine.settings import load as settings_of
from qianxun.evaluation.dataset import Dataset, limited, load
from qianxun.evaluation.experiment import Run, randomisation_test, run
from qianxun.evaluation.metrics import HIT, NDCG, RECALL
from qianxun.graph.modes import gather
from qianxun.graph.network.knowledge_graph import KnowledgeGraph, derive_graph
from qianxun.graph.network.local_search import local_search
from qianxun.question.graph_query import graph_query

SETS = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "beir"
PLAIN = "plain"  # the base's own search, hybrid
DEPTH = 100
WALKS = 100  # questions whose walk is timed


@dataclass(frozen=True, slots=True)
class Row:
    mode: str
    ndcg: float
    recall: float
    all_of_them: float  # the share of questions of which every relevant document is among the first ten
    hit: float
    p50_ms: float
    p95_ms: float
    difference: float = 0.0  # of nDCG to the base's own search
    p_value: float = 1.0
    better: int = 0  # questions
    worse: int = 0


def row(done: Run, plain: Run | None) -> Row:
    every = [value >= 1.0 - 1e-9 for value in done.per_query[RECALL].values()]
    means = done.mean_scores
    told = Row(done.name, means[NDCG], means[RECALL], float(np.mean(every)), means[HIT], done.p50_ms, done.p95_ms)
    if plain is None:
        return told
    differences = np.array([value - plain.per_query[NDCG][query] for query, value in done.per_query[NDCG].items()])
    return Row(
        *list(asdict(told).values())[:7],
        difference=float(differences.mean()),
        p_value=randomisation_test(differences),
        better=int(np.count_nonzero(differences > 1e-9)),
        worse=int(np.count_nonzero(differences < -1e-9)),
    )


async def measured(settings: Settings, dataset: Dataset, modes: Sequence[QueryMode]) -> dict[str, Any]:
    async with Engine.open(settings=settings, background=False) as engine:
        about, _, _ = await ready_base(engine, dataset, embedding_model(settings), lambda _: None)
        graph = await engine.graph(about.id)
        base = await engine.base(about.id)
        options = base_options(settings)

        async def plainly(text: str) -> list[str]:
            return [each.chunk.doc_id for each in (await engine.retrieve(about.id, text, top_k=DEPTH)).found]

        def by(mode: QueryMode) -> Any:
            async def search(text: str) -> list[str]:
                return [each.chunk.doc_id for each in (await gather(base, text, mode, options)).found]

            return search

        await plainly("预热")
        plain = await run(PLAIN, dataset.queries, dataset.qrels, plainly)
        rows = [row(plain, None)]
        for mode in modes:
            await by(mode)("预热")
            rows.append(row(await run(mode, dataset.queries, dataset.qrels, by(mode)), plain))
        return {"rows": [asdict(each) for each in rows], **costs(graph, dataset, base)}


def base_options(settings: Settings) -> Any:
    from qianxun.core.options import search_options

    return search_options(settings.search, {}, {"top_k": DEPTH})


def costs(graph: KnowledgeGraph, dataset: Dataset, base: Any) -> dict[str, Any]:
    """Processor seconds of deriving the graph from facts that are at hand, and milliseconds of a walk."""
    started = time.process_time()
    again = derive_graph(base.graph._columns)
    seconds = time.process_time() - started
    assert len(again) == len(graph)
    questions = [graph_query(text, base.analyser) for text in list(dataset.queries.values())[:WALKS]]
    local_search(graph, questions[0])  # what is made once for a graph
    started = time.process_time()
    for question in questions:
        local_search(graph, question)
    walk = (time.process_time() - started) / len(questions)
    return {
        "chunks": len(graph.chunks),
        "entities": len(graph),
        "relations": len(graph.relations),
        "derive_cpu_seconds": round(seconds, 2),
        "walk_cpu_ms": round(walk * 1000, 1),
    }


def table(told: dict[str, Any]) -> list[str]:
    lines = [
        f"{told['dataset']}（{told['model'] or '无模型'}，{told['queries']} 个查询；{told['chunks']} 块、"
        f"{told['entities']} 个实体、{told['relations']} 条关系；推出图 {told['derive_cpu_seconds']} 秒、"
        f"走一次 {told['walk_cpu_ms']} 毫秒，处理器时间）",
        "",
        "| 方式 | nDCG@10 | 与检索相比 | 升 / 降 | recall@10 | 全部在前十 | p50 |",
        "| --- " * 7 + "|",
    ]
    for each in told["rows"]:
        moved = "" if each["mode"] == PLAIN else f"{each['difference']:+.4f}（p = {each['p_value']:.3f}）"
        counts = "" if each["mode"] == PLAIN else f"{each['better']} / {each['worse']}"
        lines.append(
            f"| {each['mode']} | {each['ndcg']:.4f} | {moved} | {counts} | {each['recall']:.4f} "
            f"| {each['all_of_them']:.1%} | {each['p50_ms']:.0f} ms |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*", default=[SETS / "kbqa_zh_mh_train"])
    parser.add_argument("--modes", default="local,mix")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--data", help="where the evaluation indexes are kept")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    modes: list[QueryMode] = [mode for mode in QUERY_MODES if mode in options.modes.split(",")]
    for folder in options.folders:
        settings = settings_of(arguments={"data": options.data})
        dataset = limited(load(folder), options.limit)
        model = embedding_model(settings)
        told: dict[str, Any] = {"dataset": dataset.name, "model": model, "queries": len(dataset.queries)}
        told |= asyncio.run(measured(evaluation_settings(settings, dataset, model), dataset, modes))
        print(json.dumps(told, ensure_ascii=False) if options.json else "\n".join(table(told)), flush=True)


if __name__ == "__main__":
    main()
