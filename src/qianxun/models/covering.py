"""What a service says, without the key it was asked with.

Services repeat keys in what they say of them: whole, cut off, with a backslash before each slash, inside the header
they came in, encoded. So it is not the key that is looked for, but any few characters of it in a row.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

IN_A_ROW: Final = 8  # characters that give a key away; of a shorter key, all of them
COVER: Final = "***"


def without_key(text: str, key: str) -> str:
    """The text with each part of the key covered, as it is or as URLs, base64 or hexadecimal digits write it."""
    hidden = sorted(place for form in _forms(key) for place in _found(text, form))
    told, end = "", 0
    for start, after in hidden:
        if start > end or not told:
            told += text[end:start] + COVER
        end = max(end, after)
    return told + text[end:]


def _found(text: str, form: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each stretch of the text that the form has, too."""
    size = min(IN_A_ROW, len(form))
    known = {form[at : at + size] for at in range(len(form) - size + 1)} if size else set()
    for at in range(len(text) - size + 1 if known else 0):
        if text[at : at + size] in known:
            yield at, at + size


def _forms(key: str) -> set[str]:
    raw = key.encode()
    return {key, quote(key, safe=""), raw.hex(), *_in_base64(raw), *_in_base64(raw, altchars=b"-_")}


def _in_base64(raw: bytes, altchars: bytes | None = None) -> Iterator[str]:
    """The characters that stand for these bytes alone, wherever in a longer text they begin."""
    for before in range(3):
        padded = b"\0" * before + raw
        written = base64.b64encode(padded + b"\0" * (-len(padded) % 3), altchars).decode()
        yield written[-(-before * 8 // 6) : len(padded) * 8 // 6]
