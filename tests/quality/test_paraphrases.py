"""Queries that share no word with their passage: what meaning alone must find, and what fusion must not spoil.

Paraphrases say what their passage says, in other words; hybrid is held to a goal on them, and the score of a first
result to how often it is right. Lay questions need a step of inference besides (a sore big toe: gout); on both, hybrid
may not be worse than vectors alone by more than one question.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Literal

import pytest

from qianxun import Document, Engine
from qianxun.engine.settings import load
from qianxun.text.chinese import Analyser
from tests.shared import DATA, MODELS, needs_data, needs_model

PARAPHRASES = Path(__file__).with_name("paraphrases.jsonl")
LAY_QUESTIONS = Path(__file__).with_name("lay_questions.jsonl")
DISTRACTORS = 200  # paragraphs of CMRC2018 beside the other passages; embedding them is nearly all of the test's time
BEGINNING = 100  # characters of each: as long as the passages, and as hard to tell from them as the whole
GOAL = 0.85

Mode = Literal["vector", "fulltext", "hybrid"]


def items(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("file", [PARAPHRASES, LAY_QUESTIONS], ids=lambda file: file.stem)
def test_there_are_enough_and_each_is_its_own(file: Path) -> None:
    told = items(file)
    assert len(told) >= 60
    assert all(set(item) == {"id", "passage", "query"} for item in told)
    for key in ("id", "passage", "query"):
        assert len({item[key] for item in told}) == len(told)


def test_a_paraphrased_passage_is_one_short_statement() -> None:
    assert [item["id"] for item in items(PARAPHRASES) if not 30 <= len(item["passage"]) <= 80] == []


@pytest.mark.parametrize("file", [PARAPHRASES, LAY_QUESTIONS], ids=lambda file: file.stem)
def test_a_query_shares_no_word_with_its_passage(file: Path) -> None:
    analyser = Analyser()
    shared = {
        item["id"]: set(analyser.analyse_query(item["query"]).words) & set(analyser.words(item["passage"]))
        for item in items(file)
    }
    assert {name: words for name, words in shared.items() if words} == {}


def distractors(count: int) -> list[Document]:
    lines = (DATA / "beir" / "cmrc2018" / "corpus.jsonl").read_text(encoding="utf-8").strip().split("\n")
    random.Random(20261116).shuffle(lines)
    return [Document(entry["_id"], entry["text"][:BEGINNING]) for entry in map(json.loads, lines[:count])]


async def hits(
    folder: Path, file: Path, modes: tuple[Mode, ...], count: int = DISTRACTORS
) -> tuple[dict[str, float], dict[str, float]]:
    """hit@1 of each mode, among all passages of the file and ``count`` paragraphs; and the mean score of first
    results."""
    told = items(file)
    passages = [Document(f"p-{item['id']}", item["passage"]) for item in told]
    arguments = {"data": str(folder), "vectorization.model_folders": str(MODELS)}
    settings = load(environment={}, arguments=arguments, folder=folder)
    shares: dict[str, float] = {}
    scores: dict[str, float] = {}
    async with Engine.open(settings=settings, background=False) as engine:
        base = await engine.create_knowledge_base("改写")
        await engine.add_documents(base.id, passages + distractors(count))
        for mode in modes:
            first = [(await engine.retrieve(base.id, item["query"], mode=mode, top_k=1)).results for item in told]
            right = [
                [f"p-{item['id']}"] == [one.chunk.doc_id for one in found]
                for item, found in zip(told, first, strict=True)
            ]
            shares[mode] = sum(right) / len(told)
            scores[mode] = sum(one.score for found in first for one in found) / len(told)
    return shares, scores


@needs_model
@needs_data
def test_hybrid_finds_what_shares_no_word(tmp_path: Path) -> None:
    shares, scores = asyncio.run(hits(tmp_path, PARAPHRASES, ("vector", "hybrid")))
    assert shares["hybrid"] >= GOAL, shares
    assert shares["hybrid"] >= shares["vector"] - 1 / 80, shares
    for mode, share in shares.items():
        assert scores[mode] == pytest.approx(share, abs=0.1), (mode, scores)


@pytest.mark.long
@needs_model
@needs_data
def test_hybrid_finds_what_lay_people_ask_for_as_often_as_vectors_do(tmp_path: Path) -> None:
    shares, scores = asyncio.run(hits(tmp_path, LAY_QUESTIONS, ("vector", "hybrid")))
    assert shares["hybrid"] >= shares["vector"] - 1 / 96, shares
    assert scores["hybrid"] == pytest.approx(shares["hybrid"], abs=0.15), scores
