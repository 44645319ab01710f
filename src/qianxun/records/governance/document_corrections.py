"""Corrections of whole documents: other names, other metadata. `corrected` is the function to read first.

They are written into the versions of a document, where filters, indexes and lists read them; each remembers what the
document itself gave, so that it can be undone, and so that the next version is corrected in its turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, select, update

from qianxun.core.governance.corrections import Correction
from qianxun.core.types import Document, Metadata, MetadataValue, Submission
from qianxun.records import checksums
from qianxun.records.governance import corrections, validity
from qianxun.records.schema import ValidityRow, VersionRow

NAME = "name"  # in `Correction.original` of a rename


def corrected(name: str, metadata: Metadata, own: Sequence[Correction]) -> tuple[str, Metadata]:
    """Name and metadata that a document gives itself, with its corrections."""
    for one in own:
        if one.kind == "rename":
            name = one.change.name
        elif one.kind == "metadata":
            others = {field: value for field, value in metadata.items() if field not in one.change.removed}
            metadata = {**others, **one.change.metadata}
    return name, metadata


def as_submitted(name: str, metadata: Metadata, own: Sequence[Correction]) -> tuple[str, Metadata]:
    """Name and metadata as the document gave them, of a version that has these corrections."""
    for one in own:
        if one.kind == "rename":
            name = str(one.original.get(NAME, name))
        elif one.kind == "metadata":
            given = {field: value for field, value in one.original.items() if value is not None}
            metadata = {**{field: value for field, value in metadata.items() if field not in one.original}, **given}
    return name, metadata


def originals(name: str, metadata: Metadata, one: Correction) -> Mapping[str, MetadataValue | None]:
    """What a correction replaces of that which the document gave."""
    if one.kind == "rename":
        return {NAME: name}
    if one.kind == "metadata":
        return {field: metadata.get(field) for field in (*one.change.metadata, *one.change.removed)}
    return {}


def apply(tx: Connection, knowledge_base: int, wave: Sequence[Submission]) -> list[Submission]:
    """Submissions as they are stored, with the corrections of their documents."""
    known = corrections.by_document(tx, knowledge_base, [one.document.id for one in wave])
    if not known:
        return list(wave)
    return [_applied(tx, one, known[one.document.id][1]) if one.document.id in known else one for one in wave]


def _applied(tx: Connection, submission: Submission, own: Sequence[Correction]) -> Submission:
    document = submission.document
    for one in own:
        if (replaced := originals(document.name, document.metadata, one)) != dict(one.original):
            corrections.note_original(tx, one.id, replaced)
    name, metadata = corrected(document.name, document.metadata, own)
    if (name, metadata) == (document.name, document.metadata):
        return submission
    return replace(submission, document=replace(document, name=name, metadata=metadata))


def rewrite(
    tx: Connection,
    knowledge_base: int,
    versions: Sequence[tuple[int, int, Document]],
    before: Sequence[Correction],
    after: Sequence[Correction],
) -> None:
    """Corrects stored versions (document, generation, as it is stored), which had the corrections ``before``."""
    for key, generation, document in versions:
        given = as_submitted(document.name, document.metadata, before)
        for one in after:
            if (replaced := originals(*given, one)) != dict(one.original):
                corrections.note_original(tx, one.id, replaced)
        name, metadata = corrected(*given, after)
        if (name, metadata) != (document.name, document.metadata):
            _write(tx, knowledge_base, key, generation, replace(document, name=name, metadata=metadata))


def _write(tx: Connection, knowledge_base: int, key: int, generation: int, document: Document) -> None:
    own = (VersionRow.document_key == key) & (VersionRow.generation == generation)
    stored = tx.execute(select(VersionRow.__table__).where(own)).one()
    extra = {field: list(value) if isinstance(value, tuple) else value for field, value in document.metadata.items()}
    values: dict[str, Any] = {**stored._mapping, NAME: document.name[:512], "metadata": extra}
    checksum = checksums.values_checksum(*(values[column] for column in checksums.VERSION))
    tx.execute(update(VersionRow).where(own).values(name=values[NAME], metadata=extra, checksum=checksum))
    known = (ValidityRow.document_key == key) & (ValidityRow.generation == generation)
    tx.execute(delete(ValidityRow).where(known))
    validity.write(tx, knowledge_base, [(key, generation, document)])
