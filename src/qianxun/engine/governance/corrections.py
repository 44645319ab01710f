"""What people correct in a knowledge base: made, listed, undone, taken to another base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

from qianxun.core.codec.plain import plain, read
from qianxun.core.errors import BadInput
from qianxun.core.evaluation_types import Case, EvaluationSet
from qianxun.core.governance.corrections import (
    Change,
    ChangeFields,
    Correction,
    CorrectionKind,
    CorrectionQuery,
    NewCorrection,
)
from qianxun.engine.governance.host import Host
from qianxun.records.governance import corrections

EVERY: Final = CorrectionQuery()
DEFAULT_SET: Final = "常用问题"
NOT_EXPORTED: Final = ("knowledge_base_id", "chunk_ids")


@dataclass(frozen=True, slots=True)
class Corrections:
    """Of one tenant's bases. Raises NotFound for a base, chunk, document or correction that is not there."""

    engine: Host

    async def add(
        self,
        knowledge_base: int,
        kind: CorrectionKind,
        *,
        chunk_id: str | Sequence[str] = (),
        doc_id: str = "",
        author: str = "",
        **change: Unpack[ChangeFields],
    ) -> Correction:
        """Corrects a chunk (several for ``join``) or a document; every search sees it when this returns.

        ``change`` is what the kind needs: ``text`` for edit, ``parts`` for split, ``keywords``, ``questions``,
        ``note``, ``name`` for rename, ``metadata``; for pin and exclude the ``question``. Without an ``author`` it is
        noted under whoever the context says. Raises BadInput for what cannot be applied.
        """
        from qianxun.indexing.correct import add_correction

        chosen = (chunk_id,) if isinstance(chunk_id, str) else tuple(chunk_id)
        new = NewCorrection(kind, chosen, doc_id, Change(**change), author)
        return await add_correction(await self.engine.base(knowledge_base), new)

    async def page(
        self,
        knowledge_base: int,
        query: CorrectionQuery = EVERY,
        *,
        limit: int | None = None,
        after: int = 0,
    ) -> list[Correction]:
        """By number; ``after`` is the one at which the last page ended."""
        base = await self.engine.base(knowledge_base)
        return await base.records.read(
            lambda tx: corrections.listed(tx, knowledge_base, query, limit=limit, after=after)
        )

    async def counts(self, knowledge_base: int) -> dict[str, int]:
        """How many there are in each state."""
        base = await self.engine.base(knowledge_base)
        return await base.records.read(lambda tx: corrections.counts(tx, knowledge_base))

    async def get(self, knowledge_base: int, number: int) -> Correction:
        base = await self.engine.base(knowledge_base)
        return await base.records.read(lambda tx: corrections.get(tx, knowledge_base, number))

    async def undo(self, knowledge_base: int, number: int, *, author: str = "") -> Correction:
        """The document's own text, name or metadata again. The record stays."""
        from qianxun.indexing.correct import set_state

        return await set_state(await self.engine.base(knowledge_base), number, "undone", author)

    async def apply(self, knowledge_base: int, number: int, *, author: str = "") -> Correction:
        """Applies one that was proposed or undone. Raises BadInput where its words are gone."""
        from qianxun.indexing.correct import set_state

        return await set_state(await self.engine.base(knowledge_base), number, "applied", author)

    async def move(self, knowledge_base: int, number: int, chunk_id: str | Sequence[str]) -> Correction:
        """Gives one that needs a look the chunk that it is about from now on."""
        from qianxun.indexing.correct import move_correction

        chosen = (chunk_id,) if isinstance(chunk_id, str) else tuple(chunk_id)
        return await move_correction(await self.engine.base(knowledge_base), number, chosen)

    async def save_as_case(
        self, knowledge_base: int, number: int, set_name: str = DEFAULT_SET
    ) -> tuple[EvaluationSet, Case]:
        """Keeps a proposed pin as a case of an evaluation set instead: measured, and without effect on results."""
        from qianxun.engine.governance.proposals import save_as_case

        return await save_as_case(await self.engine.base(knowledge_base), self.engine.tenant, number, set_name)

    async def export(self, knowledge_base: int) -> list[dict[str, Any]]:
        """All corrections, as `import_all` takes them."""
        return [
            {name: value for name, value in plain(one).items() if name not in NOT_EXPORTED}
            for one in await self.page(knowledge_base)
        ]

    async def import_all(self, knowledge_base: int, written: Sequence[Mapping[str, Any]]) -> list[Correction]:
        """Takes corrections that were exported; those whose words are not here need a look. Returns what was taken:
        one that the base has is not taken twice. Raises BadInput for what was not exported."""
        from qianxun.indexing.correct import import_corrections

        try:
            found = [read(Correction, {**one, "knowledge_base_id": knowledge_base}) for one in written]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"不是导出的更正：{error}", hint="用 qianxun corrections export 导出") from error
        return await import_corrections(await self.engine.base(knowledge_base), found)
