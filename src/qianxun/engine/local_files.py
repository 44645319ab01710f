"""Files of this machine, for a client that sends them to a service elsewhere: found, read within bounds, decoded."""

from __future__ import annotations

from qianxun.ingest.attachments import read_bounded
from qianxun.ingest.parse.encoding import decode
from qianxun.ingest.sources import Source, discover

__all__ = ["Source", "decode", "discover", "read_bounded"]
