"""A large graph on disk: written once it was derived, read by the next process that opens the base."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from qianxun.bases.base import OpenBase
from qianxun.records import graph as facts

if TYPE_CHECKING:
    from qianxun.graph.network.knowledge_graph import KnowledgeGraph
    from qianxun.graph.network.snapshot import SnapshotKey

log = logging.getLogger(__name__)

COMPARED: Final = 64  # chunks, the last ones, whose facts must be those of the records


def _key(base: OpenBase) -> SnapshotKey:
    from qianxun.graph.extract.chunk import facts_origin
    from qianxun.graph.network.snapshot import SnapshotKey

    return SnapshotKey(base.graph.identity, facts_origin(base.analyser, base.lexicon))


async def keep_graph(base: OpenBase) -> None:
    """Keeps a large graph on disk, for the next process that opens the base. One that cannot be written is logged."""
    if base.graph.folder is not None and base.graph.is_large:
        try:
            await asyncio.to_thread(_keep, base)
        except OSError as error:
            log.warning("the graph of base %s is not kept on disk: %s", base.id, error)


def _keep(base: OpenBase) -> None:
    from qianxun.graph.network.snapshot import save

    cache = base.graph
    with cache.keeping:
        with cache.changing:
            if cache.folder is None or cache.state is None:
                return
            graph, (about, arrays) = cache.latest, cache.snapshot_parts()
        save(cache.folder, _key(base), graph, {**about, "last": _last_digests(base, graph)}, arrays)


def _last_digests(base: OpenBase, graph: KnowledgeGraph) -> list[list[Any]]:
    """What was read in its last chunks. After a backup was put back, the same numbers may come to be others'."""
    with base.records.reading() as tx:
        found = facts.digests(tx, base.id, graph.chunks[-COMPARED:].tolist())
    return [[key, digest] for key, digest in found.items()]


def _is_of_these_records(base: OpenBase, last: Sequence[tuple[int, str]]) -> bool:
    with base.records.reading() as tx:
        found = facts.digests(tx, base.id, [key for key, _ in last])
    return all(found.get(key, digest) == digest for key, digest in last)  # some may have been deleted


async def restore_graph(base: OpenBase) -> None:
    """Begins with the graph that is kept on disk, where there is one."""
    if not base.graph.was_read:
        async with base.graph.stepping:
            await asyncio.to_thread(_restore, base)


def _restore(base: OpenBase) -> None:
    from qianxun.graph.network.snapshot import load

    cache = base.graph
    with cache.changing:
        if cache.was_read or cache.folder is None:
            return
        cache.was_read = True
        stored = load(cache.folder, _key(base)) if cache.state is None else None
        if stored is not None and _is_of_these_records(base, stored.about["last"]):
            cache.restore(stored.graph, stored.about, stored.arrays)
