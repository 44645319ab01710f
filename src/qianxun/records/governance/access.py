"""Who may see which documents: labels and rules as people set them, and what a principal may see by them.

Every document has the number of a set of labels, 0 for everybody; a set never changes. What a principal may see is
therefore a few numbers, which a statement compares with the documents as they are at that moment (`restrict`). The
counter of a base is raised with every change: without it nobody ever gave a label there, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import Connection, Dialect, bindparam, delete, insert, select, update

from qianxun.core.codec.passage import PATH
from qianxun.core.errors import NotFound
from qianxun.core.governance.access import AccessRule, DocumentAccess, checked_labels, checked_prefix
from qianxun.core.types import Document
from qianxun.core.unicode import is_storable, storable
from qianxun.records import bases
from qianxun.records.database.counters import allocate, count_up
from qianxun.records.database.restrict import shown_labels
from qianxun.records.database.statements import Compiled, compiled, in_slices, select_in
from qianxun.records.governance import audit
from qianxun.records.schema import AccessRuleRow, AccessSetRow, Counter, DocumentRow, VersionRow

UNLABELLED: Final = 0  # the set without labels


def version(tx: Connection, knowledge_base: int) -> int | None:
    """Another number whenever a label or rule of the base has changed; None if it never had one."""
    found = _version_query(tx.dialect).rows(tx, {"name": bases.access_counter(knowledge_base)})
    return int(found[0][0]) if found else None


@lru_cache
def _version_query(dialect: Dialect) -> Compiled:
    return compiled(select(Counter.next).where(Counter.name == bindparam("name", type_=Counter.name.type)), dialect)


def has_labels(tx: Connection, tenant: str) -> bool:
    """Whether anybody gave labels in a base of the tenant."""
    own = {bases.access_counter(base.id) for base in bases.every(tx, tenant=tenant)}
    return any(name in own for name in tx.execute(select(Counter.name).where(Counter.name.like("access.%"))).scalars())


def permitted_sets(tx: Connection, knowledge_base: int, labels: frozenset[str]) -> tuple[int, ...]:
    """The sets of which a principal with these labels has one label at least; and that of everybody."""
    own = select(AccessSetRow.id, AccessSetRow.labels).where(AccessSetRow.knowledge_base_id == knowledge_base)
    found = (row.id for row in tx.execute(own.order_by(AccessSetRow.id)) if not labels.isdisjoint(row.labels))
    return (UNLABELLED, *found)


def document_keys(tx: Connection, knowledge_base: int) -> list[int]:
    """The documents of a base, ascending: on behalf of a principal, those that it may see."""
    query = select(DocumentRow.key).where(DocumentRow.knowledge_base_id == knowledge_base)
    return sorted(tx.execute(query).scalars())


# ── labels ───────────────────────────────────────────────────────────────────────────────────────


def set_labels(
    tx: Connection, knowledge_base: int, doc_ids: Iterable[str], labels: Sequence[str] | None
) -> list[DocumentAccess]:
    """Gives documents labels of their own; None takes these away, so that rules count again; () is everybody.

    Raises NotFound, and changes nothing, for a document that does not exist; BadInput for what is no label.
    """
    chosen = list(dict.fromkeys(doc_ids))
    given = None if labels is None else checked_labels(labels)
    found = _documents(tx, knowledge_base, chosen)
    missing = [doc_id for doc_id in chosen if doc_id not in found]
    if missing:
        raise NotFound(
            f"知识库 {knowledge_base} 中没有文档“{storable(missing[0])[:80]}”", hint="用 qianxun kb show 查看已有的文档"
        )
    own = {row.key: given for row in found.values()}
    if _assign(tx, knowledge_base, own, {row.key: _paths(row) for row in found.values()}, always=True):
        _note_change(tx, knowledge_base)
        details = {"labels": None if given is None else list(given), "documents": len(chosen)}
        audit.append(tx, "", "access.labels", "、".join(chosen), knowledge_base=knowledge_base, details=details)
    return listed(tx, knowledge_base, chosen)


def note_accepted(tx: Connection, knowledge_base: int, accepted: Sequence[tuple[int, Document]]) -> None:
    """Documents (by key) that were handed over: those that came with labels have these from now on, the others what
    they had, or what a rule gives. In the transaction that stores them: they are at no time without."""
    given = {key: checked_labels(document.access) for key, document in accepted if document.access is not None}
    if not given and version(tx, knowledge_base) is None:
        return
    keys = [key for key, _ in accepted]
    own_labels = {
        row.key: row.own_access
        for row in select_in(tx, select(DocumentRow.key, DocumentRow.own_access), DocumentRow.key, keys)
    }
    own = {key: given.get(key, None if own_labels.get(key) is None else tuple(own_labels[key])) for key in keys}
    paths = {key: document_paths(document.id, document.source, document.metadata) for key, document in accepted}
    if _assign(tx, knowledge_base, own, paths) or (given and version(tx, knowledge_base) is None):
        _note_change(tx, knowledge_base)


def listed(tx: Connection, knowledge_base: int, doc_ids: Sequence[str]) -> list[DocumentAccess]:
    """The labels of these documents, in this order."""
    found = _documents(tx, knowledge_base, doc_ids)
    sets = labels_of_sets(tx, {row.access_set for row in found.values()})
    return [
        DocumentAccess(
            doc_id,
            found[doc_id].name,
            sets.get(found[doc_id].access_set, ()),
            found[doc_id].own_access is not None,
        )
        for doc_id in doc_ids
        if doc_id in found
    ]


def page(
    tx: Connection, knowledge_base: int, *, label: str = "", limit: int = 100, after: str = ""
) -> list[DocumentAccess]:
    """The documents that have labels (or this one), in the order of their ids."""
    known = _sets(tx, knowledge_base)
    sets = [number for number, labels in known.items() if labels and (not label or label in labels)]
    query = select(DocumentRow.doc_id).where(
        DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.status != "deleted"
    )
    query = query.where(DocumentRow.doc_id > storable(after))
    found = sorted(row.doc_id for row in select_in(tx, query, DocumentRow.access_set, sets))
    return listed(tx, knowledge_base, found[: max(limit, 0)])


def sets_with(tx: Connection, knowledge_base: int, label: str) -> list[int]:
    """The sets of labels that have this one."""
    return [number for number, labels in _sets(tx, knowledge_base).items() if label in labels]


def labels_in_use(tx: Connection, knowledge_base: int) -> dict[str, int]:
    """Label → in how many documents."""
    sets = _sets(tx, knowledge_base)
    live = select(DocumentRow.access_set).where(
        DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.status != "deleted"
    )
    counts: dict[str, int] = {}
    for number in tx.execute(live.where(DocumentRow.access_set != UNLABELLED)).scalars():
        for label in sets.get(number, ()):
            counts[label] = counts.get(label, 0) + 1
    return dict(sorted(counts.items()))


def _sets(tx: Connection, knowledge_base: int) -> dict[int, tuple[str, ...]]:
    """Set → its labels; on behalf of a principal, those that it has."""
    own = select(AccessSetRow.id, AccessSetRow.labels).where(AccessSetRow.knowledge_base_id == knowledge_base)
    return {row.id: shown_labels(tx, row.labels) for row in tx.execute(own)}


def labels_of_sets(tx: Connection, sets: Iterable[int]) -> dict[int, tuple[str, ...]]:
    query = select(AccessSetRow.id, AccessSetRow.labels)
    return {row.id: shown_labels(tx, row.labels) for row in select_in(tx, query, AccessSetRow.id, sorted(sets))}


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def rules(tx: Connection, knowledge_base: int) -> list[AccessRule]:
    """In the order of their prefixes."""
    query = select(AccessRuleRow.prefix, AccessRuleRow.labels).where(AccessRuleRow.knowledge_base_id == knowledge_base)
    return sorted((AccessRule(row.prefix, tuple(row.labels)) for row in tx.execute(query)), key=lambda one: one.prefix)


def set_rule(tx: Connection, knowledge_base: int, prefix: str, labels: Sequence[str]) -> AccessRule:
    """From now on, what is under the prefix has these labels, unless it has its own; also what is there already."""
    rule = AccessRule(checked_prefix(prefix), checked_labels(labels))
    _remove_rule(tx, knowledge_base, rule.prefix)
    tx.execute(
        insert(AccessRuleRow).values(
            knowledge_base_id=knowledge_base,
            digest=_digest(rule.prefix),
            prefix=rule.prefix,
            labels=list(rule.labels),
            created_at=datetime.now(UTC),
        )
    )
    _inherit(tx, knowledge_base)
    details = {"labels": list(rule.labels)}
    audit.append(tx, "", "access.rule", rule.prefix, knowledge_base=knowledge_base, details=details)
    return rule


def remove_rule(tx: Connection, knowledge_base: int, prefix: str) -> bool:
    """Returns True if there was such a rule."""
    found = _remove_rule(tx, knowledge_base, checked_prefix(prefix))
    if found:
        _inherit(tx, knowledge_base)
        audit.append(tx, "", "access.rule_removed", checked_prefix(prefix), knowledge_base=knowledge_base)
    return found


def _remove_rule(tx: Connection, knowledge_base: int, prefix: str) -> bool:
    own = (AccessRuleRow.knowledge_base_id == knowledge_base) & (AccessRuleRow.digest == _digest(prefix))
    return bool(tx.execute(delete(AccessRuleRow).where(own)).rowcount)


def _inherit(tx: Connection, knowledge_base: int) -> None:
    """Works out anew what the documents without labels of their own have by the rules."""
    rows = [row for row in tx.execute(_with_versions(knowledge_base)) if row.own_access is None]
    _assign(tx, knowledge_base, {row.key: None for row in rows}, {row.key: _paths(row) for row in rows})
    _note_change(tx, knowledge_base)


def document_paths(doc_id: str, source: str, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """What rules are compared with: where a file was in its folder, where a document came from, its id."""
    path = metadata.get(PATH)
    return tuple(one for one in (path if isinstance(path, str) else "", source, doc_id) if one)


# ── storing ──────────────────────────────────────────────────────────────────────────────────────


def _assign(
    tx: Connection,
    knowledge_base: int,
    own: Mapping[int, Sequence[str] | None],
    paths: Mapping[int, Sequence[str]],
    *,
    always: bool = False,
) -> bool:
    """Stores for each document its own labels and the set that counts. Returns whether one has another set now."""
    known = rules(tx, knowledge_base)
    counting = {key: _counting(given, paths.get(key, ()), known) for key, given in own.items()}
    sets = {labels: _set_of(tx, knowledge_base, labels) for labels in sorted(set(counting.values()))}
    query = select(DocumentRow.key, DocumentRow.access_set, DocumentRow.own_access)
    before = {row.key: (row.access_set, row.own_access) for row in select_in(tx, query, DocumentRow.key, own)}
    after = {key: (sets[labels], _plain(own[key])) for key, labels in counting.items()}
    changed = {key: value for key, value in after.items() if key in before and before[key] != value}
    groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
    for key, (number, given) in changed.items():
        groups.setdefault((number, None if given is None else tuple(given)), []).append(key)
    for (number, labels), keys in groups.items():
        values = {"access_set": number, "own_access": _plain(labels)}
        for part in in_slices(keys):
            tx.execute(update(DocumentRow).where(DocumentRow.key.in_(part)).values(**values))
    return any(before[key][0] != value[0] for key, value in changed.items()) or (always and bool(changed))


def _counting(own: Sequence[str] | None, paths: Sequence[str], known: Sequence[AccessRule]) -> tuple[str, ...]:
    """A document's own labels count alone, even if there are none; else those of the rule that fits best."""
    if own is not None:
        return tuple(own)
    fitting = [rule for rule in known if any(rule.fits(path) for path in paths)]
    return max(fitting, key=lambda rule: len(rule.prefix)).labels if fitting else ()


