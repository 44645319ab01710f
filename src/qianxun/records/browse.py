"""The documents of a base as people look through them: by name, type, state, metadata and time; one of them in full."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, String, and_, cast, func, or_, select, update

from qianxun.core.codec.passage import PATH
from qianxun.core.errors import BadInput
from qianxun.core.filters import EVERYTHING, Filter, matches
from qianxun.core.ingest_types import DocumentContent, DocumentListing, DocumentOrder, DocumentQuery, Facet, StoredPair
from qianxun.core.types import Scalar, Text
from qianxun.core.unicode import is_storable
from qianxun.records import chunks, document_heads, documents, graph, listing, rows
from qianxun.records.database.statements import select_in
from qianxun.records.governance import access
from qianxun.records.outbox import append
from qianxun.records.schema import DocumentRow, OutboxRow, PairRow, VersionRow

FACET_DOCUMENTS: Final = 5_000  # the newest: those of a larger base have the same fields
FACET_VALUES: Final = 50  # of a field; one with more, such as a title, has as many of the most frequent
FILTERED_AT_ONCE: Final = 1_000  # rows that are read together
LIKE_ESCAPE: Final = "\\"
RETRIED: Final = ("retrying", "quarantined")  # a file that could not be read has no text to try again with


def page(
    tx: Connection, knowledge_base: int, query: DocumentQuery, *, limit: int, after: str = "", counted: bool = False
) -> DocumentListing:
    """``after`` is what the last page gave as ``next``. Raises BadInput for one that no page gave.

    The rows of the page are chosen first, and read in full after that: sorting all of a large base with what is shown
    of it takes three times as long. A filter is applied to what is chosen, row by row, as searches apply it: databases
    differ in how they compare JSON.
    """
    chosen = _chosen(knowledge_base, query)
    if query.access:
        chosen = chosen.where(DocumentRow.access_set.in_(access.sets_with(tx, knowledge_base, query.access)))
    total = _total(tx, chosen, query.where) if counted else None
    placed = _after(chosen, query.order, after).order_by(*_orders(query.order))
    found = _first(tx, placed, query.where, limit + 1)
    shown = {row.key: row for row in select_in(tx, listing.state_query(), DocumentRow.key, [row.key for row in found])}
    states = listing.states_of(tx, knowledge_base, [shown[row.key] for row in found[:limit] if row.key in shown])
    place = _position(query.order, found[limit - 1]) if len(found) > limit else ""
    return DocumentListing(tuple(states), place, total)


def _chosen(knowledge_base: int, query: DocumentQuery) -> Select[Any]:
    columns: tuple[Any, ...] = (DocumentRow.key, DocumentRow.doc_id, DocumentRow.updated_at)
    is_filtered = query.where != EVERYTHING
    if is_filtered:
        columns += rows.ATTRIBUTES
    if query.order == "name":
        columns += (VersionRow.name,)
    chosen: Select[Any] = select(*columns).where(
        DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.status != "deleted", *_conditions(query)
    )
    rows_of_version = (query.name, query.suffix, query.content_type, query.field, query.folder, is_filtered)
    if any(rows_of_version) or query.order == "name":
        current = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.generation)
        chosen = chosen.join(VersionRow, current)
    return chosen


def _first(tx: Connection, chosen: Select[Any], where: Filter, limit: int) -> list[Row[Any]]:
    if where == EVERYTHING:
        return list(tx.execute(chosen.limit(limit)))
    result = tx.execute(chosen, execution_options={"yield_per": FILTERED_AT_ONCE})
    try:
        return list(islice((row for row in result if _passes(row, where)), limit))
    finally:
        result.close()


def _total(tx: Connection, chosen: Select[Any], where: Filter) -> int:
    if where == EVERYTHING:
        return int(tx.execute(select(func.count()).select_from(chosen.subquery())).scalar_one())
    return sum(_passes(row, where) for row in tx.execute(chosen, execution_options={"yield_per": FILTERED_AT_ONCE}))


def _passes(row: Row[Any], where: Filter) -> bool:
    return matches(where, rows.attributes_of(row.doc_id, row))


def _orders(order: DocumentOrder) -> tuple[Any, ...]:
    match order:
        case "newest":
            return (DocumentRow.updated_at.desc(), DocumentRow.key.desc())
        case "oldest":
            return (DocumentRow.updated_at, DocumentRow.key)
        case "name":
            return (VersionRow.name, DocumentRow.doc_id)
    return (DocumentRow.doc_id,)


def _position(order: DocumentOrder, row: Row[Any]) -> str:
    """Where the page ends, for `_after`."""
    if order == "name":
        return json.dumps([row.name, row.doc_id], ensure_ascii=False)
    return row.doc_id if order == "id" else f"{row.updated_at.isoformat()}_{row.key}"


def _after(chosen: Select[Any], order: DocumentOrder, after: str) -> Select[Any]:
    if not after or not is_storable(after):
        return chosen
    if order == "id":
        return chosen.where(DocumentRow.doc_id > after)
    if order == "name":
        name, doc_id = _names(after)
        same = and_(VersionRow.name == name, DocumentRow.doc_id > doc_id)
        return chosen.where(or_(VersionRow.name > name, same))
    moment, key = _place(after)
    if order == "newest":
        later = and_(DocumentRow.updated_at == moment, DocumentRow.key < key)
        return chosen.where(or_(DocumentRow.updated_at < moment, later))
    later = and_(DocumentRow.updated_at == moment, DocumentRow.key > key)
    return chosen.where(or_(DocumentRow.updated_at > moment, later))


def _names(after: str) -> tuple[str, str]:
    try:
        name, doc_id = json.loads(after)
        return str(name), str(doc_id)
    except (ValueError, TypeError):
        raise BadInput("翻页的位置不对", hint="从第一页重新翻") from None


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
    return found + _bounds(query)


def _bounds(query: DocumentQuery) -> list[Any]:
    """Of folder and time."""
    found: list[Any] = []
    if query.folder and is_storable(query.folder):
        below = f"{query.folder.strip('/')}/"
        found.append(VersionRow.extra[PATH].as_string().startswith(below, autoescape=True))
    if query.since is not None:
        found.append(DocumentRow.updated_at >= query.since)
    if query.until is not None:
        found.append(DocumentRow.updated_at < query.until)
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
    head = document_heads.heads(tx, knowledge_base, [doc_id])[doc_id]
    generation = head.served or head.generation
    stored = documents.load(tx, head.key, generation)
    own = chunks.document_chunks(tx, knowledge_base, doc_id)
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
