"""评测: labelled questions of a base, runs over them with progress, and two runs compared question by question."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from qianxun.core.errors import BadInput
from qianxun.core.evaluation_types import EvaluationRun
from qianxun.doors.http.console.forms import ConsoleRoute, Fields, form, query
from qianxun.doors.http.console.headers import HEADERS
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.console.searches import FUSIONS
from qianxun.doors.http.context import TenantEngine, Writer, search_count
from qianxun.engine.admin.evaluation_sets import METRICS, MODES, NDCG, Evaluations

PAGE: Final = Page(
    "evaluation",
    Text("评测", "Evaluation"),
    Text("有标注的问题，逐题测量，两次运行比一比", "Labelled questions, measured one by one, two runs compared"),
)
CASES_SHOWN: Final = 50
RESULTS_SHOWN: Final = 100
PLOTTED: Final = 12  # runs, the latest
SHOWN_BASES: Final = 500
FILES: Final = {"queries": "queries.jsonl", "qrels": "qrels.tsv", "corpus": "corpus.jsonl"}
STATUSES: Final = {
    "running": (Text("进行中", "running"), "busy"),
    "cancelling": (Text("就要停下", "stopping"), "busy"),
    "done": (Text("完成", "done"), "done"),
    "cancelled": (Text("已停下", "stopped"), "idle"),
    "interrupted": (Text("中断", "interrupted"), "bad"),
    "failed": (Text("失败", "failed"), "bad"),
}
ORIGINS: Final = {
    "saved": Text("保存", "saved"),
    "feedback": Text("评价", "feedback"),
    "imported": Text("导入", "imported"),
}

router = APIRouter(route_class=ConsoleRoute)


def _number(fields: Fields, name: str, label: str) -> int:
    number = fields.whole(name, label)
    if number is None:
        raise BadInput(f"没有写{label}", hint="从评测页里选")
    return number


# ── sets ─────────────────────────────────────────────────────────────────────────────────────────


@router.get(PAGE.path)
async def sets_page(request: Request, engine: TenantEngine) -> Response:
    evaluations, bases = Evaluations(engine), await engine.knowledge_bases(limit=SHOWN_BASES)
    sets = await evaluations.sets()
    latest = {one.id: next(iter(await evaluations.runs(one.id)), None) for one in sets}
    names = {base.id: base.name for base in bases}
    return render(request, "evaluation.html", bases=bases, sets=sets, latest=latest, names=names, statuses=STATUSES)


@router.post("/console/evaluation/create", dependencies=[Writer])
async def create(request: Request, engine: TenantEngine) -> Response:
    fields = await form(request)
    made = await Evaluations(engine).create(_number(fields, "base", "知识库"), fields.raw("name"))
    return redirect(request, "/console/evaluation/set", translate(request, "建好了", "Created"), id=made.id)


@router.post("/console/evaluation/import", dependencies=[Writer])
async def import_set(request: Request, engine: TenantEngine) -> Response:
    """The files of a BEIR-style folder; the corpus only where its documents are to be added, too."""
    sent = await request.form()
    fields = Fields(sent)
    base, name = _number(fields, "base", "知识库"), fields.text("name")
    if not name:
        raise BadInput("没有写评测集的名称", hint="写上名称再导入")
    with TemporaryDirectory() as folder:
        for field, file in FILES.items():
            if isinstance(upload := sent.get(field), UploadFile) and upload.filename:
                await asyncio.to_thread((Path(folder) / file).write_bytes, await upload.read())
        has_corpus = await asyncio.to_thread((Path(folder) / FILES["corpus"]).exists)
        own, notes = await Evaluations(engine).import_folder(base, Path(folder), name=name, documents=has_corpus)
    note = translate(request, f"导入了 {own.cases} 题", f"{own.cases} cases imported")
    return redirect(request, "/console/evaluation/set", "；".join([note, *notes]), id=own.id)


@router.get("/console/evaluation/set")
async def set_page(request: Request, engine: TenantEngine) -> Response:
    fields, evaluations = query(request), Evaluations(engine)
    own = await evaluations.get(_number(fields, "id", "评测集的编号"))
    base = await engine.knowledge_base(own.knowledge_base_id)
    after = fields.whole("after", "位置") or 0
    cases = await evaluations.cases(own.id, limit=CASES_SHOWN + 1, after=after)
    runs = await evaluations.runs(own.id)
    if request.headers.get("hx-target") == "runs":
        return render(request, "_runs.html", own=own, runs=runs, statuses=STATUSES, metrics=METRICS)
    done = [run for run in runs if run.status == "done"][:PLOTTED][::-1]
    values: dict[str, Any] = {
        "own": own,
        "base": base,
        "cases": cases[:CASES_SHOWN],
        "next": cases[CASES_SHOWN - 1].id if len(cases) > CASES_SHOWN else None,
        "after": after,
        "runs": runs,
        "done": done,
        "plots": _plots(done),
        "origins": ORIGINS,
    }
    values |= {"modes": MODES, "fusions": FUSIONS, "rerankers": engine.catalog.rerankers(), "metrics": METRICS}
    return render(request, "evaluation_set.html", statuses=STATUSES, **values)


def _plots(runs: list[EvaluationRun]) -> list[tuple[str, list[tuple[str, float | None]]]]:
    return [(metric, [(f"#{run.id} {run.name}", run.metrics.get(metric)) for run in runs]) for metric in METRICS[:3]]


@router.post("/console/evaluation/delete", dependencies=[Writer])
async def remove(request: Request, engine: TenantEngine) -> Response:
    await Evaluations(engine).remove(_number(await form(request), "id", "评测集的编号"))
    return redirect(request, PAGE.path, translate(request, "删去了评测集", "The set is deleted"))


@router.post("/console/evaluation/delete-case", dependencies=[Writer])
async def remove_case(request: Request, engine: TenantEngine) -> Response:
    fields = await form(request)
    own = _number(fields, "id", "评测集的编号")
    await Evaluations(engine).remove_case(own, _number(fields, "case", "问题的编号"))
    return redirect(request, "/console/evaluation/set", translate(request, "删去了一题", "Removed"), id=own)


@router.post("/console/evaluation/save-logged", dependencies=[Writer])
async def save_logged(request: Request, engine: TenantEngine) -> Response:
    """A rated search becomes a case."""
    own, case = await Evaluations(engine).save_logged(_number(await form(request), "log", "检索记录的编号"))
    note = translate(request, f"“{case.question[:40]}”存入了“{own.name}”", f"Saved to “{own.name}”")
    return redirect(request, "/console/evaluation/set", note, id=own.id)


@router.get("/console/evaluation/export")
async def export(request: Request, engine: TenantEngine) -> Response:
    """Questions and judgements as a BEIR-style archive, without the corpus."""
    files = await Evaluations(engine).exported_files(_number(query(request), "id", "评测集的编号"))
    named = {**HEADERS, "content-disposition": 'attachment; filename="evaluation-set.zip"'}
    return Response(await asyncio.to_thread(_zipped, files), media_type="application/zip", headers=named)


def _zipped(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text.encode("utf-8", "replace"))
    return packed.getvalue()


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


@router.post("/console/evaluation/run", dependencies=[Writer])
async def start(request: Request, engine: TenantEngine) -> Response:
    """One run for each mode that was ticked."""
    fields = await form(request)
    own = _number(fields, "id", "评测集的编号")
    if not (modes := fields.all("mode")):
        raise BadInput("没有选检索方式", hint="至少勾选一种")
    given = {"fusion": fields.text("fusion"), "rerank": fields.text("rerank")}
    choices = {name: value for name, value in given.items() if value}
    name = fields.text("name")
    for mode in modes:
        await Evaluations(engine, search_count(request)).start(
            own, mode, name=f"{name} {mode}".strip(), choices=choices
        )
    return redirect(request, "/console/evaluation/set", translate(request, "开始了", "Started"), id=own)


@router.get("/console/evaluation/run")
async def run_page(request: Request, engine: TenantEngine) -> Response:
    fields, evaluations = query(request), Evaluations(engine)
    run = await evaluations.run(_number(fields, "id", "运行的编号"))
    metric = fields.text("metric", NDCG)
    results = await evaluations.results(run.id, metric=metric)
    own = await evaluations.get(run.set_id)
    values: dict[str, Any] = {"run": run, "own": own, "metric": metric, "metrics": METRICS, "statuses": STATUSES}
    values |= {"results": results[:RESULTS_SHOWN], "total": len(results), "spread": _spread(results, metric)}
    return render(
        request, "_run.html" if request.headers.get("hx-target") == "run" else "evaluation_run.html", **values
    )


def _spread(results: list[Any], metric: str) -> list[tuple[str, float | None]]:
    """How many questions reached which tenth of the metric."""
    counts = [0] * 11
    for one in results:
        counts[int(one.metrics[metric] * 10)] += 1
    return [(f"{tenth / 10:.1f}", float(count)) for tenth, count in enumerate(counts)]


@router.post("/console/evaluation/cancel", dependencies=[Writer])
async def cancel(request: Request, engine: TenantEngine) -> Response:
    run = await Evaluations(engine).cancel(_number(await form(request), "id", "运行的编号"))
    return redirect(request, "/console/evaluation/run", translate(request, "就要停下", "Stopping"), id=run.id)


@router.post("/console/evaluation/delete-run", dependencies=[Writer])
async def remove_run(request: Request, engine: TenantEngine) -> Response:
    evaluations = Evaluations(engine)
    run = await evaluations.run(_number(await form(request), "id", "运行的编号"))
    await evaluations.remove_run(run.id)
    return redirect(request, "/console/evaluation/set", translate(request, "删去了", "Deleted"), id=run.set_id)


@router.get("/console/evaluation/compare")
async def compare(request: Request, engine: TenantEngine) -> Response:
    fields, evaluations = query(request), Evaluations(engine)
    metric = fields.text("metric", NDCG)
    first = await evaluations.run(_number(fields, "before", "先前的运行"))
    second = await evaluations.run(_number(fields, "after", "后来的运行"))
    found = await evaluations.compare(first.id, second.id, metric=metric)
    own = await evaluations.get(first.set_id)
    values: dict[str, Any] = {"own": own, "found": found, "runs": (first, second), "metric": metric}
    return render(request, "evaluation_compare.html", metrics=METRICS, shown=found.cases[:RESULTS_SHOWN], **values)
