"""Uploaded files that are not read yet: durable in the data folder until their document is stored.

    receive ──► (read, recognise) ──► the records have the document, or the caller has the reason ──► remove
       └── the process is killed, or the caller gives up ──► `run_inbox` reads it

An upload is two files, `<token>.file` and `<token>.json`. The latter makes it one, and is locked by the process that is
at work on it: several may share a folder, and a lock goes with its process. A process that is killed before there is a
`.json` leaves parts of what was never received: they are removed later.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from qianxun.core.errors import QianxunError, RecordsUnavailable
from qianxun.core.ingest_types import Labels
from qianxun.core.system.durable import make_folder, sync
from qianxun.indexing.outbox_indexer import unbroken

log = logging.getLogger(__name__)

ATTEMPTS = 3  # after that the file is given up: it may be what ends the process
AGAIN_SECONDS = 30.0  # to wait where the records could not be reached
PART_SECONDS = 600.0  # after which a file without its `.json` is nothing that is being received


@dataclass(frozen=True, slots=True)
class Upload:
    """What was given with a file, and the generation that its document had then (0: none)."""

    tenant: str
    knowledge_base: int
    doc_id: str
    name: str
    labels: Labels
    source: str = ""
    relative_path: str = ""
    generation: int = 0

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode("ascii")

    @staticmethod
    def from_json(text: bytes) -> Upload:
        """Raises ValueError, KeyError or TypeError."""
        fields: dict[str, Any] = json.loads(text)
        labels = Labels(**fields.pop("labels"))
        metadata = {name: tuple(value) if isinstance(value, list) else value for name, value in labels.metadata.items()}
        access = None if labels.access is None else tuple(labels.access)
        return Upload(**fields, labels=replace(labels, tags=tuple(labels.tags), metadata=metadata, access=access))


class Entry:
    """An upload in the inbox that this process has locked."""

    def __init__(self, path: Path, lock: int, upload: Upload, attempts: int = 0) -> None:
        self.upload, self.attempts = upload, attempts
        self._path, self._lock = path, lock

    @property
    def file(self) -> Path:
        return self._path.with_suffix(".file")

    def count_attempt(self) -> None:
        """Durably, by a line end more: JSON is the same with any number of them."""
        os.lseek(self._lock, 0, os.SEEK_END)
        os.write(self._lock, b"\n")
        os.fsync(self._lock)

    def remove(self) -> None:
        """Its document is stored, or its caller knows why not. May be called twice."""
        if self._lock >= 0:
            self._path.unlink(missing_ok=True)
            self.file.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """To whoever looks next."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@dataclass
class Inbox:
    folder: Path

    def __post_init__(self) -> None:
        self.has_left = asyncio.Event()  # an upload that nobody is at work on

    @asynccontextmanager
    async def until_stored(self, upload: Upload, path: Path) -> AsyncIterator[Callable[[], None]]:
        """The upload is durable while the block runs; call what it gives once the document is stored.

        A block that raises an error has told its caller of it, and nothing is left. One that is cancelled leaves the
        upload to `run_inbox`. Raises OSError, before the block, where nothing can be written.
        """
        made: list[Entry] = []

        async def receive() -> None:
            made.append(await asyncio.to_thread(self._receive, upload, path))

        try:
            await unbroken(receive())
            yield made[0].remove
        except Exception:
            for entry in made:
                entry.remove()
            raise
        except BaseException:
            for entry in made:
                entry.leave()
            self.has_left.set()
            raise
        made[0].remove()

    def _receive(self, upload: Upload, path: Path) -> Entry:
        make_folder(self.folder, mode=0o700)
        place = self.folder / f"{secrets.token_hex(10)}.json"
        copy = place.with_suffix(".file")
        try:
            try:
                os.link(path, copy, follow_symlinks=True)
            except OSError:  # another file system, or one without links
                shutil.copyfile(path, copy)
            return _written(place, upload, copy)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise

    def take_left(self) -> list[Entry]:
        """The uploads that nobody is at work on, oldest first; they are locked now. Raises OSError."""
        self._remove_parts()
        found: list[tuple[float, Entry]] = []
        for path in self.folder.glob("*.json"):
            if (entry := _locked(path)) is not None:
                found.append((path.stat().st_mtime, entry))
        return [entry for _, entry in sorted(found, key=lambda one: one[0])]

    def _remove_parts(self) -> None:
        """By the time that a name was given: a linked file is as old as its content."""
        for part in (*self.folder.glob("*.new"), *self.folder.glob("*.file")):
            with suppress(FileNotFoundError):  # its upload was stored meanwhile
                if time.time() - part.stat().st_ctime > PART_SECONDS and not part.with_suffix(".json").exists():
                    part.unlink()


def _written(place: Path, upload: Upload, copy: Path) -> Entry:
    """The locked entry, durable: its lock is that of the file which gets the name."""
    temporary = place.with_suffix(".new")
    lock = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(lock, upload.to_json())
        sync((temporary, copy))
        os.replace(temporary, place)
        sync((place.parent,))
    except BaseException:
        os.close(lock)
        temporary.unlink(missing_ok=True)
        place.unlink(missing_ok=True)
        raise
    return Entry(place, lock, upload)


def _locked(path: Path) -> Entry | None:
    """The upload, if nobody else is at work on it."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = path.read_bytes()
        upload = Upload.from_json(text)
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        return None
    except (ValueError, KeyError, TypeError) as error:
        log.error("an upload cannot be read back, and is dropped: %s", error)
        Entry(path, lock, Upload("", 0, "", "", Labels())).remove()
        return None
    return Entry(path, lock, upload, text.count(b"\n"))


Read: TypeAlias = Callable[[Upload, Path], Awaitable[None]]
"""Reads an upload again, and stores its document. Raises as `files.add_file` does."""


async def run_inbox(inbox: Inbox, read: Read, give_up: Read) -> None:
    """Reads what a killed process, or a caller that has left, had still to read; until it is cancelled.

    After some attempts a file is given up instead: it may be what ends the process.
    """
    while True:
        inbox.has_left.clear()
        try:
            entries = await asyncio.to_thread(inbox.take_left)
            is_late = False
        except OSError as error:
            log.warning("the inbox cannot be read; it is looked at again in %s seconds: %s", AGAIN_SECONDS, error)
            entries, is_late = [], True
        for entry in entries:
            is_late |= not await _read_again(entry, read if entry.attempts < ATTEMPTS else give_up)
        with suppress(TimeoutError):
            async with asyncio.timeout(AGAIN_SECONDS if is_late else None):
                await inbox.has_left.wait()


async def _read_again(entry: Entry, read: Read) -> bool:
    """False if it is to be tried again later."""
    upload = entry.upload
    log.info("reading %r of base %s again", upload.name, upload.knowledge_base)
    try:
        await asyncio.to_thread(entry.count_attempt)
        await read(upload, entry.file)
    except RecordsUnavailable as error:
        log.warning("an upload waits for the records: %s", error)
        entry.leave()
        return False
    except QianxunError as error:  # it is listed as failed, or its base is gone
        log.warning("%r of base %s cannot be taken in: %s", upload.name, upload.knowledge_base, error)
    except Exception:  # the task must outlive any one file; the next attempts are counted
        log.exception("%r of base %s is tried again", upload.name, upload.knowledge_base)
        entry.leave()
        return False
    except BaseException:
        entry.leave()
        raise
    entry.remove()
    return True
