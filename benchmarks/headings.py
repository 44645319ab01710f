"""What headings are worth: `python -m benchmarks.headings` asks 126 questions of real documents, with and without them.

`pages`: 80 admission pages (HTML, almost all of it flat), and questions of seven that number their sections by hand.
`laws`: 民法典, 刑法 and 宪法 as plain text. The questions are our own, written before anything was measured; each
names the words, or the article, that answer it. A chunk is right if it holds them whole.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qianxun import Document, Engine
from qianxun.core.types import Chunk, Text
from qianxun.engine.admin.evaluate import OPTIONS
from qianxun.engine.settings import load
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits

INGEST = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "ingest"
QUESTIONS = Path(__file__).with_name("headings_questions.jsonl")
DEPTH = 10
BUDGET = 1_500  # characters that a reader takes in
PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Asked:
    question: str
    places: tuple[tuple[str, int, int], ...]  # document, from, to

    def is_answered_by(self, chunk: Chunk) -> bool:
        return any(chunk.doc_id == doc and chunk.start <= start and end <= chunk.end for doc, start, end in self.places)


def pages() -> dict[str, Text]:
    return {path.stem: assemble(parse(path, ParseLimits())) for path in sorted((INGEST / "html").glob("*.html"))}


def laws() -> dict[str, Text]:
    """As text files: their Markdown marks the headings."""
    texts: dict[str, Text] = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted((INGEST / "markdown").glob("*法*/[!_]*.md")):
            flat = Path(folder) / f"{path.stem}.txt"
            flat.write_text(path.read_text(encoding="utf-8").replace("#", ""), encoding="utf-8")
            texts[f"{path.parent.name}/{path.stem}"] = assemble(parse(flat, ParseLimits()))
    return texts


def asked_of(name: str, texts: Mapping[str, Text]) -> list[Asked]:
    lines = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    return [
        Asked(each["question"], tuple(_places(each["document"], each["answer"], texts)))
        for each in lines
        if each["set"] == name
    ]


def _places(document: str, answer: str, texts: Mapping[str, Text]) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    for name, text in texts.items():
        if name == document or name.startswith(f"{document}/"):
            wanted = f"\n{answer} " if answer.startswith("第") else answer
            at = text.content.find(wanted)
            while at >= 0:
                found.append((name, at + wanted.startswith("\n"), at + len(wanted)))
                at = text.content.find(wanted, at + 1)
    if not found:
        raise SystemExit(f"{document} does not hold {answer}")
    return found


async def measured(texts: Mapping[str, Text], asked: Sequence[Asked], modes: Sequence[str]) -> dict[str, list[float]]:
    """By mode: nDCG@10 of the first right chunk, hit@1, and the share that is answered within the budget."""
    with tempfile.TemporaryDirectory(prefix="headings-") as folder:
        settings = load(arguments={"data": folder})
        patient = replace(settings.search, arm_seconds=PATIENCE, rerank_seconds=PATIENCE, cache_entries=0)
        async with Engine.open(settings=replace(settings, search=patient)) as engine:
            base = await engine.create_knowledge_base("headings", model="bge-small-zh-v1.5")
            documents = [Document(name, text.content, name=name, structure=text) for name, text in texts.items()]
            await engine.add_documents(base.id, documents)
            return {mode: await _scores(engine, base.id, asked, mode) for mode in modes}


async def _scores(engine: Engine, base: int, asked: Sequence[Asked], mode: str) -> list[float]:
    gain = first = read = 0.0
    for each in asked:
        answer = await engine.retrieve(base, each.question, top_k=DEPTH, **OPTIONS[mode])
        chunks = [found.chunk for found in answer.found]
        rank = next((at for at, chunk in enumerate(chunks) if each.is_answered_by(chunk)), None)
        if rank is not None:
            gain += 1 / math.log2(rank + 2)
            first += rank == 0
            read += sum(len(chunk.text) for chunk in chunks[: rank + 1]) <= BUDGET
    return [total / len(asked) for total in (gain, first, read)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default="fulltext,vector,hybrid,rerank")
    parser.add_argument("--sets", default="pages,laws")
    arguments = parser.parse_args()
    for name in arguments.sets.split(","):
        known = {"pages": pages, "laws": laws}[name]()
        asked = asked_of(name, known)
        flat = {document: replace(text, marks=()) for document, text in known.items()}
        for label, texts in (("no headings", flat), ("headings", known)):
            for mode, scores in asyncio.run(measured(texts, asked, arguments.modes.split(","))).items():
                told = "  ".join(
                    f"{what} {score:.3f}" for what, score in zip(("nDCG@10", "hit@1", "read"), scores, strict=True)
                )
                print(f"{name}  {label:12}{mode:10}{told}", flush=True)


if __name__ == "__main__":
    main()
