"""Is everything there, whole, and nothing else? Read from the folder that a killed writer left behind."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from sqlalchemy import Connection, select

from qianxun.engine import Engine
from qianxun.errors import QianxunError
from qianxun.records import chunks, documents, outbox
from qianxun.records.schema import DocumentRow
from qianxun.types import Text
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
            known = await engine.knowledge_bases()
            if not known:
                if ledger.versions:
                    raise Violation("the knowledge base is gone")
                return
            await _check_base(engine, known[0].id, ledger, chance)
    except QianxunError as error:
        raise Violation(f"the engine cannot go on: {error}") from error


async def _check_base(engine: Engine, kb: int, ledger: Ledger, chance: Random) -> None:
    base = await engine.base(kb)
    with engine.records.reading() as tx:
        ledger.resolve(_read(tx, kb))
        _require_none(tx, "work nobody remembers")
        for doc_id in ledger.versions:
            _require_whole(tx, kb, doc_id, base.splitter, doc_id in ledger.searchable)
    await _require_found(engine, kb, ledger, chance, everything=False)
    await engine.drain(kb)
    verdict = await engine.verify(kb)
    if not verdict.is_clean:
        raise Violation(f"verify: {verdict.findings}")
    with engine.records.reading() as tx:
        for stray in STRAYS:
            _require_none(tx, stray)
        if outbox.depth(tx, kb):
            raise Violation("interrupted work was not resumed")
        for doc_id in ledger.versions:
            _require_whole(tx, kb, doc_id, base.splitter, True)
    await _require_found(engine, kb, ledger, chance, everything=True)


def _read(tx: Connection, kb: int) -> dict[str, int | None]:
    """The version that each document's text says it is."""
    seen: dict[str, int | None] = {}
    for key, doc_id, generation, status in tx.execute(
        select(DocumentRow.key, DocumentRow.doc_id, DocumentRow.generation, DocumentRow.status)
    ).all():
        seen[doc_id] = None
        if status != "deleted":
            held = documents.load(tx, key, generation).content
            named = re.match(r"编号 zq(\d+)k", held)
            seen[doc_id] = int(named[1]) if named else -1
            if not named or held != content(doc_id, int(named[1])):
                raise Violation(f"the text of {doc_id} is not what was written")
    return seen


def _require_whole(tx: Connection, kb: int, doc_id: str, splitter: object, searchable: bool) -> None:
    """All chunks of the version that serves, at their places; or none at all."""
    head = documents.heads(tx, kb, [doc_id]).get(doc_id)
    held = [(chunk.start, chunk.end, chunk.text) for chunk in chunks.of_document(tx, kb, doc_id)]
    if head is None or head.status == "deleted" or head.served == 0:
        if held or (searchable and head is not None and head.status != "deleted"):
            raise Violation(f"{doc_id} has {len(held)} chunks and serves nothing")
        return
    if searchable and (head.status, head.served) != ("indexed", head.generation):
        raise Violation(f"{doc_id} was acknowledged as searchable and is {head.status}")
    text = documents.load(tx, head.key, head.served).content
    expected = [(piece.start, piece.end, piece.text) for piece in splitter.pieces(Text(text))]  # type: ignore[attr-defined]
    if held != expected or any(text[start:end] != body for start, end, body in held):
        raise Violation(f"{doc_id} is half there: {len(held)} chunks of {len(expected)}")


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
