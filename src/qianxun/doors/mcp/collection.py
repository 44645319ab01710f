"""What a call of a tool works on: some or all of the knowledge bases of one tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, Unpack

from qianxun.core.errors import NotFound
from qianxun.core.options import SearchChoices
from qianxun.core.types import Chunk, DocumentState, KnowledgeBase, Recall
from qianxun.doors.mcp.ids import SHOWN, Address, local_address, own_url

NAMED: Final = 20  # bases that a message names


class Library(Protocol):
    """What the tools need: an engine has it, and so has a client of a running service."""

    async def knowledge_bases(self) -> tuple[KnowledgeBase, ...]: ...
    async def statistics(self, knowledge_base: int) -> dict[str, int]: ...
    async def document(self, knowledge_base: int, doc_id: str) -> DocumentState: ...
    async def chunks(self, knowledge_base: int, doc_id: str) -> list[Chunk]: ...
    async def retrieve(
        self, knowledge_base: int, query: str, *, trace_id: str = "", **choices: Unpack[SearchChoices]
    ) -> Recall: ...


@dataclass(frozen=True, slots=True)
class Collection:
    """The bases that the caller may see; what is not among them does not exist."""

    library: Library
    address: Address = local_address
    only: frozenset[int] | None = None  # None: all of the tenant's
    trace_id: str = ""  # of the request that asks; "": every search has one of its own

    async def bases(self) -> list[KnowledgeBase]:
        """In the order of their ids."""
        bases = await self.library.knowledge_bases()
        return [base for base in bases if self.only is None or base.id in self.only]

    async def base(self, named: str | int) -> KnowledgeBase:
        """By its number, or by its name. Raises NotFound, with the names that there are."""
        bases = await self.bases()
        name = str(named).strip()
        by_id = [base for base in bases if str(base.id) == name]
        found = by_id or [base for base in bases if base.name == name]
        if found:
            return found[0]
        names = "、".join(base.name for base in bases[:NAMED])
        hint = f"已有：{names}" + ("……" if len(bases) > NAMED else "") if names else "还没有任何知识库"
        raise NotFound(f"没有名为或编号为“{name[:SHOWN]}”的知识库", hint=hint)

    async def chosen(self, named: str | int | None) -> list[KnowledgeBase]:
        """The one that is named, or else all of them. Raises NotFound where it is not there."""
        if named is not None and str(named).strip():
            return [await self.base(named)]
        return await self.bases()

    def url(self, knowledge_base: int, chunk: Chunk) -> str:
        """Where to read on: at the document's own source, or else where this library tells of it."""
        return own_url(chunk.attributes.metadata) or self.address(knowledge_base, chunk.doc_id)
