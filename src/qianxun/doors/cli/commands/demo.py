"""`qianxun demo`: the whole way on the shipped sample library, from files to a cited answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.text import Text

from qianxun.core.errors import BadInput, ModelError, NotFound
from qianxun.doors.cli.commands.demo_examples import show_examples
from qianxun.doors.cli.commands.documents import described
from qianxun.doors.cli.commands.models import fetch
from qianxun.doors.cli.commands.search import show
from qianxun.doors.cli.i18n import note, out, print_folded, print_json, tr
from qianxun.doors.cli.progress import AddProgress, bars
from qianxun.doors.cli.session import JsonFlag, Session, called, quoted, session_of, with_engine
from qianxun.doors.cli.views.drawing import show_degraded
from qianxun.samples import LIBRARY

if TYPE_CHECKING:
    from qianxun.core.ingest_types import Report
    from qianxun.core.types import KnowledgeBase, Recall
    from qianxun.engine.engine import Engine
    from qianxun.engine.settings import Settings

BASE = "示例"
SHOWN = 1  # results per search: enough to see the point


@dataclass(frozen=True, slots=True)
class Try:
    """One search, and what it shows."""

    query: str
    point: str
    point_en: str
    by_meaning: bool = False  # shows nothing without a model


TRIES = (
    Try(
        "心里难受想找人聊聊",
        "换了说法也找得到：原文没有“难受”“聊聊”，写的是心理咨询；只靠语义一路，所以分数不高",
        "a paraphrase that shares no words with the text: found by meaning alone, hence the modest score",
        by_meaning=True,
    ),
    Try(
        "QH-2087 多少钱",
        "编号一字不差：商品编号靠词语一路对准表格里的那一行",
        "an exact code: the keyword arm points at the row of the table",
    ),
    Try(
        "糖尿丙门诊待遇",
        "同音错字：按读音猜出“糖尿病”，只猜库里有的词",
        "a word typed by its sound (丙 for 病): put right from what the base holds",
    ),
    Try(
        "退休職工三級醫院住院起付標準和支付比例",
        "繁体问，简体答；答案在跨行跨列的表格里：900 元，88%",
        "asked in traditional Chinese, answered from a simplified table with merged headers",
    ),
    Try(
        "茶馆为什么没有发票",
        "简体问，繁体答：文中写作“發票”“茶館”，原文一字不改",
        "asked in simplified Chinese, found in a traditional text, which stays as it is",
    ),
    Try(
        "西南大区 2025年下半年 销售",
        "Excel 的两行合并表头读成了“2025年 / 下半年”：781 万元",
        "a merged two-row header of a spreadsheet, read as a path",
    ),
)


@dataclass(frozen=True, slots=True)
class Question:
    """One question to be answered, and what its answer shows."""

    text: str
    point: str
    point_en: str


QUESTIONS = (
    Question(
        "电脑遗失了该打哪个电话",
        "没有用语言模型：答案就是原文的句子，不改写，不编造",
        "no language model: the answer is a sentence of the text, word for word",
    ),
    Question(
        "退休职工三级医院住院支付比例是多少",
        "答案在表格里：从对得上的单元格读出来",
        "the answer is in a table: read from the cell where row and column meet",
    ),
    Question(
        "公司食堂几点关门",
        "资料里没有的，就说没有",
        "what the library does not say, it says so",
    ),
)


def demo(
    context: typer.Context,
    data: Annotated[str | None, typer.Option(metavar="DIR", help="数据目录 · the data folder")] = None,
    as_json: JsonFlag = False,
) -> None:
    """用自带的示例库走一遍全程 · the whole way on the shipped sample library"""
    given = session_of(context)
    settings = Session(data or given.data, given.config, given.verbose).settings()
    started = time.perf_counter()
    console = Console(quiet=True) if as_json else out()
    console.print(Rule(tr("千寻 · 演示", "Qianxun · demo"), style="cyan"))
    model = _get_model(settings, console, quiet=as_json)
    shown = with_engine(settings, lambda engine: _walk(engine, model, console, quiet=as_json), may_create=True)
    if as_json:
        print_json({"model": model, **shown, "seconds": round(time.perf_counter() - started, 3)})
        return
    _show_next(console, settings, time.perf_counter() - started, shown["embedding_model"])


def _get_model(settings: Settings, console: Console, *, quiet: bool) -> str:
    """The name of a model that can be used, or "none" after saying why."""
    name = settings.vectorization.model
    _step(console, 1, tr("准备嵌入模型", "The embedding model"))
    if name == "none" or settings.vectorization.base_url:
        console.print(tr(f"  设置中为 {name}，不必下载", f"  The settings say {name}: nothing to fetch"), markup=False)
        return name
    try:
        folder = _local_or_fetched(settings, name, quiet=quiet)
    except (ModelError, NotFound, BadInput) as error:  # BadInput: weights that nobody has pinned
        # Where every source failed, each has told its reason already.
        told = tr(f"拿不到模型 {name}", f"No way to get {name}") if isinstance(error, ModelError) else error.message
        console.print(f"  [yellow]![/] {escape(told)}", soft_wrap=True)
        console.print(
            tr(
                "  改用零模型模式继续：只按词语检索，换了说法的问题可能找不到。",
                "  Going on without a model: searched by words only; paraphrases may not be found.",
            ),
            style="yellow",
        )
        return "none"
    console.print(f"  [green]✓[/] {name}  [dim]{escape(str(folder))}[/]", soft_wrap=True)
    return name


def _local_or_fetched(settings: Settings, name: str, *, quiet: bool) -> Path:
    from qianxun.engine.embedding_models import model_folders
    from qianxun.models import find_local

    return find_local(name, model_folders(settings)) or fetch(settings, name, quiet=quiet)


async def _walk(engine: Engine, model: str, console: Console, *, quiet: bool) -> dict[str, Any]:
    _step(console, 2, tr(f"建立知识库“{BASE}”，放入示例库", f"A base called “{BASE}”, and the sample library"))
    base = await _base(engine, model, console)
    report = await _add(engine, base, quiet=quiet)
    _show_added(console, report)
    _step(console, 3, tr("检索", "Searches"))
    searches = [await _try(engine, base, one, console, quiet=quiet) for one in TRIES]
    _step(console, 4, tr("带出处的回答", "A cited answer"))
    answers = [await _answer(engine, base, one, console) for one in QUESTIONS]
    _step(console, 5, tr("示例库：教助手怎样回答", "The example library: how an assistant should answer"))
    examples = await show_examples(engine, console)
    return {
        "knowledge_base": base.name,
        "embedding_model": base.embedding_model,
        **described(report, 0.0),
        "searches": searches,
        "answers": answers,
        "examples": examples,
    }


async def _base(engine: Engine, model: str, console: Console) -> KnowledgeBase:
    """The demo's base; one from an earlier run changes over to a model that has come along since."""
    try:
        base = await engine.knowledge_base(BASE)
    except NotFound:
        return await engine.create_knowledge_base(BASE, model=model)
    if not base.embedding_model and model != "none":
        console.print(tr("  模型到了，重建索引……", "  There is a model now: rebuilding the index …"), style="dim")
        await engine.rebuild(base.id, model=model)
        base = await engine.knowledge_base(BASE)
    return base


