"""The word lists of extraction, from ``lexicon.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files


@cache
def _lexicon() -> dict[str, dict[str, str]]:
    return tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text("utf-8"))


def listed(section: str, name: str) -> frozenset[str]:
    """The words of one list; for characters, each character."""
    words = _lexicon()[section][name].split()
    return frozenset("".join(words) if section == "characters" else words)


def mapped(section: str) -> dict[str, str]:
    """Word → the key under which it is listed, in the order of the file."""
    return {word: key for key, words in _lexicon()[section].items() for word in words.split()}
