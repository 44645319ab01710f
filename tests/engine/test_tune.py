"""Settings tried on a base's own questions: what is better is found, and nothing is set without being told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import BadInput
from qianxun.core.types import KnowledgeBase
from qianxun.engine.admin.evaluation_sets import Evaluations
from qianxun.engine.admin.tune import apply, tune
from qianxun.engine.settings import load
from qianxun.testing.scripted import HashEmbedding

SUBJECTS = [first + "烷" for first in "甲乙丙丁戊己庚辛壬癸"] + [first + "酸" for first in "硫硝盐碳磷醋"]
TEXTS = {name: f"{name}的储存温度不得高于规定，进出库房都要登记，由专人保管，违者按制度处理。" for name in SUBJECTS}


@asynccontextmanager
async def opened(folder: Path, **config: float) -> AsyncIterator[tuple[Engine, KnowledgeBase]]:
    """A base under a model that can tell nothing apart: what is found by words is right."""
    settings = load(environment={}, arguments={"data": str(folder), "search.arm_seconds": 100.0}, folder=folder)
    async with Engine.open(settings=settings, models={"poor": HashEmbedding(2, "poor")}, background=False) as engine:
        base = await engine.create_knowledge_base("药品", model="poor")
        await engine.add_documents(base.id, [Document(name, text) for name, text in TEXTS.items()])
        yield engine, await engine.configure(base.id, config) if config else base


async def save_questions(engine: Engine, base: KnowledgeBase) -> None:
    for name in SUBJECTS:
        await Evaluations(engine).save_case(base.id, f"{name}怎样储存", doc_ids=[name])


def test_a_better_setting_is_found_and_set_only_when_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, **{"search.weights.vector": 1.0, "search.weights.keyword": 0.0}) as (engine, base):
            await save_questions(engine, base)
            found = await tune(engine, base)
            assert (found.origin, found.questions) == ("saved", len(SUBJECTS))
            assert found.attempts[0].name == "as_is"
            assert found.best is not None
            assert found.best.name.startswith("weights=")
            assert found.best.difference > 0.2
            assert (await engine.knowledge_base(base.id)).config == base.config
            changed = await apply(engine, base, found.best)
            assert changed.config["search"]["weights"]["keyword"] > 0.0
            again = await tune(engine, changed)
            assert again.attempts[0].ndcg == pytest.approx(found.best.ndcg)

    asyncio.run(story())


def test_without_questions_some_are_made_and_weights_are_not_tried_on_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            found = await tune(engine, base, limit=12)
            assert (found.origin, found.questions) == ("made", 12)
            assert [one.name for one in found.attempts] == ["as_is", "fusion=rrf", "fusion=min_max", "rerank=maxsim"]
            assert found.attempts[-1].notes  # the model has no tokens
            assert found.attempts[0].ndcg > 0.9

    asyncio.run(story())


def test_another_size_of_chunks_is_tried_in_a_base_that_goes_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            await save_questions(engine, base)
            found = await tune(engine, base, chunk_sizes=[100])
            assert found.attempts[-1].name == "chunk_size=100"
            assert found.attempts[-1].ndcg > 0.5
            assert [one.name for one in await engine.knowledge_bases()] == ["药品"]

    asyncio.run(story())


def test_too_few_questions_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            with pytest.raises(BadInput, match="看不出差别"):
                await tune(engine, base, limit=3)

    asyncio.run(story())
