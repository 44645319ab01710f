"""Questions that need what a first search found, answered without a language model:
`python -m benchmarks.several_steps` prints how many are right, wrong and declined, with and without steps; on our own
questions, or with ``--set kbqa_zh_mh_train`` on those of a set whose queries have an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.quality import SETS
from benchmarks.rotations import MODELS, material
from qianxun.answer import run as answering
from qianxun.answer.state import Answering, AnswerState
from qianxun.core.answer_types import Answer
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, Vectorization

LIBRARY = Path(__file__).parent / "answer_library" / "steps"
DOCUMENTS = 900  # of a set, where not more are relevant


def judged(case: dict[str, Any], answer: Answer) -> str:
    if not answer.is_sure:
        return "declined"
    return "right" if case["answerable"] and case["answer"] in answer.answer else "wrong"


def cases_of(name: str, limit: int) -> tuple[list[dict[str, Any]], list[Document]]:
    """Questions with their answers, and the documents where these are; of our own, the questions alone."""
    if not name:
        return [json.loads(line) for line in (LIBRARY / "questions.jsonl").read_text("utf-8").splitlines()], []
    documents, queries, _ = material(name, DOCUMENTS)
    known = map(json.loads, (SETS / name / "queries.jsonl").read_text("utf-8").splitlines())
    answers = {query["_id"]: query["answer"] for query in known}
    asked = list(queries.items())[:limit]
    return [{"question": text, "answer": answers[id], "answerable": True} for id, text in asked], documents


async def measured(model: str, name: str, limit: int, *, shows: bool) -> None:
    cases, documents = cases_of(name, limit)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=folder, vectorization=Vectorization(model_folders=(str(MODELS),)))
        async with Engine.open(settings=settings, background=False) as engine:
            base = await engine.create_knowledge_base("分步", model=model)
            if documents:
                await engine.add_documents(base.id, documents)
            else:
                await engine.add(base.id, [path for path in sorted(LIBRARY.iterdir()) if path.suffix != ".jsonl"])
            with_steps = answering.plan_steps
            for name, plan in (("一步", _not_planned), ("分步", with_steps)):
                answering.plan_steps = plan
                counts: Counter[tuple[bool, str]] = Counter()
                started = time.process_time()
                for case in cases:
                    answer = await engine.ask(base.id, case["question"])
                    verdict = judged(case, answer)
                    counts[case["answerable"], verdict] += 1
                    if shows and plan is with_steps and verdict != "right":
                        steps = [step.said for step in answer.trace if step.node == "plan_steps"]
                        print(verdict, case["question"], "→", answer.answer[:160].replace("\n", " / "), steps)
                seconds = (time.process_time() - started) / len(cases)
                print(f"| {name} | {_row(counts, True)} | {_row(counts, False)} | {1000 * seconds:.0f} |")
            answering.plan_steps = with_steps


def _row(counts: Counter[tuple[bool, str]], is_answerable: bool) -> str:
    total = sum(count for (answerable, _), count in counts.items() if answerable == is_answerable)
    return f"{total} | " + " | ".join(str(counts[is_answerable, verdict]) for verdict in ("right", "wrong", "declined"))


async def _not_planned(_: Answering, state: AnswerState) -> AnswerState:
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="bge-small-zh-v1.5")
    parser.add_argument("--set", default="", help="of the evaluation sets, instead of our own questions")
    parser.add_argument("--limit", type=int, default=300, help="questions of a set")
    parser.add_argument("--shows", action="store_true", help="those that are not right")
    chosen = parser.parse_args()
    print("| | 有答案 | 对 | 错 | 不答 | 没有答案 | 对 | 错 | 不答 | CPU 毫秒 |\n" + "| --- " * 10 + "|")
    asyncio.run(measured(chosen.model, chosen.set, chosen.limit, shows=chosen.shows))


if __name__ == "__main__":
    main()
