"""How much was acknowledged, in a small file beside the database, which a lost tail of the database leaves as it is.

SQLite ends its recovery at the first damaged page of its write-ahead log and says nothing of what came after; a server
may be restored from an older copy. Every writing transaction therefore raises the counter ``commit``, and once it is
durable the count is written to the file, without waiting for the disk: a crash leaves the file at or behind the
database, never ahead. Where the database is behind the file when it is opened, acknowledged writes are missing.

Other processes on the same database raise the same counter, so that each may have a file of its own.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from zlib import crc32

from sqlalchemy import Connection, insert, select, update

from qianxun.core.system.durable import replace_file
from qianxun.records.database.statements import Compiled
from qianxun.records.schema import Counter

log = logging.getLogger(__name__)

LOST = ".lost"  # added to the name of the file: what was found missing, until people delete it
STORE = "store"  # the counter that tells this database from all others

_COUNT = Compiled(
    "UPDATE counters SET next = next + 1 WHERE name = 'commit' "
    "RETURNING next, (SELECT next FROM counters WHERE name = 'outbox')",
    (),
    (),
)


@dataclass(frozen=True, slots=True)
class Count:
    """Of all that was committed to a database, and of the changes to documents among it."""

    commits: int
    changes: int


@dataclass(frozen=True, slots=True)
class Loss:
    """Acknowledged writes that are not in the database."""

    commits: int
    changes: int  # to documents, among them
    acknowledged_at: str  # the last of them
    found_at: str


def count_commit(tx: Connection) -> Count:
    """The last statement of every writing transaction."""
    if tx.dialect.name == "mysql":  # which cannot return what it updates
        own = update(Counter).where(Counter.name == "commit").values(next=Counter.next + 1)
        if tx.execute(own).rowcount:
            return _count(tx)
    elif found := _COUNT.rows(tx, {}):
        commits, next_change = found[0]
        return Count(commits, (next_change or 1) - 1)
    tx.execute(insert(Counter).values(name="commit", next=1))
    return _count(tx)


def _count(tx: Connection) -> Count:
    found = dict(tx.execute(select(Counter.name, Counter.next).where(Counter.name.in_(("commit", "outbox")))).all())
    return Count(found.get("commit", 0), found.get("outbox", 1) - 1)


class Acknowledged:
    """The file of one process; one thread at a time writes to it.

    A thread may commit while the records are closed. The number of a closed file is soon that of another one, which may
    be a database: what comes after `close` is written nowhere.
    """

    def __init__(self, path: Path, store: int, *, is_new: bool) -> None:
        self.is_new = is_new  # the first of its database
        self._store = store
        self._using = Lock()
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def note(self, count: Count) -> None:
        """A few microseconds. A disk that is full or gone costs the count and not the write, which is durable."""
        with self._using:
            if self._handle is None:
                return
            try:
                os.pwrite(self._handle, _line(self._store, count), 0)
            except OSError as error:
                log.warning("the count of acknowledged writes is not noted: %s", error)

    def close(self) -> None:
        with self._using:
            handle, self._handle = self._handle, None
            if handle is not None:
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)


def _line(store: int, count: Count) -> bytes:
    """Of one length, so that a later one covers it whole."""
    body = f"{store:020d} {count.commits:020d} {count.changes:020d} {datetime.now(UTC).isoformat(timespec='seconds')}"
    return f"{crc32(body.encode()):08x} {body}\n".encode()


def _read(path: Path) -> tuple[int, Count, str] | None:
    """Database, count and time; None where there is no file, or one that a power loss tore."""
    try:
        checksum, _, body = path.read_bytes().partition(b" ")
    except OSError:
        return None
    body = body.rstrip(b"\n")
    if checksum != b"%08x" % crc32(body):
        return None
    store, commits, changes, at = body.decode().split(" ")
    return int(store), Count(int(commits), int(changes)), at


def open_acknowledged(tx: Connection, path: Path) -> tuple[Acknowledged, Loss | None]:
    """Opens the file, and compares what it says with the database, in a writing transaction that others wait for."""
    store = tx.execute(select(Counter.next).where(Counter.name == STORE)).scalar()
    is_new = store is None
    if store is None:
        store = secrets.randbelow(1 << 62) + 1
        tx.execute(insert(Counter).values(name=STORE, next=store))
    loss = missing(tx, path)
    if loss is not None:
        log.error(
            "%s acknowledged writes, %s of them changes to documents, are not in the database; the last was at %s",
            *(loss.commits, loss.changes, loss.acknowledged_at),
        )
        known = [json.dumps(asdict(one)) for one in (*losses(path), loss)]
        replace_file(path.with_name(path.name + LOST), ("\n".join(known) + "\n").encode())
    mark = Acknowledged(path, store, is_new=is_new)
    mark.note(_count(tx))
    return mark, loss


def missing(tx: Connection, path: Path) -> Loss | None:
    """What the file says was acknowledged and the database does not have. The file is read first: a process that
    writes meanwhile can only bring the database further."""
    marked = _read(path)
    if marked is None or marked[0] != tx.execute(select(Counter.next).where(Counter.name == STORE)).scalar():
        return None
    count, now = _count(tx), datetime.now(UTC).isoformat(timespec="seconds")
    if count.commits >= marked[1].commits:
        return None
    return Loss(marked[1].commits - count.commits, max(marked[1].changes - count.changes, 0), marked[2], now)


def losses(path: Path) -> list[Loss]:
    """What was found missing earlier, until people delete the list."""
    try:
        return [Loss(**json.loads(line)) for line in path.with_name(path.name + LOST).read_text("utf-8").splitlines()]
    except (OSError, ValueError, TypeError):
        return []
