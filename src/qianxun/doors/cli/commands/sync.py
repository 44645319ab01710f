"""`qianxun add --sync`: the documents of files that were deleted or renamed go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from qianxun.doors.cli.i18n import note, out, tr
from qianxun.doors.cli.session import Library, find_base

if TYPE_CHECKING:
    from qianxun.core.ingest_types import Labels, Report
    from qianxun.indexing.removed_files import Doubt, Dropped

SHOWN = 20  # documents that were removed, of which people are told one by one


@dataclass(frozen=True, slots=True)
class Syncing:
    """The folders that a base is to follow, as far as they are this owner's; ``sure``: also where they are gone or
    empty."""

    folders: tuple[Path, ...]
    labels: Labels
    sure: bool

    async def around(
        self, library: Library, start: str, kb: str, take: Callable[[Sequence[Path]], Awaitable[Report]]
    ) -> tuple[Report, Dropped]:
        """Takes in the folders that are there; what was gone before and still is goes. Raises BadInput before that."""
        from qianxun.indexing.removed_files import Followed, check_folders, drop_gone, gone_ids

        await asyncio.to_thread(check_folders, self.folders, sure=self.sure)
        there = [folder for folder in self.folders if folder.exists()]
        base = await find_base(library, kb, start)
        followed = Followed(self.folders, self.labels.user_id, self.labels.project_id)
        gone = await gone_ids(library, base.id, followed)
        report = await take(there)
        return report, await drop_gone(library, base.id, followed, among=gone, sure=self.sure)


def described_dropped(dropped: Dropped) -> dict[str, object]:
    return {
        "removed": len(dropped.removed),
        "removed_documents": [{"doc_id": each.doc_id, "path": str(each.path)} for each in dropped.removed],
        "kept": [{"path": str(each.folder), "documents": each.gone, "why": each.why} for each in dropped.doubts],
    }


def show_dropped(dropped: Dropped) -> None:
    console = out()
    count = len(dropped.removed)
    gone = (f"移除 {count} 个文档：文件已不在", f"{count} documents removed: their files are gone")
    console.print(f"[green]✓[/] {tr(*(gone if count else ('没有移除文档', 'No document removed')))}")
    for each in dropped.removed[:SHOWN]:
        console.print(f"  - {escape(str(each.path))}", soft_wrap=True)
    if count > SHOWN:
        console.print(tr(f"  … 共 {count} 个", f"  … {count} in all"))
    for doubt in dropped.doubts:
        console.print(f"[yellow]![/] {escape(_why_kept(doubt))}", soft_wrap=True)
    if any(doubt.why == "waiting" for doubt in dropped.doubts):
        note(tr("新的可以检索之后，再运行一次。", "Run it again when the new ones can be found."))
    if any(doubt.why != "waiting" for doubt in dropped.doubts):
        note(
            tr(
                "磁盘是不是没有挂上？确实删掉了的话，加上 --yes 再运行一次。",
                "Is a disk not mounted? If they were deleted, run it again with --yes.",
            )
        )


def _why_kept(doubt: Doubt) -> str:
    folder, gone, known = doubt.folder, doubt.gone, doubt.known
    match doubt.why:
        case "empty":
            return tr(
                f"{folder} 里一个文件也没有：从它放入的 {gone} 个文档没有移除",
                f"There is no file in {folder}: {gone} documents that came from it were kept",
            )
        case "most":
            return tr(
                f"{folder} 的 {known} 个文档里有 {gone} 个的文件不在了：太多，没有移除",
                f"Of {known} documents of {folder} the files of {gone} are gone: too many, they were kept",
            )
        case "waiting":
            return tr(
                f"{folder} 有新放入的文档还不能检索，也许就是改了名的：文件不在了的 {gone} 个先不移除",
                f"New documents of {folder}, maybe renamed, cannot be found yet: {gone} of files that are gone stay",
            )
