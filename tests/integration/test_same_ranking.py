"""The whole engine on SQLite with the embedded index, and on PostgreSQL with its own, answers alike on real text."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.types import Document, Eq, Recall
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.testing.scripted import HashEmbedding
from tests.sampling import share
from tests.shared import DATA, needs_data

PASSAGES, QUESTIONS = share(200, 100), share(24, 12)
MODEL = HashEmbedding(128)
TIED = 1e-6


def lines(name: str, count: int) -> list[dict[str, Any]]:
    with (DATA / "beir" / "cmrc2018" / name).open(encoding="utf-8") as found:
        return [json.loads(next(found)) for _ in range(count)]


async def answers(folder: Path, **told: str) -> list[Recall]:
    settings = load(environment={}, arguments={"data": str(folder), **told}, folder=folder.parent)
    async with Engine.open(settings=settings, models={MODEL.name: MODEL}, background=False) as engine:
        base = await engine.create_knowledge_base("阅读", model=MODEL.name)
        passages = lines("corpus.jsonl", PASSAGES)
        batch = [Document(each["_id"], each["text"], user_id=f"用户{at % 3}") for at, each in enumerate(passages)]
        await engine.add_documents(base.id, batch)
        await engine.add_documents(base.id, [Document(batch[0].id, "改过一次，再改回来。")])
        await engine.add_documents(base.id, batch[:1])
        await engine.delete_document(base.id, batch[1].id)
        await engine.admin.rebuild(base.id)  # until then the embedded index counts deleted words
        found = []
        for at, question in enumerate(lines("queries.jsonl", QUESTIONS)):
            options: dict[str, Any] = {"where": Eq("user_id", "用户1")} if at % 4 == 0 else {}
            for mode in ("hybrid", "vector", "fulltext"):
                found.append(await engine.retrieve(base.id, question["text"], mode=mode, **options))
        return found


@needs_data
def test_both_rank_the_same_passages_with_the_same_scores(tmp_path: Path, postgres_url: str) -> None:
    here = asyncio.run(answers(tmp_path / "here"))
    there = asyncio.run(answers(tmp_path / "there", **{"records.url": postgres_url, "index.backend": "postgres"}))
    assert not (tmp_path / "there" / "qianxun.db").exists()
    assert sum(len(recall.found) for recall in here) > 5 * QUESTIONS
    for one, other in zip(here, there, strict=True):
        assert one.degraded == other.degraded == ()
        assert [each.score for each in one.found] == pytest.approx([each.score for each in other.found], abs=1e-3)
        assert ranked(one) == ranked(other), one.query


def ranked(recall: Recall) -> list[list[str]]:
    """Documents, best first; those that the scores do not tell apart stand together."""
    groups: list[list[str]] = []
    last = 2.0
    for each in recall.found:
        if not groups or last - each.score > TIED:
            groups.append([])
        groups[-1].append(each.chunk.chunk_id)
        last = each.score
    return [sorted(group) for group in groups]
