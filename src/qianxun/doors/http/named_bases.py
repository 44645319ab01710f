"""A knowledge base as other programs name it: by its name, or by its number written as text."""

from __future__ import annotations

from typing import Final

from qianxun.core.errors import NotFound
from qianxun.core.limits import NAME_LIMIT
from qianxun.core.types import KnowledgeBase
from qianxun.core.unicode import storable
from qianxun.doors.http.context import MAX_ID
from qianxun.engine.engine import Engine

LISTED: Final = "用 GET /v1/knowledge-bases 查看已有的知识库"


async def find_base(engine: Engine, told: str) -> KnowledgeBase:
    """The tenant's base of this name; without one, that of this number. Raises NotFound."""
    try:
        return await engine.knowledge_base(told)
    except NotFound:
        number = int(told) if told.isascii() and told.isdigit() and len(told) <= len(str(MAX_ID)) else 0
    try:
        return await engine.knowledge_base(number)
    except NotFound:
        raise NotFound(f"没有名称或编号为“{storable(told)[:NAME_LIMIT]}”的知识库", hint=LISTED) from None
