"""Texts that every database can hold. What cannot be held is nowhere of record, and is not asked for."""

from __future__ import annotations

import math


def is_storable(text: str) -> bool:
    """No NUL, which PostgreSQL refuses, and no half of a surrogate pair, which no driver can send."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def storable(text: str) -> str:
    """The text with a mark in the place of what cannot be held."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def is_endless(value: object) -> bool:
    """Infinite or not a number: JSON has no word for it, and PostgreSQL refuses the words that Python has."""
    return isinstance(value, float) and not math.isfinite(value)
