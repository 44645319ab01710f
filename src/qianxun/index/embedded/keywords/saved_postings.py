"""The long posting lists that searches on behalf of principals have read, in a file beside the keyword index: to read
them from tantivy again takes most of the time of the first questions after opening.

Derived, and not used where it is missing, damaged, or of another state of the keyword index than the one that is
opened. It ends with its checksum. Short lists are not in it: they are read as soon, and which rare words were asked for
is nobody's business.
"""

from __future__ import annotations

import json
import logging
import struct
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from qianxun.core.limits import MIB
from qianxun.core.system.cache import LRUCache
from qianxun.index.embedded.keywords.population import Postings, Term

log = logging.getLogger(__name__)

POSTINGS: Final = "postings"  # the file's name
MOST_BYTES: Final = 64 * MIB
LEAST: Final = 500  # postings of a list that is saved
END: Final = struct.Struct("<I")


class PostingLists:
    """Posting lists of one keyword index, by field and term: at first those that were saved for the state in which it
    was opened. Rows never change, so that they stay right however much is written since."""

    def __init__(self, place: Path | None = None, state: int = 0) -> None:
        self._place, self._state = place, state
        self._lists = LRUCache[Term, Postings](bytes_limit=MOST_BYTES, size=lambda _, found: 200 + found.bytes)
        self._loading = threading.Lock()
        self._is_loaded = place is None
        self._has_more = False  # than the file

    def get(self, term: Term) -> Postings | None:
        if not self._is_loaded:
            with self._loading:
                if not self._is_loaded and self._place is not None:
                    for known, found in load(self._place, self._state).items():
                        self._lists.put(known, found)
                self._is_loaded = True
        return self._lists.get(term)

    def put(self, term: Term, found: Postings) -> None:
        self._has_more |= len(found.rows) >= LEAST
        self._lists.put(term, found)

    def save(self, state: int) -> None:
        """For the next one to open the index, whose checksum is ``state`` now."""
        if self._has_more and self._place is not None:
            save(self._place, state, dict(self._lists.items()))


def save(place: Path, state: int, lists: Mapping[Term, Postings]) -> None:
    """Writes those that are long enough, of the keyword index with this checksum. Not made durable: a file that is not
    whole is not used."""
    long = {term: found for term, found in lists.items() if len(found.rows) >= LEAST}
    if not long:
        return
    about = [[*term, found.end, len(found.rows), found.rows.dtype.str] for term, found in long.items()]
    parts = [json.dumps({"state": state, "lists": about}, ensure_ascii=False).encode(), b"\n"]
    parts += [array.tobytes() for found in long.values() for array in (found.rows, found.times)]
    making, checksum = place.with_name(f"{place.name}.new"), 0
    try:
        with making.open("wb") as file:
            for part in parts:
                file.write(part)
                checksum = zlib.crc32(part, checksum)
            file.write(END.pack(checksum))
        making.replace(place)
    except OSError as error:
        log.warning("the posting lists are not saved, and will be read again: %s", error)
        making.unlink(missing_ok=True)


def load(place: Path, state: int) -> dict[Term, Postings]:
    """The lists of the keyword index with this checksum; none where there are none that could be used."""
    try:
        data = place.read_bytes()
    except OSError:
        return {}
    body = len(data) - END.size
    head, newline, _ = data[:body].partition(b"\n") if body > 0 else (b"", b"", b"")
    if not newline or END.unpack_from(data, body)[0] != zlib.crc32(memoryview(data)[:body]):
        return {}
    about, at, found = json.loads(head), len(head) + 1, dict[Term, Postings]()
    for name, term, end, count, kind in about["lists"] if about["state"] == state else ():
        rows = np.frombuffer(data, np.dtype(kind), count, at)
        times = np.frombuffer(data, np.uint8, count, at + rows.nbytes)
        found[name, term] = Postings(rows, times, end)
        at += rows.nbytes + times.nbytes
    return found
