"""Append-only files with a committed length, and the small state with these lengths.

A file may have bytes beyond its extent: they belong to a write that never finished, and the next append overwrites
them. Nothing is ever changed inside an extent.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from qianxun.core.system.durable import replace_file
from qianxun.core.types import IndexStamp
from qianxun.index.shared import damage, unusable

FORMAT = 7
# 3 does not name the records it was built from; before 5 there were at most 256 lists of codes; before 6 every vector
# was in single precision; before 7 a fact was stored again for every owner.
READABLE = (3, 4, 5, 6, FORMAT)
STATE = "state"


@dataclass(frozen=True, slots=True)
class Extent:
    """The committed part of a file."""

    size: int = 0
    crc: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Everything needed to read the files of an index; switched last, as a whole."""

    stamp: IndexStamp
    watermark: int = 0
    folder: str = "columns-1"
    next_row: int = 0
    owners: int = 0
    purged: int = 0  # how many of the recorded deaths the keyword index has carried out
    keywords: int = 0  # checksum of the keyword index's table of contents
    extents: Mapping[str, Extent] = field(default_factory=dict)

    def extent(self, name: str) -> Extent:
        return self.extents.get(name, Extent())

    def with_extents(self, changed: Mapping[str, Extent]) -> State:
        return replace(self, extents={**self.extents, **changed})

    def without(self, names: Iterable[str]) -> State:
        return replace(self, extents={name: extent for name, extent in self.extents.items() if name not in set(names)})


def append(path: Path, extent: Extent, data: bytes | memoryview) -> Extent:
    """Writes ``data`` after the extent; durable only after `sync`."""
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.truncate(extent.size)
        file.seek(extent.size)
        file.write(data)
    return Extent(extent.size + len(data), zlib.crc32(data, extent.crc))


def read(path: Path, extent: Extent) -> bytes:
    """The committed bytes, checked. Raises IndexUnusable."""
    if extent.size == 0:
        return b""
    require_size(path, extent)
    with open(path, "rb") as file:
        data = file.read(extent.size)
    if len(data) != extent.size or zlib.crc32(data) != extent.crc:
        raise unusable(f"{path.name} 的校验和不符")
    return data


def require_size(path: Path, extent: Extent) -> None:
    """A file shorter than its extent must be known before it is memory-mapped: reading past its end kills a process."""
    if extent.size and (not path.is_file() or path.stat().st_size < extent.size):
        raise unusable(f"{path.name} 缺失或被截断")


def sealed(text: str) -> bytes:
    """Text after its own checksum."""
    body = text.encode("utf-8")
    return b"%08x\n" % zlib.crc32(body) + body


def unsealed(path: Path) -> str:
    """What `sealed` wrote. Raises IndexUnusable."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise damage(f"读不到 {path.name}（{error.strerror}）", error) from error
    head, _, body = data.partition(b"\n")
    if head != b"%08x" % zlib.crc32(body):
        raise unusable(f"{path.name} 已损坏")
    return body.decode("utf-8")


def save_state(folder: Path, state: State, *before: Path) -> None:
    """Switches to ``state``, durably; what is at ``before`` is durable by then, too."""
    replace_file(folder / STATE, sealed(json.dumps({"format": FORMAT, **asdict(state)}, ensure_ascii=False)), *before)


def load_state(folder: Path) -> State:
    fields: dict[str, Any] = json.loads(unsealed(folder / STATE))
    if fields.pop("format") not in READABLE:
        raise unusable("由另一个版本的千寻写成")
    extents = {name: Extent(**extent) for name, extent in fields.pop("extents").items()}
    return State(stamp=IndexStamp(**fields.pop("stamp")), extents=extents, **fields)
