"""The words by which questions are read: `words.toml` and `lay_words.txt`, parsed once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def entries(name: str) -> Any:
    """What the file has under a dotted name."""
    if not name:
        return tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
    section, _, key = name.rpartition(".")
    return entries(section)[key]


def joined(name: str) -> str:
    """A regular expression as text; its lines in the file are one."""
    text: str = entries(name)
    return text.replace("\n", "")


@cache
def cue(name: str) -> re.Pattern[str]:
    return re.compile(joined(name))


@cache
def listed(name: str) -> frozenset[str]:
    return frozenset(entries(name).split())


def in_standard_words(folded: str) -> str:
    """怎么, 什么, 什么时候 for 咋, 啥, 几时."""
    words = entries("spoken.standard")
    return _dialect().sub(lambda found: words[found.group()], folded)


@cache
def _dialect() -> re.Pattern[str]:
    words = "|".join(sorted(entries("spoken.standard"), key=len, reverse=True))
    return re.compile(f"(?<!十)(?:{words})")


@cache
def lay_words() -> Mapping[str, tuple[str, ...]]:
    """Everyday words, dialect in standard ones, and how documents write the same (`lay_words.txt`)."""
    found: dict[str, tuple[str, ...]] = {}
    for line in (Path(__file__).parent / "lay_words.txt").read_text(encoding="utf-8").splitlines():
        everyday, is_entry, written = line.partition("=")
        if is_entry and not line.startswith("#"):
            formal = tuple(written.split())
            for word in in_standard_words(everyday).split():
                known = found.get(word)
                found[word] = tuple(dict.fromkeys((*known, *formal))) if known else formal
    return found
