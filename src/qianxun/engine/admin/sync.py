"""Folders that a knowledge base follows: files are added, documents of deleted or renamed files are removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from qianxun.core.ingest_types import Labels, Report
from qianxun.engine.admin.removed_files import Documents, Doubt, Dropped, Followed, check_folders, drop_gone, gone_ids

__all__ = ["Doubt", "Dropped", "sync_folders"]


async def sync_folders(
    library: Documents,
    knowledge_base: int,
    folders: Sequence[Path],
    labels: Labels,
    add: Callable[[Sequence[Path]], Awaitable[Report]],
    *,
    sure: bool = False,
) -> tuple[Report, Dropped]:
    """Adds the folders that exist with ``add``; removes the documents whose files were missing before and still are.

    Only documents of the user and the project of ``labels``. ``sure``: also where a folder is missing or empty. Raises
    BadInput, before anything is changed, for what is not a folder that can be read.
    """
    await asyncio.to_thread(check_folders, folders, sure=sure)
    followed = Followed(folders, labels.user_id, labels.project_id)
    missing = await gone_ids(library, knowledge_base, followed)
    report = await add([folder for folder in folders if folder.exists()])
    return report, await drop_gone(library, knowledge_base, followed, among=missing, sure=sure)
