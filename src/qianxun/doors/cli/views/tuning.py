"""`qianxun tune`, drawn for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from qianxun.core.codec.command_line import quoted
from qianxun.doors.cli.i18n import done, hint, note, out, tr

if TYPE_CHECKING:
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.admin.tune import Attempt, Tuning


def show_tuning(base: KnowledgeBase, found: Tuning) -> None:
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
    for at, attempt in enumerate(found.attempts):
        name = tr("现在的设置", "as it is") if at == 0 else attempt.name
        compared = ("", "", "") if at == 0 else _compared(attempt)
        table.add_row(escape(name), f"{attempt.ndcg:.3f}", f"{attempt.first:.3f}", *compared, f"{attempt.p50_ms:.1f}")
    out().print(table)
    for attempt in found.attempts:
        for reason in attempt.notes:
            note(f"! {attempt.name}：{reason}", "yellow")


def _compared(one: Attempt) -> tuple[str, str, str]:
    return f"{one.difference:+.3f}", f"{one.p_value:.4f}", tr("是", "yes") if one.is_significant else tr("否", "no")


def advise(base: KnowledgeBase, found: Tuning, start: str, *, is_applied: bool) -> None:
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
