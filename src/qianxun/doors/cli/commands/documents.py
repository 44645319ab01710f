"""`qianxun add` and `qianxun delete`: documents in and out."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from qianxun.core.errors import BadInput, NotFound, ServiceUnavailable
from qianxun.doors.cli.commands.sync import Syncing, described_dropped, show_dropped
from qianxun.doors.cli.i18n import Stopped, note, out, print_json, tr
from qianxun.doors.cli.progress import AddProgress, bars, waiting
from qianxun.doors.cli.session import (
    BaseOption,
    JsonFlag,
    Library,
    Session,
    called,
    find_base,
    quoted,
    session_of,
    with_library,
)

if TYPE_CHECKING:
    from qianxun.core.ingest_types import Labels, Report
    from qianxun.core.types import MetadataValue
    from qianxun.indexing.removed_files import Dropped


def add(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="文件或目录 · files and folders")],
    kb: BaseOption,
    user: Annotated[str, typer.Option(metavar="U", help="属于哪个用户 · whose they are")] = "",
    project: Annotated[str, typer.Option(metavar="P", help="属于哪个项目 · the project")] = "",
    content_type: Annotated[str, typer.Option("--type", metavar="T", help="内容类型 · the content type")] = "",
    tag: Annotated[list[str] | None, typer.Option(metavar="X", help="标签，可多次 · a tag, repeatable")] = None,
    meta: Annotated[list[str] | None, typer.Option(metavar="K=V", help="元数据，可多次 · metadata, repeatable")] = None,
    sync: Annotated[
        bool, typer.Option("--sync", help="移除这些目录里已删除的文件的文档 · drop documents whose files are gone")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="目录空了或大半不见了也移除 · even of a folder that is gone or empty")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """放入文件与目录；没有变化的文件会跳过 · take in files and folders; unchanged ones are passed over"""
    from qianxun.core.ingest_types import Labels

    labels = Labels(user, project, content_type, tuple(tag or ()), metadata_of(meta or ()))
    if yes and not sync:
        raise BadInput(
            tr("--yes 要与 --sync 一起用", "--yes goes with --sync"),
            hint=tr("要移除已删除的文件的文档，加上 --sync", "Add --sync to drop documents whose files are gone"),
        )
    syncing = Syncing(tuple(paths), labels, sure=yes) if sync else None
    started = time.perf_counter()
    report, dropped = _take(session_of(context), kb, paths, labels, syncing, quiet=as_json)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(described(report, seconds) | (described_dropped(dropped) if dropped else {}))
    else:
        show_report(report, seconds)
        if dropped:
            show_dropped(dropped)
    return 1 if report.refused or report.waiting or (dropped and dropped.doubts) else 0


def _take(
    session: Session, kb: str, paths: Sequence[Path], labels: Labels, syncing: Syncing | None, *, quiet: bool
) -> tuple[Report, Dropped | None]:
    with bars() as shown:
        progress = AddProgress(None if quiet else shown, silent=quiet)

        async def work(library: Library) -> tuple[Report, Dropped | None]:
            async def taken(there: Sequence[Path]) -> Report:
                return await take(library, session.start, kb, there, labels, progress)

            if syncing:
                return await syncing.around(library, session.start, kb, taken)
            return await taken(paths), None

        try:
            return with_library(session, work)
        except KeyboardInterrupt:
            if shown is not None:
                shown.stop()
            raise Stopped(_interrupted(progress)) from None
        except ServiceUnavailable as error:
            raise ServiceUnavailable(error.message, hint=error.hint + _so_far(progress)) from error


def _so_far(progress: AddProgress) -> str:
    """What is safe although the service has gone."""
    if not progress.safe:
        return ""
    return tr(
        f"；已放入 {progress.safe} 个文件，再运行同一条命令就从那里继续",
        f"; {progress.safe} files are in, and the same command goes on from there",
    )


async def take(
    library: Library, start: str, kb: str, paths: Sequence[Path], labels: Labels, progress: AddProgress
) -> Report:
    """`Library.add`, stopped soon after it is cancelled; tells how many documents still wait for their model."""
    base = await find_base(library, kb, start)
    try:
        report = await library.add(base.id, paths, labels=labels, watch=progress)
    except asyncio.CancelledError:
        progress.stop()
        raise
    counts = await library.statistics(base.id)
    return replace(report, waiting=counts.get("pending", 0) + counts.get("retrying", 0))


def _interrupted(progress: AddProgress) -> str:
    again = " ".join([called(), *map(quoted, without_key(sys.argv[1:]))])
    return tr(
        f"已停下。{progress.safe} 个文件已经入库并可检索，数据完好；再运行同一条命令就从这里继续：\n  {again}",
        f"Stopped. {progress.safe} files are in and searchable, nothing is damaged; "
        f"the same command goes on from here:\n  {again}",
    )


def without_key(arguments: Sequence[str]) -> list[str]:
    """What was typed, but for the key to a service: that is shown nowhere."""
    shown: list[str] = []
    for at, argument in enumerate(arguments):
        if at and arguments[at - 1] == "--key":
            shown.append("…")
        else:
            shown.append("--key=…" if argument.startswith("--key=") else argument)
    return shown


def metadata_of(pairs: Sequence[str]) -> dict[str, MetadataValue]:
    """年份=2024 is a number, 公开=true a boolean, 编号='"007"' and everything else text."""
    found: dict[str, MetadataValue] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            raise BadInput(
                tr(f"元数据“{pair}”不是 名称=值 的形式", f"The metadata “{pair}” is not of the form K=V"),
                hint=tr("例如 --meta 年份=2024", "For example --meta year=2024"),
            )
        found[name.strip()] = _scalar(value)
    return found


def _scalar(value: str) -> str | int | float | bool:
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, str | int | float | bool) else value


def described(report: Report, seconds: float) -> dict[str, object]:
    return {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "refused": [{"path": str(refusal.path), "reason": refusal.reason} for refusal in report.refused],
        "chunks": report.chunks,
        "seconds": round(seconds, 3),
    }


def show_report(report: Report, seconds: float) -> None:
    console = out()
    new = report.added - report.updated
    sign = "[yellow]![/]" if report.refused or report.waiting else "[green]✓[/]"
    console.print(
        tr(
            f"{sign} 新增 {new} 个文件，更新 {report.updated} 个（{report.chunks} 块），未变 {report.unchanged} 个，"
            f"未收 {len(report.refused)} 个，用时 {seconds:.1f} 秒",
            f"{sign} {new} files added, {report.updated} updated ({report.chunks} chunks), "
            f"{report.unchanged} unchanged, {len(report.refused)} refused, {seconds:.1f} s",
        )
    )
    for warning in report.warnings:
        console.print(f"  [yellow]![/] {escape(warning)}")
    if report.waiting:
        console.print(f"  [yellow]![/] {waiting(report.waiting)}")
    if report.refused:
        note(tr("未收的文件改好之后，再运行同一条命令即可。", "Mend the refused files and run the same command again."))


def delete(
    context: typer.Context,
    doc_id: Annotated[str, typer.Argument(metavar="DOC_ID", help="文档编号，见 kb show · its id, see kb show")],
    kb: BaseOption,
    as_json: JsonFlag = False,
) -> None:
    """删除一个文档，立即生效 · delete one document, at once"""
    session = session_of(context)
    with_library(session, lambda library: _delete(library, session.start, kb, doc_id))
    if as_json:
        print_json({"deleted": doc_id})
        return
    out().print(tr(f"[green]✓[/] 已删除 {escape(doc_id)}", f"[green]✓[/] Deleted {escape(doc_id)}"))


async def _delete(library: Library, start: str, kb: str, doc_id: str) -> None:
    base = await find_base(library, kb, start)
    if not await library.delete_document(base.id, doc_id):
        listing = f"{start} kb show {quoted(base.name)}"
        raise NotFound(
            tr(f"“{base.name}”里没有文档 {doc_id}", f"There is no document {doc_id} in “{base.name}”"),
            hint=tr(f"查看文档编号：{listing}", f"See the ids: {listing}"),
        )
