"""Deletion with a receipt: delete, read what is left everywhere, sign what was read.

    delete ──► the records (one transaction) ──► the index, the inbox, the caches ──► read each of them ──► sign
    purge  ──► … and names in logs, labels and the audit log ──► index and database written anew ──► files scanned

`delete_documents` is the function to read first.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from sqlalchemy import Connection, func, select

from qianxun.bases.base import OpenBase
from qianxun.bases.forget import forget_documents
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.filters import In
from qianxun.core.governance.actor import current_actor
from qianxun.core.governance.receipts import KnownCopy, Receipt, ReceiptKind, Removed, Scanned, name_digest
from qianxun.core.system.cache import forget_texts
from qianxun.engine.governance.host import Host
from qianxun.engine.governance.scan import ENCODINGS, ScanFailed, passages, scan_apart
from qianxun.indexing.maintenance import keep_up, rebuild
from qianxun.jobs.follow_writes import LOOK_SECONDS
from qianxun.records import bases, document_heads, documents
from qianxun.records.governance import audit, deletion, receipts, signing
from qianxun.records.governance.deletion import Footprint
from qianxun.records.schema import Base

MOST_COPIES = 100  # that a receipt names
RETAINED_NOTE = "{one.store} 留着 {one.left} 行：人所作的决定，文档回来时还要用；要连它们一起清除，用 purge"
DISK_NOTE = "磁盘上已释放的块、文件系统的快照与备份、固态硬盘的备用块，不在可证之内"
PLAIN_NOTE = "只是删除：数据库与索引的文件里可能还有旧的字节，检索日志里还有文档的编号；要连它们一起清除，用 purge"
REPLICAS_NOTE = "从状态 {state} 起，别的进程都不再用它答复（每次都先与记录比对状态）；它们的内存此处读不到，"
EMPTIED_NOTE = "运行着的约 {seconds:g} 秒内各自清空"
EXPIRED_NOTE = "里面的答案至迟 {seconds:g} 秒后失效"
USER_FILE_NOTE = "文件原来所在的地方不归千寻管，没有动"


@dataclass
class _Found:
    """What is being put together for a receipt."""

    removed: list[Removed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    scan: Scanned | None = None


async def delete_documents(host: Host, knowledge_base: int, doc_ids: Sequence[str], *, purge: bool = False) -> Receipt:
    """Deletes documents; with ``purge`` also the bytes, and every mention of them. Raises NotFound if there is none.

    A purge writes the base's index and the whole database anew: that takes as long as they are large.
    """
    found, wanted = _Found(), list(dict.fromkeys(doc_ids))
    await _delete_in(host, await host.base(knowledge_base), wanted, found, purge=purge)
    if purge:
        await _rewrite(host, found)
    return await _issue(host, found, "documents", knowledge_base, wanted, len(wanted), purge=purge)


async def _delete_in(host: Host, base: OpenBase, doc_ids: Sequence[str], found: _Found, *, purge: bool) -> None:
    await host.journal.flush()  # what is searched is logged a moment later
    before = await asyncio.to_thread(_remove, host, base, doc_ids, found, purge)
    await keep_up(base, preparing=False)
    found.removed += await _uploads(host, base.id, doc_ids)
    if purge:
        left = await forget_documents([base], host.cache)
        found.removed.append(Removed("cache.answers", 0, left, "" if left >= 0 else "缓存服务器没有答复"))
        await rebuild(base, base.model)
    rows = await asyncio.to_thread(_rows_left, base, doc_ids, before)
    # Corrections wait for their document to come back, unless it is purged.
    waiting = () if purge else tuple(f"records.{table}" for table in deletion.tables_by_id())
    found.removed += [row for row in rows if row.store not in waiting]
    found.notes += [RETAINED_NOTE.format(one=row) for row in rows if row.store in waiting and row.left]
    found.removed += await _index_left(base, before, found.texts or [""], doc_ids, whole=purge)
    found.removed.append(await _replicas(host, base.id, purge=purge))


async def _replicas(host: Host, knowledge_base: int, *, purge: bool) -> Removed:
    """Their memory cannot be read from here; what can be said is from which state on they have no use for it."""
    state = await host.records.read(lambda tx: bases.generation(tx, knowledge_base))
    seconds = max(host.settings.search.cache_seconds, host.settings.cache.most_seconds)
    fate = EMPTIED_NOTE.format(seconds=LOOK_SECONDS) if purge else EXPIRED_NOTE.format(seconds=seconds)
    return Removed(f"replicas.{knowledge_base}", 0, -1, REPLICAS_NOTE.format(state=state) + fate)


def _remove(host: Host, base: OpenBase, doc_ids: Sequence[str], found: _Found, purge: bool) -> Footprint:
    """The one transaction by which they are gone."""
    with base.records.writing() as tx:
        heads = document_heads.heads(tx, base.id, doc_ids)
        if not any(head.status != "deleted" for head in heads.values()):
            raise NotFound(f"知识库 {base.id} 中没有这样的文档", hint="它也许已经删除；用 qianxun kb show 查看")
        before = deletion.footprint(tx, base.id, doc_ids)
        found.texts += deletion.texts(tx, before.document_keys)
        for doc_id in doc_ids:
            documents.remove(tx, base.id, doc_id, reason=document_heads.WITHDRAWN)
        if purge:
            deletion.note_purge(tx)
        named = deletion.purge_names(tx, base.id, host.tenant, doc_ids) if purge else {}
    found.tables |= {*before.rows, *named, "documents", "outbox"}
    found.removed += [Removed(f"records.{table}", count, 0, "引用或由它学来的") for table, count in named.items()]
    return before


def _rows_left(base: OpenBase, doc_ids: Sequence[str], before: Footprint) -> list[Removed]:
    with base.records.reading() as tx:
        keys = (before.document_keys, before.chunk_keys, before.pair_keys)
        left = deletion.count_rows(tx, base.id, *keys, list(doc_ids))
    return [Removed(f"records.{table}", before.rows.get(table, 0), count) for table, count in left.items()]


async def _index_left(
    base: OpenBase, before: Footprint, texts: Sequence[str], doc_ids: Sequence[str], *, whole: bool
) -> list[Removed]:
    """With ``whole`` every key that the index has is compared; else it is searched for these."""
    keys, pair_keys = np.array(before.chunk_keys, np.int64), np.array(before.pair_keys, np.int64)
    if whole:
        inventory, none = await base.index.inventory(), np.empty(0, np.int64)
        words = int(np.isin(keys, inventory.keywords).sum())
        vectors = int(np.isin(keys, inventory.vectors.get("content", none)).sum())
        questions = int(np.isin(pair_keys, inventory.vectors.get("question", none)).sum())
    else:
        terms = await asyncio.to_thread(base.analyser.analyse_query, texts[0][:200])
        ranking = await base.index.match(terms, len(keys) or 1, In("doc_id", tuple(doc_ids)))
        words, vectors, questions = len(ranking.keys), 0, 0
        if base.model is not None and len(keys):
            vector = np.full(base.model.dimension, base.model.dimension**-0.5, np.float32)
            vectors = int(np.isfinite(await base.index.cosines(vector, keys)).sum())
    removed = [Removed("index.keywords", len(keys), words)]
    if base.model is not None:
        removed.append(Removed("index.vectors", len(keys), vectors))
        removed += [Removed("index.questions", len(pair_keys), questions)] if len(pair_keys) else []
    return removed


async def _uploads(host: Host, knowledge_base: int, doc_ids: Sequence[str]) -> list[Removed]:
    """Files that were received and not read yet; those in the hands of another process it will drop itself."""

    def remove() -> list[Removed]:
        removed = 0
        for entry in host.inbox.take_left():
            upload = entry.upload
            if (upload.tenant, upload.knowledge_base) == (host.tenant, knowledge_base) and upload.doc_id in doc_ids:
                entry.remove()
                removed += 1
            else:
                entry.leave()
        return [Removed("originals.inbox", removed, 0)]

    return await asyncio.to_thread(remove)


# ── written anew ─────────────────────────────────────────────────────────────────────────────────


async def _rewrite(host: Host, found: _Found) -> None:
    """The database; then every file of the data folder is read for what was deleted."""
    known = set(Base.metadata.tables)
    note = await asyncio.to_thread(host.records.rewrite, sorted(found.tables & known))
    found.notes += [note] if note else []
    try:
        found.scan = await asyncio.to_thread(_scanned, host, found.texts)
    except ScanFailed as error:  # what is deleted is deleted: the receipt says that it was not proven
        found.removed.append(Removed("files", 0, -1, f"没能读遍数据目录：{error}"))


def _scanned(host: Host, texts: Sequence[str]) -> Scanned:
    folder: Path = host.settings.folder
    wanted = passages(texts)
    hits = scan_apart(folder, wanted)
    with host.records.reading() as tx:
        shared = {passage for passage in hits.found if deletion.has_passage(tx, passage)}
    files = sorted({file for passage, where in hits.found.items() if passage not in shared for file in where})
    return Scanned(hits.files, hits.bytes, len(wanted), ENCODINGS, tuple(files), len(shared))


# ── everything of a user, and whole bases ────────────────────────────────────────────────────────


async def purge_subject(host: Host, user_id: str) -> Receipt:
    """Purges everything of a user: documents that name them, searches for them with feedback, evaluation cases made of
    these, their registered models; their name in the audit log. Raises BadInput for an empty id."""
    if not user_id.strip():
        raise BadInput("user_id 是空的", hint="写明要清除的是哪个用户")
    found = _Found()
    await host.journal.flush()
    own = await host.records.read(lambda tx: deletion.documents_of_user(tx, host.tenant, user_id))
    for knowledge_base, doc_ids in own.items():
        await _delete_in(host, await host.base(knowledge_base), doc_ids, found, purge=True)
    forgotten = await host.records.write(lambda tx: deletion.forget_user(tx, host.tenant, user_id))
    found.tables |= {*forgotten}
    await _rewrite(host, found)
    left = await host.records.read(lambda tx: deletion.remaining_of_user(tx, host.tenant, user_id))
    found.removed += [
        Removed(f"subject.{table}", forgotten.get(table, 0), left.get(table, 0))
        for table in sorted({*forgotten, *left})
    ]
    names = [user_id, *(doc_id for doc_ids in own.values() for doc_id in doc_ids)]
    return await _issue(host, found, "subject", 0, names, len(names) - 1, purge=True)


async def delete_base(host: Host, knowledge_base: int, *, purge: bool = False) -> Receipt:
    """Deletes a base with everything in it; with ``purge`` also the bytes. Raises NotFound."""
    found = _Found()
    about = await host.knowledge_base(knowledge_base)
    before = await host.records.read(lambda tx: _base_rows(tx, knowledge_base))
    if purge:
        found.texts += await host.records.read(lambda tx: _base_texts(tx, knowledge_base))
    await host.delete_knowledge_base(knowledge_base)
    cached = await host.cache.forget(knowledge_base, about.identity)
    forget_texts()
    found.removed.append(await _replicas(host, knowledge_base, purge=purge))
    left = await host.records.read(lambda tx: _base_rows(tx, knowledge_base))
    found.tables |= {*before}
    found.removed += [Removed(f"records.{name}", count, left[name]) for name, count in before.items()]
    found.removed += [Removed("cache.answers", 0, cached), Removed("index", 1, 0, "整个索引已去除")]
    if purge:
        await host.records.write(lambda tx: _erase_base(tx, host.tenant, knowledge_base))
        await _rewrite(host, found)
    documents_count = before.get("documents", 0)
    names = [str(knowledge_base)]
    return await _issue(host, found, "knowledge_base", knowledge_base, names, documents_count, purge=purge)


def _base_rows(tx: Connection, knowledge_base: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for table in Base.metadata.sorted_tables:
        if "knowledge_base_id" in table.c and not _is_account(table):
            own = select(func.count()).select_from(table).where(table.c.knowledge_base_id == knowledge_base)
            counts[table.name] = int(tx.execute(own).scalar_one())
    return counts


def _is_account(table: object) -> bool:
    """What tells that something was done stays."""
    return getattr(table, "name", "") in ("audit_log", "deletion_receipts", "webhooks")


def _base_texts(tx: Connection, knowledge_base: int) -> list[str]:
    versions = Base.metadata.tables["document_versions"]
    return list(tx.execute(select(versions.c.content).where(versions.c.knowledge_base_id == knowledge_base)).scalars())


def _erase_base(tx: Connection, tenant: str, knowledge_base: int) -> int:
    deletion.note_purge(tx)
    own = audit.entries(tx, tenant=tenant, knowledge_base=knowledge_base, limit=10**9)
    return audit.erase(tx, [entry.sequence for entry in own if entry.action.startswith("document.")])


# ── the receipt ──────────────────────────────────────────────────────────────────────────────────


async def _issue(
    host: Host,
    found: _Found,
    kind: ReceiptKind,
    knowledge_base: int,
    names: Sequence[str],
    count: int,
    *,
    purge: bool,
) -> Receipt:
    now, salt = datetime.now(UTC), secrets.token_hex(16)
    notes = [*found.notes, DISK_NOTE if purge else PLAIN_NOTE, USER_FILE_NOTE]
    receipt = Receipt(
        id=f"{now:%Y%m%d%H%M%S%f}{secrets.token_hex(4)}",
        kind=kind,
        tenant=host.tenant,
        knowledge_base_id=knowledge_base,
        created_at=now,
        who=current_actor(),
        documents=count,
        salt=salt,
        names=tuple(name_digest(salt, name) for name in names),
        is_purged=purge,
        removed=tuple(one for one in _summed(found.removed) if one.removed or one.left),
        scan=found.scan,
        copies=await host.records.read(lambda tx: _copies(tx, host.tenant, knowledge_base)),
        notes=tuple(notes),
    )

    def store(tx: Connection) -> None:
        receipts.add(tx, signed)
        about = {"documents": count, "purged": purge, "complete": signed.is_complete}
        audit.append(
            tx, "", "receipt.issue", signed.id, tenant=host.tenant, knowledge_base=knowledge_base, details=about
        )

    signed = await asyncio.to_thread(signing.sign, receipt, host.registered.sealing)
    await host.records.write(store)
    return signed


def _summed(removed: Sequence[Removed]) -> list[Removed]:
    """One line for every place, of all bases together."""
    sums: dict[str, Removed] = {}
    for one in removed:
        earlier = sums.get(one.store, Removed(one.store, 0, 0))
        left = -1 if -1 in (one.left, earlier.left) else earlier.left + one.left
        sums[one.store] = Removed(one.store, earlier.removed + one.removed, left, one.note or earlier.note)
    return list(sums.values())


def _copies(tx: Connection, tenant: str, knowledge_base: int) -> tuple[KnownCopy, ...]:
    """Exports of the base, or of any of the tenant's, and copies of the database, as the audit log knows them."""
    base: Mapping[str, int | None] = {"knowledge_base": knowledge_base or None}
    found = audit.entries(tx, tenant=tenant, action="base.export", limit=MOST_COPIES, **base)
    found += audit.entries(tx, action="database.copy", limit=MOST_COPIES)
    return tuple(KnownCopy(one.created_at.isoformat(), one.action, one.subject) for one in found)
