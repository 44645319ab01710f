"""This engine: `Engine.retrieve`, hybrid, as it comes, with the vectors of the questions handed to it."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.harness import TOP_K, Answer, Contender, Material, Question, main

LONG = 8_000  # no passage is cut: everybody holds the same number of chunks


def _squeezed(text: str) -> str:
    """Ingest tidies blanks and odd characters; what is left names the passage all the same."""
    return "".join(character for character in unicodedata.normalize("NFKC", text) if character.isalnum())


class Precomputed:
    name = "precomputed"
    dimension = 512

    def __init__(self) -> None:
        self.of: dict[str, Any] = {}

    def embed_passages(self, texts: Sequence[str]) -> Any:
        import numpy as np

        return np.stack([self.of[_squeezed(text)] for text in texts])

    def embed_query(self, text: str) -> Any:
        return self.of[text]


def build(material: Material, folder: Path) -> None:
    asyncio.run(_build(material, folder))


async def _build(material: Material, folder: Path) -> None:
    from qianxun import Document, Engine

    passages, model = material.passages(), Precomputed()
    model.of = {_squeezed(passage.text): vector for passage, vector in zip(passages, material.vectors(), strict=True)}
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
    engine = runner.run(opened.__aenter__())  # left open: the process ends with its last answer
    base = runner.run(engine.knowledge_base("bench"))

    async def ask(questions: Sequence[Question]) -> list[list[str]]:
        model.of.update((question.text, question.vector) for question in questions)
        recalls = [await engine.retrieve(base.id, question.text, top_k=TOP_K) for question in questions]
        return [[found.chunk.text for found in recall.found] for recall in recalls]

    return lambda questions: runner.run(ask(questions))


MODULES = ("qianxun.engine", "qianxun.index.embedded", "faiss", "tantivy", "rjieba", "sqlalchemy.dialects.sqlite")

if __name__ == "__main__":
    main(Contender(build, open_, MODULES))
