"""What is known of a document before the next write: its `Head`, also of one that is deleted or purged; its labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from sqlalchemy import Connection, Dialect, bindparam, func, select, update

from qianxun.core.errors import BadInput
from qianxun.core.ingest_types import Labels
from qianxun.core.limits import DOC_ID_LIMIT
from qianxun.core.unicode import is_storable
from qianxun.records import rows
from qianxun.records.database.restrict import permitted_in
from qianxun.records.database.statements import Compiled, compiled, in_slices, select_in
from qianxun.records.governance import corrections, document_corrections
from qianxun.records.schema import DocumentRow, VersionRow

WITHDRAWN = "withdrawn"  # the reason of a deleted document that people deleted, though its file may still exist
AFTER_PURGED = "purged;"  # the first id after all that begin with …
PURGED = "purged:"  # how that begins which the row of a purged document has in the place of its id

_HEADS: Final = (
    select(
        DocumentRow.doc_id,
        DocumentRow.key,
        DocumentRow.generation,
        DocumentRow.served,
        DocumentRow.status,
        VersionRow.fingerprint,
        DocumentRow.reason,
    )
    .outerjoin(
        VersionRow,
        (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.generation),
    )
    .where(
        DocumentRow.knowledge_base_id == bindparam("base", type_=DocumentRow.knowledge_base_id.type),
        DocumentRow.doc_id.in_(bindparam("doc_ids", type_=DocumentRow.doc_id.type, expanding=True)),
    )
)


@dataclass(frozen=True, slots=True)
class Head:
    """A document's state before the next write."""

    key: int
    generation: int
    served: int
    status: str
    fingerprint: str | None
    reason: str | None
    is_purged: bool = False  # deleted so that not even its id is left

    @property
    def is_withdrawn(self) -> bool:
        """Whether people deleted it: a folder that is followed does not bring it back."""
        return self.status == "deleted" and (self.is_purged or self.reason == WITHDRAWN)


def heads(tx: Connection, knowledge_base: int, doc_ids: Iterable[str]) -> dict[str, Head]:
    """The documents of these ids that have a row, deleted ones included."""
    storable_ids = [doc_id for doc_id in doc_ids if is_storable(doc_id)]
    found = _heads(tx, knowledge_base, storable_ids)
    missing = {purged_id(knowledge_base, doc_id): doc_id for doc_id in storable_ids if doc_id not in found}
    if missing and _has_purged(tx, knowledge_base):
        purged = _heads(tx, knowledge_base, missing)
        found |= {missing[digest]: replace(head, is_purged=True) for digest, head in purged.items()}
    return found


def _has_purged(tx: Connection, knowledge_base: int) -> bool:
    """One look into the index of ids: next to no base has any, and what a principal sees of one never has."""
    if permitted_in(tx) is not None:
        return False
    given = {"base": knowledge_base, "first": PURGED, "end": AFTER_PURGED}
    return _purged_query(tx.dialect).rows(tx, given)[0][0] is not None


@lru_cache
def _purged_query(dialect: Dialect) -> Compiled:
    own = DocumentRow.knowledge_base_id == bindparam("base", type_=DocumentRow.knowledge_base_id.type)
    first, end = (bindparam(name, type_=DocumentRow.doc_id.type) for name in ("first", "end"))
    among = (DocumentRow.doc_id >= first) & (DocumentRow.doc_id < end)
    return compiled(select(func.min(DocumentRow.key)).where(own, among), dialect)


def purged_id(knowledge_base: int, doc_id: str) -> str:
    """What the row of a purged document has in the place of its id."""
    return PURGED + blake2b(f"{knowledge_base}\0{doc_id}".encode(), digest_size=20).hexdigest()


def forget_ids(tx: Connection, knowledge_base: int, doc_ids: Iterable[str]) -> int:
    """Leaves of deleted documents that there was one, and its generation; not which. Returns how many."""
    forgotten = 0
    for doc_id in doc_ids:
        own = (DocumentRow.knowledge_base_id == knowledge_base) & (DocumentRow.doc_id == doc_id)
        gone = update(DocumentRow).where(own, DocumentRow.status == "deleted")
        forgotten += tx.execute(gone.values(doc_id=purged_id(knowledge_base, doc_id), reason=None)).rowcount
    return forgotten


def _heads(tx: Connection, knowledge_base: int, doc_ids: Iterable[str]) -> dict[str, Head]:
    found: dict[str, Head] = {}
    for part in in_slices(list(doc_ids)):
        rows = tx.execute(_HEADS, {"base": knowledge_base, "doc_ids": part})
        found |= {row[0]: Head(*row[1:]) for row in rows}
    return found


def stored_labels(tx: Connection, knowledge_base: int, doc_ids: Iterable[str]) -> dict[str, Labels]:
    """What people gave with the newest versions of these documents; no entry for one that is deleted or unknown."""
    current = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.generation)
    query = select(DocumentRow.doc_id, *rows.ATTRIBUTES, VersionRow.structure).join(VersionRow, current)
    query = query.where(DocumentRow.knowledge_base_id == knowledge_base)
    storable_ids = [doc_id for doc_id in doc_ids if is_storable(doc_id)]
    found = {row.doc_id: rows.labels_of(row) for row in select_in(tx, query, DocumentRow.doc_id, storable_ids)}
    for doc_id, (_, own) in corrections.by_document(tx, knowledge_base, found).items():
        _, given = document_corrections.as_submitted("", found[doc_id].metadata, own)
        found[doc_id] = replace(found[doc_id], metadata=given)
    return found


def lock(tx: Connection, knowledge_base: int, doc_id: str) -> Head | None:
    """The document's state, which no other transaction changes before this one ends."""
    own = (DocumentRow.knowledge_base_id == knowledge_base) & (DocumentRow.doc_id == doc_id)
    tx.execute(select(DocumentRow.key).where(own).with_for_update())
    return heads(tx, knowledge_base, [doc_id]).get(doc_id)


def check_id(doc_id: str) -> None:
    """Raises BadInput for what cannot be a document's id."""
    if not doc_id or len(doc_id) > DOC_ID_LIMIT or not is_storable(doc_id):
        raise BadInput(f"文档编号须为 1–{DOC_ID_LIMIT} 个字符，不含空字符（NUL）", hint="换一个更短的 doc_id")
    if doc_id.startswith(PURGED):
        raise BadInput(f"文档编号不能以 {PURGED} 开头：那是清除过的文档的记号", hint="换一个 doc_id")
