"""`qianxun logs` and `qianxun replay`: what was searched for, what found nothing or took long, and the same again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from qianxun.doors.cli.commands.search import described as described_search
from qianxun.doors.cli.commands.search import show
from qianxun.doors.cli.i18n import note, out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, Library, find_base, session_of, with_engine, with_library
from qianxun.doors.cli.views.drawing import show_degraded, visible
from qianxun.doors.cli.views.layered import show as show_layered

if TYPE_CHECKING:
    from qianxun.core.layered_types import LayeredRecall
    from qianxun.core.log_types import LogEntry
    from qianxun.core.types import KnowledgeBase, Recall
    from qianxun.engine.engine import Engine
    from qianxun.graph.modes import ModeRecall

QUERY_SHOWN = 24
SLOW_MS = 200.0
LIMIT = 50

# ── logs ─────────────────────────────────────────────────────────────────────────────────────────


def logs(
    context: typer.Context,
    zero: Annotated[
        bool, typer.Option("--zero", help="只看没找到或没能回答的 · only those that came to nothing")
    ] = False,
    slow: Annotated[
        bool, typer.Option("--slow", help=f"只看慢的（超过 {SLOW_MS:.0f} 毫秒，或写在后面的 MS） · only slow ones")
    ] = False,
    over: Annotated[
        float | None,
        typer.Argument(metavar="[MS]", help="--slow 的界限，毫秒 · the bound of --slow, in ms", show_default=False),
    ] = None,
    kb: Annotated[
        str | None, typer.Option(metavar="NAME", help="只看这个知识库的 · only of this base", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="最多几条 · at most so many")] = LIMIT,
    as_json: JsonFlag = False,
) -> None:
    """检索记录，新的在前；用来找出没结果的和慢的 · the log of searches, newest first"""
    bound = (SLOW_MS if over is None else over) if slow or over is not None else None
    session = session_of(context)
    names, found = with_library(session, lambda library: _listed(library, session.start, kb, zero, bound, limit))
    if as_json:
        print_json({"logs": [described(entry, names) for entry in found]})
        return
    if not found:
        out().print(_nothing(zero, bound), markup=False)
        return
    out().print(_table(found, names))
    if session.url:
        return  # a replay wants the folder itself
    again = f"{session.start} replay {found[0].id}"
    note(tr(f"重放其中一条，看结果是否还一样：{again}", f"Run one again and compare: {again}"))


async def _listed(
    library: Library, start: str, kb: str | None, zero: bool, slow_ms: float | None, limit: int
) -> tuple[dict[int, str], list[LogEntry]]:
    base = await find_base(library, kb, start) if kb is not None else None
    names = {each.id: each.name for each in await library.knowledge_bases()}
    found = await library.logs(knowledge_base=base.id if base else None, zero=zero, slow_ms=slow_ms, limit=limit)
    return names, found


def _nothing(zero: bool, slow_ms: float | None) -> str:
    if zero or slow_ms is not None:
        return tr("没有这样的检索。去掉 --zero 或 --slow 看全部。", "None. Leave out --zero or --slow to see all.")
    return tr("还没有检索记录。先检索一次：qianxun search", "Nothing in the log yet. Search first: qianxun search")


def _table(found: Sequence[LogEntry], names: dict[int, str]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(tr("编号", "id"), no_wrap=True, min_width=len(str(found[0].id)))
    for title in (tr("时间", "time"), tr("知识库", "base")):
        table.add_column(title, no_wrap=True)
    table.add_column(tr("查询", "query"), no_wrap=True, overflow="ellipsis")
    table.add_column(tr("方式", "mode"), no_wrap=True, min_width=max(len(entry.mode) for entry in found))
    table.add_column(tr("层级", "tier"), no_wrap=True)
    for title in (tr("结果", "results"), tr("毫秒", "ms")):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("", no_wrap=True)
    for entry in found:
        table.add_row(
            str(entry.id),
            f"{entry.created_at.astimezone():%m-%d %H:%M:%S}",
            Text(names.get(entry.knowledge_base_id, str(entry.knowledge_base_id))),
            Text(_cut(entry.query)),
            entry.mode,
            entry.tier or "—",
            Text(str(len(entry.results)), style="bold red" if entry.zero else ""),
            f"{entry.time_cost_ms:.0f}",
            Text(_marks(entry), style="yellow"),
        )
    return table


def _cut(query: str) -> str:
    shown = visible(query)
    return shown if len(shown) <= QUERY_SHOWN else shown[:QUERY_SHOWN] + "…"


def _marks(entry: LogEntry) -> str:
    told = {
        tr("未答", "unanswered"): entry.zero and "form" in entry.params,
        tr("！降级", "! degraded"): bool(entry.degraded),
        tr("缓存", "cached"): entry.from_cache,
    }
    return " ".join(mark for mark, is_so in told.items() if is_so)


def described(entry: LogEntry, names: dict[int, str]) -> dict[str, Any]:
    return {
        "id": entry.id,
        "knowledge_base_id": entry.knowledge_base_id,
        "knowledge_base": names.get(entry.knowledge_base_id),
        "query": entry.query,
        "retrieval_params": dict(entry.params),
        "retrieval_mode": entry.mode,
        "tier": entry.tier or None,
        "chunk_count": len(entry.results),
        "zero": entry.zero,
        "time_cost_ms": entry.time_cost_ms,
        "from_cache": entry.from_cache,
        "degraded": [{"part": one.part, "reason": one.reason} for one in entry.degraded],
        "steps": [{"name": one.name, "seconds": one.seconds, "count": one.count} for one in entry.steps],
        "results": [{"chunk_id": chunk_id, "score": score} for chunk_id, score in entry.results],
        "trace_id": entry.trace_id,
        "generation": entry.generation,
        "digest": entry.digest,
        "created_at": entry.created_at.isoformat(),
    }


# ── replay ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Replayed:
    entry: LogEntry
    base: KnowledgeBase
    answer: Recall | LayeredRecall | ModeRecall
    is_same: bool  # byte for byte, times and trace left out; of a question, what was found

    @property
    def generation(self) -> str:
        return str(self.answer.generation) if self.answer.generation is not None else ""

    @property
    def is_question(self) -> bool:
        from qianxun.graph.modes import ModeRecall

        return isinstance(self.answer, ModeRecall)

    @property
    def was_looked_up(self) -> bool:
        return bool(self.entry.params.get("wordings", True)) and self.entry.params["mode"] != "bypass"

    @property
    def form(self) -> str:
        """Of the answer to a question; "" where none was written."""
        return str(self.entry.params.get("form", ""))

    @property
    def writer(self) -> str:
        """rules | model:<name>; "" where no answer was written."""
        return str(self.entry.params.get("writer", ""))

    @property
    def changed(self) -> list[dict[str, Any]]:
        return changes(self.entry.results, _results(self.answer))


def _results(answer: Recall | LayeredRecall | ModeRecall) -> list[tuple[str, float]]:
    from qianxun.core.layered_types import LayeredRecall

    if isinstance(answer, LayeredRecall):
        return [(each.doc.chunk_id, each.score) for each in answer.results]
    return [(each.chunk.chunk_id, each.score) for each in answer.found]


def replay(
    context: typer.Context,
    log_id: Annotated[int, typer.Argument(metavar="LOG_ID", help="检索记录的编号，见 logs · its id, see logs")],
    as_json: JsonFlag = False,
) -> None:
    """用当时的参数再检索一次，与当时的回答比较 · search again as logged, and compare

    比较的是整个回答的每一个字节：块、分数、次序、各路得分、层级、降级；不比用时、追踪号和是否来自缓存。知识库没有变过，
    回答就应当一样；变过，就列出哪些结果新来、消失、移动。重放不用缓存，也不留记录。

    问题（ask、gather）比较的是找到的资料；答案不重写，语言模型的措辞也无法重放。

    Every byte of the answer is compared: chunks, scores, order, arms, tiers, degraded parts; not times, trace or
    cache. An unchanged base must give the same answer; otherwise what came, went and moved is listed. Of a question
    (ask, gather) what was found is compared: its answer is not written again, and a model's words cannot be replayed.
    """
    settings = session_of(context).settings()
    done = with_engine(settings, lambda engine: _replayed(engine, log_id))
    if as_json:
        print_json(_as_json(done))
        return
    console = out()
    _show(console, done.answer)
    show_degraded(done.answer.degraded)
    console.print(_verdict(done), markup=False, soft_wrap=True)
    for caveat in _caveats(done):
        note(caveat)
    for change in done.changed:
        console.print(f"  {_told(change)}", markup=False, soft_wrap=True)


def _show(console: Console, answer: Recall | LayeredRecall | ModeRecall) -> None:
    from qianxun.core.layered_types import LayeredRecall

    if isinstance(answer, LayeredRecall):
        show_layered(console, answer)
    else:
        show(console, _plain(answer))


def _plain(answer: Recall | ModeRecall) -> Recall:
    """What a question found, as a search would tell it."""
    from qianxun.core.types import Recall

    if isinstance(answer, Recall):
        return answer
    return Recall(answer.query, answer.mode, answer.found, answer.degraded, answer.seconds, answer.trace_id)


async def _replayed(engine: Engine, log_id: int) -> Replayed:
    from qianxun.answer.question_log import found_again, is_question
    from qianxun.core.codec.recall_bytes import digest, found_digest, layered_digest
    from qianxun.core.codec.search_params import arguments_of, layered_arguments
    from qianxun.retrieve.replay import replaying

    entry = await engine.log(log_id)
    base = await engine.knowledge_base(entry.knowledge_base_id)
    with replaying():
        if entry.mode in ("texts", "tables"):
            search = engine.search_texts if entry.mode == "texts" else engine.search_tables
            climbed = await search(base.id, entry.query, **layered_arguments(entry.params))
            return Replayed(entry, base, climbed, layered_digest(climbed) == entry.digest)
        if is_question(entry):
            found = await found_again(entry, partial(engine.gather, base.id))
            is_same = found_digest(found.query, found.mode, found.found) == entry.digest
            return Replayed(entry, base, found, is_same)
        answer = await engine.retrieve(base.id, entry.query, **arguments_of(entry.params))
    return Replayed(entry, base, answer, digest(answer) == entry.digest)


def changes(then: Sequence[tuple[str, float]], now: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """Which results came, went, moved or were scored anew, in the order of the new answer, then the gone ones."""
    before = {chunk_id: (rank, score) for rank, (chunk_id, score) in enumerate(then, 1)}
    after = {chunk_id: (rank, score) for rank, (chunk_id, score) in enumerate(now, 1)}
    found = []
    for chunk_id in [*after, *(each for each in before if each not in after)]:
        old, new = before.get(chunk_id), after.get(chunk_id)
        if old == new:
            continue
        kind = "came" if old is None else "went" if new is None else "moved" if old[0] != new[0] else "rescored"
        found.append(
            {
                "chunk_id": chunk_id,
                "change": kind,
                "rank_then": old[0] if old else None,
                "rank_now": new[0] if new else None,
                "score_then": old[1] if old else None,
                "score_now": new[1] if new else None,
            }
        )
    return found


def _as_json(done: Replayed) -> dict[str, Any]:
    from qianxun.core.codec.layered import written_layered
    from qianxun.core.layered_types import LayeredRecall

    if isinstance(done.answer, LayeredRecall):
        document = written_layered(done.base.id, done.answer)
    else:
        found = described_search(done.base, _plain(done.answer), done.entry.params.get("doc_ids", ()))
        document = {**found, "retrieval_mode": done.entry.mode}
    return {
        **document,
        "replay": {
            "log_id": done.entry.id,
            "same": done.is_same,
            "generation_then": done.entry.generation,
            "generation_now": done.generation,
            "changed": done.changed,
            **({"compared": "found", "form": done.form or None} if done.is_question else {}),
        },
    }


def _verdict(done: Replayed) -> str:
    if done.is_question and not done.was_looked_up:
        return tr("当时没有查阅资料，没有可比的。", "Nothing was looked up then: there is nothing to compare.")
    if done.is_same and done.is_question:
        return tr("✓ 找到的资料与当时逐字节相同", "✓ The same was found as then, byte for byte")
    if done.is_same:
        return tr("✓ 与当时的回答逐字节相同", "✓ The same answer as then, byte for byte")
    if done.entry.generation != done.generation:
        return tr("! 知识库在那之后变过，回答不同：", "! The base has changed since; the answer differs:")
    if done.entry.degraded or done.answer.degraded:
        return tr(
            "! 当时与现在参加检索的部分不同（见“降级”），回答不同：",
            "! Not the same parts took part; the answer differs:",
        )
    return tr(
        "! 知识库没有变，回答却不同：设置或程序变过吗？", "! The base is the same, the answer is not: other settings?"
    )


def _caveats(done: Replayed) -> list[str]:
    """What a replay of a question does not compare."""
    told = {
        tr(
            "答案由语言模型写成，措辞无法重放：比较的只是找到的资料。",
            "A language model wrote the answer; its words cannot be replayed: only what was found is compared.",
        ): done.writer not in ("", "rules"),
        tr(
            "答案没有重写：比较的只是找到的资料。",
            "The answer is not written again: only what was found is compared.",
        ): done.writer == "rules",
        tr(
            "随问题来的图片和表格不在记录里，这次没有用到。",
            "The pictures and tables that came along are not in the log, and took no part.",
        ): bool(done.entry.params.get("attached")),
        tr("当时还问过图数据库，这次没有。", "A graph server was asked then, and not now."): "surroundings"
        in done.entry.params,
    }
    return [caveat for caveat, is_so in told.items() if is_so and done.was_looked_up]


def _told(change: dict[str, Any]) -> str:
    then, now = change["rank_then"], change["rank_now"]
    scores = " → ".join(f"{score:.4f}" for score in (change["score_then"], change["score_now"]) if score is not None)
    words = {
        "came": tr(f"新来，第 {now}", f"came, place {now}"),
        "went": tr(f"消失，原第 {then}", f"went, was place {then}"),
        "moved": tr(f"第 {then} → 第 {now}", f"place {then} → {now}"),
        "rescored": tr(f"仍第 {now}，分数变了", f"still place {now}, other score"),
    }
    return f"{change['chunk_id']}  {words[change['change']]}  {scores}"
