"""The files of tantivy's index, compared with their checksums.

tantivy's table of contents (``meta.json``) names immutable files that end in their own checksum. The caller stores the
checksum of the table, so that a damaged index is recognised before tantivy opens it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from qianxun.index.embedded.checked_files import check_in_turns
from qianxun.index.shared import damage, unusable

META = "meta.json"
CHECKED = "checked"  # tantivy leaves alone what it does not know
FOOTER_MAGIC = 1337
PIECE_BYTES = 1 << 18  # of a file that are checked at a time


def meta_checksum(folder: Path) -> int:
    try:
        return zlib.crc32((folder / META).read_bytes())
    except OSError as error:
        raise damage("关键词索引缺失", error) from error


def check_files(folder: Path, *, in_turns: bool = False) -> None:
    """Compares every file that the table of contents names with its checksum; of a large index, ``in_turns``, those
    that have changed and some of the others. Raises IndexUnusable."""
    try:
        meta = json.loads((folder / META).read_bytes())
        names = [name for segment in meta["segments"] for name in _file_names(segment)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damage("关键词索引的目录已损坏", error) from error
    files = [folder / name for name in names]
    if in_turns:
        check_in_turns(files, folder / CHECKED, _require_sound)
        return
    for file in files:
        _require_sound(file)


def _require_sound(path: Path) -> None:
    if not path.is_file() or not _footer_agrees(path):
        raise unusable(f"关键词索引的 {path.name} 缺失或已损坏")


def _file_names(segment: dict[str, Any]) -> Iterator[str]:
    name = segment["segment_id"].replace("-", "")
    for suffix in ("idx", "pos", "term", "store", "fast", "fieldnorm"):
        yield f"{name}.{suffix}"
    if segment["deletes"]:
        yield f"{name}.{segment['deletes']['opstamp']}.del"


def _footer_agrees(path: Path) -> bool:
    """tantivy's footer: JSON with the checksum of what precedes it, its length, a magic number."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - 8
        if end < 0:
            return False
        file.seek(end)
        length, magic = struct.unpack("<II", file.read(8))
        if magic != FOOTER_MAGIC or length > end:
            return False
        file.seek(end - length)
        try:
            expected = json.loads(file.read(length))["crc"]
        except (ValueError, KeyError, TypeError):
            return False
        file.seek(0)
        return bool(expected == _checksum(file, end - length))


def _checksum(file: BufferedReader, size: int) -> int:
    """Of the first ``size`` bytes, through one small buffer: memory for whole files cost as much as the checksum. Not
    memory-mapped: a disk that cannot be read must be an error, not the end of the process."""
    piece = memoryview(bytearray(min(PIECE_BYTES, size)))
    checksum = 0
    while size > 0 and (count := file.readinto(piece[:size])):
        checksum = zlib.crc32(piece[:count], checksum)
        size -= count
    return checksum
