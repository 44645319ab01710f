"""Texts that databases, services and tokenizers take: a lone surrogate, or a NUL, is refused by one or the other."""

from __future__ import annotations


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
