"""Questions that share no word with their answer: what meaning alone must find, and what fusion must not spoil."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest

from qianxun import Document, Engine
from qianxun.chinese import Analyser
from qianxun.settings import load
from tests.shared import DATA, MODELS, needs_data, needs_model

FILE = Path(__file__).with_name("paraphrases.jsonl")
DISTRACTORS = 100  # paragraphs of CMRC2018 beside the other passages; embedding them is nearly all of the test's time
GOAL = 0.85


def items() -> list[dict[str, str]]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def test_there_are_enough_and_each_is_its_own() -> None:
    told = items()
    assert len(told) >= 60
    assert all(set(item) == {"id", "passage", "query"} for item in told)
    assert len({item["id"] for item in told}) == len({item["passage"] for item in told}) == len(told)


@pytest.mark.parametrize("item", items(), ids=lambda item: item["id"])
def test_a_question_shares_no_word_with_its_passage(item: dict[str, str]) -> None:
    analyser = Analyser()
    assert not set(analyser.analyse_query(item["query"]).words) & set(analyser.words(item["passage"]))


def distractors(count: int) -> list[Document]:
    lines = (DATA / "beir" / "cmrc2018" / "corpus.jsonl").read_text(encoding="utf-8").strip().split("\n")
    random.Random(20261116).shuffle(lines)
    return [Document(entry["_id"], entry["text"]) for entry in map(json.loads, lines[:count])]


async def hits(folder: Path) -> dict[str, float]:
    """hit@1 of each mode."""
    told = items()
    passages = [Document(f"p-{item['id']}", item["passage"]) for item in told]
    arguments = {"data": str(folder), "vectorization.model_folders": str(MODELS)}
    settings = load(environment={}, arguments=arguments, folder=folder)
    shares: dict[str, float] = {}
    async with Engine.open(settings=settings, background=False) as engine:
        base = await engine.create_knowledge_base("改写")
        await engine.add_documents(base.id, passages + distractors(DISTRACTORS))
        for mode in ("vector", "hybrid"):
            right = 0
            for item in told:
                recalled = await engine.retrieve(base.id, item["query"], mode=mode, top_k=1)
                right += [one.chunk.doc_id for one in recalled.found] == [f"p-{item['id']}"]
            shares[mode] = right / len(told)
    return shares


@needs_model
@needs_data
def test_hybrid_finds_what_shares_no_word(tmp_path: Path) -> None:
    shares = asyncio.run(hits(tmp_path))
    assert shares["hybrid"] >= GOAL, shares
