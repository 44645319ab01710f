"""The words by which questions are read: `words.toml`, parsed once."""

from __future__ import annotations

import re
import tomllib
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
