"""`qianxun search`: recall, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from qianxun.cli.session import BaseOption, JsonFlag, find_base, session_of, with_engine
from qianxun.cli.voice import note, out, print_folded, print_json, say

if TYPE_CHECKING:
    from qianxun.engine import Engine
    from qianxun.types import Filter, Found, KnowledgeBase, Recall

SNIPPET = 120  # characters shown of a prose chunk, and of a table's row
ROWS = 3
ARM_NAMES = {"vector": ("语义", "vector"), "keyword": ("词语", "keyword")}


class Mode(StrEnum):
    hybrid = "hybrid"
    vector = "vector"
    fulltext = "fulltext"


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="要找的内容 · what to look for")],
    kb: BaseOption,
    mode: Annotated[Mode, typer.Option(help="检索方式 · how to search")] = Mode.hybrid,
    top_k: Annotated[int | None, typer.Option("--top-k", "-k", metavar="N", help="最多几条 · at most so many")] = None,
    threshold: Annotated[float, typer.Option(metavar="X", help="分数不低于 0–1 · least score")] = 0.0,
    doc: Annotated[list[str] | None, typer.Option(metavar="ID", help="只在这些文档中找 · only in these")] = None,
    user: Annotated[str | None, typer.Option(metavar="U", help="只找这个用户的 · only this user's")] = None,
    project: Annotated[str | None, typer.Option(metavar="P", help="只找这个项目的 · only this project's")] = None,
    content_type: Annotated[
        list[str] | None, typer.Option("--type", metavar="T", help="只找这些类型 · only these types")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="X", help="只找有其中之一标签的 · with one of them")] = None,
    as_json: JsonFlag = False,
) -> None:
    """检索知识库 · search a knowledge base"""
    where = _filter(user, project, content_type or (), tag or ())

    async def work(engine: Engine) -> tuple[KnowledgeBase, Recall]:
        base = await find_base(engine, kb)
        return base, await engine.retrieve(
            base.id, query, top_k=top_k, mode=mode.value, threshold=threshold, where=where, doc_ids=tuple(doc or ())
        )

    base, answer = with_engine(session_of(context).settings(), work)
    if as_json:
        print_json(described(base, answer, doc or ()))
        return
    console = out()
    show(console, answer)
    show_degraded(answer)
    if answer.found:
        console.print(_count(answer), style="dim")
    else:
        narrowed = bool(doc or user or project or content_type or tag)
        console.print(_advice(base, answer, narrowed=narrowed), markup=False, soft_wrap=True)


def _count(answer: Recall) -> str:
    number, milliseconds = len(answer.found), answer.seconds * 1000
    return say(f"{number} 条，{milliseconds:.0f} 毫秒", f"{number} results, {milliseconds:.0f} ms")


def _filter(user: str | None, project: str | None, types: Sequence[str], tags: Sequence[str]) -> Filter:
    from qianxun.types import EVERYTHING, Eq, In, all_of

    return all_of(
        Eq("user_id", user) if user is not None else EVERYTHING,
        Eq("project_id", project) if project is not None else EVERYTHING,
        In("content_type", tuple(types)) if types else EVERYTHING,
        In("tags", tuple(tags)) if tags else EVERYTHING,
    )


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def described(base: KnowledgeBase, answer: Recall, doc_ids: Sequence[str]) -> dict[str, Any]:
    from qianxun.answer.matching import telling_words

    words = telling_words(answer.query)
    return {
        "knowledge_base_id": base.id,
        "query": answer.query,
        "retrieval_mode": answer.mode,
        "doc_ids": list(doc_ids),
        "time_cost_ms": round(answer.seconds * 1000),
        "degraded": [{"part": part.part, "reason": part.reason} for part in answer.degraded],
        "chunks": [_chunk(hit, words) for hit in answer.found],
    }


def _chunk(hit: Found, words: Sequence[str]) -> dict[str, Any]:
    from qianxun.answer.matching import spans

    chunk, told = hit.chunk, hit.chunk.attributes
    return {
        "chunk_id": chunk.chunk_id,
        "doc_id": chunk.doc_id,
        "doc_name": chunk.doc_name,
        "content": chunk.text,
        "score": hit.score,
        "source": hit.source,
        "arms": {arm: {"rank": by.rank, "raw": by.raw, "score": by.score} for arm, by in hit.arms.items()},
        "highlights": list(dict.fromkeys(chunk.text[start:end] for start, end in spans(chunk.text, words))),
        "kind": chunk.kind,
        "headings": list(chunk.headings),
        "page": chunk.page,
        "user_id": told.user_id,
        "project_id": told.project_id,
        "content_type": told.content_type,
        "tags": list(told.tags),
        "metadata": dict(told.metadata),
    }


# ── for people ───────────────────────────────────────────────────────────────────────────────────


def show(console: Console, answer: Recall) -> None:
    """The results, best first, with what was found highlighted."""
    for rank, hit in enumerate(answer.found, 1):
        print_folded(console, _title(rank, hit), 10, hanging=10)
        print_folded(console, excerpt(hit, answer.query), 4)


def show_degraded(answer: Recall) -> None:
    """Says aloud what could not take part."""
    for part in answer.degraded:
        arm = say(*ARM_NAMES.get(part.part, (part.part, part.part)))
        note(say(f"! {arm}检索没能参加：{part.reason}", f"! The {arm} arm did not take part: {part.reason}"), "yellow")


def _title(rank: int, hit: Found) -> Text:
    chunk = hit.chunk
    arms = "  ".join(f"{say(*ARM_NAMES.get(arm, (arm, arm)))} {by.score:.2f}" for arm, by in hit.arms.items())
    title = Text(f"{rank:>2}  ")
    title.append(f"{hit.score:.2f}", style="bold green")
    title.append(f"  {arms}  ", style="dim")
    title.append(chunk.doc_name or chunk.doc_id, style="bold cyan")
    headings = [heading for heading in chunk.headings if heading != Path(chunk.doc_name).stem]
    if headings:
        title.append(" › " + " › ".join(headings), style="cyan")
    if chunk.page is not None:
        title.append(say(f"  第 {chunk.page} 页", f"  p. {chunk.page}"), style="dim")
    return title


def excerpt(hit: Found, query: str) -> Text:
    """The telling part of a chunk, its heading left out; of a table, the head and the rows that match best."""
    from qianxun.answer.matching import snippet, spans, telling_words

    words = telling_words(query)
    if hit.chunk.kind == "table":
        return _highlighted(_rows(hit.chunk.text, query), words)
    shown = " ".join(_without_heading(hit).split())
    start, end = snippet(shown, spans(shown, words), SNIPPET)
    drawn = _highlighted(shown[start:end], words)
    return Text("…" if start else "") + drawn + Text("…" if end < len(shown) else "")


def _highlighted(text: str, words: Sequence[str]) -> Text:
    from qianxun.answer.matching import spans

    drawn = Text(text)
    for start, end in spans(text, words):
        drawn.stylize("bold yellow", start, end)
    return drawn


def _without_heading(hit: Found) -> str:
    """The title line shows the headings already."""
    text = hit.chunk.text.lstrip()
    for heading in hit.chunk.headings:
        text = text.removeprefix(heading).lstrip()
    return text or hit.chunk.text


def _rows(text: str, query: str) -> str:
    from qianxun.answer.matching import weights

    lines = [line for line in text.splitlines() if line.strip()]
    body = next((at + 1 for at, line in enumerate(lines) if line.startswith("|")), 0)  # behind the column names
    told = weights(lines, query)
    best = sorted(range(body, len(lines)), key=lambda at: (-told[at], at))[:ROWS]
    kept = sorted(best[:1] + [at for at in best[1:] if told[at] >= told[best[0]] / 2 > 0])
    shown = [*lines[:body], *(lines[at] for at in kept)]
    return "\n".join(line if len(line) <= SNIPPET else line[:SNIPPET] + "…" for line in shown)


def _advice(base: KnowledgeBase, answer: Recall, *, narrowed: bool) -> str:
    tips = []
    if narrowed:
        tips.append(say("去掉过滤条件再试", "try without the filters"))
    if not base.embedding_model:
        tips.append(
            say(
                "这个知识库只按词语检索：换一个原文里的说法，或装上模型后 qianxun rebuild --kb "
                f"{base.name} --model bge-small-zh-v1.5",
                "this base is searched by words only: use words of the text, or pull a model and run qianxun rebuild "
                f"--kb {base.name} --model bge-small-zh-v1.5",
            )
        )
    elif answer.mode != "hybrid":
        tips.append(say("用 --mode hybrid 两路一起找", "search both ways with --mode hybrid"))
    tips.append(say("降低 --threshold，或换个说法", "lower --threshold, or say it differently"))
    tips.append(say(f"看看里面有什么：qianxun kb show {base.name}", f"see what is in it: qianxun kb show {base.name}"))
    head = say("没有找到。可以试试：", "Nothing found. You could:")
    return head + "".join(f"\n  · {tip}" for tip in tips)
