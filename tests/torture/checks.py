"""Is everything there, whole, and nothing else? Read from the folder that a killed writer left behind."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.errors import QianxunError
from qianxun.core.types import Text
from qianxun.engine.engine import Engine
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.records.chunk_texts import SAME_VERSION, TEXT
from qianxun.records.schema import ChunkRow, VersionRow
from tests.torture.ledger import Ledger, Violation
from tests.torture.script import content, models, token

# Rows that belong to nobody, asked of the database itself and not of the code under test.
STRAYS = {
    "chunk without its version": """
        SELECT count(*) FROM chunks c LEFT JOIN document_versions v
        ON v.document_key = c.document_key AND v.generation = c.generation WHERE v.document_key IS NULL""",
    "chunk that no document serves": """
        SELECT count(*) FROM chunks c JOIN documents d ON d.key = c.document_key WHERE d.served != c.generation""",
    "vector without its chunk": """
        SELECT count(*) FROM chunk_vectors v LEFT JOIN chunks c ON c.key = v.chunk_key WHERE c.key IS NULL""",
    "chunk without its vector": """
        SELECT count(*) FROM chunks c JOIN knowledge_bases b ON b.id = c.knowledge_base_id
        LEFT JOIN chunk_vectors v ON v.chunk_key = c.key AND v.model = b.embedding_model WHERE v.chunk_key IS NULL""",
    "version of a deleted document": """
        SELECT count(*) FROM document_versions v JOIN documents d ON d.key = v.document_key
        WHERE d.status = 'deleted'""",
    "work nobody remembers": """
        SELECT count(*) FROM documents d LEFT JOIN outbox o
        ON o.document_key = d.key AND o.generation = d.generation WHERE d.status = 'pending' AND o.sequence IS NULL""",
}
SEARCHES = 12


async def check(folder: Path, ledger: Ledger, chance: Random) -> None:
    """Raises Violation. Afterwards everything interrupted is resumed, and the ledger knows how it ended."""
    try:
        async with Engine.open(folder, models=models(), background=False) as engine:
            if engine.records.loss is not None:
                raise Violation(f"the engine misses what was never lost: {engine.records.loss}")
            known = await engine.knowledge_bases()
            if not known:
                if ledger.versions:
                    raise Violation("the knowledge base is gone")
                return
            await _check_base(engine, known[0].id, ledger, chance)
    except (QianxunError, SQLAlchemyError) as error:
        raise Violation(f"the engine cannot go on: {error}") from error


async def _check_base(engine: Engine, kb: int, ledger: Ledger, chance: Random) -> None:
    base = await engine.base(kb)
    with engine.records.reading() as tx:
        held = _read(tx)
        ledger.resolve({doc_id: one.version for doc_id, one in held.items()})
        _require_none(tx, "work nobody remembers")
        _require_whole(tx, held, base.splitter, ledger.searchable)
    await _require_found(engine, kb, ledger, chance, everything=False)
    await engine.drain(kb)
    verdict = await engine.admin.verify(kb)
    if not verdict.is_clean:
        raise Violation(f"verify: {verdict.findings}")
    with engine.records.reading() as tx:
        for stray in STRAYS:
            _require_none(tx, stray)
        if tx.exec_driver_sql("SELECT count(*) FROM outbox").scalar():
            raise Violation("interrupted work was not resumed")
        _require_whole(tx, _read(tx), base.splitter, set(ledger.versions))
    await _require_found(engine, kb, ledger, chance, everything=True)


@dataclass(frozen=True, slots=True)
class Held:
    """A document as the database has it."""

    key: int
    version: int | None  # what its newest text says it is; None: deleted
    status: str
    generation: int
    served: int
    texts: Mapping[int, str]  # generation → text


def _read(tx: Connection) -> dict[str, Held]:
    texts: dict[int, dict[int, str]] = defaultdict(dict)
    for key, generation, text in tx.exec_driver_sql("SELECT document_key, generation, content FROM document_versions"):
        texts[key][generation] = text
    held: dict[str, Held] = {}
    for row in tx.exec_driver_sql("SELECT d.key, doc_id, status, generation, served FROM documents d"):
        version = None if row.status == "deleted" else _version(row.doc_id, texts[row.key].get(row.generation, ""))
        held[row.doc_id] = Held(row.key, version, row.status, row.generation, row.served, texts[row.key])
    return held


def _version(doc_id: str, text: str) -> int:
    named = re.match(r"编号 zq(\d+)k", text)
    if named is None or text != content(doc_id, int(named[1])):
        raise Violation(f"the text of {doc_id} is not what was written: {text[:50]!r}")
    return int(named[1])


def _require_whole(tx: Connection, held: Mapping[str, Held], splitter: ChunkSplitter, searchable: set[str]) -> None:
    """Each document has all chunks of the version that serves, at their places; or none at all."""
    found: dict[tuple[int, int], list[tuple[int, int, str]]] = defaultdict(list)
    columns = (ChunkRow.document_key, ChunkRow.generation, ChunkRow.start, ChunkRow.end, TEXT)
    query = select(*columns).select_from(ChunkRow).outerjoin(VersionRow, SAME_VERSION)
    for key, generation, start, end, text in tx.execute(query.order_by(ChunkRow.document_key, ChunkRow.position)):
        found[key, generation].append((start, end, text))
    for doc_id, one in held.items():
        if doc_id in searchable and one.status not in ("indexed", "deleted"):
            raise Violation(f"{doc_id} should be searchable and is {one.status}")
        if one.status == "indexed" and one.served != one.generation:
            raise Violation(f"{doc_id} is indexed at {one.generation} and serves {one.served}")
        text = one.texts[one.served] if one.served else ""
        pieces = _pieces(splitter.chunk_size, splitter.chunk_overlap, text)
        if found[one.key, one.served] != pieces:
            raise Violation(f"{doc_id} is half there: {len(found[one.key, one.served])} chunks of {len(pieces)}")


@lru_cache(maxsize=1000)
def _pieces(chunk_size: int, chunk_overlap: int, text: str) -> list[tuple[int, int, str]]:
    cut = ChunkSplitter(chunk_size, chunk_overlap).pieces(Text(text))
    pieces = [(piece.start, piece.end, piece.text) for piece in cut]
    assert all(text[start:end] == body for start, end, body in pieces)
    return pieces


def _require_none(tx: Connection, stray: str) -> None:
    if count := tx.exec_driver_sql(STRAYS[stray]).scalar():
        raise Violation(f"{count} × {stray}")


async def _require_found(engine: Engine, kb: int, ledger: Ledger, chance: Random, *, everything: bool) -> None:
    """Some documents, by the word that only their newest version has. Deleted ones are never among the results."""
    deleted = {doc_id for doc_id, version in ledger.versions.items() if version is None}
    for doc_id in chance.sample(sorted(ledger.versions), min(SEARCHES, len(ledger.versions))):
        version = ledger.versions[doc_id]
        word = token(version) if version is not None else doc_id
        recall = await engine.retrieve(kb, word, mode="fulltext", top_k=100)
        found = {each.chunk.doc_id for each in recall.found}
        if found & deleted:
            raise Violation(f"a deleted document was returned: {found & deleted}")
        if version is not None and (everything or doc_id in ledger.searchable) and doc_id not in found:
            raise Violation(f"{doc_id} cannot be found by its own word")
