"""This engine: `Engine.retrieve`, hybrid, as it comes, with the vectors of the questions handed to it."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.harness import TOP_K, Answer, Contender, Material, Question, main

LONG = 8_000  # no passage is cut: everybody holds the same number of chunks


def squeezed(text: str) -> str:
    """Ingest tidies blanks and odd characters; what is left names the passage all the same."""
    return "".join(character for character in unicodedata.normalize("NFKC", text) if character.isalnum())


class Precomputed:
    name = "precomputed"
    dimension = 512
    is_quick = True  # the vector is at hand, as it is for the peers

    def __init__(self) -> None:
        self.of: dict[str, Any] = {}  # of the passages
        self.asked: Any = None  # of the question that is being asked, whatever the pipeline makes of its words

    def embed_passages(self, texts: Sequence[str]) -> Any:
        import numpy as np

        return np.stack([self.of[squeezed(text)] for text in texts])

    def embed_query(self, text: str) -> Any:
        return self.asked


def build(material: Material, folder: Path) -> None:
    asyncio.run(_build(material, folder))


async def _build(material: Material, folder: Path) -> None:
    from qianxun import Document, Engine

    passages, model = material.passages(), Precomputed()
    model.of = {squeezed(passage.text): vector for passage, vector in zip(passages, material.vectors(), strict=True)}
    async with Engine.open(folder / "data", models={model.name: model}, background=False) as engine:
        base = await engine.create_knowledge_base(
            "bench", model=model.name, config={"chunk_size": LONG, "chunk_overlap": 0}
        )
        await engine.add_documents(base.id, [Document(each.id, each.text, name=each.id) for each in passages])
        held = (await engine.statistics(base.id))["chunks"]
    if held != len(passages):
        raise SystemExit(f"{len(passages)} passages became {held} chunks")


def open_(material: Material, folder: Path) -> Answer:
    from qianxun import Engine

    model, runner = Precomputed(), asyncio.Runner()
    opened = Engine.open(folder / "data", models={model.name: model}, background=False)
    engine = runner.run(opened.__aenter__())
    base = runner.run(engine.knowledge_base("bench"))

    async def ask(questions: Sequence[Question]) -> list[list[str]]:
        answers = []
        for question in questions:
            model.asked = question.vector
            recall = await engine.retrieve(base.id, question.text, top_k=TOP_K)
            if recall.degraded or recall.from_cache:
                raise RuntimeError(f"not the whole work: {recall.degraded}, from cache: {recall.from_cache}")
            answers.append([found.chunk.text for found in recall.found])
        return answers

    def answer(questions: Sequence[Question]) -> list[list[str]]:
        assert opened is not None  # held, and open, as long as there may be another question
        return runner.run(ask(questions))

    return answer


# What opening and asking import. Without rjieba, whose package would read its dictionary here: ours counts as opening.
MODULES = (
    "qianxun.engine.engine",
    "qianxun.index.embedded.backend",
    "faiss",
    "tantivy",
    "opencc",
    "sqlite3",
    "sqlalchemy.dialects.sqlite",
)

if __name__ == "__main__":
    main(Contender(build, open_, MODULES))
