"""Evaluation sets: labelled questions about a base, and runs that measure searches on them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from qianxun.core.codec.wire import to_wire
from qianxun.core.evaluation_types import (
    Case,
    CaseChange,
    CaseResult,
    EvaluationRun,
    EvaluationSet,
    Relevant,
    RunComparison,
)
from qianxun.core.limits import (
    CASES_LIMIT,
    CHUNK_ID_LIMIT,
    DOC_ID_LIMIT,
    EXPECTED_LIMIT,
    MAX_ID,
    NAME_LIMIT,
    PASSAGE_LIMIT,
    QUERY_LIMIT,
    RELEVANT_LIMIT,
)
from qianxun.doors.http.context import BaseId, TenantEngine, search_count
from qianxun.doors.http.native.routes import Deleted, body_examples, route, write_route
from qianxun.doors.http.request_models import RequestModel
from qianxun.doors.http.response_models import listed, of, response
from qianxun.doors.http.responses import success
from qianxun.engine.admin.evaluation_sets import DEFAULT_SET, MODES, Evaluations

PAGE: Final = 100
MAX_PAGE: Final = 1000
CASES_AT_ONCE: Final = 1000

SetId = Annotated[int, Path(description="评测集的编号", ge=1, le=MAX_ID, examples=[1])]
CaseId = Annotated[int, Path(description="问题的编号", ge=1, le=MAX_ID, examples=[1])]
RunId = Annotated[int, Path(description="运行的编号", ge=1, le=MAX_ID, examples=[1])]
Metric = Annotated[
    Literal["ndcg@10", "mrr@10", "recall@10", "recall@100", "hit@1"], Query(description="按哪个指标比较")
]
Question = Annotated[str, Field(min_length=1, max_length=QUERY_LIMIT, pattern=r"\S", examples=["住院能报多少"])]
SetName = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT, examples=["常用问题"])]
ChunkIds = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=CHUNK_ID_LIMIT)]], Field(max_length=RELEVANT_LIMIT)
]
DocIds = Annotated[list[Annotated[str, Field(min_length=1, max_length=DOC_ID_LIMIT)]], Field(max_length=RELEVANT_LIMIT)]

router = APIRouter(tags=["评测"])


class NewSet(RequestModel):
    name: SetName


class RelevantPassage(RequestModel):
    doc_id: str = Field(min_length=1, max_length=DOC_ID_LIMIT)
    text: str = Field(default="", max_length=PASSAGE_LIMIT, description="应当找到的原文；空则整个文档都算")
    grade: int = Field(default=1, ge=-100, le=100, description="大于 0 为相关，越大越相关")


class NewCase(RequestModel):
    question: Question
    relevant: list[RelevantPassage] = Field(min_length=1, max_length=RELEVANT_LIMIT)
    expected: str = Field(default="", max_length=EXPECTED_LIMIT, description="期望的回答，可不写")


class NewCases(RequestModel):
    cases: list[NewCase] = Field(min_length=1, max_length=CASES_AT_ONCE)


class SavedCase(RequestModel):
    """A question and the chunks, or documents, that should be found for it."""

    question: Question | None = Field(default=None, description="不写则是 log_id 那一次的")
    chunk_ids: ChunkIds = Field(default=[], description="正确的片段；保存的是它们的原文，重新切分后仍然有效")
    doc_ids: DocIds = Field(default=[], description="整个文档都算正确")
    expected: str = Field(default="", max_length=EXPECTED_LIMIT)
    set_name: SetName = Field(default=DEFAULT_SET, description="存进哪个评测集，没有则新建")
    log_id: int | None = Field(default=None, ge=1, le=MAX_ID, description="来自哪一次检索；有评价的按评价里的片段")


class NewRun(RequestModel):
    mode: Literal[MODES] = Field(default="hybrid", description="检索方式，与 qianxun eval 相同")  # type: ignore[valid-type]
    name: str = Field(default="", max_length=NAME_LIMIT)
    choices: dict[str, Any] = Field(default={}, max_length=8, description="threshold、fusion、weights、rerank、fuzzy")


SetList: Final = response("EvaluationSets", list=listed(EvaluationSet))
CaseInfo: Final = response("EvaluationCase", Case)
CasePage: Final = response("EvaluationCases", list=listed(CaseInfo), next=int | None)
SavedInfo: Final = response("SavedCaseInfo", set=of(EvaluationSet), case=CaseInfo)
RunList: Final = response("EvaluationRuns", list=listed(EvaluationRun))
ResultList: Final = response("EvaluationResults", run=of(EvaluationRun), list=listed(CaseResult))
ComparisonInfo: Final = response("RunComparisonInfo", RunComparison, means=list[float], cases=listed(CaseChange))


@router.get("/v1/knowledge-bases/{knowledge_base_id}/evaluation-sets", **route("一个知识库的评测集", SetList, 404, 422))
async def list_sets(knowledge_base_id: BaseId, engine: TenantEngine) -> Response:
    return success({"list": to_wire(await Evaluations(engine).sets(knowledge_base_id))})


@router.post(
    "/v1/knowledge-bases/{knowledge_base_id}/evaluation-sets",
    **write_route("新建评测集", EvaluationSet, 400, 404, 409, 413, 422, 507, status=201),
)
async def create(
    knowledge_base_id: BaseId, engine: TenantEngine, body: Annotated[NewSet, body_examples("new_set")]
) -> Response:
    return success(to_wire(await Evaluations(engine).create(knowledge_base_id, body.name)), 201)


@router.post(
    "/v1/knowledge-bases/{knowledge_base_id}/evaluation-cases",
    **write_route("保存一个问题和它的正确内容", SavedInfo, 400, 404, 413, 422, 507, status=201),
)
async def save_case(
    knowledge_base_id: BaseId, engine: TenantEngine, body: Annotated[SavedCase, body_examples("saved_case")]
) -> Response:
    """一次检索之后，把问题与正确的片段存为评测集的一题；同一个问题再存，以新的为准。"""
    evaluations = Evaluations(engine)
    if body.log_id is not None and body.question is None:
        found, case = await evaluations.save_logged(body.log_id, chunk_ids=body.chunk_ids, set_name=body.set_name)
    else:
        found, case = await evaluations.save_case(
            knowledge_base_id,
            body.question or "",
            chunk_ids=body.chunk_ids,
            doc_ids=body.doc_ids,
            set_name=body.set_name,
            expected=body.expected,
            log_id=body.log_id,
        )
    return success({"set": to_wire(found), "case": to_wire(case)}, 201)


# ── one set ──────────────────────────────────────────────────────────────────────────────────────


@router.get("/v1/evaluation-sets/{set_id}", **route("一个评测集", EvaluationSet, 404, 422))
async def get_set(engine: TenantEngine, set_id: SetId) -> Response:
    return success(to_wire(await Evaluations(engine).get(set_id)))


@router.delete("/v1/evaluation-sets/{set_id}", **write_route("删去评测集及其运行", Deleted, 404, 422, 507))
async def remove_set(engine: TenantEngine, set_id: SetId) -> Response:
    await Evaluations(engine).remove(set_id)
    return success({"deleted": True})


@router.get("/v1/evaluation-sets/{set_id}/cases", **route("评测集的问题", CasePage, 404, 422))
async def list_cases(
    engine: TenantEngine,
    set_id: SetId,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="最多几题")] = PAGE,
    after: Annotated[int, Query(ge=0, le=MAX_ID, description="上一页的 next")] = 0,
) -> Response:
    page = await Evaluations(engine).cases(set_id, limit=limit, after=after)
    return success({"list": to_wire(page), "next": page[-1].id if len(page) == limit else None})


@router.post(
    "/v1/evaluation-sets/{set_id}/cases", **write_route("放入一批问题", CasePage, 400, 404, 413, 422, 507, status=201)
)
async def add_cases(
    engine: TenantEngine, set_id: SetId, body: Annotated[NewCases, body_examples("new_cases")]
) -> Response:
    """全部放入或一题也不放；集里已有的问题，以新的标注为准。"""
    cases = [
        Case(one.question, tuple(Relevant(**label.model_dump()) for label in one.relevant), one.expected, "imported")
        for one in body.cases
    ]
    return success({"list": to_wire(await Evaluations(engine).add_cases(set_id, cases)), "next": None}, 201)


@router.delete("/v1/evaluation-sets/{set_id}/cases/{case_id}", **write_route("删去一个问题", Deleted, 404, 422, 507))
async def remove_case(engine: TenantEngine, set_id: SetId, case_id: CaseId) -> Response:
    await Evaluations(engine).remove_case(set_id, case_id)
    return success({"deleted": True})


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


@router.get("/v1/evaluation-sets/{set_id}/runs", **route("评测的运行，新的在前", RunList, 404, 422))
async def list_runs(engine: TenantEngine, set_id: SetId) -> Response:
    return success({"list": to_wire(await Evaluations(engine).runs(set_id))})


@router.post(
    "/v1/evaluation-sets/{set_id}/runs",
    **write_route("开始一次评测", EvaluationRun, 400, 404, 413, 422, 507, status=202),
)
async def start(
    request: Request, engine: TenantEngine, set_id: SetId, body: Annotated[NewRun, body_examples("new_run")]
) -> Response:
    """在后台逐题检索，不用缓存，不留记录；进度看这次运行的 `done` 与 `total`。每题算租户的一次检索，配额满了就等。"""
    run = await Evaluations(engine, search_count(request)).start(
        set_id, body.mode, name=body.name, choices=body.choices
    )
    return success(to_wire(run), 202)


@router.get(
    "/v1/evaluation-runs/{run_id}/compare/{other_run_id}",
    **route("与后来的一次运行比较", ComparisonInfo, 400, 404, 422),
)
async def compare(engine: TenantEngine, run_id: RunId, other_run_id: RunId, metric: Metric = "ndcg@10") -> Response:
    """逐题比较，退步最多的在前；配对随机化检验给出 p 值，不小于 .05 为不显著。"""
    return success(to_wire(await Evaluations(engine).compare(run_id, other_run_id, metric=metric)))


@router.get("/v1/evaluation-runs/{run_id}", **route("一次运行", EvaluationRun, 404, 422))
async def get_run(engine: TenantEngine, run_id: RunId) -> Response:
    return success(to_wire(await Evaluations(engine).run(run_id)))


@router.get("/v1/evaluation-runs/{run_id}/results", **route("逐题的结果，差的在前", ResultList, 404, 422))
async def results(
    engine: TenantEngine,
    run_id: RunId,
    metric: Metric = "ndcg@10",
    limit: Annotated[int, Query(ge=1, le=CASES_LIMIT, description="最多几题")] = PAGE,
) -> Response:
    evaluations = Evaluations(engine)
    found = await evaluations.results(run_id, metric=metric)
    return success({"run": to_wire(await evaluations.run(run_id)), "list": to_wire(found[:limit])})


@router.post("/v1/evaluation-runs/{run_id}/cancel", **write_route("停下一次运行", EvaluationRun, 404, 422, 507))
async def cancel(engine: TenantEngine, run_id: RunId) -> Response:
    """做完手上的一题就停；已测的留着。"""
    return success(to_wire(await Evaluations(engine).cancel(run_id)))


@router.delete("/v1/evaluation-runs/{run_id}", **write_route("删去一次运行", Deleted, 404, 422, 507))
async def remove_run(engine: TenantEngine, run_id: RunId) -> Response:
    await Evaluations(engine).remove_run(run_id)
    return success({"deleted": True})
