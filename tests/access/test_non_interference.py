"""What a principal reads of a base is, byte for byte, what it reads of one that never held the rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qianxun.bases import principal_view as views
from qianxun.core.types import Document, Population
from qianxun.engine.engine import Engine
from qianxun.records import listing
from tests.access.oracle import QUERIES, RULE, everything, library, seen
from tests.indexing.opened import MODEL, opened

PRINCIPALS: tuple[tuple[str, ...], ...] = ((), ("user:alice", "group:财务"), ("role:审计",))


async def filled(engine: Engine, name: str, documents: Sequence[Document], rule: Sequence[str] = RULE.labels) -> int:
    """A base under a rule with these labels, and with these documents; added a few at a time, as they come."""
    kb = (await engine.create_knowledge_base(name, model=MODEL)).id
    await engine.governance.access.set_rule(kb, RULE.prefix, rule)
    for at in range(0, len(documents), 7):
        await engine.add_documents(kb, documents[at : at + 7])
    return kb


async def compared(
    folder: Path, seed: int, size: int, labels: Sequence[str], queries: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """What is read of the whole base, and of one that never held what is hidden."""
    documents = library(random.Random(seed), size)
    shown = seen(documents, labels)
    hidden = sorted({document.id for document in documents} - {document.id for document in shown})
    assert hidden
    assert shown
    async with opened(folder) as (engine, _):
        whole = await filled(engine, "whole", documents)
        own = await filled(engine, "own", shown, [label for label in RULE.labels if label in labels])
        await engine.delete_document(whole, hidden[0])
        principal = engine.as_principal(*labels)
        return (
            await everything(principal, whole, queries, hidden),
            await everything(principal, own, queries, hidden),
        )


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


@pytest.mark.parametrize("labels", PRINCIPALS, ids=lambda labels: "+".join(labels) or "anybody")
def test_a_principal_reads_what_a_base_without_the_rest_would_give(labels: tuple[str, ...], tmp_path: Path) -> None:
    whole, own = asyncio.run(compared(tmp_path, 1, 30, labels, QUERIES[:3]))
    assert whole.keys() == own.keys()
    assert differing(whole, own) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_the_same_for_many_libraries(seed: int, tmp_path: Path) -> None:
    labels = PRINCIPALS[seed % len(PRINCIPALS)]
    whole, own = asyncio.run(compared(tmp_path, 100 + seed, 20 + 7 * seed, labels, QUERIES))
    assert differing(whole, own) == []


# ── what leaks is found ──────────────────────────────────────────────────────────────────────────


def _all_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics over everything: the index is not told which documents there are."""
    real = views.PermittedIndex.match

    async def match(self: views.PermittedIndex, *arguments: object, **options: object) -> object:
        found = await real(self, *arguments, **options)  # type: ignore[arg-type]
        counted = await self._index.match(*arguments, **options)  # type: ignore[arg-type]
        return replace(found, ceiling=counted.ceiling)

    monkeypatch.setattr(views.PermittedIndex, "match", match)


def _all_likeness(monkeypatch: pytest.MonkeyPatch) -> None:
    async def likeness(self: views.PermittedIndex, within: Population | None = None) -> float:
        return await self._index.likeness()

    monkeypatch.setattr(views.PermittedIndex, "likeness", likeness)


def _all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read as they are, once it is known which documents there are."""
    monkeypatch.setattr(views, "replace", lambda records, **_: records)
    monkeypatch.setattr(views, "_population", lambda own: Population(np.arange(0, 40, dtype=np.int64), "leaking"))


def _all_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list names everybody who may see a document."""
    monkeypatch.setattr(listing, "shown_labels", lambda _, labels: tuple(labels or ()))


@pytest.mark.parametrize("leak", [_all_documents, _all_likeness, _all_records, _all_labels])
def test_a_leak_is_seen(
    leak: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: a statistic over everything, or tables as they are."""
    leak(monkeypatch)
    whole, own = asyncio.run(compared(tmp_path, 1, 12, PRINCIPALS[1], QUERIES[:1]))
    assert differing(whole, own)
