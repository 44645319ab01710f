"""The word lists of extraction (``lexicon.toml``) and the prompts of the graph's language model (``prompts.toml``)."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


def listed(section: str, name: str) -> frozenset[str]:
    """The words of one list; for characters, each character."""
    words = _data("lexicon.toml")[section][name].split()
    return frozenset("".join(words) if section == "characters" else words)


def mapped(section: str) -> dict[str, str]:
    """Word → the key under which it is listed, in the order of the file."""
    return {word: key for key, words in _data("lexicon.toml")[section].items() for word in words.split()}


def system_prompt(name: str) -> str:
    text: str = _data("prompts.toml")[name]
    return text
