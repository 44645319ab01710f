"""`qianxun verify`, `rebuild`, `migrate` and `copy`: the index against the records, and the database itself."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from qianxun.core.codec.command_line import quoted
from qianxun.core.errors import AlreadyThere
from qianxun.doors.cli.i18n import done, hint, out, print_json, tr, warn
from qianxun.doors.cli.progress import counting
from qianxun.doors.cli.session import (
    BaseOption,
    JsonFlag,
    expect_data,
    find_base,
    program,
    session_of,
    with_engine,
)
from qianxun.doors.cli.views.drawing import label

if TYPE_CHECKING:
    from qianxun.core.ingest_types import Finding, Verdict
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.engine import Engine
    from qianxun.engine.settings import Settings

SERVERS = tuple(f"{driver}://" for driver in ("postgresql", "postgresql+psycopg", "postgres", "mysql", "mariadb"))

# ── the index ────────────────────────────────────────────────────────────────────────────────────


def verify(
    context: typer.Context,
    kb: Annotated[str | None, typer.Option("--kb", metavar="NAME", help="只查这一个 · only this one")] = None,
    as_json: JsonFlag = False,
) -> int:
    """核对记录与索引 · compare the records with the index"""
    verdicts = with_engine(session_of(context).settings(), lambda engine: _verdicts(engine, kb))
    clean = all(verdict.is_clean for verdict in verdicts)
    if as_json:
        print_json({"clean": clean, "knowledge_bases": [_verdict_json(verdict) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            _show_verdict(verdict)
    return 0 if clean else 1


async def _verdicts(engine: Engine, kb: str | None) -> list[Verdict]:
    chosen = await engine.knowledge_bases() if kb is None else (await _base(engine, kb),)
    return [await engine.admin.verify(base.id) for base in chosen]


async def _base(engine: Engine, kb: str) -> KnowledgeBase:
    return await find_base(engine, kb, program(engine.settings))


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "knowledge_base": verdict.knowledge_base,
        "documents": verdict.documents,
        "chunks": verdict.chunks,
        "clean": verdict.is_clean,
        "findings": [asdict(finding) for finding in verdict.findings],
    }


ORIGINALS = ("damaged_document", "damaged_table", "damaged_question", "damaged_settings")  # nothing to mend them from


def _show_verdict(verdict: Verdict) -> None:
    console, name = out(), escape(verdict.knowledge_base)
    documents, chunks = verdict.documents, verdict.chunks
    counts = tr(f"{documents} 个文档，{chunks} 块", f"{documents} documents, {chunks} chunks")
    if verdict.is_clean:
        console.print(f"[green]✓[/] {name}：{counts}，" + tr("记录与索引一致", "records and index agree"))
        return
    console.print(f"[red]✗[/] {name}：{counts}")
    for finding in verdict.findings:
        console.print(f"    {_finding(finding)}", markup=False)
    if any(finding.kind in ORIGINALS for finding in verdict.findings):
        warn(
            "  原文、表格或问答坏了：从备份恢复，或 qianxun delete 之后再 add；设置坏了：核对后用 kb set 写一次",
            "  Damaged originals: restore a backup, or delete and add them again; settings: check kb show, then kb set",
        )
    if any(finding.kind not in ORIGINALS for finding in verdict.findings):
        warn(f"  修复：qianxun rebuild --kb {name}", f"  To mend it: qianxun rebuild --kb {name}")


def _finding(finding: Finding) -> str:
    detail = f"（{finding.detail}）" if finding.detail else ""
    keys = "、".join(map(str, finding.examples))
    examples = tr(f"，例如 {keys}", f", such as {keys}") if keys else ""
    return f"{label('findings', finding.kind)} {finding.count}{detail}{examples}"


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
        with counting(tr("重建", "rebuilding"), counts["chunks"], tr("块", "chunks")) as advance:
            total = await engine.admin.rebuild(base.id, model=model, watch=advance)
        after = await engine.knowledge_base(base.id)
        return after.name, after.embedding_model, total

    name, used, total = with_engine(session_of(context).settings(), work)
    if as_json:
        print_json({"knowledge_base": name, "embedding_model": used, "chunks": total})
        return
    shown = used or tr("不用模型", "without a model")
    done(
        f"“{escape(name)}”的索引已重建：{total} 块，{shown}",
        f"The index of “{escape(name)}” is rebuilt: {total} chunks, {shown}",
    )


# ── the database ─────────────────────────────────────────────────────────────────────────────────


def migrate(
    context: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="只看缺什么，不改动；缺时以 1 退出 · only look")] = False,
    as_json: JsonFlag = False,
) -> int:
    """把数据库的结构升到最新；打开数据时也会自动做 · bring the schema of the database up to date"""
    from qianxun.engine.admin import migrations

    settings = session_of(context).settings()
    elsewhere = "数据若在别处，用 --data DIR 或 records.url 指明", "Say where it is with --data DIR or records.url"
    expect_data(settings, elsewhere)
    revisions = migrations.missing(settings) if check else migrations.migrate(settings)
    names = "、".join(revisions)
    if as_json:
        print_json({"missing" if check else "applied": revisions})
    elif not revisions:
        done("数据库的结构是最新的", "The schema is up to date")
    elif check:
        done(f"数据库还缺：{names}", f"The database lacks: {names}", sign="[yellow]![/]")
        hint(f"  运行 {program(settings)} migrate 补上", f"  Run: {program(settings)} migrate")
    else:
        done(f"已升级：{names}", f"Brought up to date: {names}")
    return 1 if check and revisions else 0


def copy(
    context: typer.Context,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="URL|DIR",
            envvar="QIANXUN_COPY_TO",
            help="空的 PostgreSQL 数据库或空的目录；地址里有密码时写在环境变量里 · an empty database or folder",
        ),
    ],
    schema: Annotated[str, typer.Option(metavar="NAME", help="目标数据库里的 schema · in the target")] = "",
    as_json: JsonFlag = False,
) -> None:
    """把全部内容复制到另一个数据库或目录，编号不变 · copy everything to another database or folder"""
    from qianxun.engine.admin.copy import copy_database

    settings = session_of(context).settings()
    expect_data(settings, ("用 --data DIR 指明要复制的目录", "Say which folder to copy with --data DIR"))
    target = _target(settings, to, schema)
    started = time.perf_counter()
    with ExitStack() as bar:
        titles = tr("复制", "copying"), tr("行", "rows")
        copied = copy_database(settings, target, lambda total: bar.enter_context(counting(titles[0], total, titles[1])))
    rows, seconds = sum(copied.values()), time.perf_counter() - started
    if as_json:
        print_json({"tables": copied, "rows": rows, "seconds": round(seconds, 3)})
        return
    shown = "、".join(f"{name} {count}" for name, count in copied.items() if count)
    done(
        f"已复制 {rows} 行，逐表核对行数一致：{shown or '（空）'}",
        f"Copied {rows} rows; the count of every table agrees: {shown or '(empty)'}",
    )
    hint("  索引不复制：第一次打开时从记录重建", "  The index is built anew on first use")
    if target.records.url:
        data = "" if settings.data == type(settings)().data else f"（--data {quoted(settings.data)}）"
        hint(
            f"  从现在起使用它：设置 records.url（环境变量 QIANXUN_RECORDS_URL），数据目录不变{data}",
            f"  To use it from now on: set records.url (QIANXUN_RECORDS_URL), with the same data folder{data}",
        )


def _target(settings: Settings, to: str, schema: str) -> Settings:
    if to.startswith(SERVERS):
        return replace(settings, records=replace(settings.records, url=to, schema=schema))
    folder = Path(to).expanduser()
    if folder.resolve() == settings.folder.resolve() and not settings.records.url:
        raise AlreadyThere(
            tr("目标就是正要复制的目录", "The target is the folder to be copied"),
            hint=tr("换一个目录或数据库", "Name another folder or database"),
        )
    return replace(settings, data=str(folder), records=replace(settings.records, url="", schema=""))
