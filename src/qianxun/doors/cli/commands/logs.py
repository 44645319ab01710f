"""`qianxun logs` and `qianxun replay`: the log of searches and questions, and one of them run again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from qianxun.core.errors import BadInput
from qianxun.core.limits import SLOW_MS
from qianxun.doors.cli.commands.search import described as described_search
from qianxun.doors.cli.commands.search import show
from qianxun.doors.cli.i18n import hint, note, out, print_json, print_plain, tr
from qianxun.doors.cli.session import JsonFlag, Library, find_base, session_of, with_engine, with_library
from qianxun.doors.cli.views.drawing import label, show_degraded, visible
from qianxun.doors.cli.views.layered import show as show_layered

if TYPE_CHECKING:
    from qianxun.core.log_types import LogChoices, LogEntry
    from qianxun.engine.admin.replay import Replayed

QUERY_SHOWN = 24
LIMIT = 50
MOMENT = "%m-%d %H:%M:%S"
MOMENT_WIDTH = 14
TEXT_WIDTH = 8  # cells of a name or a question, at the least

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
    degraded: Annotated[bool, typer.Option("--degraded", help="只看有一部分没能参加的 · only degraded ones")] = False,
    kb: Annotated[
        str | None, typer.Option(metavar="NAME", help="只看这个知识库的 · only of this base", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="最多几条 · at most so many")] = LIMIT,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="写进文件，.csv 或 .jsonl · write a .csv or .jsonl", show_default=False),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """检索记录，新的在前；用来找出没结果的和慢的 · the log of searches, newest first"""
    bound = (SLOW_MS if over is None else over) if slow or over is not None else None
    session = session_of(context)
    chosen: LogChoices = {"zero": zero, "slow_ms": bound, "degraded": degraded}
    names, found = with_library(session, lambda library: _listed(library, session.start, kb, chosen, limit))
    if export is not None:
        _export(export, found)
        return
    if as_json:
        from qianxun.core.codec.wire import written_log

        rows = [{**written_log(entry), "knowledge_base": names.get(entry.knowledge_base_id)} for entry in found]
        print_json({"logs": rows})
        return
    if not found:
        out().print(_nothing(zero or degraded, bound), markup=False)
        return
    out().print(_table(found, names, out().width))
    if session.url:
        return  # a replay needs the folder itself
    again = f"{session.start} replay {found[0].id}"
    hint(f"重放其中一条，看结果是否还一样：{again}", f"Run one again and compare: {again}")


async def _listed(
    library: Library, start: str, kb: str | None, chosen: LogChoices, limit: int
) -> tuple[dict[int, str], list[LogEntry]]:
    base = await find_base(library, kb, start) if kb is not None else None
    names = {known.id: known.name for known in await library.knowledge_bases()}
    chosen["knowledge_base"] = base.id if base else None
    found = await library.logs.list(**chosen, limit=limit)
    return names, found


def _export(file: Path, found: Sequence[LogEntry]) -> None:
    from qianxun.core.codec.log_export import ExportForm, exported_header, exported_line

    forms: dict[str, ExportForm] = {".csv": "csv", ".jsonl": "jsonl"}
    form = forms.get(file.suffix.lower())
    if form is None:
        raise BadInput(
            tr(f"不知道怎样写 {file.name}", f"Cannot tell how to write {file.name}"),
            hint=tr("文件名以 .csv 或 .jsonl 结尾", "End its name with .csv or .jsonl"),
        )
    lines = exported_header(form) + "".join(exported_line(entry, form) for entry in found)
    try:
        file.write_bytes(lines.encode("utf-8", "replace"))
    except OSError as error:
        raise BadInput(
            tr(f"写不了 {file}：{error.strerror}", f"Cannot write {file}: {error.strerror}"),
            hint=tr("检查目录与权限", "Check the folder and its permissions"),
        ) from error
    note(tr(f"写了 {len(found)} 条到 {file}", f"{len(found)} written to {file}"))


def _nothing(zero: bool, slow_ms: float | None) -> str:
    if zero or slow_ms is not None:
        return tr("没有这样的检索。去掉 --zero 或 --slow 看全部。", "None. Leave out --zero or --slow to see all.")
    return tr("还没有检索记录。先检索一次：qianxun search", "Nothing in the log yet. Search first: qianxun search")


def _tier(entry: LogEntry) -> str:
    return label("tiers", entry.tier) if entry.tier else "—"


def _table(found: Sequence[LogEntry], names: dict[int, str], width: int) -> Table:
    """The texts are cut to what the figures leave of the width: a figure that is cut off is another figure."""
    figures = [
        max(len(str(entry.id)) for entry in found),
        max(len(entry.mode) for entry in found),
        max(cell_len(_tier(entry)) for entry in found),
        max(4, *(len(str(len(entry.results))) for entry in found)),
        max(4, *(len(f"{entry.time_cost_ms:.0f}") for entry in found)),
        max(cell_len(_marks(entry)) for entry in found),
    ]
    left = max(2 * TEXT_WIDTH, width - sum(figures) - MOMENT_WIDTH - 9 * 2)
    table = Table(box=None, pad_edge=False)
    table.add_column(tr("编号", "id"), no_wrap=True)
    table.add_column(tr("时间", "time"), no_wrap=True)
    table.add_column(tr("知识库", "base"), no_wrap=True, overflow="ellipsis", max_width=left // 3)
    table.add_column(tr("查询", "query"), no_wrap=True, overflow="ellipsis", max_width=left - left // 3)
    for title in (tr("方式", "mode"), tr("层级", "tier")):
        table.add_column(title, no_wrap=True)
    for title in (tr("结果", "results"), tr("毫秒", "ms")):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("", no_wrap=True)
    for entry in found:
        table.add_row(
            str(entry.id),
            f"{entry.created_at.astimezone():{MOMENT}}",
            Text(names.get(entry.knowledge_base_id, str(entry.knowledge_base_id))),
            Text(_cut(entry.query)),
            entry.mode,
            _tier(entry),
            Text(str(len(entry.results)), style="bold red" if entry.zero else ""),
            f"{entry.time_cost_ms:.0f}",
            Text(_marks(entry), style="yellow"),
        )
    return table


def _cut(query: str) -> str:
    shown = visible(query)
    return shown if len(shown) <= QUERY_SHOWN else shown[:QUERY_SHOWN] + "…"


def _marks(entry: LogEntry) -> str:
    marks = {
        tr("未答", "unanswered"): entry.zero and "form" in entry.params,
        tr("！降级", "! degraded"): bool(entry.degraded),
        tr("缓存", "cached"): entry.from_cache,
    }
    return " ".join(mark for mark, is_set in marks.items() if is_set)


# ── replay ───────────────────────────────────────────────────────────────────────────────────────


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
    from qianxun.core.layered_types import LayeredRecall
    from qianxun.engine.admin import replay as replays

    done = with_engine(session_of(context).settings(), lambda engine: replays.replay(engine, log_id))
    if as_json:
        print_json(_as_json(done))
        return
    console, found = out(), done.found
    if isinstance(found, LayeredRecall):
        show_layered(console, found)
    else:
        show(console, found)
    show_degraded(found.degraded)
    print_plain(console, _verdict(done))
    for caveat in _caveats(done):
        note(caveat)
    for change in done.changed:
        print_plain(console, f"  {_change(change)}")


def _as_json(done: Replayed) -> dict[str, Any]:
    from qianxun.core.codec.wire import written_layered
    from qianxun.core.layered_types import LayeredRecall

    found = done.found
    if isinstance(found, LayeredRecall):
        document = written_layered(done.base.id, found)
    else:
        document = described_search(done.base, found, done.entry.params.get("doc_ids", ()))
        document["retrieval_mode"] = done.entry.mode
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
    if done.entry.degraded or done.recall.degraded:
        return tr(
            "! 当时与现在参加检索的部分不同（见“降级”），回答不同：",
            "! Not the same parts took part; the answer differs:",
        )
    return tr(
        "! 知识库没有变，回答却不同：设置或程序变过吗？", "! The base is the same, the answer is not: other settings?"
    )


def _caveats(done: Replayed) -> list[str]:
    """What a replay of a question does not compare."""
    caveats = {
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
    return [caveat for caveat, applies in caveats.items() if applies and done.was_looked_up]


def _change(change: dict[str, Any]) -> str:
    then, now = change["rank_then"], change["rank_now"]
    scores = " → ".join(f"{score:.4f}" for score in (change["score_then"], change["score_now"]) if score is not None)
    kinds = {
        "came": tr(f"新来，第 {now}", f"came, place {now}"),
        "went": tr(f"消失，原第 {then}", f"went, was place {then}"),
        "moved": tr(f"第 {then} → 第 {now}", f"place {then} → {now}"),
        "rescored": tr(f"仍第 {now}，分数变了", f"still place {now}, other score"),
    }
    return f"{change['chunk_id']}  {kinds[change['change']]}  {scores}"
