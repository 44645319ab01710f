"""CSV and TSV: encoding, delimiter and header are recognised."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from qianxun.core.documents import ParsedFile
from qianxun.core.errors import TooLarge, Unreadable
from qianxun.ingest.parse.encoding import read_text
from qianxun.ingest.parse.pairs import pairs_in
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import EMPTY, Cell, Grid, place
from qianxun.ingest.tables.read_table import table_blocks

_DELIMITERS: Final = ",\t;|，"
_LONGEST_FIELD: Final = 10_000_000
_SAMPLE_ROWS: Final = 50
_SAMPLE_CHARACTERS: Final = 200_000


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    decoded = read_text(path)
    delimiter = _delimiter(decoded.text)
    blocks = tuple(table_blocks(_grid(decoded.text, delimiter, limits), title=path.stem))
    metadata = {"encoding": decoded.encoding, "delimiter": delimiter}
    return ParsedFile(blocks, "csv", path.stem, metadata, pairs_in(blocks), decoded.warnings)


def _delimiter(text: str) -> str:
    """The delimiter under which the first rows agree best on more than one field."""
    best, best_score = ",", 0.0
    for delimiter in _DELIMITERS:
        widths = _widths(text[:_SAMPLE_CHARACTERS], delimiter)
        if not widths:
            continue
        width, count = Counter(widths).most_common(1)[0]
        score = count / len(widths) * min(width, 4) if width > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _widths(text: str, delimiter: str) -> list[int]:
    widths: list[int] = []
    try:
        for row in _records(text, delimiter):
            widths.append(len(row))
            if len(widths) == _SAMPLE_ROWS:
                break
    except csv.Error:
        return []
    return widths


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(_LONGEST_FIELD)
    stream = io.StringIO(text.replace("\x00", ""), newline="")
    return (row for row in csv.reader(stream, delimiter=delimiter, skipinitialspace=True) if row)


def _grid(text: str, delimiter: str, limits: ParseLimits) -> Grid:
    rows: list[list[Cell]] = []
    cells = 0
    try:
        for row in _records(text, delimiter):
            cells += len(row)
            if cells > limits.cells:
                raise TooLarge(f"表格超过 {limits.cells} 个单元格", hint="请拆分文件")
            rows.append([Cell(field.strip()) if field.strip() else EMPTY for field in row])
    except csv.Error as failure:
        raise Unreadable(f"CSV 无法解读：{failure}", hint="请检查引号是否成对") from failure
    widest = max(map(len, rows), default=0)
    if widest * len(rows) > limits.cells * 4:  # one long row among many short ones must not become a huge rectangle
        raise TooLarge("各行列数相差过大", hint="请检查分隔符和引号")
    return place((r, c, cell) for r, row in enumerate(rows) for c, cell in enumerate(row))
