"""Every file of the ingest samples is taken in or refused with a reason.

Recognition takes seconds a page on a small machine, so this sweep runs without it: pictures and the scan are then
refused aloud, which is asserted; test_parse_images recognises a sample of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.sampling import sampled
from tests.shared import DATA, needs_data

from qianxun.core.errors import Refused, Unreadable, UnsupportedFile
from qianxun.core.types import ParsedFile
from qianxun.ingest.assemble import assemble
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.pool import ParserPool
from qianxun.ingest.sources import Source, discover

PICTURES = (".png", ".jpg", ".jpeg")


@needs_data
def test_no_sample_is_lost() -> None:
    whole = [item for item in discover([DATA / "ingest"]) if isinstance(item, Source)]
    kinds: dict[str, list[Source]] = {}
    for source in whole:
        kinds.setdefault(source.path.suffix.lower(), []).append(source)
    sources = [source for alike in kinds.values() for source in sampled(alike, 6)]
    results = asyncio.run(_parse_all(sources))
    refused = [(source.name, error) for source, error in results if isinstance(error, Refused)]
    taken = Counter(parsed.format for _, parsed in results if isinstance(parsed, ParsedFile))
    assert len(results) == len(sources) == sum(taken.values()) + len(refused)
    assert all(name in error.message and error.hint for name, error in refused)
    scans = [error for name, error in refused if name.endswith(PICTURES) or name == "mineru_small_ocr.pdf"]
    assert all(isinstance(error, UnsupportedFile | Unreadable) for error in scans)
    others = {name for name, error in refused if error not in scans}
    assert others <= {"_index.md"}  # front matter only
    assert taken["html"] >= 13
    assert taken["txt"] >= 2
    assert {"markdown", "csv", "json", "xlsx", "docx", "pptx", "pdf"} <= set(taken)


async def _parse_all(sources: list[Source]) -> list[tuple[Source, ParsedFile | Refused]]:
    pool = ParserPool(2, ParseLimits(ocr=False))

    async def one(source: Source) -> tuple[Source, ParsedFile | Refused]:
        try:
            parsed = await pool.parse(source.path)
        except Refused as refusal:
            return source, refusal
        text = assemble(parsed)
        assert text.content.strip() or parsed.pairs
        for span in text.tables:
            assert all(text.content[row] == "|" for row in span.row_starts)
        return source, parsed

    try:
        return list(await asyncio.gather(*map(one, sources)))
    finally:
        await pool.aclose()
