"""What tables and answers cost beside a plain search, in CPU time per question, without a language model.

    python -m benchmarks.asking [SET …] [--questions N] [--model NAME] [--keep FOLDER] [--dump FOLDER]

A base of each BEIR-style set (imtqa, rageval_zh_fin and cmrc2018 unless told otherwise), its graph made. The same
questions go to `Engine.retrieve` (hybrid, top 10, nothing remembered), to `Engine.search_tables` where the base has
tables, to `Engine.gather` and to `Engine.ask` in `mix`; to the last three also each with its second half taken from
another, so that hardly any can be answered, and the question is said in other words, up to three times. No way is asked
a question twice before it has been measured; ratios are to `retrieve`.

``--model``: "hash-512" (vectors of hashes), "none", or the name of a model beside the sets. The vector of a question is
computed once, and those of sentences are not counted, but with ``--with-model``. ``--keep``: bases are made there, or
used again. ``--dump``: what was found and answered, as JSON lines: two runs can be compared byte by byte.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.passages import SHARED
from qianxun import Engine, Settings
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Vectors
from qianxun.engine.admin.evaluate import ready_base
from qianxun.engine.settings import Search
from qianxun.evaluation.dataset import Dataset, limited, load
from qianxun.models.open_model import open_embedding
from qianxun.testing.scripted import HashEmbedding

BEIR = SHARED / "data" / "beir"
SETS = ("imtqa", "rageval_zh_fin", "cmrc2018")
WARMING = 10  # questions that are asked first, and do not count
HASH = "hash-512"

Way = Callable[[str], Awaitable[Any]]


class StoredQueries:
    """A model that computes the vector of a question once: from then on it costs nothing. Answers compare sentences by
    their meaning as well, which is counted by itself."""

    is_quick = True

    def __init__(self, model: EmbeddingModel) -> None:
        self.name, self.dimension = model.name, model.dimension
        self.embed_query = lru_cache(maxsize=100_000)(model.embed_query)
        self.seconds = 0.0  # of the processor, for passages
        self._model = model

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        started = time.thread_time()
        vectors = self._model.embed_passages(texts)
        self.seconds += time.thread_time() - started
        return vectors


def embedding(model: str, counts: bool) -> EmbeddingModel | None:
    """The model of this name; its questions' vectors are stored unless it ``counts``."""
    if model == "none":
        return None
    own = HashEmbedding(512, HASH) if model == HASH else open_embedding(model, folders=[SHARED / "models"])
    return own if counts else StoredQueries(own)


def strange(questions: Sequence[str]) -> list[str]:
    """The first half of each, and the second half of the next but one: mostly about nothing in the base."""
    others = [*questions[2:], *questions[:2]]
    return [one[: len(one) // 2] + other[len(other) // 2 :] for one, other in zip(questions, others, strict=True)]


async def cpu_ms(ways: Mapping[str, Way], questions: Sequence[str], model: EmbeddingModel | None) -> dict[str, float]:
    """By way, the mean over the questions, none of which it was asked before."""
    took = {}
    for name, way in ways.items():
        start = _spent(model)
        for question in questions:
            await way(question)
        took[name] = round((_spent(model) - start) / len(questions) * 1000, 3)
    return took


def _spent(model: EmbeddingModel | None) -> float:
    """Seconds of the processor, without the model's own where it is not to count."""
    return time.process_time() - (model.seconds if isinstance(model, StoredQueries) else 0.0)


async def measured(folder: Path, dataset: Dataset, model: EmbeddingModel | None, dump: Path | None) -> dict[str, Any]:
    settings = Settings(data=str(folder), search=Search(cache_entries=0))
    models = {} if model is None else {model.name: model}
    async with Engine.open(settings=settings, background=False, models=models) as engine:
        kb = (await ready_base(engine, dataset, model.name if model else "", lambda _: None))[0].id
        await engine.admin.build_graph(kb)
        ways: dict[str, Way] = {
            "retrieve": lambda question: engine.retrieve(kb, question),
            "gather": lambda question: engine.gather(kb, question),
            "ask": lambda question: engine.ask(kb, question),
        }
        asked = list(dataset.queries.values())
        warming, asked = asked[:WARMING], asked[WARMING:]
        tables: dict[str, Way] = {
            "search_tables": lambda question: engine.search_tables(kb, question),
            "without_answer": lambda question: engine.search_tables(kb, question, answer=False),
        }
        if (await engine.search_tables(kb, asked[0])).results:
            ways |= tables
        report: dict[str, Any] = {"documents": len(dataset.documents), "questions": len(asked)}
        await cpu_ms(ways, warming, model)
        for name, questions in (("plain", asked), ("strange", strange(asked))):
            for question in questions:  # its vector
                await engine.retrieve(kb, question)
            took = await cpu_ms(ways, questions, model)
            outcomes = {
                way: [await ways[way](question) for question in questions] for way in ways if dump or way == "ask"
            }
            if dump is not None:
                _dump(dump / f"{dataset.name}.{name}.jsonl", questions, outcomes)
            report[name] = {
                "cpu_ms": took,
                "to_retrieve": {way: round(took[way] / took["retrieve"], 2) for way in ways if way != "retrieve"},
                "refinements": _refinements(outcomes["ask"]),
                "forms": dict(Counter(answer.form for answer in outcomes["ask"])),
                "steps_ms": _steps(outcomes["ask"]),
            }
        return report


def _refinements(answers: Sequence[Any]) -> float:
    return round(sum(step.node == "refine_query" for answer in answers for step in answer.trace) / len(answers), 3)


def _steps(answers: Sequence[Any]) -> dict[str, float]:
    """Wall time by step."""
    spent: Counter[str] = Counter()
    for answer in answers:
        for step in answer.trace:
            spent[step.node] += step.seconds
    return {node: round(seconds / len(answers) * 1000, 2) for node, seconds in spent.items()}


# ── what was found and answered ──────────────────────────────────────────────────────────────────


def _dump(path: Path, questions: Sequence[str], outcomes: Mapping[str, Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for at, question in enumerate(questions):
            shown = {way: _lasting(found[at]) for way, found in outcomes.items()}
            file.write(json.dumps({"question": question, **shown}, ensure_ascii=False, default=str) + "\n")


def _lasting(outcome: Any) -> Any:
    """All of it that another run on the same base has to repeat: no times, no ids of runs."""
    parts = {name: getattr(outcome, name) for name in outcome.__slots__} if hasattr(outcome, "__slots__") else {}
    parts = parts or dict(vars(outcome))
    if "trace" in parts:
        parts["trace"] = [(step.node, step.form, dict(step.said)) for step in parts["trace"]]
    if "layers" in parts:
        parts["layers"] = [replace(run, seconds=0.0, start=0.0) for run in parts["layers"]]
    for name in ("seconds", "steps", "trace_id", "generation"):
        parts.pop(name, None)
    return {name: repr(value) for name, value in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS, help="names of sets beside cmrc2018, or folders")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--model", default=HASH)
    parser.add_argument("--with-model", action="store_true", help="the embedding of questions counts")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--dump", type=Path)
    told = parser.parse_args()
    report = {}
    for name in told.sets:
        dataset = limited(load(BEIR / name), told.questions + WARMING)
        with tempfile.TemporaryDirectory() as temporary:
            folder = told.keep / f"{dataset.name}.{Path(told.model).name}" if told.keep else Path(temporary)
            model = embedding(told.model, told.with_model)
            report[dataset.name] = asyncio.run(measured(folder, dataset, model, told.dump))
    print(json.dumps(report, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