def _plain(labels: Sequence[str] | None) -> list[str] | None:
    return None if labels is None else list(labels)


def _set_of(tx: Connection, knowledge_base: int, labels: tuple[str, ...]) -> int:
    if not labels:
        return UNLABELLED
    digest = _digest("\n".join(labels))
    own = (AccessSetRow.knowledge_base_id == knowledge_base) & (AccessSetRow.digest == digest)
    found = tx.execute(select(AccessSetRow.id).where(own)).scalar()
    if found is not None:
        return int(found)
    (number,) = allocate(tx, "access_set", 1)
    values = {"id": number, "knowledge_base_id": knowledge_base, "digest": digest, "labels": list(labels)}
    tx.execute(insert(AccessSetRow).values(**values))
    return number


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=32).hexdigest()


def _note_change(tx: Connection, knowledge_base: int) -> None:
    """Every answer may be another from now on; what processes have in memory is of an earlier state."""
    count_up(tx, bases.access_counter(knowledge_base))
    bases.revise(tx, knowledge_base)


def _with_versions(knowledge_base: int) -> Any:
    current = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.generation)
    columns = (
        DocumentRow.key,
        DocumentRow.doc_id,
        DocumentRow.access_set,
        DocumentRow.own_access,
        VersionRow.name,
        VersionRow.source,
        VersionRow.extra.label("metadata"),
    )
    own = (DocumentRow.knowledge_base_id == knowledge_base) & (DocumentRow.status != "deleted")
    return select(*columns).join(VersionRow, current).where(own)


def _documents(tx: Connection, knowledge_base: int, doc_ids: Iterable[str]) -> dict[str, Any]:
    wanted = [doc_id for doc_id in doc_ids if is_storable(doc_id)]
    return {row.doc_id: row for row in select_in(tx, _with_versions(knowledge_base), DocumentRow.doc_id, wanted)}


def _paths(row: Any) -> tuple[str, ...]:
    return document_paths(row.doc_id, row.source, row.metadata or {})
