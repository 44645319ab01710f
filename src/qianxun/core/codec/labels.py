"""What keys of the engine are called on screen, in Chinese and English: ``labels.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def labels(table: str) -> Mapping[str, tuple[str, str]]:
    """A table of ``labels.toml``: key → (Chinese, English)."""
    found: Mapping[str, tuple[str, str]] = _tables()[table]
    return found


def label_pair(table: str, key: str) -> tuple[str, str]:
    """(Chinese, English); the key itself where it has no label."""
    zh, en = labels(table).get(key, (key, key))
    return zh, en


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
