"""The corrections of a service: what `qianxun.engine.governance.corrections.Corrections` does, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Unpack

from qianxun.core.codec.plain import plain
from qianxun.core.evaluation_types import Case, EvaluationSet
from qianxun.core.governance.corrections import ChangeFields, Correction, CorrectionKind, CorrectionQuery
from qianxun.doors.client.connection import Request
from qianxun.doors.client.payloads import Ask, params_of, read_pages, read_saved_case, value_of, values_of

IMPORTED_AT_ONCE: Final = 1000
EVERY: Final = CorrectionQuery()
CORRECTION: Final = value_of(Correction)


@dataclass(frozen=True, slots=True)
class ServiceCorrections:
    """Of the bases of a key's tenant."""

    ask: Ask

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
        """Corrects a chunk (several for ``join``) or a document; ``change`` as an engine takes it."""
        chosen = [chunk_id] if isinstance(chunk_id, str) else list(chunk_id)
        given: dict[str, Any] = plain(dict(change))
        removed = given.pop("removed", ())
        if removed:
            given["metadata"] = {**given.get("metadata", {}), **dict.fromkeys(removed)}
        body = {"kind": kind, "chunk_ids": chosen, "doc_id": doc_id, "author": author, **given}
        body = {name: value for name, value in body.items() if value not in ("", [], {})}
        return await self.ask(Request("POST", _path(knowledge_base), body), CORRECTION)

    async def page(
        self, knowledge_base: int, query: CorrectionQuery = EVERY, *, limit: int | None = None, after: int = 0
    ) -> list[Correction]:
        """By number; ``after`` is the one at which the last page ended."""
        chosen = {**plain(query), "after": after}
        return await read_pages(self.ask, _path(knowledge_base), values_of(Correction), limit=limit, **chosen)

    async def counts(self, knowledge_base: int) -> dict[str, int]:
        """How many there are in each state."""
        request = Request("GET", _path(knowledge_base), params=params_of(limit=1))
        return await self.ask(request, lambda data: dict(data["counts"]))

    async def get(self, knowledge_base: int, number: int) -> Correction:
        return await self.ask(Request("GET", _path(knowledge_base, number)), CORRECTION)

    async def undo(self, knowledge_base: int, number: int, *, author: str = "") -> Correction:
        return await self.ask(Request("POST", _path(knowledge_base, number, "undo"), {"author": author}), CORRECTION)

    async def apply(self, knowledge_base: int, number: int, *, author: str = "") -> Correction:
        return await self.ask(Request("POST", _path(knowledge_base, number, "apply"), {"author": author}), CORRECTION)

    async def move(self, knowledge_base: int, number: int, chunk_id: str | Sequence[str]) -> Correction:
        chosen = [chunk_id] if isinstance(chunk_id, str) else list(chunk_id)
        return await self.ask(Request("POST", _path(knowledge_base, number, "move"), {"chunk_ids": chosen}), CORRECTION)

    async def save_as_case(self, knowledge_base: int, number: int, set_name: str = "") -> tuple[EvaluationSet, Case]:
        body = {"set_name": set_name} if set_name else {}
        return await self.ask(Request("POST", _path(knowledge_base, number, "case"), body), read_saved_case)

    async def export(self, knowledge_base: int) -> list[dict[str, Any]]:
        """All corrections, as `import_all` takes them."""
        return await self.ask(Request("GET", f"{_path(knowledge_base)}/export"), lambda data: list(data["list"]))

    async def import_all(self, knowledge_base: int, written: Sequence[Mapping[str, Any]]) -> list[Correction]:
        """Takes corrections that were exported. Returns what was taken."""
        taken: list[Correction] = []
        for start in range(0, len(written), IMPORTED_AT_ONCE):
            body = {"corrections": [dict(one) for one in written[start : start + IMPORTED_AT_ONCE]]}
            request = Request("POST", f"{_path(knowledge_base)}/import", body, repeatable=True)
            taken += await self.ask(request, values_of(Correction))
        return taken


def _path(knowledge_base: int, number: int | None = None, action: str = "") -> str:
    parts = (f"v1/knowledge-bases/{knowledge_base}/corrections", "" if number is None else str(number), action)
    return "/".join(filter(None, parts))
