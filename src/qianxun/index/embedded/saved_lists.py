"""The lists of codes as faiss keeps them, in a file beside the codes: sorting a million codes into lists takes .2 s, to
map a file takes none.

Derived, and made anew when it is missing, damaged or of other codes. It ends with what it was made of: the size and the
checksum of the codes, then its own checksum. Codes that came since are a second part.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from qianxun.index.embedded.codes import CodePart, faiss
from qianxun.index.embedded.extents import Extent

log = logging.getLogger(__name__)

LISTS: Final = "lists-"  # … and the number of rows that the centres were made from
LEAST_BYTES: Final = 10_000_000  # of codes: fewer are sorted sooner than a file is opened
END: Final = struct.Struct("<QII")
PIECE_BYTES: Final = 1 << 18


class SavedLists(NamedTuple):
    """Lists, and how many bytes of codes they were made of."""

    part: CodePart
    size: int


def load(place: Path, codes: Extent, read_codes: Callable[[], bytes]) -> SavedLists | None:
    """The lists of all or the first of the codes of a file; None where there are none that could be used. What was
    made of all of them is told by its checksum: the codes need not be read."""
    try:
        with place.open("rb") as file:
            body = file.seek(0, os.SEEK_END) - END.size
            if body < 0:
                return None
            file.seek(body)
            size, crc, own = END.unpack(file.read(END.size))
            file.seek(0)
            found, left = 0, body
            while left and (piece := file.read(min(PIECE_BYTES, left))):
                found, left = zlib.crc32(piece, found), left - len(piece)
    except FileNotFoundError:
        return None
    if left or own != found or size > codes.size:
        return None
    if crc != (codes.crc if size == codes.size else zlib.crc32(memoryview(read_codes())[:size])):
        return None
    try:
        index = faiss().read_index(str(place), faiss().IO_FLAG_MMAP_IFC)
    except RuntimeError as error:  # another version of faiss wrote it
        log.warning("the lists of codes are made anew: %s", error)
        return None
    return SavedLists(CodePart(index, index.ntotal), size)


def save(place: Path, codes: bytes, part: CodePart) -> None:
    """Writes the lists of all of these codes. Not made durable: a file that is not whole is not used."""
    if len(codes) < LEAST_BYTES:
        return
    body = memoryview(faiss().serialize_index(part.index))
    making = place.with_name(f"{place.name}.new")
    try:
        with making.open("wb") as file:
            file.write(body)
            file.write(END.pack(len(codes), zlib.crc32(codes), zlib.crc32(body)))
        making.replace(place)
    except OSError as error:
        log.warning("the lists of codes are not saved, and will be made again: %s", error)
        making.unlink(missing_ok=True)
