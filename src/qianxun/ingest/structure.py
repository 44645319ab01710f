"""Content that a caller hands over as text: cleaned, with its headings and tables known."""

from __future__ import annotations

from qianxun.errors import BadInput
from qianxun.ingest.assemble import assemble
from qianxun.ingest.limits import ParseLimits
from qianxun.ingest.preprocess import normalise
from qianxun.types import ContentFormat, Text


def read_structure(content: str, format: ContentFormat, limits: ParseLimits | None = None) -> Text:
    """The text of record for ``content``. Plain text has no structure but its own lines."""
    if format == "text":
        return Text(normalise(content))
    # Each needs its library only when it is asked for.
    if format == "html":
        from qianxun.ingest.parse.html import parse_text
    elif format == "markdown":
        from qianxun.ingest.parse.markdown import parse_text
    else:
        raise BadInput(f"不认识的内容格式 {format!r}", hint="可用：text、html、markdown")
    return assemble(parse_text(content, limits or ParseLimits()))
