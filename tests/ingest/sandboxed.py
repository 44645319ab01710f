"""One file in a worker of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from qianxun.core.documents import ParsedFile
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.pool import ParserPool


def parse_in_child(path: Path, limits: ParseLimits) -> ParsedFile:
    async def parsed() -> ParsedFile:
        pool = ParserPool(1, limits)
        try:
            return await pool.parse(path)
        finally:
            await pool.aclose()

    return asyncio.run(parsed())
