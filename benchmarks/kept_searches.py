"""What searches found, kept in a file: a change of how answers are written is measured again without searching.

Only searches are kept, by base, words, mode and filter: what is made of them is made anew. A file belongs to one state
of retrieval and of its types; delete it when these change.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qianxun.answer.state import Answering
from qianxun.core.types import Filter
from qianxun.engine.engine import Engine


def digest(where: Filter) -> str:
    return hashlib.sha256(repr(where).encode()).hexdigest()[:16]


@dataclass
class KeptSearches:
    path: Path | None
    found: dict[tuple[str, ...], Any] = field(default_factory=dict)

    @staticmethod
    def of(folder: Path | None, name: str) -> KeptSearches:
        if folder is None:
            return KeptSearches(None)
        path = folder / f"{name.replace(' ', '_')}.pickle"
        return KeptSearches(path, pickle.loads(path.read_bytes()) if path.exists() else {})  # noqa: S301

    def save(self) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(pickle.dumps(self.found))

    async def once(self, key: tuple[str, ...], search: Callable[[], Awaitable[Any]]) -> Any:
        if self.path is None:
            return await search()
        if key not in self.found:
            self.found[key] = await search()
        return self.found[key]

    def over(self, engine: Engine) -> None:
        """Has an engine's questions look here first."""
        if self.path is None:
            return
        own = engine.answering

        async def answering(*given: Any, **named: Any) -> Answering:
            made = await own(*given, **named)
            where = digest(made.options.where)
            return replace(
                made,
                search=lambda query, mode: self.once(
                    ("ask", query, str(mode), where), lambda: made.search(query, mode)
                ),
            )

        engine.answering = answering  # type: ignore[method-assign]
