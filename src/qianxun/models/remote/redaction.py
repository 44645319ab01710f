"""What a service says, without the key it was asked with.

Services repeat keys in what they say of them: whole, cut off, with a backslash before each slash, inside the header
they came in, encoded. So it is not the key that is looked for, but any few characters of it in a row.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import quote

from qianxun.core.errors import ModelError

IN_A_ROW: Final = 8  # characters that give a key away; of a shorter key, all of them
IN_A_REPLY: Final = 12  # the same in what a model says: eight may be a word, or how all keys of a vendor begin
COVER: Final = "***"


def without_key(text: str, key: str, in_a_row: int = IN_A_ROW) -> str:
    """The text with each part of the key covered, as it is or as URLs, base64 or hexadecimal digits write it."""
    hidden = sorted(place for form in _forms(key) for place in _found(text, form, in_a_row))
    told, end = "", 0
    for start, after in hidden:
        if start > end or not told:
            told += text[end:start] + COVER
        end = max(end, after)
    return told + text[end:]


def reply_without_key(pieces: Iterator[str], key: str) -> Iterator[str]:
    """A model's words as they come, without the key it was asked with: some services show what they were sent.

    Holds back only what may become a part of the key. A key shorter than such a part is a word ("ollama", "EMPTY"),
    which an answer may need.
    """
    if len(key) < IN_A_REPLY:
        yield from pieces
        return
    forms, held = _forms(key), ""
    try:
        for piece in pieces:
            held += piece
            cut = _certain(held, forms)
            if cut:
                yield without_key(held[:cut], key, IN_A_REPLY)
            held = held[cut:]
    except ModelError:
        if held:
            yield without_key(held, key, IN_A_REPLY)
        raise
    if held:
        yield without_key(held, key, IN_A_REPLY)


def _certain(text: str, forms: Collection[str]) -> int:
    """Up to where a text stays as it is whatever follows: behind that stands what a form has, too."""
    longest = min(len(text), max(map(len, forms)))
    cut = next(
        (len(text) - size for size in range(longest, 0, -1) if any(text[-size:] in form for form in forms)), len(text)
    )
    for start in range(max(0, cut - IN_A_REPLY + 1), cut):  # a part of the key must not be cut in two
        if start + IN_A_REPLY <= len(text) and any(text[start : start + IN_A_REPLY] in form for form in forms):
            return start
    return cut


def _found(text: str, form: str, in_a_row: int) -> Iterator[tuple[int, int]]:
    """(start, end) of each stretch of the text that the form has, too."""
    size = min(in_a_row, len(form))
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
