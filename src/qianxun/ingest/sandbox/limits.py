"""What one file may cost. Values only; the pool and the parsers keep to them."""

from __future__ import annotations

from dataclasses import dataclass

from qianxun.core.limits import GIB, MIB


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """The bounds of one file. Over any of them the file is refused with a reason; the batch goes on."""

    file_bytes: int = 200 * MIB
    unpacked_bytes: int = 600 * MIB  # of a zipped office file
    result_bytes: int = 256 * MIB  # of what the parser returns
    characters: int = 20_000_000  # of the text of one document: some forty thousand chunks
    parts: int = 100_000  # headings, tables, questions of one document, each of which becomes a chunk at least
    cells: int = 1_000_000  # of one file
    pages: int = 3_000
    pixels: int = 80_000_000  # of one picture
    depth: int = 200  # of nested JSON
    pictures: int = 50  # recognised inside one office file
    seconds: float = 120.0  # without a sign of life: a finished page is one
    total_seconds: float = 3_600.0
    step_seconds: float = 10.0  # of processor time until the next sign of life; as much for every further 5 MB of text
    memory_bytes: int = 900 * MIB  # address space for one file, beyond what the libraries themselves take
    ocr_memory_bytes: int = 4 * GIB  # the same while a picture is recognised: onnxruntime maps generously
    ocr: bool = True
    files_per_worker: int = 200
