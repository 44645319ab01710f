"""Redaction of API keys in what a service returns.

Services repeat keys: whole, cut off, with a backslash before each slash, inside the header they came in, encoded. So
any few consecutive characters of the key are redacted, not only the whole.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import quote

from qianxun.core.errors import ModelError

LEAK: Final = 8  # consecutive characters that give a key away; of a shorter key, all of them
LEAK_IN_REPLY: Final = 12  # in a model's reply: eight may be a word, or the prefix of all keys of a vendor
MASK: Final = "***"


def without_key(text: str, key: str, leak: int = LEAK) -> str:
    """The text with each part of the key masked, plain or in URL, base64 or hexadecimal encoding."""
    spans = sorted(span for form in _forms(key) for span in _leaks(text, form, leak))
    masked, end = "", 0
    for start, stop in spans:
        if start > end or not masked:
            masked += text[end:start] + MASK
        end = max(end, stop)
    return masked + text[end:]


def reply_without_key(pieces: Iterator[str], key: str) -> Iterator[str]:
    """A streamed reply with the key masked: some services show what they were sent.

    Delays only what may become a part of the key. A key shorter than such a part is a word ("ollama", "EMPTY") that an
    answer may need.
    """
    if len(key) < LEAK_IN_REPLY:
        yield from pieces
        return
    forms, pending = _forms(key), ""
    try:
        for piece in pieces:
            pending += piece
            cut = _certain(pending, forms)
            if cut:
                yield without_key(pending[:cut], key, LEAK_IN_REPLY)
            pending = pending[cut:]
    except ModelError:
        if pending:
            yield without_key(pending, key, LEAK_IN_REPLY)
        raise
    if pending:
        yield without_key(pending, key, LEAK_IN_REPLY)


def _certain(text: str, forms: Collection[str]) -> int:
    """Up to where a text is final: what comes after may be the beginning of a form."""
    longest = min(len(text), max(map(len, forms)))
    cut = next(
        (len(text) - size for size in range(longest, 0, -1) if any(text[-size:] in form for form in forms)), len(text)
    )
    for start in range(max(0, cut - LEAK_IN_REPLY + 1), cut):  # a part of the key must not be cut in two
        if start + LEAK_IN_REPLY <= len(text) and any(text[start : start + LEAK_IN_REPLY] in form for form in forms):
            return start
    return cut


def _leaks(text: str, form: str, leak: int) -> Iterator[tuple[int, int]]:
    """The spans of the text that are parts of the form."""
    size = min(leak, len(form))
    known = {form[at : at + size] for at in range(len(form) - size + 1)} if size else set()
    for at in range(len(text) - size + 1 if known else 0):
        if text[at : at + size] in known:
            yield at, at + size


def _forms(key: str) -> set[str]:
    raw = key.encode()
    return {key, quote(key, safe=""), raw.hex(), *_in_base64(raw), *_in_base64(raw, altchars=b"-_")}


def _in_base64(raw: bytes, altchars: bytes | None = None) -> Iterator[str]:
    """The characters that encode these bytes alone, at each of the three offsets in a longer text."""
    for before in range(3):
        padded = b"\0" * before + raw
        written = base64.b64encode(padded + b"\0" * (-len(padded) % 3), altchars).decode()
        yield written[-(-before * 8 // 6) : len(padded) * 8 // 6]
