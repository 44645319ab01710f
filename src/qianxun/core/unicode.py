"""Texts that databases, services and tokenizers take: a lone surrogate, or a NUL, is refused by one or the other."""

from __future__ import annotations

import re
from typing import Final

# What a terminal may obey, a page may turn round, or neither can show: control characters without tab and line feed,
# lone surrogates, and the marks that turn the direction of text.
UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def is_unicode(text: str) -> bool:
    """False with half of a surrogate pair, which cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_storable(text: str) -> bool:
    """No NUL, which PostgreSQL refuses, and no half of a surrogate pair, which no driver can send."""
    return "\x00" not in text and is_unicode(text)


def storable(text: str) -> str:
    """The text with a mark in the place of what cannot be stored."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def sendable(text: str) -> str:
    """The text with "?" for lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def sound_text(text: str) -> str:
    """The text itself, or with U+FFFD for lone surrogates, which no tokenizer and no JSON reader takes."""
    if is_unicode(text):
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def visible_controls(text: str) -> str:
    """Control characters but line ends and tabs, and bytes that are no text, as ``\\x1b``."""
    return UNSAFE.sub(escaped_control, text)


def escaped_control(found: re.Match[str]) -> str:
    """One such character as people may see it."""
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file's name that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
