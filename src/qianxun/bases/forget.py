"""What a purge empties in the memory of a process: whatever an open base keeps of its documents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from qianxun.bases.base import OpenBase
from qianxun.bases.document_names import DocumentNames
from qianxun.bases.table_cache import TableCache
from qianxun.core.ports import Cache
from qianxun.core.system.cache import forget_texts


async def forget_documents(bases: Iterable[OpenBase], answers: Cache) -> int:
    """Returns how many answers are left; -1: a cache on a server did not say."""
    counts = [await answers.forget(0, "")]  # also of bases that are not open any more
    for base in bases:
        counts.append(await answers.forget(base.id, base.about.identity))
        base.terms.forget()
        base.graph = await asyncio.to_thread(base.graph.forgotten)
        base.tables, base.chunks, base.names = TableCache(), base.chunks.emptied(), DocumentNames()
        base.views.clear()
    forget_texts()
    return -1 if -1 in counts else sum(counts)
