"""`qianxun eval`: how well the engine finds what is labelled, as a user gets it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qianxun.core.errors import BadInput, BadQuery
from qianxun.doors.cli.commands.evaluation_index import Built, home, model_of, ready
from qianxun.doors.cli.i18n import Stopped, note, print_json, tr
from qianxun.doors.cli.progress import counting
from qianxun.doors.cli.session import JsonFlag, Session, session_of, with_engine
from qianxun.doors.cli.views.evaluation import Trial, described, described_calibration, show, show_calibration

if TYPE_CHECKING:
    from qianxun.core.answer_types import QueryMode
    from qianxun.core.layered_types import LayeredRecall
    from qianxun.core.types import KnowledgeBase, Recall
    from qianxun.engine.engine import Engine
    from qianxun.engine.settings import Settings
    from qianxun.evaluation.calibration import Candidate
    from qianxun.evaluation.dataset import Dataset
    from qianxun.evaluation.experiment import Comparison, Run, Search
    from qianxun.graph.modes import ModeRecall

DEPTH = 100  # chunks asked for: the most a search gives
OPTIONS: dict[str, dict[str, Any]] = {
    "vector": {"mode": "vector"},
    "fulltext": {"mode": "fulltext"},
    "hybrid": {"mode": "hybrid"},
    "rerank": {"mode": "hybrid", "rerank": "maxsim"},
}
LAYERED = ("texts", "tables")  # only where they are asked for: of a set without tables the second finds nothing
# Query modes, by what they are called here: `hybrid` is the base's own search.
GATHERED: dict[str, QueryMode] = {
    "naive": "naive",
    "local": "local",
    "global": "global",
    "graph_hybrid": "hybrid",
    "mix": "mix",
}
ONLY_ASKED = (*LAYERED, *GATHERED)
NEED_MODEL = ("vector", "rerank", "naive")


def evaluate(
    context: typer.Context,
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="BEIR 格式的评测集；--calibrate 可给多个 · a BEIR-style folder"),
    ],
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
    as_json: JsonFlag = False,
) -> None:
    """在有标注的评测集上测量检索质量 · measure quality on a labelled set"""
    configurations = _configurations(session_of(context), config or [])
    if calibrate:
        _calibrate(folders, limit, configurations, modes, as_json)
        return
    if len(folders) != 1:
        raise BadInput(
            tr("一次只评测一个目录", "One folder at a time"),
            hint=tr("对每个目录各运行一次；只有 --calibrate 接受多个", "Only --calibrate takes several"),
        )
    from qianxun.evaluation.metrics import available

    available()
    asked = _modes(modes)
    dataset = _dataset(folders[0], limit)
    trials = [_trial(dataset, label, settings, asked) for label, settings in configurations]
    comparisons = _comparisons(dataset, trials)
    if as_json:
        print_json(described(dataset, trials, comparisons))
    else:
        show(dataset, trials, comparisons)


# ── what was asked for ───────────────────────────────────────────────────────────────────────────


def _modes(told: str | None) -> list[str] | None:
    if told is None:
        return None
    asked = [part.strip().lower() for part in told.replace("，", ",").replace("、", ",").split(",") if part.strip()]
    unknown = [mode for mode in asked if mode not in (*OPTIONS, *ONLY_ASKED)]
    if unknown or not asked:
        raise BadInput(
            tr(f"没有检索方式 {'、'.join(unknown) or '（空）'}", f"No such mode: {', '.join(unknown) or '(empty)'}"),
            hint=tr("可用：", "There are: ") + ",".join((*OPTIONS, *ONLY_ASKED)),
        )
    return list(dict.fromkeys(asked))


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
    from qianxun.evaluation.dataset import limited, load

    dataset = limited(load(folder), limit)
    for told in dataset.notes:
        note(f"! {dataset.name}：{told}", "yellow")
    return dataset


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Heard:
    """What went wrong during searches without ending them: to be said aloud."""

    degraded: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def tell(self, name: str) -> None:
        for (part, reason), times in self.degraded.items():
            note(
                tr(
                    f"! {name}：{times} 次检索里“{part}”没有参加：{reason}",
                    f"! {name}: {part} did not take part in {times} searches: {reason}",
                ),
                "yellow",
            )
        for reason, times in self.refused.items():
            note(
                tr(
                    f"! {name}：{times} 个查询被拒绝，按未命中计：{reason}",
                    f"! {name}: {times} queries were refused and count as not found: {reason}",
                ),
                "yellow",
            )


def _trial(dataset: Dataset, label: str, settings: Settings, asked: list[str] | None) -> Trial:
    model = model_of(settings)
    modes = _possible(asked, model, settings)
    own = home(settings, dataset, model)

    async def work(engine: Engine) -> Trial:
        base, built, is_reused = await _ready(engine, dataset, model)
        runs = {mode: await _run(engine, base, dataset, mode, label) for mode in modes}
        return Trial(label, own.data, built, is_reused, runs)

    with _resumable():
        return with_engine(own, work, may_create=True)


def _possible(asked: list[str] | None, model: str, settings: Settings) -> list[str]:
    if model:
        return asked if asked is not None else list(OPTIONS)
    wanted = settings.vectorization.model
    pull = (
        tr("装上模型：", "Get a model: ") + f"qianxun models pull {'bge-small-zh-v1.5' if wanted == 'none' else wanted}"
    )
    if asked is None:
        note(tr("! 没有向量模型，只评测 fulltext。", "! No embedding model: fulltext only. ") + pull, "yellow")
        return ["fulltext"]
    lacking = [mode for mode in asked if mode in NEED_MODEL]
    if lacking:
        raise BadInput(
            tr(f"没有向量模型，不能评测 {'、'.join(lacking)}", f"No embedding model for {', '.join(lacking)}"),
            hint=pull,
        )
    return asked


async def _ready(engine: Engine, dataset: Dataset, model: str) -> tuple[KnowledgeBase, Built, bool]:
    title = tr(f"建索引 {dataset.name}", f"indexing {dataset.name}")
    with counting(title, len(dataset.documents), tr("个文档", "documents")) as follow:
        return await ready(engine, dataset, model, follow)


async def _run(engine: Engine, base: KnowledgeBase, dataset: Dataset, mode: str, label: str) -> Run:
    from qianxun.evaluation.experiment import run

    heard = Heard()
    name = f"{mode}@{label}" if label else mode
    await _ask(engine, base, "预热", mode, Heard())  # the model is loaded now, and not in the times
    with counting(name, len(dataset.queries), tr("个查询", "queries")) as follow:
        done = await run(name, dataset.queries, dataset.qrels, _search(engine, base, mode, heard), follow)
    heard.tell(name)
    return done


def _search(engine: Engine, base: KnowledgeBase, mode: str, heard: Heard) -> Search:
    """A document is found where its best chunk is."""
    from qianxun.core.layered_types import LayeredRecall

    async def search(text: str) -> list[str]:
        answer = await _ask(engine, base, text, mode, heard)
        if isinstance(answer, LayeredRecall):
            return [result.doc_id for result in answer.results]
        return [hit.chunk.doc_id for hit in answer.found] if answer else []

    return search


async def _ask(
    engine: Engine, base: KnowledgeBase, text: str, mode: str, heard: Heard
) -> Recall | LayeredRecall | ModeRecall | None:
    answer: Recall | LayeredRecall | ModeRecall
    try:
        if mode == "texts":
            answer = await engine.search_texts(base.id, text)
        elif mode == "tables":
            answer = await engine.search_tables(base.id, text, answer=False)
        elif mode in GATHERED:
            answer = await engine.gather(base.id, text, mode=GATHERED[mode], top_k=DEPTH)
        else:
            answer = await engine.retrieve(base.id, text, top_k=DEPTH, **OPTIONS[mode])
    except BadQuery as error:
        heard.refused[error.message] += 1
        return None
    heard.degraded.update((part.part, part.reason) for part in answer.degraded)
    return answer


def _comparisons(dataset: Dataset, trials: Sequence[Trial]) -> dict[str, Comparison]:
    """By mode; none without two configurations."""
    from qianxun.evaluation.experiment import compare

    if len(trials) != 2:
        return {}
    first, second = trials
    shared = [mode for mode in first.runs if mode in second.runs]
    return {mode: compare(first.runs[mode], second.runs[mode], dataset.queries) for mode in shared}


@contextmanager
def _resumable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(
            tr(
                "已停下。已建的索引都在；再运行同一条命令就从这里继续。",
                "Stopped. What is indexed is kept; the same command goes on from here.",
            )
        ) from None


# ── calibration ──────────────────────────────────────────────────────────────────────────────────


def _calibrate(
    folders: Sequence[Path],
    limit: int | None,
    configurations: Sequence[tuple[str, Settings]],
    modes: str | None,
    as_json: bool,
) -> None:
    from qianxun.evaluation.calibration import calibrate

    if len(configurations) > 1 or modes is not None:
        raise BadInput(
            tr("--calibrate 只看向量检索，至多一个 --config", "--calibrate is about vectors and one --config"),
            hint=tr("去掉 --modes 与多余的 --config", "Leave out --modes and the second --config"),
        )
    ((_, settings),) = configurations
    model = model_of(settings)
    _possible(["vector"], model, settings)
    datasets = [_dataset(folder, limit) for folder in dict.fromkeys(folders)]
    candidates = [each for dataset in datasets for each in _candidates(dataset, settings, model)]
    report = calibrate(candidates)
    if as_json:
        print_json(described_calibration(model, datasets, report))
    else:
        show_calibration(model, datasets, report)


def _candidates(dataset: Dataset, settings: Settings, model: str) -> list[list[Candidate]]:
    async def work(engine: Engine) -> list[list[Candidate]]:
        base, _, _ = await _ready(engine, dataset, model)
        from qianxun.core.types import Recall

        heard = Heard()
        found = []
        with counting(f"vector {dataset.name}", len(dataset.queries), tr("个查询", "queries")) as follow:
            for query, text in dataset.queries.items():
                answer = await _ask(engine, base, text, "vector", heard)
                found.append(_labelled(answer, dataset.qrels[query]) if isinstance(answer, Recall) else [])
                follow(1)
        heard.tell(dataset.name)
        return found

    with _resumable():
        return with_engine(home(settings, dataset, model), work, may_create=True)


def _labelled(answer: Recall, judged: Any) -> list[Candidate]:
    from qianxun.evaluation.calibration import Candidate

    cosines: dict[str, float] = {}
    for hit in answer.found:
        if "vector" in hit.arms:
            cosines.setdefault(hit.chunk.doc_id, hit.arms["vector"].raw)
    return [Candidate(cosine, judged.get(document, 0) > 0) for document, cosine in cosines.items()]
