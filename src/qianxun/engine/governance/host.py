"""What the parts of `Engine.governance` need of an engine; a protocol, since the engine imports them."""

from __future__ import annotations

from typing import Protocol

from qianxun.bases.base import OpenBase
from qianxun.core.governance.access import Principal
from qianxun.core.ports import Cache, IndexBackend
from qianxun.core.types import KnowledgeBase
from qianxun.engine.settings import Settings
from qianxun.indexing.inbox import Inbox
from qianxun.models.registry import Registry
from qianxun.models.threads import ModelThreads
from qianxun.records import Records
from qianxun.retrieve.search_log import Journal


class Host(Protocol):
    """An engine, as one tenant sees it."""

    @property
    def records(self) -> Records: ...
    @property
    def tenant(self) -> str: ...
    @property
    def principal(self) -> Principal | None: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def backend(self) -> IndexBackend: ...
    @property
    def registered(self) -> Registry: ...
    @property
    def model_threads(self) -> ModelThreads: ...
    async def base(self, knowledge_base: int) -> OpenBase: ...
    async def knowledge_base(self, name_or_id: str | int) -> KnowledgeBase: ...
    async def delete_knowledge_base(self, knowledge_base: int) -> None: ...
