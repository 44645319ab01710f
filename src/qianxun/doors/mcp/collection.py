"""What a call of a tool works on: some or all of the knowledge bases of one tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, Unpack

from qianxun.core.answer_types import Answer
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.options import AskChoices, SearchChoices
from qianxun.core.types import Chunk, DocumentState, KnowledgeBase, Metadata, Recall
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
    async def search_tables(
        self, knowledge_base: int, query: str, top_k: int | None = None, *, as_of: str = "", trace_id: str = ""
    ) -> LayeredRecall: ...
    async def ask(
        self, knowledge_base: int, question: str, *, trace_id: str = "", **choices: Unpack[AskChoices]
    ) -> Answer: ...


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

    async def resolve(self, named: str | int | None) -> KnowledgeBase:
        """The one that is named, or else the only one. Raises NotFound, or BadInput where there are several."""
        bases = await self.chosen(named)
        if len(bases) == 1:
            return bases[0]
        if not bases:
            raise NotFound("还没有知识库", hint="先建一个：qianxun kb create NAME")
        names = "、".join(base.name for base in bases[:NAMED])
        raise BadInput("有几个知识库，没有说问哪一个", hint=f"写上 knowledge_base：{names}")

    def url(self, knowledge_base: int, chunk: Chunk) -> str:
        """Where to read on: at the document's own source, or else where this library tells of it."""
        return self.document_url(knowledge_base, chunk.doc_id, chunk.attributes.metadata)

    def document_url(self, knowledge_base: int, doc_id: str, metadata: Metadata) -> str:
        return own_url(metadata) or self.address(knowledge_base, doc_id)
