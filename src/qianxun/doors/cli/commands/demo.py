"""`qianxun demo`: the whole way on the shipped sample library, from files to a cited answer."""

from __future__ import annotations

import asyncio
import time
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.text import Text

from qianxun.core.codec.command_line import quoted
from qianxun.core.errors import BadInput, BadSettings, ModelError, NotFound
from qianxun.doors.cli.commands.documents import described
from qianxun.doors.cli.commands.models import fetch
from qianxun.doors.cli.commands.search import show
from qianxun.doors.cli.i18n import hint, out, print_folded, print_json, print_plain, tr
from qianxun.doors.cli.progress import AddProgress, bars
from qianxun.doors.cli.session import JsonFlag, Session, called, session_of, with_engine
from qianxun.doors.cli.views.drawing import show_degraded
from qianxun.samples import DEMO, EXAMPLES, LIBRARY

if TYPE_CHECKING:
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.engine import Engine
    from qianxun.engine.settings import Settings

BASE = "示例"
RESULTS = 1  # per search: enough to see the point
EXAMPLES_SHOWN = 2


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
    """The name of a model that can be used, or "none" after showing why."""
    from qianxun.engine.admin.models import find_model

    name = settings.vectorization.model
    _step(console, 1, tr("准备嵌入模型", "The embedding model"))
    if name == "none" or settings.vectorization.base_url:
        console.print(tr(f"  设置中为 {name}，不必下载", f"  The settings say {name}: nothing to fetch"), markup=False)
        return name
    try:
        folder = find_model(settings, name) or fetch(settings, name, quiet=quiet)
    except (ModelError, NotFound, BadInput) as error:  # BadInput: weights without pinned hashes
        # Where every source failed, the reasons have been shown already.
        reason = tr(f"拿不到模型 {name}", f"No way to get {name}") if isinstance(error, ModelError) else error.message
        console.print(f"  [yellow]![/] {escape(reason)}", soft_wrap=True)
        fallback = tr(
            "  改用零模型模式继续：只按词语检索，换了说法的问题可能找不到。",
            "  Going on without a model: searched by words only; paraphrases may not be found.",
        )
        console.print(fallback, style="yellow")
        return "none"
    console.print(f"  [green]✓[/] {name}  [dim]{escape(str(folder))}[/]", soft_wrap=True)
    return name


async def _walk(engine: Engine, model: str, console: Console, *, quiet: bool) -> dict[str, Any]:
    script = tomllib.loads(DEMO.read_text("utf-8"))
    _step(console, 2, tr(f"建立知识库“{BASE}”，放入示例库", f"A base called “{BASE}”, and the sample library"))
    base = await _base(engine, model, console)
    added = await _add(engine, base, console, quiet=quiet)
    _step(console, 3, tr("检索", "Searches"))
    searches = [await _search(engine, base, one, console, quiet=quiet) for one in script["searches"]]
    _step(console, 4, tr("带出处的回答", "A cited answer"))
    answers = [await _answer(engine, base, one, console) for one in script["questions"]]
    _step(console, 5, tr("示例库：教助手怎样回答", "The example library: how an assistant should answer"))
    examples = await _show_examples(engine, script["example"], console)
    return {
        "knowledge_base": base.name,
        "embedding_model": base.embedding_model,
        **added,
        "searches": searches,
        "answers": answers,
        "examples": examples,
    }


async def _base(engine: Engine, model: str, console: Console) -> KnowledgeBase:
    """The demo's base; one from an earlier run changes over to a model that has been fetched since."""
    try:
        base = await engine.knowledge_base(BASE)
    except NotFound:
        return await engine.create_knowledge_base(BASE, model=model)
    if not base.embedding_model and model != "none":
        console.print(tr("  模型到了，重建索引……", "  There is a model now: rebuilding the index …"), style="dim")
        await engine.admin.rebuild(base.id, model=model)
        base = await engine.knowledge_base(BASE)
    return base


async def _add(engine: Engine, base: KnowledgeBase, console: Console, *, quiet: bool) -> dict[str, object]:
    with bars(quiet=quiet) as shown:
        progress = AddProgress(shown)
        report = await engine.add(base.id, [LIBRARY], watch=progress)
        await engine.admin.run_background_work(base.id, watch=progress)
    if report.added:
        summary = tr(
            f"放入 {report.added} 个文件，切成 {report.chunks} 块（含网页、表格、Excel、问答）",
            f"{report.added} files in, {report.chunks} chunks",
        )
    else:
        number = report.unchanged
        summary = tr(f"{number} 个文件都没有变化，跳过", f"{number} files, all unchanged: passed over")
    console.print(f"  [green]✓[/] {summary}")
    return described(report, 0.0)


