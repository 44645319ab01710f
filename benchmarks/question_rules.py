"""From which cosine is a question one like a rule's own? Judged pairs of questions, and questions that are different.

    python -m benchmarks.question_rules [--pairs 1600] [--questions 600]

Pairs are those of kuake_qtr, in which experts judged whether a query and a title ask the same (3), mostly (2) or little
(1) of it; every other one is for choosing a line, the rest for reading what it does. Beside them: how many questions of
insuranceqa_zh have another one that is as near. CPU of a search with and without rules, and of one correction.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from qianxun import Engine
from qianxun.core.types import Document
from qianxun.models.open_model import open_embedding
from qianxun.testing.scripted import HashEmbedding

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
BEIR = SHARED / "data" / "beir"
MODEL = "bge-small-zh-v1.5"
LINES = (0.85, 0.90, 0.93, 0.95)
WORDS = "医保报销比例门诊住院起付线封顶合同违约金部署手册端口备份恢复权限日志审计采购验收付款期限员工年假"


def texts(folder: str, file: str) -> dict[str, str]:
    lines = (json.loads(line) for line in (BEIR / folder / file).read_text("utf-8").splitlines())
    return {line["_id"]: line.get("title", "") + line["text"] for line in lines}


def judged(count: int) -> list[tuple[str, str, int]]:
    queries, titles = texts("kuake_qtr", "queries.jsonl"), texts("kuake_qtr", "corpus.jsonl")
    rows = (line.split("\t") for line in (BEIR / "kuake_qtr" / "qrels.tsv").read_text("utf-8").splitlines()[1:])
    pairs = [(queries[query], titles[title], int(grade)) for query, title, grade in rows]
    random.Random(7).shuffle(pairs)
    return pairs[:count]


def unit(questions: Sequence[str]) -> np.ndarray:
    model = open_embedding(MODEL, folders=[SHARED / "models"], threads=1)
    vectors = np.array([model.embed_query(question) for question in questions])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def show_lines(pairs: int, questions: int) -> None:
    found = judged(pairs)
    cosines = (unit([one for one, _, _ in found]) * unit([other for _, other, _ in found])).sum(axis=1)
    grades = np.array([grade for _, _, grade in found])
    chosen = np.arange(len(found)) % 2 == 0
    for name, part in (("choose", chosen), ("read", ~chosen)):
        for line in LINES:
            taken = {grade: float((cosines[part & (grades == grade)] >= line).mean()) for grade in (3, 2, 1)}
            print(name, line, {grade: f"{share:.1%}" for grade, share in taken.items()})
    vectors = unit(list(texts("insuranceqa_zh", "queries.jsonl").values())[:questions])
    others = vectors @ vectors.T
    np.fill_diagonal(others, -1.0)
    for line in LINES:
        print("insuranceqa_zh: another question as near", line, f"{float((others.max(axis=1) >= line).mean()):.1%}")


def paragraph(made: random.Random) -> str:
    return "".join(made.choice(WORDS) for _ in range(180)) + "。"


async def show_cost() -> None:
    made = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        async with Engine.open(folder, models={"fake-64": HashEmbedding()}, background=False) as engine:
            config = {"chunk_size": 200, "chunk_overlap": 20}
            base = (await engine.create_knowledge_base("甲", model="fake-64", config=config)).id
            long = Document("长", "\n\n".join(paragraph(made) for _ in range(1000)))
            await engine.add_documents(base, [long, *(Document(f"d{at}", paragraph(made)) for at in range(2000))])
            await engine.admin.rebuild(base)
            print(f"search without rules: {await search_ms(engine, base):.2f} ms")
            corrections = engine.governance.corrections
            for doc_id in ("长", "d5"):
                begun = time.process_time()
                await corrections.add(base, "edit", chunk_id=f"c_{base}_{doc_id}_0", text="改过的话")
                print(f"edit in a document of {len(await engine.chunks(base, doc_id))} chunks: "
                      f"{time.process_time() - begun:.2f} s")  # fmt: skip
            for at in range(10, 110):
                await corrections.add(base, "pin", chunk_id=f"c_{base}_d{at}_0", question=paragraph(made)[:12])
            await engine.admin.rebuild(base)
            print(f"search with a hundred rules: {await search_ms(engine, base):.2f} ms")


async def search_ms(engine: Engine, base: int, count: int = 300) -> float:
    """CPU of a search, the first few left out; none of them is in the cache."""
    queries = [paragraph(random.Random(at))[:12] for at in range(count + 20)]
    begun = 0.0
    for at, query in enumerate(queries):
        if at == 20:
            begun = time.process_time()
        await engine.retrieve(base, query)
    return (time.process_time() - begun) / count * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1600)
    parser.add_argument("--questions", type=int, default=600)
    chosen = parser.parse_args()
    show_lines(chosen.pairs, chosen.questions)
    asyncio.run(show_cost())


if __name__ == "__main__":
    main()
