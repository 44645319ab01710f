"""`qianxun verify` and `qianxun rebuild`: records against index, and the index made anew."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from qianxun.doors.cli.i18n import note, out, print_json, tr
from qianxun.doors.cli.progress import counting
from qianxun.doors.cli.session import BaseOption, JsonFlag, find_base, program, session_of, with_engine

if TYPE_CHECKING:
    from qianxun.core.ingest_types import Finding, Verdict
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.engine import Engine

KINDS = {
    "missing_in_index": ("索引里缺少", "missing in the index"),
    "not_in_records": ("索引里多出", "in the index but not in the records"),
    "other_vector": (
        "索引里的内容与记录不同（抽查）",
        "in the index with other content than in the records (of a sample)",
    ),
    "orphan_chunk": ("没有文档的块", "chunks without a document"),
    "orphan_facts": ("没有文档的图谱事实", "graph facts without a document"),
    "chunk_without_facts": ("尚未读出图谱事实的块", "chunks without graph facts"),
    "chunk_without_vector": ("没有向量的块", "chunks without a vector"),
    "waiting": ("尚未进入索引的变更", "changes that wait for the index"),
    "corrupt": ("损坏", "corrupt"),
}


def verify(
    context: typer.Context,
    kb: Annotated[str | None, typer.Option("--kb", metavar="NAME", help="只查这一个 · only this one")] = None,
    as_json: JsonFlag = False,
) -> int:
    """核对记录与索引 · compare the records with the index"""
    verdicts = with_engine(session_of(context).settings(), lambda engine: _verdicts(engine, kb))
    clean = all(one.is_clean for one in verdicts)
    if as_json:
        print_json({"clean": clean, "knowledge_bases": [_told(one) for one in verdicts]})
    else:
        for one in verdicts:
            _show(one)
    return 0 if clean else 1


async def _verdicts(engine: Engine, kb: str | None) -> list[Verdict]:
    chosen = await engine.knowledge_bases() if kb is None else (await _base(engine, kb),)
    return [await engine.verify(base.id) for base in chosen]


async def _base(engine: Engine, kb: str) -> KnowledgeBase:
    return await find_base(engine, kb, program(engine.settings))


def _told(verdict: Verdict) -> dict[str, Any]:
    return {
        "knowledge_base": verdict.knowledge_base,
        "documents": verdict.documents,
        "chunks": verdict.chunks,
        "clean": verdict.is_clean,
        "findings": [asdict(finding) for finding in verdict.findings],
    }


def _show(verdict: Verdict) -> None:
    console = out()
    name = escape(verdict.knowledge_base)
    counts = tr(
        f"{verdict.documents} 个文档，{verdict.chunks} 块", f"{verdict.documents} documents, {verdict.chunks} chunks"
    )
    if verdict.is_clean:
        console.print(f"[green]✓[/] {name}：{counts}，" + tr("记录与索引一致", "records and index agree"))
        return
    console.print(f"[red]✗[/] {name}：{counts}")
    for finding in verdict.findings:
        console.print(f"    {_finding(finding)}", markup=False)
    note(tr(f"  修复：qianxun rebuild --kb {name}", f"  To mend it: qianxun rebuild --kb {name}"), "yellow")


def _finding(finding: Finding) -> str:
    known = tr(*KINDS.get(finding.kind, (finding.kind, finding.kind)))
    detail = f"（{finding.detail}）" if finding.detail else ""
    keys = "、".join(map(str, finding.examples))
    return f"{known} {finding.count}{detail}" + (tr(f"，例如 {keys}", f", such as {keys}") if keys else "")


def rebuild(
    context: typer.Context,
    kb: BaseOption,
    model: Annotated[
        str | None, typer.Option(metavar="M", help="换用这个嵌入模型，none 为不用 · change to this model, or none")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """从记录重建索引；期间旧索引照常可用 · make the index anew from the records"""

    async def work(engine: Engine) -> tuple[str, str, int]:
        base = await _base(engine, kb)
        counts = await engine.statistics(base.id)
        with counting(tr("重建", "rebuilding"), counts["chunks"], tr("块", "chunks")) as follow:
            total = await engine.rebuild(base.id, model=model, watch=follow)
        after = await engine.knowledge_base(base.id)
        return after.name, after.embedding_model, total

    name, used, total = with_engine(session_of(context).settings(), work)
    if as_json:
        print_json({"knowledge_base": name, "embedding_model": used, "chunks": total})
        return
    shown_model = used or tr("不用模型", "without a model")
    out().print(
        tr(
            f"[green]✓[/] “{escape(name)}”的索引已重建：{total} 块，{shown_model}",
            f"[green]✓[/] The index of “{escape(name)}” is rebuilt: {total} chunks, {shown_model}",
        )
    )