async def _add(engine: Engine, base: KnowledgeBase, *, quiet: bool) -> Report:
    with bars() as shown:
        return await engine.add(base.id, [LIBRARY], watch=AddProgress(None if quiet else shown, silent=quiet))


def _show_added(console: Console, report: Report) -> None:
    if report.added:
        told = tr(
            f"  [green]✓[/] 放入 {report.added} 个文件，切成 {report.chunks} 块（含网页、表格、Excel、问答）",
            f"  [green]✓[/] {report.added} files in, {report.chunks} chunks",
        )
    else:
        told = tr(
            f"  [green]✓[/] {report.unchanged} 个文件都没有变化，跳过",
            f"  [green]✓[/] {report.unchanged} files, all unchanged: passed over",
        )
    console.print(told)


async def _try(engine: Engine, base: KnowledgeBase, one: Try, console: Console, *, quiet: bool) -> dict[str, Any]:
    answer = await engine.retrieve(base.id, one.query, top_k=SHOWN)
    console.print(f"\n  [bold]▸ {one.query}[/]")
    print_folded(console, Text(tr(one.point, one.point_en), style="dim italic"), 4)
    if one.by_meaning and not base.embedding_model:
        told = tr(
            "    零模型模式下做不到：原文里没有这些词。", "    Not without a model: the text has none of these words."
        )
        console.print(told, style="yellow")
    else:
        for other in answer.queries[1:]:
            console.print(tr(f"    也按“{other}”找", f"    also searched for as “{other}”"), style="dim", markup=False)
        show(console, answer)
    if base.embedding_model and not quiet:
        show_degraded(answer.degraded)
    return {"query": one.query, "point": one.point, "chunks": _brief(answer)}


def _brief(answer: Recall) -> list[dict[str, Any]]:
    return [{"doc_name": hit.chunk.doc_name, "score": hit.score, "content": hit.chunk.text} for hit in answer.found]


async def _answer(engine: Engine, base: KnowledgeBase, question: Question, console: Console) -> dict[str, Any]:
    from qianxun.doors.cli.views.answer import headed, shown_text

    said = await engine.ask(base.id, question.text)
    console.print(f"\n  [bold]▸ {question.text}[/]")
    print_folded(console, Text(tr(question.point, question.point_en), style="dim italic"), 4)
    print_folded(console, shown_text(said.answer), 4)
    for source in said.sources:
        print_folded(console, headed(source), 8, hanging=4)
    return {
        "question": question.text,
        "answer": said.answer,
        "form": said.form,
        "sources": [{"number": each.number, "doc_name": each.doc_name, "content": each.text} for each in said.sources],
    }


def _step(console: Console, number: int, title: str) -> None:
    console.print(f"\n[bold cyan]{number}[/] [bold]{title}[/]")


def _show_next(console: Console, settings: Settings, seconds: float, model: str) -> None:
    console.print()
    console.print(Rule(style="cyan"))
    done = tr(f"完成，用时 {seconds:.1f} 秒。接下来可以试试：", f"Done in {seconds:.1f} s. Try next:")
    console.print(f"[green]✓[/] {done}")
    for command in _commands(settings.data, model):
        console.print(f"  {command}", markup=False, soft_wrap=True)
    folder = settings.folder
    note(tr(f"数据都在 {folder}，删掉目录即清空。", f"Everything is in {folder}; delete it to start over."))


def _commands(data: str, model: str) -> Sequence[str]:
    start = f"{called()} --data {quoted(data)}"
    found = [
        f'{start} search "产假有多少天" --kb {BASE} --explain',
        f'{start} ask "年假有多少天" --kb {BASE} --stream',
        f'{start} tables "单价最高的办公用品" --kb {BASE}',
        *([f'{start} examples search "忘了吃药怎么办"'] if model else []),
        f"{start} logs",
        f"{start} kb create 我的资料",
        f"{start} add ~/文档 --kb 我的资料",
        f"{start} doctor",
    ]
    return (
        found if model else [*found, f"{start} demo   # {tr('能联网后再来一次，就有语义检索', 'again, once online')}"]
    )
