"""Text recognition. The engine is loaded once per process, with the first picture."""

from __future__ import annotations

import io
import logging
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import MissingExtra, TooLarge, Unreadable
from qianxun.ingest.sandbox import budget
from qianxun.ingest.sandbox.limits import ParseLimits

Pixels = NDArray[np.uint8]  # height × width × 3, blue first as OpenCV has it

_FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF")  # of one that moves, the first frame
_LONGEST_SIDE = 4_000  # larger scans are reduced: recognition scales its input anyway
_SEEN_SIDE = 2_048  # of what a model is shown: services reduce whatever is larger
_SHORTEST_SIDE = 12
_MIN_SCORE = 0.5


@dataclass(frozen=True, slots=True)
class Line:
    """A recognised piece of text and its upright box in pixels."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


@budget.for_pictures()
def load_picture(source: Path | bytes, limits: ParseLimits) -> Pixels:
    """The pixels, upright by their EXIF orientation. The size is checked before anything is decompressed."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as missing:
        raise MissingExtra("pillow", "ocr") from missing
    opened = source if isinstance(source, Path) else io.BytesIO(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large pictures; the limit here is our own
            with Image.open(opened, formats=_FORMATS) as image:
                if image.width * image.height > limits.pixels:
                    raise TooLarge(f"图片超过 {limits.pixels // 1_000_000} 百万像素", hint="请缩小图片后再试")
                upright = _in_eight_bits(ImageOps.exif_transpose(image))
                upright.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
                return _flattened(upright)
    except Image.DecompressionBombError as bomb:
        raise TooLarge("图片解压后过大", hint="请缩小图片后再试") from bomb
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as failure:
        raise Unreadable("图片已损坏或不完整", hint="请重新导出图片") from failure


def _in_eight_bits(image: Any) -> Any:
    """An X-ray or a scan of more than 256 greys, from its darkest to its brightest: Pillow would cut all above 255."""
    from PIL import Image

    if not image.mode.startswith(("I", "F")):
        return image
    greys = np.asarray(image, dtype=np.float32)
    low, high = float(greys.min()), float(greys.max())
    return Image.fromarray(np.uint8((greys - low) * (255.0 / (high - low))) if high > low else np.uint8(greys * 0))


def _flattened(image: Any) -> Pixels:
    """Transparent parts become white, as they look on a page."""
    from PIL import Image

    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layered = image.convert("RGBA")
        paper = Image.new("RGBA", layered.size, "white")
        image = Image.alpha_composite(paper, layered)
    return np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1])


def upright_jpeg(source: Path | bytes, limits: ParseLimits) -> bytes:
    """The pixels alone, small enough for a model that sees: no EXIF, no further frames, no text chunks."""
    pixels = load_picture(source, limits)
    from PIL import Image

    image = Image.fromarray(pixels[:, :, ::-1])
    image.thumbnail((_SEEN_SIDE, _SEEN_SIDE))
    written = io.BytesIO()
    image.save(written, "JPEG", quality=90)
    return written.getvalue()


@budget.for_pictures()
def recognise(pixels: Pixels) -> list[Line]:
    """The lines of a picture, unordered, without those of low confidence."""
    height, width = pixels.shape[:2]
    if min(height, width) < _SHORTEST_SIDE:
        return []
    found = engine()(pixels)
    if found.txts is None or found.boxes is None:
        return []
    lines = []
    for box, text, score in zip(found.boxes, found.txts, found.scores, strict=True):
        if score >= _MIN_SCORE and text.strip():
            xs, ys = box[:, 0], box[:, 1]
            lines.append(Line(float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max()), text.strip()))
    return lines


@cache
def engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError as missing:
        raise MissingExtra("rapidocr", "ocr") from missing
    # Two files are read at once by default: with threads for all processors in each, as much time again goes into
    # waiting (measured: 10.3 seconds of two busy processors instead of 5.3).
    threads = max(1, (os.cpu_count() or 1) // 2)
    loaded = RapidOCR(params={"EngineConfig.onnxruntime.intra_op_num_threads": threads})
    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    return loaded
