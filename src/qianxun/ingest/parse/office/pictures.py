"""Pictures inside office files, read as if they were files of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from qianxun.core.errors import MissingExtra, Refused
from qianxun.core.types import Block
from qianxun.ingest.parse.pages.layout import arrange
from qianxun.ingest.parse.pages.ocr import load_picture, recognise
from qianxun.ingest.sandbox.limits import ParseLimits

_SMALLEST = 40  # pixels: anything smaller is an icon or a bullet
_SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"RIFF", b"GIF8")


class Pictures:
    """Reads the pictures of one file, each once, and remembers what it could not read."""

    def __init__(self, limits: ParseLimits, on_page: Callable[[], None] = lambda: None) -> None:
        self._limits = limits
        self._on_page = on_page
        self._seen: set[bytes] = set()
        self._unread = 0
        self._reason = ""

    def read(self, data: bytes, page: int | None = None) -> Iterator[Block]:
        if data in self._seen or not data:
            return
        self._seen.add(data)
        if not self._limits.ocr or len(self._seen) > self._limits.pictures or not data.startswith(_SIGNATURES):
            self._unread += 1
            return
        try:
            pixels = load_picture(data, self._limits)
            if min(pixels.shape[:2]) >= _SMALLEST:
                yield from arrange(recognise(pixels), pixels, page)
                self._on_page()
        except (MissingExtra, Refused) as refusal:
            self._unread += 1
            self._reason = str(refusal)

    def warnings(self) -> tuple[str, ...]:
        if not self._unread:
            return ()
        return (f"{self._unread} 张图片未识别" + (f"：{self._reason}" if self._reason else ""),)
