"""Power loss by strict POSIX: what was written is durable once its file is synced, a name once its folder is.

A writer runs under strace, which records every system call that changes the folder. A *state* is what a disk may hold
when the power fails after one of these calls: of everything that no sync had made durable, any first part of the
changes to each file and of the changes to each folder's entries, or nothing (the strictest state). Each state is laid
out in a folder of its own, opened, and compared with what the writer had acknowledged by then.

``python -m tests.torture.power FOLDER SEED OPERATIONS`` is the writer.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias

from tests.torture.checks import check
from tests.torture.ledger import Ledger, Violation
from tests.torture.script import MIXTURE
from tests.torture.writer import write

DATA = "data"
CHECKOUT = Path(__file__).resolve().parents[2]
CALLS = (
    "open,openat,creat,write,writev,pwrite64,pwritev,lseek,ftruncate,truncate,rename,renameat,renameat2,link,linkat,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir,fsync,fdatasync,sync_file_range,fallocate,copy_file_range,sendfile"
)
LINE = re.compile(rb"^(\d+) +(.*)$")
UNFINISHED = re.compile(rb"^(\w+)\((.*) <unfinished \.\.\.>$")
RESUMED = re.compile(rb"^<\.\.\. (\w+) resumed>(.*)$")
CALL = re.compile(rb"^(\w+)\((.*)\)\s+= (-?\d+)")
TEXT = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"')
HANDLE = re.compile(rb"^(?:AT_FDCWD|(\d+))<((?:[^>\\]|\\.)*)>")


# ── a disk that knows what is durable ────────────────────────────────────────────────────────────


@dataclass
class File:
    """Its bytes, those that a sync made durable, and the changes since: (offset, data), or (length, None) for a cut."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)

    def change(self, at: int, data: bytes | None) -> None:
        self.changes.append((at, data))
        _changed(self.content, at, data)

    def sync(self) -> None:
        self.durable, self.changes = bytes(self.content), []

    def after(self, count: int) -> bytes:
        content = bytearray(self.durable)
        for at, data in self.changes[:count]:
            _changed(content, at, data)
        return bytes(content)


def _changed(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
    content.extend(bytes(max(0, at - len(content))))
    if data is not None:
        content[at : at + len(data)] = data


@dataclass
class Folder:
    """Its entries, those that a sync made durable, and the changes since: names with what they stand for from then on;
    a rename within the folder is one change of two names."""

    entries: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)
    changes: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def change(self, names: dict[str, File | Folder | None]) -> None:
        self.changes.append(names)
        _renamed(self.entries, names)

    def sync(self) -> None:
        self.durable, self.changes = dict(self.entries), []

    def after(self, count: int) -> dict[str, File | Folder]:
        entries = dict(self.durable)
        for names in self.changes[:count]:
            _renamed(entries, names)
        return entries


def _renamed(entries: dict[str, File | Folder], names: dict[str, File | Folder | None]) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


Node: TypeAlias = File | Folder


@dataclass
class Disk:
    """What lies under ``root``, as the calls of one process change it."""

    root: Path
    ignored: str = ""  # the syncs of a file or folder of this name do nothing: what a checker must see
    top: Folder = field(default_factory=Folder)
    handles: dict[int, int] = field(default_factory=dict)  # descriptor → position

    def node(self, path: str) -> Node | None:
        parts = self._parts(path)
        found: Node | None = self.top if parts is not None else None
        for part in parts or ():
            found = found.entries.get(part) if isinstance(found, Folder) else None
        return found

    def _parts(self, path: str) -> tuple[str, ...] | None:
        try:
            return Path(path).relative_to(self.root).parts
        except ValueError:
            return None

    def name(self, path: str, node: Node | None) -> None:
        parent = self.node(str(Path(path).parent))
        if isinstance(parent, Folder):
            parent.change({Path(path).name: node})

    def rename(self, old: str, new: str) -> None:
        node, source, target = self.node(old), self.node(str(Path(old).parent)), self.node(str(Path(new).parent))
        if node is None or not isinstance(source, Folder) or not isinstance(target, Folder):
            return
        if source is target:
            source.change({Path(old).name: None, Path(new).name: node})
        else:
            target.change({Path(new).name: node})
            source.change({Path(old).name: None})

    def lay_out(self, folder: Path, chance: Random | None) -> None:
        """One of the states that are possible now; without ``chance`` the strictest."""
        _lay_out(self.top, folder, chance)


