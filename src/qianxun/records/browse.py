"""The documents of a base as people look through them: by name, type, state, metadata and time; one of them in full."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, String, and_, cast, or_, select, update

from qianxun.core.errors import BadInput
from qianxun.core.ingest_types import DocumentContent, DocumentListing, DocumentQuery, Facet, StoredPair
from qianxun.core.types import Scalar, Text
from qianxun.core.unicode import is_storable
from qianxun.records import chunks, documents, graph, listing, rows
from qianxun.records.database.statements import select_in
from qianxun.records.outbox import append
from qianxun.records.schema import DocumentRow, OutboxRow, PairRow, VersionRow

FACET_DOCUMENTS: Final = 5_000  # the newest: those of a larger base have the same fields
FACET_VALUES: Final = 50  # of a field; one with more, such as a title, has as many of the most frequent
LIKE_ESCAPE: Final = "\\"
RETRIED: Final = ("retrying", "quarantined")  # a file that could not be read has no text to try again with


def page(tx: Connection, knowledge_base: int, query: DocumentQuery, *, limit: int, after: str = "") -> DocumentListing:
    """``after`` is what the last page gave as ``next``. Raises BadInput for one that no page gave.

    The rows of the page are chosen first, and read in full after that: sorting all of a large base with what is shown
    of it takes three times as long.
    """
    columns: tuple[Any, ...] = (DocumentRow.key, DocumentRow.doc_id, DocumentRow.updated_at)
    chosen: Select[Any] = select(*columns).where(
        DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.status != "deleted", *_conditions(query)
    )
    if query.name or query.suffix or query.content_type or query.field:
        current = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.generation)
        chosen = chosen.join(VersionRow, current)
    if query.order == "newest":
        if after:
            moment, key = _place(after)
            later = and_(DocumentRow.updated_at == moment, DocumentRow.key < key)
            chosen = chosen.where(or_(DocumentRow.updated_at < moment, later))
        chosen = chosen.order_by(DocumentRow.updated_at.desc(), DocumentRow.key.desc())
    else:
        chosen = chosen.where(DocumentRow.doc_id > after) if is_storable(after) else chosen
        chosen = chosen.order_by(DocumentRow.doc_id)
    found = tx.execute(chosen.limit(limit + 1)).all()
    shown = {row.key: row for row in select_in(tx, listing.state_query(), DocumentRow.key, [row.key for row in found])}
    states = listing.states_of(tx, knowledge_base, [shown[row.key] for row in found[:limit] if row.key in shown])
    if len(found) <= limit:
        return DocumentListing(tuple(states))
    last = found[limit - 1]
    place = f"{last.updated_at.isoformat()}_{last.key}" if query.order == "newest" else last.doc_id
    return DocumentListing(tuple(states), place)


def _place(after: str) -> tuple[datetime, int]:
    moment, _, key = after.partition("_")
    try:
        return datetime.fromisoformat(moment), int(key)
    except ValueError:
        raise BadInput("翻页的位置不对", hint="从第一页重新翻") from None


def _conditions(query: DocumentQuery) -> list[Any]:
    found: list[Any] = []
    if query.name and is_storable(query.name):
        within = f"%{_escaped(query.name)}%"
        found.append(
            VersionRow.name.like(within, escape=LIKE_ESCAPE) | DocumentRow.doc_id.like(within, escape=LIKE_ESCAPE)
        )
    if query.suffix and is_storable(query.suffix):
        found.append(VersionRow.name.like(f"%.{_escaped(query.suffix)}", escape=LIKE_ESCAPE))
    if query.content_type:
        found.append(VersionRow.content_type == query.content_type)
    if query.status:
        unseen = select(OutboxRow.document_key).where(OutboxRow.knowledge_base_id == DocumentRow.knowledge_base_id)
        waits = (DocumentRow.status == "indexed") & DocumentRow.key.in_(unseen)
        is_pending = (DocumentRow.status == "pending") | waits
        others = (DocumentRow.status == query.status) & ~waits
        found.append(is_pending if query.status == "pending" else others)
    if query.field:
        # As the column has it: databases differ in how they write letters that are not ASCII.
        written = {json.dumps(query.value, ensure_ascii=ascii) for ascii in (True, False)}
        if isinstance(query.value, bool):  # SQLite has no truth: it reads 1 and 0
            written.add(str(int(query.value)))
        found.append(cast(VersionRow.extra[query.field], String).in_(written))
    return found


def _escaped(text: str) -> str:
    for sign in (LIKE_ESCAPE, "%", "_"):
        text = text.replace(sign, LIKE_ESCAPE + sign)
    return text


def facets(tx: Connection, knowledge_base: int) -> tuple[Facet, ...]:
    """The fields that documents have and their values, of the newest documents; the most frequent values first."""
    version = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.served)
    query = select(DocumentRow.doc_id, *rows.ATTRIBUTES).join(VersionRow, version)
    query = query.where(DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.status != "deleted")
    counts: dict[str, Counter[Scalar]] = {}
    for row in tx.execute(query.order_by(DocumentRow.key.desc()).limit(FACET_DOCUMENTS)):
        about = rows.attributes_of(row.doc_id, row)
        plain = {"content_type": about.content_type, "user_id": about.user_id, "project_id": about.project_id}
        named = {**plain, "tags": about.tags, **{f"metadata.{name}": value for name, value in about.metadata.items()}}
        for field, value in named.items():
            values = value if isinstance(value, tuple) else (value,)
            counts.setdefault(field, Counter()).update(one for one in values if one != "")
    return tuple(Facet(field, tuple(own.most_common(FACET_VALUES))) for field, own in counts.items() if own)


def content(tx: Connection, knowledge_base: int, doc_id: str) -> DocumentContent:
    """A document as it is served; one that is not yet has the text that waits. Raises NotFound."""
    state = listing.state(tx, knowledge_base, doc_id)
    head = documents.heads(tx, knowledge_base, [doc_id])[doc_id]
    generation = head.served or head.generation
    stored = documents.load(tx, head.key, generation)
    own = chunks.of_document(tx, knowledge_base, doc_id)
    at = (PairRow.document_key == head.key) & (PairRow.generation == generation)
    pairs = tx.execute(select(PairRow.question, PairRow.answer, PairRow.origin).where(at).order_by(PairRow.position))
    facts = graph.facts_of(tx, knowledge_base, [chunk.key for chunk in own])
    mentions = Counter((mention.name, mention.type) for read in facts for mention in read.facts.mentions)
    return DocumentContent(
        state,
        stored.structure or Text(stored.content),
        tuple(own),
        tuple(StoredPair(*pair) for pair in pairs),
        tuple((name, kind, count) for (name, kind), count in mentions.most_common()),
    )


def retry(tx: Connection, knowledge_base: int, doc_ids: Sequence[str]) -> int:
    """Puts documents that wait for their next attempt, or were given up, back into the outbox. Returns how many."""
    query = select(DocumentRow.key, DocumentRow.generation).where(
        DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.status.in_(RETRIED)
    )
    found = list(select_in(tx, query, DocumentRow.doc_id, [doc_id for doc_id in doc_ids if is_storable(doc_id)]))
    state = {"status": "pending", "retry_at": None, "attempts": 0, "outages": 0, "updated_at": datetime.now(UTC)}
    for row in found:
        tx.execute(update(DocumentRow).where(DocumentRow.key == row.key).values(**state))
    append(tx, knowledge_base, [(row.key, row.generation, "updated") for row in found])
    return len(found)
