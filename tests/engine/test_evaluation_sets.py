"""Cases saved from searches, runs in the background, and two of them compared: over an engine without a model file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import AlreadyThere, BadInput, NotFound
from qianxun.core.evaluation_types import Case, EvaluationRun, Relevant
from qianxun.core.log_types import Feedback
from qianxun.engine.admin import evaluation_sets as module
from qianxun.engine.admin.evaluate import run_mode
from qianxun.engine.admin.evaluation_sets import Evaluations
from qianxun.engine.settings import load
from qianxun.evaluation.dataset import Dataset

LIBRARY = [
    Document("住院", "住院报销比例为百分之八十五。起付线为八百元。", name="住院.txt"),
    Document("门诊", "门诊报销比例为百分之六十。慢性病另有限额。", name="门诊.txt"),
    Document("生育", "生育津贴按照职工月平均工资计发，产假九十八天。", name="生育.txt"),
]
QUESTIONS = {"住院能报多少": "住院", "慢性病限额": "门诊", "产假多少天": "生育", "起付线": "住院"}


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Engine, int]]:
    settings = load(environment={}, arguments={"data": str(folder), "search.arm_seconds": 100.0}, folder=folder)
    async with Engine.open(settings=settings) as engine:
        try:
            base = (await engine.knowledge_base("医保")).id
        except NotFound:
            base = (await engine.create_knowledge_base("医保", model="none")).id
            await engine.add_documents(base, LIBRARY)
        yield engine, base


async def saved(engine: Engine, base: int) -> int:
    for question, document in QUESTIONS.items():
        found, _ = await Evaluations(engine).save_case(base, question, chunk_ids=[f"c_{base}_{document}_0"])
    return found.id


async def ended(engine: Engine, run: EvaluationRun) -> EvaluationRun:
    while run.is_active:
        await asyncio.sleep(0.01)
        run = await Evaluations(engine).run(run.id)
    return run


def test_a_question_is_saved_with_one_call_and_measured(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            set_id = await saved(engine, base)
            (own,) = await Evaluations(engine).sets(base)
            assert (own.id, own.name, own.cases) == (set_id, "常用问题", 4)
            (first, *_) = await Evaluations(engine).cases(set_id)
            assert first.relevant == (Relevant("住院", LIBRARY[0].content),)
            run = await ended(engine, await Evaluations(engine).start(set_id, "fulltext", name="词语"))
            assert (run.status, run.done, run.total, run.name, run.reason) == ("done", 4, 4, "词语", "")
            assert run.metrics["recall@100"] == 1.0
            assert run.setup["version"]
            results = await Evaluations(engine).results(run.id)
            assert [one.metrics["ndcg@10"] for one in results] == sorted(one.metrics["ndcg@10"] for one in results)
            assert {one.question for one in results} == set(QUESTIONS)
            (operation,) = engine.operations.list(engine.tenant)
            assert (operation.kind, operation.status, operation.done) == ("evaluate", "done", 4)
            assert await engine.logs.list() == []

    asyncio.run(story())


def test_whole_documents_give_the_numbers_of_an_experiment(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            own = await Evaluations(engine).create(base, "文档")
            cases = [Case(question, (Relevant(document),)) for question, document in QUESTIONS.items()]
            await Evaluations(engine).add_cases(own.id, cases)
            run = await Evaluations(engine).measure(own.id, "hybrid")
            qrels = {document + question: {document: 1} for question, document in QUESTIONS.items()}
            queries = {document + question: question for question, document in QUESTIONS.items()}
            dataset = Dataset("同", tuple(LIBRARY), queries, qrels, 4)
            about = await engine.knowledge_base(base)
            same, _ = await run_mode(engine, about, dataset, "hybrid", "hybrid", lambda _: None)
            assert run.metrics == pytest.approx(dict(same.mean_scores))

    asyncio.run(story())


def test_cases_outlive_another_way_of_cutting(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            set_id = await saved(engine, base)
            before = await Evaluations(engine).measure(set_id, "fulltext")
            await engine.configure(base, {"chunk_size": 10, "chunk_overlap": 0})
            await engine.add_documents(base, [replace(one, metadata={"版": 2}) for one in LIBRARY])
            assert len(await engine.chunks(base, "住院")) > 1
            after = await Evaluations(engine).measure(set_id, "fulltext")
            assert before.metrics["recall@100"] == after.metrics["recall@100"] == 1.0
            await engine.delete_document(base, "生育")
            lost = await Evaluations(engine).measure(set_id, "fulltext")
            assert lost.metrics["recall@100"] == 0.75
            assert [note for note in lost.notes if "已不在知识库里" in note and "产假" in note]

    asyncio.run(story())


def test_runs_are_compared_question_by_question(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            set_id = await saved(engine, base)
            first = await Evaluations(engine).measure(set_id, "fulltext")
            await engine.delete_document(base, "生育")
            second = await Evaluations(engine).measure(set_id, "fulltext")
            compared = await Evaluations(engine).compare(first.id, second.id)
            assert compared.cases[0].question == "产假多少天"
            assert (compared.cases[0].after, compared.worse, compared.better, compared.left_out) == (0.0, 1, 0, 0)
            assert compared.p_value == 1.0
            assert not compared.is_significant
            assert compared.difference == pytest.approx(compared.means[1] - compared.means[0])
            (case, *_) = await Evaluations(engine).cases(set_id)
            await Evaluations(engine).add_cases(set_id, [replace(case, relevant=(Relevant("门诊"),))])
            third = await Evaluations(engine).measure(set_id, "fulltext")
            changed = await Evaluations(engine).compare(second.id, third.id)
            assert (changed.left_out, len(changed.cases)) == (2, 3)
            other = await Evaluations(engine).create(base, "别的")
            await Evaluations(engine).add_cases(other.id, [case])
            with pytest.raises(BadInput, match="同一个评测集"):
                await Evaluations(engine).compare(
                    first.id, (await Evaluations(engine).measure(other.id, "fulltext")).id
                )
            with pytest.raises(BadInput, match="没有指标"):
                await Evaluations(engine).compare(first.id, second.id, metric="f1")

    asyncio.run(story())


def test_a_run_is_cancelled_and_what_it_measured_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            set_id = await saved(engine, base)
            slow, search = asyncio.Event(), module.search_by_mode

            async def waiting(*values: Any) -> Any:
                if values[2] == "产假多少天":
                    slow.set()
                    await asyncio.Event().wait() if values[3] == "vector" else None
                return await search(*values)

            monkeypatch.setattr(module, "search_by_mode", waiting)
            monkeypatch.setattr(module, "REPORT_SECONDS", 0.0)
            run = await Evaluations(engine).start(set_id, "fulltext")
            await slow.wait()
            await Evaluations(engine).cancel(run.id)
            run = await ended(engine, run)
            assert run.status == "cancelled"
            assert 2 <= run.done < 4
            assert len(await Evaluations(engine).results(run.id)) == run.done
            (operation,) = engine.operations.list(engine.tenant)
            assert operation.result["status"] == "cancelled"

    asyncio.run(story())


def test_a_run_that_the_end_of_the_engine_cut_off_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        begun, search = asyncio.Event(), module.search_by_mode

        async def waiting(*values: Any) -> Any:
            if values[2] == "产假多少天":
                begun.set()
                await asyncio.Event().wait()
            return await search(*values)

        monkeypatch.setattr(module, "search_by_mode", waiting)
        async with opened(tmp_path) as (engine, base):
            run = await Evaluations(engine).start(await saved(engine, base), "fulltext")
            await begun.wait()
        async with opened(tmp_path) as (engine, _):
            left = await Evaluations(engine).run(run.id)
            assert (left.status, left.done) == ("interrupted", 2)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("mode", "choices", "reason"),
    [
        ("slow", {}, "没有检索方式"),
        ("vector", {}, "没有向量模型"),
        ("fulltext", {"top_k": 3}, "没有 'top_k'"),
        ("texts", {"fusion": "rrf"}, "没有可调的设置"),
        ("hybrid", {"fusion": "magic"}, "融合方式"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_starts(
    tmp_path: Path, mode: str, choices: dict[str, Any], reason: str
) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            set_id = await saved(engine, base)
            with pytest.raises(Exception, match=reason):
                await Evaluations(engine).start(set_id, mode, choices=choices)
            empty = await Evaluations(engine).create(base, "空")
            with pytest.raises(BadInput, match="还没有问题"):
                await Evaluations(engine).start(empty.id, "fulltext")
            with pytest.raises(AlreadyThere):
                await Evaluations(engine).create(base, "空")
            assert await Evaluations(engine).runs(set_id) == []

    asyncio.run(story())


def test_feedback_becomes_a_case(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, base):
            await engine.retrieve(base, "住院报销比例")
            (entry,) = await engine.logs.list()
            with pytest.raises(BadInput, match="哪一段"):
                await Evaluations(engine).save_logged(entry.id)
            await engine.logs.rate(entry.id, Feedback("good"))
            own, case = await Evaluations(engine).save_logged(entry.id)
            assert (own.cases, case.question, case.origin, case.log_id) == (1, "住院报销比例", "feedback", entry.id)
            assert case.relevant[0].doc_id == "住院"
            await engine.logs.rate(entry.id, Feedback("bad", (f"c_{base}_门诊_0",), "应当是门诊"))
            _, case = await Evaluations(engine).save_logged(entry.id)
            assert [one.doc_id for one in case.relevant] == ["门诊"]
            with pytest.raises(NotFound, match="没有片段"):
                await Evaluations(engine).save_case(base, "问", chunk_ids=["c_1_x_0"])
            with pytest.raises(NotFound, match="没有编号为“无”的文档"):
                await Evaluations(engine).save_case(base, "问", doc_ids=["无"])

    asyncio.run(story())


def test_a_set_goes_to_a_folder_and_comes_back_with_its_corpus(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "data") as (engine, base):
            set_id = await saved(engine, base)
            folder = tmp_path / "导出"
            assert await Evaluations(engine).export_folder(set_id, folder) == 4
            corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
            assert {one["_id"]: one["text"] for one in corpus} == {one.id: one.content for one in LIBRARY}
            with pytest.raises(BadInput, match="已有文件"):
                await Evaluations(engine).export_folder(set_id, folder)
            other = await engine.create_knowledge_base("另一个", model="none")
            with pytest.raises(BadInput, match="全都不在知识库里"):
                await Evaluations(engine).import_folder(other.id, folder)
            assert await Evaluations(engine).sets(other.id) == []
            own, notes = await Evaluations(engine).import_folder(other.id, folder, documents=True)
            assert (own.name, own.cases, notes) == ("导出", 4, ())
            first, second = [await Evaluations(engine).measure(one, "fulltext") for one in (set_id, own.id)]
            assert first.metrics == second.metrics

    asyncio.run(story())
