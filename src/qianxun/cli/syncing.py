"""`qianxun add --sync`: the documents of files that were deleted or renamed go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from qianxun.cli.session import Library, find_base
from qianxun.cli.voice import note, out, say

if TYPE_CHECKING:
    from qianxun.pipelines.gone_files import Doubt, Dropped

SHOWN = 20  # documents that were removed, of which people are told one by one


@dataclass(frozen=True, slots=True)
class Syncing:
    """The folders that a base is to follow; ``sure``: also where they are gone or empty."""

    folders: tuple[Path, ...]
    sure: bool

    def check(self) -> Sequence[Path]:
        """Those that are there. Raises BadInput before anything is done."""
        from qianxun.pipelines.gone_files import check_folders

        check_folders(self.folders, sure=self.sure)
        return [folder for folder in self.folders if folder.exists()]

    async def drop(self, library: Library, start: str, kb: str) -> Dropped:
        from qianxun.pipelines.gone_files import drop_gone

        base = await find_base(library, kb, start)
        return await drop_gone(library, base.id, self.folders, sure=self.sure)


def described_dropped(dropped: Dropped) -> dict[str, object]:
    return {
        "removed": len(dropped.removed),
        "removed_documents": [{"doc_id": each.doc_id, "path": str(each.path)} for each in dropped.removed],
        "kept": [{"path": str(each.folder), "documents": each.gone} for each in dropped.doubts],
    }


def show_dropped(dropped: Dropped) -> None:
    console = out()
    count = len(dropped.removed)
    console.print(
        say(
            f"[green]✓[/] 移除 {count} 个文档：文件已不在",
            f"[green]✓[/] {count} documents removed: their files are gone",
        )
    )
    for each in dropped.removed[:SHOWN]:
        console.print(f"  - {escape(str(each.path))}", soft_wrap=True)
    if count > SHOWN:
        console.print(say(f"  … 共 {count} 个", f"  … {count} in all"))
    for doubt in dropped.doubts:
        console.print(f"[yellow]![/] {escape(_why_kept(doubt))}", soft_wrap=True)
    if dropped.doubts:
        note(
            say(
                "磁盘是不是没有挂上？确实删掉了的话，加上 --yes 再运行一次。",
                "Is a disk not mounted? If they were deleted, run it again with --yes.",
            )
        )


def _why_kept(doubt: Doubt) -> str:
    if doubt.is_empty:
        return say(
            f"{doubt.folder} 里一个文件也没有：从它放入的 {doubt.gone} 个文档没有移除",
            f"There is no file in {doubt.folder}: {doubt.gone} documents that came from it were kept",
        )
    return say(
        f"{doubt.folder} 的 {doubt.known} 个文档里有 {doubt.gone} 个的文件不在了：太多，没有移除",
        f"Of {doubt.known} documents of {doubt.folder} the files of {doubt.gone} are gone: too many, they were kept",
    )
