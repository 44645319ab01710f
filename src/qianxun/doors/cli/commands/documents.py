"""`qianxun add`, `qianxun show` and `qianxun delete`: documents in, shown and out."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.text import Text

from qianxun.core.codec.command_line import quoted
from qianxun.core.errors import BadInput, NotFound, ServiceUnavailable
from qianxun.core.filters import read_scalar
from qianxun.doors.cli.commands.governance.receipts import show_receipt
from qianxun.doors.cli.i18n import Stopped, done, hint, out, print_folded, print_json, tr
from qianxun.doors.cli.progress import AddProgress, bars, waiting
from qianxun.doors.cli.session import (
    BaseOption,
    JsonFlag,
    Library,
    Session,
    called,
    find_base,
    find_document,
    no_document,
    session_of,
    with_base,
    with_library,
)
from qianxun.doors.cli.views.drawing import label, location_of, minutes, printable

if TYPE_CHECKING:
    from qianxun.core.governance.receipts import Receipt
    from qianxun.core.governance.validity import Validity
    from qianxun.core.ingest_types import Labels, Report
    from qianxun.core.types import Chunk, DocumentState, KnowledgeBase, MetadataValue
    from qianxun.engine.admin.sync import NotRemoved, RemovalReport

REMOVED_SHOWN = 20  # documents that --sync removed


# ── add ──────────────────────────────────────────────────────────────────────────────────────────


def add(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="文件或目录 · files and folders")],
    kb: BaseOption,
    user: Annotated[str, typer.Option(metavar="U", help="属于哪个用户 · whose they are")] = "",
    project: Annotated[str, typer.Option(metavar="P", help="属于哪个项目 · the project")] = "",
    content_type: Annotated[str, typer.Option("--type", metavar="T", help="内容类型 · the content type")] = "",
    tag: Annotated[list[str] | None, typer.Option(metavar="X", help="标签，可多次 · a tag, repeatable")] = None,
    meta: Annotated[list[str] | None, typer.Option(metavar="K=V", help="元数据，可多次 · metadata, repeatable")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="L", help="谁能看见：user:、group: 或 role: 开头，可多次 · who may see them, repeatable"),
    ] = None,
    sync: Annotated[
        bool, typer.Option("--sync", help="移除这些目录里已删除的文件的文档 · drop documents whose files are gone")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="目录空了或大半不见了也移除 · even of a folder that is gone or empty")
    ] = False,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="目录里不放入的，写法同 .qianxunignore，可多次 · leave out, as gitignore has it"
        ),
    ] = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="删除过的文档也放回来 · take back documents that were deleted")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """放入文件与目录；没有变化的文件会跳过 · take in files and folders; unchanged ones are passed over"""
    if not sync:
        _check_without_sync(yes, restore)
    from qianxun.core.governance.access import checked_labels
    from qianxun.core.ingest_types import Labels

    access = None if label is None else checked_labels(label)
    labels = Labels(user, project, content_type, tuple(tag or ()), metadata_of(meta or ()), access)
    started = time.perf_counter()
    session = session_of(context)
    request = Request(session.start, kb, tuple(paths), labels, tuple(exclude or ()), sync, yes, restore)
    report, dropped = _add_with_progress(session, request, quiet=as_json)
    _print_added(report, dropped, time.perf_counter() - started, as_json=as_json)
    return 1 if report.refused or report.waiting or (dropped and dropped.doubts) else 0


@dataclass(frozen=True, slots=True)
class Request:
    start: str  # what suggested commands begin with
    kb: str
    paths: tuple[Path, ...]
    labels: Labels
    exclude: tuple[str, ...]
    sync: bool
    sure: bool
    restore: bool


def _check_without_sync(yes: bool, restore: bool) -> None:
    if yes:
        raise BadInput(
            tr("--yes 要与 --sync 一起用", "--yes goes with --sync"),
            hint=tr("要移除已删除的文件的文档，加上 --sync", "Add --sync to drop documents whose files are gone"),
        )
    if restore:
        raise BadInput(
            tr("--restore 要与 --sync 一起用", "--restore goes with --sync"),
            hint=tr("不带 --sync 的 add 本来就放回删除过的文档", "Without --sync, add takes them back anyway"),
        )


def _add_with_progress(session: Session, request: Request, *, quiet: bool) -> tuple[Report, RemovalReport | None]:
    with bars(quiet=quiet) as shown:
        progress = AddProgress(shown)
        try:
            return with_library(session, lambda library: _add(library, request, progress))
        except KeyboardInterrupt:
            shown.stop()
            raise Stopped(_interrupted(progress)) from None
        except ServiceUnavailable as error:
            raise ServiceUnavailable(error.message, hint=error.hint + _so_far(progress)) from error


async def _add(library: Library, request: Request, progress: AddProgress) -> tuple[Report, RemovalReport | None]:
    base = await find_base(library, request.kb, request.start)

    async def take(paths: Sequence[Path]) -> Report:
        """Stops soon after it is cancelled; counts the documents that still wait for their model."""
        try:
            started = time.perf_counter()
            report = await library.add(
                base.id,
                paths,
                labels=request.labels,
                watch=progress,
                exclude=request.exclude,
                restore=request.restore or not request.sync,
            )
            if (admin := getattr(library, "admin", None)) is not None:  # a service has a background of its own
                seconds = time.perf_counter() - started
                warning = await admin.run_background_work(base.id, seconds=seconds, watch=progress)
                report = replace(report, warnings=(*report.warnings, *filter(None, [warning])))
        except asyncio.CancelledError:
            progress.stop()
            raise
        counts = await library.statistics(base.id)
        return replace(report, waiting=counts.get("pending", 0) + counts.get("retrying", 0))

    if not request.sync:
        return await take(request.paths), None
    from qianxun.engine.admin.sync import sync_folders

    return await sync_folders(library, base.id, request.paths, request.labels, take, sure=request.sure)


def _so_far(progress: AddProgress) -> str:
    """What is stored although the connection to the service was lost."""
    if not progress.safe:
        return ""
    return tr(
        f"；已放入 {progress.safe} 个文件，再运行同一条命令就从那里继续",
        f"; {progress.safe} files are in, and the same command goes on from there",
    )


def _interrupted(progress: AddProgress) -> str:
    again = " ".join([called(), *map(quoted, without_key(sys.argv[1:]))])
    return tr(
        f"已停下。{progress.safe} 个文件已经入库并可检索，数据完好；再运行同一条命令就从这里继续：\n  {again}",
        f"Stopped. {progress.safe} files are in and searchable, nothing is damaged; "
        f"the same command goes on from here:\n  {again}",
    )


def without_key(arguments: Sequence[str]) -> list[str]:
    """The arguments with the key to a service masked: it is never shown."""
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
        found[name.strip()] = read_scalar(value)
    return found


def described(report: Report, seconds: float) -> dict[str, object]:
    return {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "refused": [{"path": str(refusal.path), "reason": refusal.reason} for refusal in report.refused],
        "excluded": report.excluded,
        "chunks": report.chunks,
        "seconds": round(seconds, 3),
    }


def _print_added(report: Report, dropped: RemovalReport | None, seconds: float, *, as_json: bool) -> None:
    if as_json:
        print_json(described(report, seconds) | (_dropped_json(report, dropped) if dropped else {}))
        return
    _show_report(report, seconds)
    if dropped:
        _show_dropped(dropped)
        _show_deleted(report.deleted)


def _show_report(report: Report, seconds: float) -> None:
    new, updated, unchanged, refused = report.added - report.updated, report.updated, report.unchanged, report.refused
    done(
        f"新增 {new} 个文件，更新 {updated} 个（{report.chunks} 块），未变 {unchanged} 个，"
        f"未收 {len(refused)} 个，用时 {seconds:.1f} 秒",
        f"{new} files added, {updated} updated ({report.chunks} chunks), "
        f"{unchanged} unchanged, {len(refused)} refused, {seconds:.1f} s",
        sign="[yellow]![/]" if refused or report.waiting else "[green]✓[/]",
    )
    for warning in (*report.warnings, *((waiting(report.waiting),) if report.waiting else ())):
        out().print(f"  [yellow]![/] {escape(warning)}")
    if report.excluded:
        hint(
            f"按 .qianxunignore 或 --exclude 排除了 {report.excluded} 个文件或文件夹。",
            f"{report.excluded} files or folders left out by .qianxunignore or --exclude.",
        )
    if refused:
        hint("未收的文件改好之后，再运行同一条命令即可。", "Mend the refused files and run the same command again.")


# ── add --sync ───────────────────────────────────────────────────────────────────────────────────


def _dropped_json(report: Report, dropped: RemovalReport) -> dict[str, object]:
    return {
        "deleted": [str(path) for path in report.deleted],
        "removed": len(dropped.removed),
        "removed_documents": [{"doc_id": file.doc_id, "path": str(file.path)} for file in dropped.removed],
        "kept": [{"path": str(doubt.folder), "documents": doubt.missing, "why": doubt.why} for doubt in dropped.doubts],
    }


def _show_dropped(dropped: RemovalReport) -> None:
    console = out()
    if count := len(dropped.removed):
        done(f"移除 {count} 个文档：文件已不在", f"{count} documents removed: their files are gone")
    else:
        done("没有移除文档", "No document removed")
    for file in dropped.removed[:REMOVED_SHOWN]:
        console.print(f"  - {escape(str(file.path))}", soft_wrap=True)
    if count > REMOVED_SHOWN:
        console.print(tr(f"  … 共 {count} 个", f"  … {count} in all"))
    for doubt in dropped.doubts:
        console.print(f"[yellow]![/] {escape(_doubt(doubt))}", soft_wrap=True)
    if any(doubt.why == "waiting" for doubt in dropped.doubts):
        hint("新的可以检索之后，再运行一次。", "Run it again when the new ones can be found.")
    if any(doubt.why != "waiting" for doubt in dropped.doubts):
        hint(
            "磁盘是不是没有挂上？确实删掉了的话，加上 --yes 再运行一次。",
            "Is a disk not mounted? If they were deleted, run it again with --yes.",
        )


def _show_deleted(paths: Sequence[Path]) -> None:
    """Files that are there, but whose documents people deleted."""
    if not paths:
        return
    console = out()
    count = len(paths)
    done(f"{count} 个文件没有放回：它们的文档被删除过", f"{count} files stay out: their documents were deleted")
    for path in paths[:REMOVED_SHOWN]:
        console.print(f"  · {escape(str(path))}", soft_wrap=True)
    if count > REMOVED_SHOWN:
        console.print(tr(f"  … 共 {count} 个", f"  … {count} in all"))
    hint(
        "要放回：全部的，加上 --restore；其中一个，qianxun add 它的路径（不带 --sync）。",
        "To take them back: all with --restore; one by adding its path without --sync.",
    )


def _doubt(doubt: NotRemoved) -> str:
    folder, missing, known = doubt.folder, doubt.missing, doubt.known
    match doubt.why:
        case "empty":
            return tr(
                f"{folder} 里一个文件也没有：从它放入的 {missing} 个文档没有移除",
                f"There is no file in {folder}: {missing} documents that came from it were kept",
            )
        case "most":
            return tr(
                f"{folder} 的 {known} 个文档里有 {missing} 个的文件不在了：太多，没有移除",
                f"Of {known} documents of {folder} the files of {missing} are gone: too many, they were kept",
            )
        case "waiting":
            return tr(
                f"{folder} 有新放入的文档还不能检索，也许就是改了名的：文件不在了的 {missing} 个先不移除",
                f"New documents of {folder}, maybe renamed, cannot be found yet: {missing} of files that are gone stay",
            )


# ── one document ─────────────────────────────────────────────────────────────────────────────────


DocumentArgument = Annotated[
    str, typer.Argument(metavar="DOC", help="文档的编号或名称，见 kb show · its id or name, see kb show")
]


def delete(
    context: typer.Context,
    document: DocumentArgument,
    kb: BaseOption,
    purge: Annotated[
        bool, typer.Option("--purge", help="连文件里的字节一起清除，并逐字节查过 · its bytes, too, and prove it")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """删除一个文档，立即生效，并给出凭证 · delete one document, at once, with a receipt"""
    session = session_of(context)

    async def work(library: Library, base: KnowledgeBase) -> tuple[DocumentState, Receipt]:
        found = await find_document(library, base, document, session.start)
        try:
            return found, await library.governance.receipts.delete(base.id, [found.doc_id], purge=purge)
        except NotFound:
            raise no_document(base, document, session.start) from None

    deleted, receipt = with_base(context, kb, work)
    if as_json:
        print_json({"deleted": deleted.doc_id, "receipt": receipt.id, "is_complete": receipt.is_complete})
        return
    if purge:
        show_receipt(receipt)
    else:
        see = f"{session.start} receipts show {receipt.id}"
        hint(f"凭证 {receipt.id}：{see}", f"Receipt {receipt.id}: {see}")
    shown = escape(deleted.doc_id if document == deleted.doc_id else f"{deleted.name}（{deleted.doc_id}）")
    done(f"已删除 {shown}", f"Deleted {shown}")


def show(context: typer.Context, document: DocumentArgument, kb: BaseOption, as_json: JsonFlag = False) -> None:
    """看一个文档和它的各块 · show a document and its chunks"""

    async def work(library: Library, base: KnowledgeBase) -> tuple[DocumentState, list[Chunk]]:
        found = await find_document(library, base, document, session_of(context).start)
        return found, await library.chunks(base.id, found.doc_id)

    state, chunks = with_base(context, kb, work)
    if as_json:
        print_json({"document": asdict(state), "chunks": chunks})
        return
    console = out()
    console.print(f"[bold]{escape(state.name or state.doc_id)}[/]  [dim]{escape(state.doc_id)}[/]", soft_wrap=True)
    about = (label("states", state.status), tr(f"{len(chunks)} 块", f"{len(chunks)} chunks"), minutes(state.updated_at))
    console.print("  ".join((*about, state.source)), style="dim", markup=False, soft_wrap=True)
    if state.reason:
        console.print(state.reason, style="yellow", markup=False, soft_wrap=True)
    for line in filter(None, (_validity_text(state.validity), _given_text(state))):
        console.print(line, style="dim", markup=False, soft_wrap=True)
    for chunk in chunks:
        console.print()
        title = Text(f"{chunk.index:>3}  ").append_text(location_of(chunk)).append(f"  {chunk.chunk_id}", style="dim")
        print_folded(console, title, 5, hanging=5)
        print_folded(console, Text(chunk.text), 5)


def _given_text(state: DocumentState) -> str:
    """What filters compare: the type, whose it is, its labels of access, tags and metadata."""
    parts = [
        state.content_type and tr(f"类型 {state.content_type}", f"type {state.content_type}"),
        state.user_id and tr(f"用户 {state.user_id}", f"user {state.user_id}"),
        state.project_id and tr(f"项目 {state.project_id}", f"project {state.project_id}"),
        state.access and tr("访问 ", "access ") + "、".join(state.access),
        state.tags and tr("标签 ", "tags ") + "、".join(state.tags),
        *(f"{name}={value}" for name, value in state.metadata.items()),
    ]
    return "  ".join(printable(part) for part in parts if part)


def _validity_text(known: Validity) -> str:
    """When it is in force, and what it replaces; what was read from the text is marked."""

    def marked(name: str, zh: str, en: str) -> str:
        return tr(zh, en) + (tr("（读自正文）", " (read from the text)") if name in known.read else "")

    supersedes = "、".join(known.supersedes)
    parts = [
        known.valid_from and marked("valid_from", f"自 {known.valid_from} 起有效", f"valid from {known.valid_from}"),
        known.valid_until and marked("valid_until", f"至 {known.valid_until} 有效", f"until {known.valid_until}"),
        supersedes and marked("supersedes", f"取代 {supersedes}", f"supersedes {supersedes}"),
    ]
    return "  ".join(printable(part) for part in parts if part)
