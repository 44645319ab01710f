"""`qianxun evalset`: labelled questions that stay with their base, and how well searches do on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from qianxun.core.errors import BadInput, NotFound
from qianxun.doors.cli.i18n import note, out, print_json, print_plain, tr
from qianxun.doors.cli.progress import counting
from qianxun.doors.cli.session import BaseOption, JsonFlag, Library, session_of, with_base, with_library
from qianxun.doors.cli.views.drawing import visible

if TYPE_CHECKING:
    from qianxun.core.evaluation_types import CaseResult, EvaluationRun, EvaluationSet, RunComparison
    from qianxun.doors.client.evaluations import ServiceEvaluations
    from qianxun.engine.admin.evaluation_sets import Evaluations

T = TypeVar("T")
SHOWN = 20  # questions of a list that are shown

app = typer.Typer(
    help="评测集：保存的问题与正确内容，逐题测量与比较 · labelled questions of a base", no_args_is_help=True
)
SetName = Annotated[str, typer.Argument(metavar="SET", help="评测集的名称或编号 · its name or id")]
RunId = Annotated[int, typer.Argument(metavar="RUN", help="运行的编号 · the id of a run")]


def _evaluations(library: Library) -> Evaluations | ServiceEvaluations:
    from qianxun.engine.engine import Engine

    if isinstance(library, Engine):
        from qianxun.engine.admin.evaluation_sets import Evaluations

        return Evaluations(library)
    return library.evaluation


def _work(context: typer.Context, work: Callable[[Any], Awaitable[T]]) -> T:
    return with_library(session_of(context), lambda library: work(_evaluations(library)))


def _on_base(context: typer.Context, kb: str, work: Callable[[Any, int], Awaitable[T]]) -> T:
    return with_base(context, kb, lambda library, base: work(_evaluations(library), base.id))


async def _found(evaluations: Any, base: int, name: str) -> EvaluationSet:
    sets: Sequence[EvaluationSet] = await evaluations.sets(base)
    for one in sets:
        if one.name == name or str(one.id) == name:
            return one
    known = "、".join(one.name for one in sets) or tr("还没有", "none")
    raise NotFound(tr(f"没有评测集“{name}”", f"No evaluation set “{name}”"), hint=tr("已有：", "There are: ") + known)


# ── sets and cases ───────────────────────────────────────────────────────────────────────────────


@app.command("list")
def list_sets(context: typer.Context, kb: BaseOption, as_json: JsonFlag = False) -> None:
    """一个知识库的评测集 · the sets of a base"""
    found: list[EvaluationSet] = _on_base(context, kb, lambda evaluations, base: evaluations.sets(base))
    if as_json:
        print_json({"sets": found})
        return
    if not found:
        print_plain(
            out(), tr("还没有评测集。用 evalset save 保存一个问题。", "None yet: save a question with evalset save.")
        )
    for one in found:
        print_plain(out(), tr(f"{one.id}  {one.name}  {one.cases} 题", f"{one.id}  {one.name}  {one.cases} cases"))


@app.command()
def show(context: typer.Context, name: SetName, kb: BaseOption, as_json: JsonFlag = False) -> None:
    """评测集的问题 · the questions of a set"""

    async def work(evaluations: Any, base: int) -> Any:
        return await evaluations.cases((await _found(evaluations, base, name)).id)

    cases = _on_base(context, kb, work)
    if as_json:
        print_json({"cases": cases})
        return
    for case in cases:
        places = "、".join(dict.fromkeys(label.doc_id for label in case.relevant))
        print_plain(out(), f"{case.id}  {visible(case.question)}  → {visible(places)}")


@app.command()
def save(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="问题 · the question")],
    kb: BaseOption,
    chunks: Annotated[
        list[str] | None, typer.Option("--chunk", metavar="ID", help="正确的片段，可给几个 · a right chunk")
    ] = None,
    documents: Annotated[
        list[str] | None, typer.Option("--doc", metavar="ID", help="整个文档都算正确 · a right document")
    ] = None,
    name: Annotated[str, typer.Option("--set", metavar="NAME", help="评测集，没有则新建 · the set")] = "常用问题",
    expected: Annotated[str, typer.Option(metavar="TEXT", help="期望的回答 · the expected answer")] = "",
    as_json: JsonFlag = False,
) -> None:
    """保存一个问题和它的正确内容 · save a question with what should be found"""
    values = {"chunk_ids": chunks or (), "doc_ids": documents or (), "set_name": name, "expected": expected}
    found, case = _on_base(context, kb, lambda evaluations, base: evaluations.save_case(base, question, **values))
    if as_json:
        print_json({"set": found, "case": case})
        return
    print_plain(
        out(), tr(f"已存入“{found.name}”，共 {found.cases} 题", f"Saved in “{found.name}”, {found.cases} cases")
    )


@app.command("import")
def import_folder(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="BEIR 格式的目录 · a BEIR-style folder")],
    kb: BaseOption,
    name: Annotated[str, typer.Option("--set", metavar="NAME", help="不写则用目录名 · default: the folder's")] = "",
    documents: Annotated[
        bool, typer.Option("--documents", help="语料也放入知识库 · add the corpus to the base, too")
    ] = False,
) -> None:
    """导入一个评测集 · import a set"""

    async def work(evaluations: Any, base: int) -> Any:
        if not hasattr(evaluations, "import_folder"):
            raise BadInput(
                tr("导入要在数据目录上进行", "An import works on the data folder"),
                hint=tr("去掉 --url，在服务所在的机器上停下服务后运行", "Leave out --url"),
            )
        return await evaluations.import_folder(base, folder, name=name, documents=documents)

    found, notes = _on_base(context, kb, work)
    for remark in notes:
        note(f"! {remark}", "yellow")
    print_plain(out(), tr(f"“{found.name}”共 {found.cases} 题", f"“{found.name}” has {found.cases} cases"))


@app.command("export")
def export_folder(
    context: typer.Context,
    name: SetName,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="空的目录 · an empty folder")],
    kb: BaseOption,
) -> None:
    """写成 BEIR 格式的目录，连同知识库的文档 · write a BEIR-style folder with the base's documents"""

    async def work(evaluations: Any, base: int) -> int:
        if not hasattr(evaluations, "export_folder"):
            raise BadInput(
                tr("导出要在数据目录上进行", "An export works on the data folder"),
                hint=tr("去掉 --url", "Leave out --url"),
            )
        count: int = await evaluations.export_folder((await _found(evaluations, base, name)).id, folder)
        return count

    print_plain(out(), tr(f"写了 {(count := _on_base(context, kb, work))} 题", f"{count} cases written"))