async def _search(
    engine: Engine, base: KnowledgeBase, one: dict[str, Any], console: Console, *, quiet: bool
) -> dict[str, Any]:
    recall = await engine.retrieve(base.id, one["query"], top_k=RESULTS)
    _show_query(console, one)
    if one.get("by_meaning") and not base.embedding_model:
        impossible = tr(
            "零模型模式下做不到：原文里没有这些词。", "Not without a model: the text has none of these words."
        )
        console.print(f"    {impossible}", style="yellow")
    else:
        for other in recall.queries[1:]:
            console.print(tr(f"    也按“{other}”找", f"    also searched for as “{other}”"), style="dim", markup=False)
        show(console, recall)
    if base.embedding_model and not quiet:
        show_degraded(recall.degraded)
    chunks = [{"doc_name": hit.chunk.doc_name, "score": hit.score, "content": hit.chunk.text} for hit in recall.results]
    return {"query": one["query"], "point": one["point"][0], "chunks": chunks}


async def _answer(engine: Engine, base: KnowledgeBase, one: dict[str, Any], console: Console) -> dict[str, Any]:
    from qianxun.doors.cli.views.answer import headed, shown_text

    answer = await engine.ask(base.id, one["query"])
    _show_query(console, one)
    print_folded(console, shown_text(answer.answer), 4)
    for source in answer.sources:
        print_folded(console, headed(source), 8, hanging=4)
    return {
        "question": one["query"],
        "answer": answer.answer,
        "form": answer.form,
        "sources": [{"number": one.number, "doc_name": one.doc_name, "content": one.text} for one in answer.sources],
    }


async def _show_examples(engine: Engine, one: dict[str, Any], console: Console) -> dict[str, Any] | None:
    """What the example library found, or None after showing why it cannot be searched."""
    from qianxun.engine.admin.examples import try_examples

    try:
        added, found = await asyncio.to_thread(try_examples, engine, EXAMPLES, one["query"], EXAMPLES_SHOWN)
    except (ModelError, BadSettings) as error:  # no model; or the library was made with another one
        console.print(f"  [yellow]![/] {escape(error.message)}", soft_wrap=True)
        console.print(tr("  这一步略过。", "  This step is left out."), style="yellow")
        return None
    if added:
        summary = tr(f"导入 {added} 条（问答、记录、查询、问候）", f"{added} examples imported")
    else:
        summary = tr("库里已有示例，不再导入", "The library has examples already")
    console.print(f"  [green]✓[/] {summary}")
    _show_query(console, one)
    for example in found:
        title = Text("    ").append(f"{example['similarity']:.2f}  ", style="bold green")
        title.append("  ".join(example["metadata"].get("tags", ())), style="dim")
        print_folded(console, title, 10, hanging=10)
        print_folded(console, Text(example["content"]), 4)
    return {"query": one["query"], "added": added, "found": found}


def _step(console: Console, number: int, title: str) -> None:
    console.print(f"\n[bold cyan]{number}[/] [bold]{title}[/]")


def _show_query(console: Console, one: dict[str, Any]) -> None:
    console.print(f"\n  [bold]▸ {one['query']}[/]")
    print_folded(console, Text(tr(*one["point"]), style="dim italic"), 4)


def _show_next(console: Console, settings: Settings, seconds: float, model: str) -> None:
    console.print()
    console.print(Rule(style="cyan"))
    end = tr(f"完成，用时 {seconds:.1f} 秒。接下来可以试试：", f"Done in {seconds:.1f} s. Try next:")
    console.print(f"[green]✓[/] {end}")
    for command in _commands(settings.data, model):
        print_plain(console, f"  {command}")
    folder = settings.folder
    hint(f"数据都在 {folder}，删掉目录即清空。", f"Everything is in {folder}; delete it to start over.")


def _commands(data: str, model: str) -> Sequence[str]:
    start = f"{called()} --data {quoted(data)}"
    again = f"{start} demo   # {tr('能联网后再来一次，就有语义检索', 'again, once online')}"
    return [
        f'{start} search "产假有多少天" --kb {BASE} --explain',
        f'{start} ask "年假有多少天" --kb {BASE} --stream',
        f'{start} tables "单价最高的办公用品" --kb {BASE}',
        *([f'{start} examples search "忘了吃药怎么办"'] if model else []),
        f"{start} logs",
        f"{start} kb create 我的资料",
        f"{start} add ~/文档 --kb 我的资料",
        f"{start} doctor",
        *([] if model else [again]),
    ]
