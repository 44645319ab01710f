"""What an answer costs beside a plain search, in CPU time per question, without a language model.

    python -m benchmarks.asking [--data FOLDER] [--limit N] [--questions N] [--model FOLDER]

One base of a BEIR-style folder (cmrc2018 unless told otherwise), its graph made. The same questions go to
`Engine.retrieve` (hybrid, top 10, nothing remembered), to `Engine.gather` in `mix`, and to `Engine.ask` in `mix`: first
as they are; then each with its second half taken from another, so that hardly any can be answered, and the question is
said in other words, up to three times. Ratios are to `retrieve` in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.passages import SHARED
from qianxun import Document, Engine, Settings
from qianxun.engine.settings import Search

CMRC = SHARED / "data" / "beir" / "cmrc2018"
ROUNDS = 3  # the best of them counts: others use the machine too


def read(folder: Path, limit: int, questions: int) -> tuple[list[Document], list[str]]:
    """Documents, those first of which a question is asked, and questions to them, evenly taken."""
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    asked_of = dict(line.split("\t")[:2] for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:])
    wanted = set(asked_of.values())
    corpus = sorted(corpus, key=lambda each: each["_id"] not in wanted)[:limit]
    documents = [Document(each["_id"], each["text"], name=each.get("title") or each["_id"]) for each in corpus]
    held = {each.id for each in documents}
    told = (json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8"))
    asked = [each["text"] for each in told if asked_of.get(each["_id"]) in held]
    return documents, asked[:: max(1, len(asked) // questions)][:questions]


def strange(questions: Sequence[str]) -> list[str]:
    """The first half of each, and the second half of the next but one: mostly about nothing in the base."""
    others = [*questions[2:], *questions[:2]]
    return [one[: len(one) // 2] + other[len(other) // 2 :] for one, other in zip(questions, others, strict=True)]


async def cpu_ms(work: Callable[[str], Awaitable[Any]], questions: Sequence[str]) -> float:
    took = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for question in questions:
            await work(question)
        took.append(time.process_time() - start)
    return round(min(took) / len(questions) * 1000, 3)


async def measured(folder: Path, documents: Sequence[Document], questions: Sequence[str], model: str) -> dict[str, Any]:
    settings = Settings(data=str(folder), search=Search(cache_entries=0))
    async with Engine.open(settings=settings, background=False) as engine:
        kb = (await engine.create_knowledge_base("asking", model=model)).id
        await engine.add_documents(kb, documents)
        await engine.admin.build_graph(kb)
        report: dict[str, Any] = {"documents": len(documents), "questions": len(questions)}
        for name, asked in (("plain", questions), ("strange", strange(questions))):
            answers = [await engine.ask(kb, question) for question in asked]  # also warms everything up
            retrieve = await cpu_ms(lambda question: engine.retrieve(kb, question), asked)
            gather = await cpu_ms(lambda question: engine.gather(kb, question), asked)
            ask = await cpu_ms(lambda question: engine.ask(kb, question), asked)
            report[name] = {
                "retrieve_ms": retrieve,
                "gather_mix_ms": gather,
                "ask_mix_ms": ask,
                "ask_to_retrieve": round(ask / retrieve, 2),
                "ask_to_gather": round(ask / gather, 2),
                "refinements": sum(each.node == "refine_query" for answer in answers for each in answer.trace)
                / len(answers),
                "forms": dict(Counter(answer.form for answer in answers)),
                "steps_ms": _steps(answers),
            }
        return report


def _steps(answers: Sequence[Any]) -> dict[str, float]:
    spent: Counter[str] = Counter()
    for answer in answers:
        for step in answer.trace:
            spent[step.node] += step.seconds
    return {node: round(seconds / len(answers) * 1000, 2) for node, seconds in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=CMRC)
    parser.add_argument("--limit", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--model", default="none")
    told = parser.parse_args()
    documents, questions = read(told.data, told.limit, told.questions)
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(measured(Path(folder), documents, questions, told.model))
    print(json.dumps(report, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
