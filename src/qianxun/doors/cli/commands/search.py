"""`qianxun search`: recall, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from qianxun.core.codec.command_line import command_for, quoted
from qianxun.core.filters import EVERYTHING
from qianxun.core.options import SearchChoices, SearchOptions
from qianxun.doors.cli.i18n import out, print_folded, print_json, tr
from qianxun.doors.cli.option_flags import with_options
from qianxun.doors.cli.session import BaseOption, JsonFlag, Library, find_base, session_of, with_library
from qianxun.doors.cli.views.drawing import arm_label, excerpt, label, location_of, printable, show_degraded
from qianxun.doors.cli.views.explain import (
    described_why,
    figures_of,
    show_hit,
    show_query,
    show_why,
)

if TYPE_CHECKING:
    from qianxun.core.explanation import Explained, Explanation
    from qianxun.core.types import Found, KnowledgeBase, Recall


@with_options(SearchOptions)
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="要找的内容 · what to look for")],
    kb: BaseOption,
    choices: SearchChoices,
    explain: Annotated[bool, typer.Option("--explain", help="画出分数的来历 · draw where scores come from")] = False,
    why: Annotated[
        str | None, typer.Option(metavar="CHUNK_ID", help="这一块为什么（没）返回 · why this chunk is (not) returned")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """检索知识库 · search a knowledge base"""
    request = Request(query, kb, choices, explain, why)
    session = session_of(context)
    base, answer, explained = with_library(session, lambda library: _searched(library, session.start, request))
    start = session.start + (f" --config {quoted(str(session.config))}" if session.config else "")
    if as_json:
        print_json(_explained_json(start, request, described(base, answer, choices.get("doc_ids") or ()), explained))
    else:
        _show(start, request, base, answer, explained)


@dataclass(frozen=True, slots=True)
class Request:
    """A search as the command line was given it."""

    query: str
    kb: str
    choices: SearchChoices
    explain: bool
    why: str | None

    @property
    def is_narrowed(self) -> bool:
        return bool(self.choices["doc_ids"]) or self.choices["where"] != EVERYTHING

    def command(self, start: str, chunk: Explanation) -> str:
        """The search that returns the chunk; none where no change does, or none is needed."""
        if not chunk.changes:
            return ""
        return command_for(start, self.query, self.kb, {**self.choices, **chunk.changes})


async def _searched(library: Library, start: str, request: Request) -> tuple[KnowledgeBase, Recall, Explained | None]:
    base = await find_base(library, request.kb, start)
    answer = await library.retrieve(base.id, request.query, **request.choices)
    if not request.explain and request.why is None:
        return base, answer, None
    return base, answer, await library.explain(base.id, request.query, request.why or "", **request.choices)


def _show(start: str, request: Request, base: KnowledgeBase, answer: Recall, explained: Explained | None) -> None:
    """What was found; only why a chunk was (not), where nothing but that was asked for."""
    if request.why is not None and explained is not None and explained.chunk is not None and not request.explain:
        show_why(out(), explained.chunk, request.command(start, explained.chunk))
        show_degraded(answer.degraded)
    else:
        _show_all(start, request, base, answer, explained)


def _show_all(start: str, request: Request, base: KnowledgeBase, answer: Recall, explained: Explained | None) -> None:
    console = out()
    if explained is None:
        show(console, answer)
    else:
        _show_explained(console, answer, explained)
    show_degraded(answer.degraded)
    if answer.as_of is not None and answer.as_of.origin == "question":
        day = answer.as_of.day
        console.print(tr(f"问的是过去：按 {day} 有效的文档检索；--as-of any 不论何时", f"As of {day}, by the question"))
    if answer.results:
        console.print(_count(answer), style="dim")
    else:
        console.print(_advice(start, base, answer, narrowed=request.is_narrowed), markup=False, soft_wrap=True)
    if explained is not None and explained.chunk is not None:
        console.print()
        show_why(console, explained.chunk, request.command(start, explained.chunk))


def _show_explained(console: Console, answer: Recall, explained: Explained) -> None:
    from qianxun.core.explanation import NO_DECISIONS

    known = figures_of(explained)
    show_query(console, answer)
    for rank, hit in enumerate(answer.results, 1):
        print_folded(console, _title(rank, hit, with_arms=False), 10, hanging=10)
        show_hit(console, hit, *known.get(hit.chunk.chunk_id, (None, NO_DECISIONS)))
        print_folded(console, excerpt(hit.chunk, answer.query), 4)
        console.print()


def _explained_json(
    start: str, request: Request, document: dict[str, Any], explained: Explained | None
) -> dict[str, Any]:
    if explained is None:
        return document
    if request.explain:
        from qianxun.core.codec.wire import to_wire
        from qianxun.core.explanation import NO_DECISIONS

        known = figures_of(explained)
        for chunk in document["chunks"]:
            chunk["explain"], chunk["decisions"] = map(to_wire, known.get(chunk["chunk_id"], (None, NO_DECISIONS)))
    if explained.chunk is not None:
        document["why"] = described_why(explained.chunk, request.command(start, explained.chunk))
    return document


def _count(answer: Recall) -> str:
    number, milliseconds = len(answer.results), answer.seconds * 1000
    return tr(f"{number} 条，{milliseconds:.0f} 毫秒", f"{number} results, {milliseconds:.0f} ms")


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def described(base: KnowledgeBase, answer: Recall, doc_ids: Sequence[str]) -> dict[str, Any]:
    """``doc_ids`` are those that the search was narrowed to."""
    from qianxun.core.codec.wire import written_recall

    return {**written_recall(base.id, answer), "doc_ids": list(doc_ids)}


# ── for people ───────────────────────────────────────────────────────────────────────────────────


def show(console: Console, answer: Recall) -> None:
    """The results, best first, with what was found highlighted."""
    for rank, hit in enumerate(answer.results, 1):
        print_folded(console, _title(rank, hit), 10, hanging=10)
        print_folded(console, excerpt(hit.chunk, answer.query), 4)


def _title(rank: int, hit: Found, *, with_arms: bool = True) -> Text:
    title = Text(f"{rank:>2}  ")
    title.append(f"{hit.score:.2f}  ", style="bold green")
    if with_arms:
        arms = "  ".join(f"{arm_label(arm)} {by.score:.2f}" for arm, by in hit.arms.items())
        title.append(f"{label('tiers', hit.tier)}  {arms}  ", style="dim")
    title.append_text(location_of(hit.chunk))
    if hit.chunk.is_edited:
        title.append(tr("  已更正", "  edited"), style="yellow")
    if hit.pinned:
        title.append(tr(f"  规则 {hit.pinned} 先给", f"  put first by rule {hit.pinned}"), style="yellow")
    return title.append(f"  {printable(hit.outdated)}", style="yellow") if hit.outdated else title


def _advice(start: str, base: KnowledgeBase, answer: Recall, *, narrowed: bool) -> str:
    tips = []
    if narrowed:
        tips.append(tr("去掉过滤条件再试", "try without the filters"))
    if not base.embedding_model:
        tips.append(
            tr(
                "这个知识库只按词语检索：换一个原文里的说法，或装上模型后 qianxun rebuild --kb "
                f"{quoted(base.name)} --model bge-small-zh-v1.5",
                "this base is searched by words only: use words of the text, or pull a model and run qianxun rebuild "
                f"--kb {quoted(base.name)} --model bge-small-zh-v1.5",
            )
        )
    elif answer.mode != "hybrid":
        tips.append(tr("用 --mode hybrid 两路一起找", "search both ways with --mode hybrid"))
    tips.append(tr("降低 --threshold，或换个说法", "lower --threshold, or say it differently"))
    show_it = f"{start} kb show {quoted(base.name)}"
    tips.append(tr(f"看看里面有什么：{show_it}", f"see what is in it: {show_it}"))
    head = tr("没有找到。可以试试：", "Nothing found. You could:")
    return head + "".join(f"\n  · {tip}" for tip in tips)
