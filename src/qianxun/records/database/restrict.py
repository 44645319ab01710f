"""What a principal may not see is not in the tables that its statements read. `restricted` is read first.

A connection that reads on behalf of a principal knows the sets of labels that this one may see (`restricting`). Every
SELECT on it reads, in the place of each table, what of it belongs to documents with these labels: one place for all
functions of `records`, those to come as well. Of a table of which nothing is known there is nothing to be read, and
whatever is no SELECT is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Column, Connection, Engine, Subquery, Table, event, false, select
from sqlalchemy.sql import visitors

from qianxun.core.errors import Forbidden
from qianxun.records.schema import AccessSetRow, ChunkRow, DocumentRow, PairRow

PERMITTED: Final = "permitted_sets"
LABELS: Final = "principal_labels"
# Nothing in these is of a document: bases and their settings, counters, what a model wrote about a community, which is
# looked up by a number made of its content.
OPEN: Final = frozenset({"knowledge_bases", "counters", "graph_summaries", "alembic_version"})
OWNERS: Final[Mapping[str, Any]] = {"chunk_key": ChunkRow, "pair_key": PairRow}


def permitted_in(tx: Connection) -> tuple[int, ...] | None:
    """The sets of labels that statements on this connection see; None: all."""
    found: tuple[int, ...] | None = tx.info.get(PERMITTED)
    return found


def shown_labels(tx: Connection, labels: Iterable[str] | None) -> tuple[str, ...]:
    """Of a document's labels those that the principal of this connection has: who else may see it is not its business.
    All of them on a connection that sees everything."""
    own: frozenset[str] | None = tx.info.get(LABELS)
    return tuple(label for label in labels or () if own is None or label in own)


@contextmanager
def restricting(
    tx: Connection, sets: Sequence[int] | None, labels: frozenset[str] = frozenset()
) -> Iterator[Connection]:
    """Within the block the connection sees documents with these sets of labels alone, and of their labels these; None:
    all of them."""
    if sets is None:
        yield tx
        return
    info = tx.info  # of the driver's connection, which others use afterwards
    info[PERMITTED], info[LABELS] = tuple(sets), labels
    try:
        yield tx
    finally:
        del info[PERMITTED], info[LABELS]


def watch_statements(engine: Engine) -> None:
    """From now on the statements of this engine's connections are `restricted`, where there is something to hide."""

    def before_execute(tx: Connection, statement: Any, many: Any, params: Any, options: Any) -> tuple[Any, Any, Any]:
        sets = tx.info.get(PERMITTED)
        return (statement if sets is None else restricted(statement, sets)), many, params

    event.listen(engine, "before_execute", before_execute, retval=True)


def restricted(statement: Any, sets: tuple[int, ...]) -> Any:
    """The statement over what of its tables a principal may see. Raises Forbidden for what is no SELECT."""
    if not getattr(statement, "is_select", False):
        raise Forbidden("以某一主体的身份只能检索与查看", hint="改动请用不代表任何主体的写密钥，或在本机运行")

    def replaced(element: Any, **_: Any) -> Any:
        if isinstance(element, Table):
            return None if element.name in OPEN else _visible(element, sets)
        if isinstance(element, Column) and isinstance(element.table, Table) and element.table.name not in OPEN:
            return _visible(element.table, sets).c[element.key]
        return None

    return visitors.replacement_traverse(statement, {}, replaced)


@lru_cache(maxsize=512)
def _visible(table: Table, sets: tuple[int, ...]) -> Subquery:
    """The rows of a table that belong to documents with these sets, under the table's own name."""
    return select(table).where(_condition(table, sets)).subquery(table.name)


def _condition(table: Table, sets: tuple[int, ...]) -> Any:
    if table.name == DocumentRow.__tablename__:
        return table.c.access_set.in_(sets)
    if table.name == AccessSetRow.__tablename__:
        return table.c.id.in_(sets)
    # Under another name, or it would be taken for the table that the statement itself reads. Looked up for each row,
    # and not as a set: most statements read a few rows, and to make the set of all that is permitted took 30 ms of
    # CPU at 100,000 documents, once for every table that a statement names.
    documents = DocumentRow.__table__.alias("permitted_documents")
    permitted = documents.c.access_set.in_(sets)
    if "document_key" in table.c:
        return select(documents.c.key).where(documents.c.key == table.c.document_key, permitted).exists()
    for name, owner in OWNERS.items():
        if name in table.c:
            owners = owner.__table__.alias("permitted_owners")
            own = select(owners.c.key).join(documents, documents.c.key == owners.c.document_key)
            return own.where(owners.c.key == table.c[name], permitted).exists()
    if {"doc_id", "knowledge_base_id"} <= set(table.c.keys()):
        mine = documents.c.knowledge_base_id == table.c.knowledge_base_id
        return select(documents.c.key).where(permitted, mine, documents.c.doc_id == table.c.doc_id).exists()
    return false()
