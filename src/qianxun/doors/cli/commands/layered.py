"""`qianxun texts` and `qianxun tables`: layered recall, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from qianxun.core.codec.command_line import command_for, quoted
from qianxun.core.filters import EVERYTHING
from qianxun.core.options import TablesOptions, TextsOptions
from qianxun.doors.cli.i18n import out, print_json, tr
from qianxun.doors.cli.option_flags import with_options
from qianxun.doors.cli.session import BaseOption, JsonFlag, Library, find_base, session_of, with_library
from qianxun.doors.cli.views.drawing import show_degraded
from qianxun.doors.cli.views.layered import show

if TYPE_CHECKING:
    from qianxun.core.layered_types import LayeredRecall
    from qianxun.core.types import ChunkKind, KnowledgeBase

QueryArgument: TypeAlias = Annotated[str, typer.Argument(metavar="QUERY", help="要找的内容 · what to look for")]
ExplainFlag: TypeAlias = Annotated[
    bool, typer.Option("--explain", help="每一层做了什么，每个结果为什么 · what each layer did, and why")
]


@with_options(TextsOptions)
def texts(
    context: typer.Context,
    query: QueryArgument,
    kb: BaseOption,
    choices: dict[str, Any],
    explain: ExplainFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """分层找正文：向量 → 关键词 → 同义与相关词 · prose, in layers

    前面的层没凑够目标的八成（七成），后面的层才运行。阈值与开关见设置 text_engine。

    A layer runs where those before it found less than 80 % (70 %) of what is wanted. See text_engine in the settings.
    """
    _recalled(context, Request("text", query, kb, choices, explain), as_json)


@with_options(TablesOptions)
def tables(
    context: typer.Context,
    query: QueryArgument,
    kb: BaseOption,
    choices: dict[str, Any],
    explain: ExplainFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """分层找表格，并从单元格里给出答案 · tables, in layers, and what their cells answer

    结构（标题、列名、类型）→ 语义 → 关键词 → 同义与相关词。能确切回答的问题（查、数、求和、最大最小、前几名）先给答案，
    注明是哪张表、哪一行、哪一列；没有把握就说没有，只给最接近的行。阈值与开关见设置 table_engine。

    Lookups, counts, sums, extremes and top-n are answered exactly, by the cell; where that is not sure, it says so.
    """
    _recalled(context, Request("table", query, kb, choices, explain), as_json)


@dataclass(frozen=True, slots=True)
class Request:
    kind: ChunkKind
    query: str
    kb: str
    choices: Mapping[str, Any]
    explain: bool

    @property
    def is_narrowed(self) -> bool:
        return bool(self.choices["where"] != EVERYTHING)


def _recalled(context: typer.Context, request: Request, as_json: bool) -> None:
    session = session_of(context)
    base, recall, stored = with_library(session, lambda library: _found(library, session.start, request))
    if as_json:
        from qianxun.core.codec.wire import written_layered

        print_json(written_layered(base.id, recall))
        return
    console = out()
    show(console, recall, explain=request.explain)
    show_degraded(recall.degraded)
    if recall.results:
        console.print(_count(recall), style="dim")
    else:
        advice = (
            _advice(session.start, request, base, stored)
            if any(run.ran for run in recall.layers)
            else _off(session.start, request)
        )
        console.print(advice, markup=False, soft_wrap=True)


async def _found(library: Library, start: str, request: Request) -> tuple[KnowledgeBase, LayeredRecall, int]:
    """And how many tables, or chunks, there are where nothing was found."""
    base = await find_base(library, request.kb, start)
    search = library.search_texts if request.kind == "text" else library.search_tables
    recall = await search(base.id, request.query, **request.choices)
    if recall.results:
        return base, recall, len(recall.results)
    counts = await library.statistics(base.id)
    return base, recall, counts["tables" if request.kind == "table" else "chunks"]


def _count(recall: LayeredRecall) -> str:
    number, ms = len(recall.results), recall.seconds * 1000
    if recall.kind == "table":
        return tr(f"{number} 张表格，{ms:.0f} 毫秒", f"{number} table{'s' * (number != 1)}, {ms:.0f} ms")
    return tr(f"{number} 条，{ms:.0f} 毫秒", f"{number} result{'s' * (number != 1)}, {ms:.0f} ms")


def _off(start: str, request: Request) -> str:
    turn_on = f"{start} kb set {quoted(request.kb)} {request.kind}_engine.enabled=true"
    return tr(
        f"设置里关着，没有找。打开：{turn_on}", f"It is turned off, so nothing was searched. Turn it on: {turn_on}"
    )


def _advice(start: str, request: Request, base: KnowledgeBase, stored: int) -> str:
    name, engine = quoted(base.name), f"{request.kind}_engine"
    if not stored:
        what = tr("表格", "table") if request.kind == "table" else tr("文档", "document")
        add = f"{start} add FILE --kb {name}"
        return tr(f"“{base.name}”里还没有{what}。放进去：{add}", f"There is no {what} in “{base.name}” yet. Add: {add}")
    tips = [tr("去掉过滤条件再试", "try without the filters")] if request.is_narrowed else []
    tips.append(
        tr("换个说法，用标题、列名或原文里的词", "say it differently: use words of titles, headers or the text")
    )
    now = base.config.get(engine, {}).get("keyword_threshold", 0.5)
    lower = f"{start} kb set {name} {engine}.keyword_threshold={now * 0.6:.2g}"
    tips.append(tr(f"放宽阈值：{lower}", f"lower a threshold: {lower}"))
    everywhere = command_for(start, request.query, base.name, {})
    tips.append(tr(f"正文和表格一起找：{everywhere}", f"search prose and tables alike: {everywhere}"))
    if not request.explain:
        tips.append(tr("加 --explain 看每一层做了什么", "add --explain to see what each layer did"))
    head = tr("没有找到。可以试试：", "Nothing found. You could:")
    return head + "".join(f"\n  · {tip}" for tip in tips)
