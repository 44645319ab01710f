"""Maintenance that is started now and looked at again later: `start_verify` and `start_rebuild`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qianxun.core.codec.plain import plain
from qianxun.engine.engine import Engine
from qianxun.jobs.operations import Advance, Operation

__all__ = ["Operation", "start_rebuild", "start_verify"]


async def start_verify(engine: Engine, knowledge_base: int) -> Operation:
    """Compares index and records in the background; the result has ``is_clean`` and what disagrees."""
    base = await engine.knowledge_base(knowledge_base)

    async def work(_: Advance) -> Mapping[str, Any]:
        verdict = await engine.admin.verify(base.id)
        return {**plain(verdict), "is_clean": verdict.is_clean}

    return engine.operations.start("verify", engine.tenant, base.id, 0, work)


async def start_rebuild(engine: Engine, knowledge_base: int) -> Operation:
    """Rebuilds the index in the background, chunk by chunk; searches use the old one until it is done."""
    base = await engine.knowledge_base(knowledge_base)
    total = (await engine.statistics(base.id))["chunks"]

    async def work(advance: Advance) -> Mapping[str, Any]:
        return {"chunks": await engine.admin.rebuild(base.id, watch=advance)}

    return engine.operations.start("rebuild", engine.tenant, base.id, total, work)