@app.command()
def delete(context: typer.Context, name: SetName, kb: BaseOption) -> None:
    """删去评测集及其运行 · delete a set with its runs"""

    async def work(evaluations: Any, base: int) -> None:
        await evaluations.remove((await _found(evaluations, base, name)).id)

    _on_base(context, kb, work)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


@app.command()
def run(
    context: typer.Context,
    name: SetName,
    kb: BaseOption,
    modes: Annotated[str, typer.Option(metavar="A,B", help="检索方式，与 eval 相同 · modes as in eval")] = "hybrid",
    fusion: Annotated[str, typer.Option(metavar="NAME", help="融合方式 · how scores become one")] = "",
    rerank: Annotated[str, typer.Option(metavar="NAME", help="重排模型 · the reranker")] = "",
    threshold: Annotated[float | None, typer.Option(metavar="X", help="分数线 · least score")] = None,
    as_json: JsonFlag = False,
) -> None:
    """逐题检索并测量 · measure a search on every question"""
    given = {"fusion": fusion or None, "rerank": rerank or None, "threshold": threshold}
    choices = {option: value for option, value in given.items() if value is not None}

    async def work(evaluations: Any, base: int) -> list[EvaluationRun]:
        found = await _found(evaluations, base, name)
        runs = []
        for mode in modes.replace("，", ",").split(","):
            with counting(mode, found.cases, tr("题", "questions")) as advance:
                runs.append(await evaluations.measure(found.id, mode.strip(), choices=choices, watch=advance))
        return runs

    _show_runs(_on_base(context, kb, work), as_json)


@app.command()
def runs(context: typer.Context, name: SetName, kb: BaseOption, as_json: JsonFlag = False) -> None:
    """评测集的运行，新的在前 · the runs of a set, newest first"""

    async def work(evaluations: Any, base: int) -> list[EvaluationRun]:
        found: list[EvaluationRun] = await evaluations.runs((await _found(evaluations, base, name)).id)
        return found

    _show_runs(_on_base(context, kb, work), as_json)


def _show_runs(found: Sequence[EvaluationRun], as_json: bool) -> None:
    if as_json:
        print_json({"runs": list(found)})
        return
    table = Table(box=None, pad_edge=False)
    for title in (tr("编号", "id"), tr("名称", "name"), "nDCG@10", "MRR@10", tr("召回@10", "recall@10"), "p50 ms", ""):
        table.add_column(title, no_wrap=True)
    for one in found:
        scores = (f"{one.metrics[name]:.4f}" if one.metrics else "—" for name in ("ndcg@10", "mrr@10", "recall@10"))
        state = "" if one.status == "done" else f"{one.status} {one.done}/{one.total}"
        table.add_row(str(one.id), Text(one.name), *scores, f"{one.p50_ms:.0f}", state)
    out().print(table)
    for one in found:
        for remark in one.notes:
            note(f"! {one.name}：{remark}", "yellow")


@app.command()
def worst(
    context: typer.Context,
    run_id: RunId,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="最多几题 · at most so many")] = SHOWN,
    as_json: JsonFlag = False,
) -> None:
    """一次运行里最差的问题 · the questions a run did worst on"""
    found: list[CaseResult] = _work(context, lambda evaluations: evaluations.results(run_id))
    if as_json:
        print_json({"results": found[:limit]})
        return
    for one in found[:limit]:
        rank = tr("没找到", "not found") if one.first_rank is None else tr(f"第 {one.first_rank}", f"#{one.first_rank}")
        print_plain(out(), f"{one.metrics['ndcg@10']:.3f}  {rank}  {visible(one.question)}")


@app.command()
def compare(
    context: typer.Context,
    before: RunId,
    after: Annotated[int, typer.Argument(metavar="RUN", help="后来的运行 · the later run")],
    metric: Annotated[str, typer.Option(metavar="NAME", help="指标 · the metric")] = "ndcg@10",
    as_json: JsonFlag = False,
) -> None:
    """两次运行逐题比较，配对检验 · two runs, question by question, with a paired test"""
    found: RunComparison = _work(context, lambda evaluations: evaluations.compare(before, after, metric=metric))
    if as_json:
        print_json(found)
        return
    first, second = found.means
    verdict = tr("显著", "significant") if found.is_significant else tr("不显著", "not significant")
    print_plain(
        out(), f"{metric}  {first:.4f} → {second:.4f}（{found.difference:+.4f}）  p = {found.p_value:.4f}  {verdict}"
    )
    counts = (found.better, found.worse, found.left_out)
    print_plain(out(), tr("变好 {}，变差 {}，没有比较 {}", "better {}, worse {}, left out {}").format(*counts))
    for one in [case for case in found.cases if case.difference][:SHOWN]:
        print_plain(out(), f"  {one.difference:+.3f}  {one.before:.3f} → {one.after:.3f}  {visible(one.question)}")
