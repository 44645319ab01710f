"""Pictures: text by OCR, upright and in reading order; a picture of a table gives a table."""

from __future__ import annotations

from pathlib import Path

from qianxun.core.errors import UnsupportedFile
from qianxun.core.types import Block, ParsedFile
from qianxun.ingest.parse.pages.layout import arrange
from qianxun.ingest.parse.pages.ocr import Pixels, load_picture, recognise
from qianxun.ingest.parse.pages.ruling import straighten
from qianxun.ingest.sandbox.limits import ParseLimits


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    if not limits.ocr:
        raise UnsupportedFile("图片需要文字识别，而识别已关闭", hint="请在设置中打开 ocr")
    pixels = load_picture(path, limits)
    blocks = read_page(pixels)
    height, width = pixels.shape[:2]
    warnings = () if blocks else ("图片中没有认出文字",)
    return ParsedFile(tuple(blocks), "image", path.stem, {"width": width, "height": height}, (), warnings)


def read_page(pixels: Pixels, page: int | None = None) -> list[Block]:
    level = straighten(pixels)
    return arrange(recognise(level), level, page)