def _lay_out(node: Folder, folder: Path, chance: Random | None) -> None:
    folder.mkdir(parents=True)
    for name, entry in node.after(_some(node.changes, chance)).items():
        if isinstance(entry, Folder):
            _lay_out(entry, folder / name, chance)
        else:
            (folder / name).write_bytes(entry.after(_some(entry.changes, chance)))


def _some(changes: Sequence[object], chance: Random | None) -> int:
    return 0 if chance is None else chance.choice((0, len(changes), chance.randint(0, len(changes))))


# ── the recording ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Call:
    """A system call; of a sync ``began`` says how many calls had ended when it began: it covers no later ones."""

    name: str
    arguments: bytes
    result: int
    began: int


def record(place: Path, seed: int, operations: int) -> tuple[Path, list[Call]]:
    """Runs the writer in ``place``, whose folder is new. Returns the trunk of its tree and its calls."""
    trunk, trace = place / "disk", place / "trace"
    trunk.mkdir()
    command = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-xx", "-s", "99999999"]
    command += ["-e", f"trace={CALLS}", "-o", str(trace)]
    writer = [sys.executable, "-m", "tests.torture.power", str(trunk / DATA), str(seed), str(operations)]
    subprocess.run([*command, *writer], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE)
    return trunk, list(_calls(trace))


def _calls(trace: Path) -> Iterator[Call]:
    begun: dict[bytes, tuple[bytes, int]] = {}
    ended = 0
    with trace.open("rb") as lines:
        for line in lines:
            if (found := LINE.match(line.rstrip(b"\n"))) is None:
                continue
            thread, rest = found[1], found[2]
            began = ended
            if (cut := UNFINISHED.match(rest)) is not None:
                begun[thread] = (cut[1] + b"(" + cut[2], ended)
                continue
            if (resumed := RESUMED.match(rest)) is not None and thread in begun:
                head, began = begun.pop(thread)
                rest = head + resumed[2]
            if (call := CALL.match(rest)) is not None and int(call[3]) >= 0:
                ended += 1
                yield Call(call[1].decode(), call[2], int(call[3]), began)


def _texts(arguments: bytes) -> list[bytes]:
    return [bytes.fromhex(text.replace(b"\\x", b"").decode()) for text in TEXT.findall(arguments)]


def _handle(arguments: bytes) -> tuple[int, str]:
    """The descriptor and its path."""
    found = HANDLE.match(arguments)
    if found is None or found[1] is None:
        return -1, ""
    path = re.sub(rb"\\x([0-9a-f]{2})", lambda byte: bytes.fromhex(byte[1].decode()), found[2])
    return int(found[1]), path.decode()


def _paths(arguments: bytes) -> list[str]:
    """Absolute paths: each after the folder that it is relative to, if there is one."""
    folders = [
        re.sub(rb"\\x([0-9a-f]{2})", lambda byte: bytes.fromhex(byte[1].decode()), found).decode()
        for found in re.findall(rb"(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>", arguments)
    ]
    texts = [text.decode() for text in _texts(arguments)]
    roots = folders + ["/"] * (len(texts) - len(folders))
    return [str(Path(root) / text) for root, text in zip(roots, texts, strict=False)]


def replay(disk: Disk, calls: Sequence[Call]) -> Iterator[tuple[int, list[bytes]]]:
    """Carries out one call after another; after each that changed the disk: its number, and all that was said so far.

    A sync makes durable what there was when it began: a change that another thread made meanwhile stays open.
    """
    said: list[bytes] = []
    changed: list[tuple[int, Node]] = []  # the latest changes, by the number of their call
    for number, call in enumerate(calls, 1):
        nodes = _carry_out(disk, call, said)
        if nodes is None:
            continue
        if call.name in ("fsync", "fdatasync"):
            late = [node for at, node in changed if at > call.began]
            for node in nodes:
                if not any(node is other for other in late):
                    node.sync()
        else:
            changed = [*changed[-200:], *((number, node) for node in nodes)]
        yield number, list(said)


