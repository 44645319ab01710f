"""`qianxun tune`: which settings of a search suit one base."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from qianxun.core.codec.command_line import quoted
from qianxun.core.errors import BadInput
from qianxun.doors.cli.i18n import done, hint, note, out, print_json, tr
from qianxun.doors.cli.progress import counting
from qianxun.doors.cli.session import BaseOption, JsonFlag, find_base, program, refuse_url, session_of, with_engine

if TYPE_CHECKING:
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.admin.tune import Attempt, Tuning
    from qianxun.engine.engine import Engine


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
    _show(base, found)
    _advise(base, found, program(settings), is_applied=is_applied)


def _sizes(given: str | None) -> list[int]:
    parts = [part.strip() for part in (given or "").replace("，", ",").split(",") if part.strip()]
    if wrong := [part for part in parts if not part.isdecimal()]:
        raise BadInput(
            tr(f"分块长度 {wrong[0]!r} 不是整数", f"{wrong[0]!r} is not a chunk size"),
            hint=tr("例如 --chunk-sizes 300,800", "For example --chunk-sizes 300,800"),
        )
    return [int(part) for part in parts]


def _show(base: KnowledgeBase, found: Tuning) -> None:
    origins = {
        "folder": tr("给出的问题", "the questions given"),
        "saved": tr("保存过的问题", "saved questions"),
        "made": tr("从资料的句子造的问题", "questions made of the base's own sentences"),
    }
    count = found.questions
    note(tr(f"{base.name}：{count} 个{origins[found.origin]}", f"{base.name}: {count} of {origins[found.origin]}"))
    if found.origin == "made":
        explained = tr(
            "这样的问题用的是原文的词，所以不拿它们试权重；保存自己的问题之后再试更可信。",
            "Such questions have the words of the text: weights are not tried on them. Save questions of your own.",
        )
        note(explained, "yellow")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(tr("设置", "setting"), no_wrap=True)
    for title in ("nDCG@10", tr("首条命中", "hit@1"), tr("差", "difference"), "p", tr("显著", "significant"), "p50 ms"):
        table.add_column(title, justify="right", no_wrap=True)
    for at, one in enumerate(found.attempts):
        name = tr("现在的设置", "as it is") if at == 0 else one.name
        compared = ("", "", "") if at == 0 else _compared(one)
        table.add_row(escape(name), f"{one.ndcg:.3f}", f"{one.first:.3f}", *compared, f"{one.p50_ms:.1f}")
    out().print(table)
    for one in found.attempts:
        for reason in one.notes:
            note(f"! {one.name}：{reason}", "yellow")


def _compared(one: Attempt) -> tuple[str, str, str]:
    return f"{one.difference:+.3f}", f"{one.p_value:.4f}", tr("是", "yes") if one.is_significant else tr("否", "no")


def _advise(base: KnowledgeBase, found: Tuning, start: str, *, is_applied: bool) -> None:
    if found.best is None:
        done("没有哪一项显著更好，不必改。", "Nothing is significantly better: leave it as it is.")
        return
    name = found.best.name
    if is_applied:
        done(f"已设为 {escape(name)}。", f"Set: {escape(name)}.")
        if "chunk_size" in found.best.changes:
            hint("已有的文件再 add 一次就会重切", "Add the files again to cut them anew")
        return
    done(f"{escape(name)} 显著更好；什么也没有改。", f"{escape(name)} is significantly better; nothing was changed.")
    assignments = " ".join(f"{key}={'' if value is None else value}" for key, value in found.best.changes.items())
    command = f"{start} kb set {quoted(base.name)} {assignments}"
    hint(command, command)
