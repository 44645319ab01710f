"""The Model Context Protocol: tools that programs with a language model search and read the knowledge bases by.

`tools` are plain functions over what an engine and a client both offer, `catalog` describes them to a model, `server`
speaks the protocol. Its driver comes with the extra ``mcp`` and takes more than a second to load: whoever may run
without it asks `require_driver` first.
"""

from __future__ import annotations

from importlib.util import find_spec

from qianxun.core.errors import MissingExtra


def require_driver() -> None:
    """Raises MissingExtra where the extra ``mcp`` is not installed."""
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", "mcp")