def _carry_out(disk: Disk, call: Call, said: list[bytes]) -> list[Node] | None:
    """The files and folders that it changed or synced; None if there were none."""
    handle, path = _handle(call.arguments)
    node = disk.node(path) if path else None
    match call.name:
        case "open" | "openat" | "creat":
            return _open(disk, call)
        case "lseek":
            disk.handles[handle] = call.result
        case "write":
            if handle == 1:
                said.extend(_texts(call.arguments)[0].splitlines(keepends=True))
                return []
            at = disk.handles.get(handle, 0)
            disk.handles[handle] = at + call.result
            if isinstance(node, File):
                node.change(at, _texts(call.arguments)[0][: call.result])
                return [node]
        case "pwrite64" if isinstance(node, File):
            node.change(int(call.arguments.rsplit(b",", 1)[1]), _texts(call.arguments)[0][: call.result])
            return [node]
        case "ftruncate" if isinstance(node, File):
            node.change(int(call.arguments.rsplit(b",", 1)[1]), None)
            return [node]
        case "rename" | "renameat" | "renameat2":
            old, new = _paths(call.arguments)
            before = [disk.node(str(Path(path).parent)) for path in (old, new)]
            disk.rename(old, new)
            return [folder for folder in before if folder is not None] or None
        case "unlink" | "unlinkat" | "rmdir" | "mkdir" | "mkdirat":
            (path,) = _paths(call.arguments)
            disk.name(path, Folder() if call.name.startswith("mkdir") else None)
            parent = disk.node(str(Path(path).parent))
            return [parent] if parent is not None else None
        case "fsync" | "fdatasync" if node is not None:
            return [] if Path(path).name == disk.ignored else [node]
        case "writev" | "pwritev" | "truncate" | "fallocate" | "copy_file_range" | "link" | "linkat" | "sendfile":
            if node is not None:
                raise NotImplementedError(f"the recording has a call that is not understood: {call.name}")
    return None


def _open(disk: Disk, call: Call) -> list[Node] | None:
    (path,) = _paths(call.arguments)
    disk.handles[call.result] = 0
    parent, node = disk.node(str(Path(path).parent)), disk.node(path)
    if b"O_CREAT" in call.arguments and node is None and isinstance(parent, Folder):
        disk.name(path, File())
        return [parent]
    if b"O_TRUNC" in call.arguments and isinstance(node, File):
        node.change(0, None)
        return [node]
    return None


# ── states ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Outcome:
    states: int
    violations: tuple[str, ...]
    rebuilds: int  # indexes that had to be built again, though one had been acknowledged


def lose_power(place: Path, states: int, seed: int, *, operations: int = 8, ignored: str = "") -> Outcome:
    """Records a writer and opens so many of the states it could have left, half of them the strictest."""
    trunk, calls = record(place, seed, operations)
    chance = Random(seed)
    moments = sum(1 for _ in replay(Disk(trunk), calls))
    chosen = sorted(chance.choices(range(moments), k=states))
    disk, violations, rebuilds = Disk(trunk, ignored), [], 0
    for at, (number, said) in enumerate(replay(disk, calls)):
        for turn in range(chosen.count(at)):
            left = place / "left"
            disk.lay_out(left, chance if (at + turn) % 2 else None)
            with _rebuild_warnings() as warnings:
                broken = _broken(left / DATA, said, chance)
            rebuilds += len(warnings) if said else 0
            if broken is not None:
                violations.append(f"after call {number} of {len(calls)}: {broken}")
            shutil.rmtree(left)
    return Outcome(states, tuple(violations), rebuilds)


@contextmanager
def _rebuild_warnings() -> Iterator[list[str]]:
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(message) if "rebuil" in (message := record.getMessage()) else None  # type: ignore[method-assign]
    log = logging.getLogger("qianxun")
    log.addHandler(handler)
    try:
        yield found
    finally:
        log.removeHandler(handler)


def _broken(folder: Path, said: list[bytes], chance: Random) -> str | None:
    ledger = Ledger()
    ledger.hear(said)
    try:
        asyncio.run(check(folder, ledger, chance))
    except Violation as error:
        return str(error)
    return None


def main() -> None:
    logging.getLogger("qianxun").setLevel(logging.ERROR)
    folder, seed, operations = sys.argv[1:]
    asyncio.run(write(folder, int(seed), MIXTURE, "none", int(operations)))


if __name__ == "__main__":
    main()
