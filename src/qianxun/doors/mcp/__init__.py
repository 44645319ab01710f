"""The Model Context Protocol: tools by which programs with a language model search and read the knowledge bases.

Read `tools` first: plain functions over what an engine and a client both offer, on a `Collection` of bases. `catalog`
describes them to a model and reads their arguments, `server` speaks the protocol, `stdio` and `conversation` carry it
over standard input and output. The driver comes with the extra ``mcp`` and takes more than a second to load: callers
that may run without it call `require_driver` first. Imports core and engine only.
"""

from __future__ import annotations

from importlib.util import find_spec

from qianxun.core.errors import MissingExtra


def require_driver() -> None:
    """Raises MissingExtra where the extra ``mcp`` is not installed."""
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", "mcp")
