"""Which version of this package is installed."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def installed_version() -> str:
    """Read once: the metadata of the package hold its README, and every opening asks for it."""
    return metadata.version("qianxun")
