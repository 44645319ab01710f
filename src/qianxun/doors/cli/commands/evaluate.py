"""`qianxun eval` and `tune`: how well the engine finds what is labelled, and which settings suit a base."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qianxun.core.errors import BadInput
from qianxun.doors.cli.i18n import Stopped, note, print_json, tr, warn
from qianxun.doors.cli.progress import counting
from qianxun.doors.cli.session import (
    BaseOption,
    JsonFlag,
    Session,
    find_base,
    program,
    refuse_url,
    session_of,
    with_engine,
)
from qianxun.doors.cli.views.answer_evaluation import described_answers, show_answers
from qianxun.doors.cli.views.evaluation import Trial, described, described_calibration, show, show_calibration
from qianxun.doors.cli.views.tuning import advise, show_tuning

if TYPE_CHECKING:
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.admin.evaluate import Built, Candidate, Dataset, Problems
    from qianxun.engine.admin.tune import Tuning
    from qianxun.engine.engine import Engine
    from qianxun.engine.settings import Settings


def evaluate(
    context: typer.Context,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR...", help="BEIR 格式的评测集；--calibrate 可给多个 · a BEIR-style folder"),
    ] = None,
    modes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="vector,fulltext,hybrid,rerank，默认这些；另有 texts,tables 与 naive,local,global,graph_hybrid,mix"
            " · default: the first four",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="只用其中 N 个查询（固定种子） · only N queries, seeded")
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="设置文件；给两个则互相比较 · a settings file; two are compared"),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="拟合余弦的校准曲线 · fit the calibration of cosines")
    ] = False,
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="自己的问答（JSONL 或 CSV），测回答 · measure answers on your own file"),
    ] = None,
    kb: Annotated[str, typer.Option(metavar="NAME", help="--answers 问哪个知识库 · the base that --answers asks")] = "",
    as_json: JsonFlag = False,
) -> None:
    """在有标注的评测集上测量检索质量，或用自己的问答测回答 · measure quality on a labelled set, or answers"""
    configurations = _configurations(session_of(context), config or [])
    if answers is not None:
        _answers(answers, kb, configurations, as_json)
        return
    if calibrate:
        _calibrate(folders or [], limit, configurations, modes, as_json)
        return
    _measure(folders or [], limit, configurations, modes, as_json)


def _measure(
    folders: Sequence[Path],
    limit: int | None,
    configurations: Sequence[tuple[str, Settings]],
    modes: str | None,
    as_json: bool,
) -> None:
    from qianxun.engine.admin.evaluate import compare

    if len(folders) != 1:
        raise BadInput(
            tr("一次只评测一个目录", "One folder at a time"),
            hint=tr("对每个目录各运行一次；只有 --calibrate 接受多个", "Only --calibrate takes several"),
        )
    chosen = _modes(modes)
    dataset = _dataset(folders[0], limit)
    trials = [_trial(dataset, label, settings, chosen) for label, settings in configurations]
    comparisons = {}
    if len(trials) == 2:
        before, after = (trial.runs for trial in trials)
        comparisons = {mode: compare(before[mode], after[mode], dataset.queries) for mode in before if mode in after}
    if as_json:
        print_json(described(dataset, trials, comparisons))
    else:
        show(dataset, trials, comparisons)


def _answers(file: Path, kb: str, configurations: Sequence[tuple[str, Settings]], as_json: bool) -> None:
    from qianxun.engine.admin.evaluate_answers import AnswerResult, measure, read_cases, summary

    if not kb:
        raise BadInput(
            tr("没有说问哪个知识库", "Which base is to be asked?"), hint=tr("加上 --kb 名称", "Add --kb NAME")
        )
    cases = read_cases(file)
    found: list[tuple[str, Sequence[AnswerResult]]] = []
    for label, settings in configurations:
        with counting(tr("提问", "Asking"), len(cases), tr("问", "questions")) as count:

            async def ask(engine: Engine, count: Callable[[int], None] = count) -> Sequence[AnswerResult]:
                base = await engine.knowledge_base(kb)
                return await measure(engine, base.id, cases, count)

            found.append((label, with_engine(settings, ask)))
    described_ = {label or file.stem: summary(results) for label, results in found}
    if as_json:
        print_json(described_answers(file, described_, found))
    else:
        show_answers(described_, found)


# ── options ──────────────────────────────────────────────────────────────────────────────────────


def _modes(given: str | None) -> list[str] | None:
    from qianxun.engine.admin.evaluate import MODES

    if given is None:
        return None
    modes = [part.strip().lower() for part in given.replace("，", ",").replace("、", ",").split(",") if part.strip()]
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown or not modes:
        raise BadInput(
            tr(f"没有检索方式 {'、'.join(unknown) or '（空）'}", f"No such mode: {', '.join(unknown) or '(empty)'}"),
            hint=tr("可用：", "There are: ") + ",".join(MODES),
        )
    return list(dict.fromkeys(modes))


def _configurations(session: Session, files: Sequence[Path]) -> list[tuple[str, Settings]]:
    """(label, settings). A single configuration needs no label."""
    from qianxun.engine.settings import load

    if len(files) > 2:
        raise BadInput(
            tr(f"给了 {len(files)} 个 --config，至多两个", "At most two --config"),
            hint=tr("两两比较", "Compare them in pairs"),
        )
    if not files:
        return [("", session.settings())]
    settings = [load(file=file, arguments={"data": session.data}) for file in files]
    return list(zip(_labels(files), settings, strict=True))


def _labels(files: Sequence[Path]) -> list[str]:
    if len(files) == 1:
        return [""]
    for name in ([file.stem for file in files], [str(file) for file in files]):
        if len(set(name)) == len(files):
            return name
    return [f"{file.stem}#{at}" for at, file in enumerate(files, 1)]


def _dataset(folder: Path, limit: int | None) -> Dataset:
    from qianxun.engine.admin.evaluate import limited, load

    dataset = limited(load(folder), limit)
    for remark in dataset.notes:
        note(f"! {dataset.name}：{remark}", "yellow")
    return dataset


def _possible(modes: list[str] | None, model: str, settings: Settings) -> list[str]:
    """The modes that can be measured with this model. Raises BadInput where one was named that cannot."""
    from qianxun.engine.admin.evaluate import DEFAULT_MODES, NEED_MODEL

    if model:
        return modes if modes is not None else list(DEFAULT_MODES)
    name = settings.vectorization.model
    pull = tr("装上模型：", "Get a model: ")
    pull += f"qianxun models pull {'bge-small-zh-v1.5' if name == 'none' else name}"
    if modes is None:
        warn(f"! 没有向量模型，只评测 fulltext。{pull}", f"! No embedding model: fulltext only. {pull}")
        return ["fulltext"]
    impossible = [mode for mode in modes if mode in NEED_MODEL]
    if impossible:
        raise BadInput(
            tr(f"没有向量模型，不能评测 {'、'.join(impossible)}", f"No embedding model for {', '.join(impossible)}"),
            hint=pull,
        )
    return modes


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


def _trial(dataset: Dataset, label: str, settings: Settings, chosen: list[str] | None) -> Trial:
    from qianxun.engine.admin.evaluate import embedding_model, evaluation_settings, run_mode

    model = embedding_model(settings)
    modes = _possible(chosen, model, settings)
    own = evaluation_settings(settings, dataset, model)

    async def work(engine: Engine) -> Trial:
        base, built, is_reused = await _ready(engine, dataset, model)
        runs = {}
        for mode in modes:
            name = f"{mode}@{label}" if label else mode
            with counting(name, len(dataset.queries), tr("个查询", "queries")) as advance:
                runs[mode], problems = await run_mode(engine, base, dataset, mode, name, advance)
            _warn_of(name, problems)
        return Trial(label, own.data, built, is_reused, runs)

    with _resumable():
        return with_engine(own, work, may_create=True)


async def _ready(engine: Engine, dataset: Dataset, model: str) -> tuple[KnowledgeBase, Built, bool]:
    from qianxun.engine.admin.evaluate import ready_base

    title = tr(f"建索引 {dataset.name}", f"indexing {dataset.name}")
    with counting(title, len(dataset.documents), tr("个文档", "documents")) as advance:
        return await ready_base(engine, dataset, model, advance)


def _warn_of(name: str, problems: Problems) -> None:
    for (part, reason), times in problems.degraded.items():
        warn(
            f"! {name}：{times} 次检索里“{part}”没有参加：{reason}",
            f"! {name}: {part} did not take part in {times} searches: {reason}",
        )
    for reason, times in problems.refused.items():
        warn(
            f"! {name}：{times} 个查询被拒绝，按未命中计：{reason}",
            f"! {name}: {times} queries were refused and count as not found: {reason}",
        )


@contextmanager
def _resumable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        stopped = tr(
            "已停下。已建的索引都在；再运行同一条命令就从这里继续。",
            "Stopped. What is indexed is kept; the same command goes on from here.",
        )
        raise Stopped(stopped) from None


# ── calibration ──────────────────────────────────────────────────────────────────────────────────


def _calibrate(
    folders: Sequence[Path],
    limit: int | None,
    configurations: Sequence[tuple[str, Settings]],
    modes: str | None,
    as_json: bool,
) -> None:
    from qianxun.engine.admin.evaluate import calibrate, embedding_model

    if len(configurations) > 1 or modes is not None:
        raise BadInput(
            tr("--calibrate 只看向量检索，至多一个 --config", "--calibrate is about vectors and one --config"),
            hint=tr("去掉 --modes 与多余的 --config", "Leave out --modes and the second --config"),
        )
    ((_, settings),) = configurations
    model = embedding_model(settings)
    _possible(["vector"], model, settings)
    datasets = [_dataset(folder, limit) for folder in dict.fromkeys(folders)]
    report = calibrate([found for dataset in datasets for found in _candidates(dataset, settings, model)])
    if as_json:
        print_json(described_calibration(model, datasets, report))
    else:
        show_calibration(model, datasets, report)


def _candidates(dataset: Dataset, settings: Settings, model: str) -> list[list[Candidate]]:
    from qianxun.engine.admin.evaluate import evaluation_settings, labelled_candidates

    async def work(engine: Engine) -> list[list[Candidate]]:
        base, _, _ = await _ready(engine, dataset, model)
        with counting(f"vector {dataset.name}", len(dataset.queries), tr("个查询", "queries")) as advance:
            candidates, problems = await labelled_candidates(engine, base, dataset, advance)
        _warn_of(dataset.name, problems)
        return candidates

    with _resumable():
        return with_engine(evaluation_settings(settings, dataset, model), work, may_create=True)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def tune(
    context: typer.Context,
    kb: BaseOption,
    cases: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="BEIR 格式的问题与标注；不写则用保存过的问题，再没有就从资料造 · a BEIR-style folder"
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="至多用 N 个问题 · at most N questions")] = None,
    chunk_sizes: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="也试这些分块长度，每种都要重新入库一遍 · chunk sizes, each indexed anew"),
    ] = None,
    apply: Annotated[
        bool,
        typer.Option("--apply", help="把显著更好的那一项设上；不写则什么也不改 · set what is significantly better"),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """在自己的问题上比较权重、融合、重排、分块 · try settings on your own questions"""
    session = session_of(context)
    refuse_url(session, "tune", alone=True)
    settings, sizes = session.settings(), _sizes(chunk_sizes)

    async def work(engine: Engine) -> tuple[KnowledgeBase, Tuning]:
        from qianxun.engine.admin import tune as tuning

        base = await find_base(engine, kb, program(settings))
        with counting(tr("试设置", "trying"), 0, tr("次检索", "searches")) as advance:
            found = await tuning.tune(engine, base, folder=cases, limit=limit, chunk_sizes=sizes, watch=advance)
        if apply and found.best is not None:
            base = await tuning.apply(engine, base, found.best)
        return base, found

    base, found = with_engine(settings, work)
    is_applied = apply and found.best is not None
    if as_json:
        best = found.best.name if found.best else None
        print_json({**asdict(found), "best": best, "applied": is_applied, "knowledge_base": base.name})
        return
    show_tuning(base, found)
    advise(base, found, program(settings), is_applied=is_applied)


def _sizes(given: str | None) -> list[int]:
    parts = [part.strip() for part in (given or "").replace("，", ",").split(",") if part.strip()]
    if wrong := [part for part in parts if not part.isdecimal()]:
        raise BadInput(
            tr(f"分块长度 {wrong[0]!r} 不是整数", f"{wrong[0]!r} is not a chunk size"),
            hint=tr("例如 --chunk-sizes 300,800", "For example --chunk-sizes 300,800"),
        )
    return [int(part) for part in parts]
