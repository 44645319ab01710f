"""JSON and JSON Lines: flat objects become a table, questions with answers pairs, anything else lines of paths."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile, QAPair, TableBlock
from qianxun.core.errors import TooLarge, Unreadable
from qianxun.ingest.parse.encoding import read_text
from qianxun.ingest.parse.pairs import pairs_of
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, place
from qianxun.ingest.tables.read_table import read_table

_MOST_COLUMNS: Final = 200
_PROSE: Final = 200  # mean length from which a field is prose, not a cell
_TITLES: Final = ("title", "标题", "题目", "name", "名称")
_LINES_OF_A_BLOCK: Final = 40


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    decoded = read_text(path)
    warnings = list(decoded.warnings)
    value = _load(decoded.text, warnings)
    title = path.stem
    metadata = {"encoding": decoded.encoding}
    records = _records(value)
    if records is None:
        blocks = tuple(_paths(value, limits))
        pairs = _nested_pairs(value)
    else:
        names = _names(records)
        if len(records) * len(names) > limits.cells:
            raise TooLarge(f"数据超过 {limits.cells} 个单元格", hint="请拆分文件")
        pairs = pairs_of(records, names)
        prose = _prose_field(records, names) if not pairs else ""
        blocks = tuple(_articles(records, names, prose) if prose else _table(records, names, title))
    return ParsedFile(blocks, "json", title, metadata, pairs, tuple(warnings))


def _load(text: str, warnings: list[str]) -> Any:
    try:
        return _read(text)
    except RecursionError as failure:
        raise TooLarge("JSON 嵌套过深", hint="请展开嵌套后再试") from failure
    except ValueError as failure:
        return _load_lines(text, failure, warnings)


def _read(text: str) -> Any:
    """Raises JSONDecodeError or RecursionError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python makes no integer of more digits than this, and no document is worth less for one
        return json.loads(
            text, parse_int=lambda digits: digits if len(digits) > sys.get_int_max_str_digits() else int(digits)
        )


def _load_lines(text: str, whole: ValueError, warnings: list[str]) -> list[Any]:
    found: list[Any] = []
    bad = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            found.append(_read(line))
        except RecursionError as failure:
            raise TooLarge("JSON 嵌套过深", hint="请展开嵌套后再试") from failure
        except ValueError:
            bad += 1
    if bad >= len(found):
        raise Unreadable(f"不是有效的 JSON：{whole}", hint="请检查文件是否完整") from whole
    if bad:
        warnings.append(f"有 {bad} 行不是有效的 JSON，已跳过")
    return found


def _records(value: Any) -> list[Mapping[str, str]] | None:
    """Objects whose values are plain, as text; None when the value is anything else."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))  # {"data": [...]}
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return None
    if len(value) == 1 or not all(_is_plain(field) for item in value for field in item.values()):
        return None
    records: list[Mapping[str, str]] = [{str(key): _shown(field) for key, field in item.items()} for item in value]
    return records if len(_names(records)) <= _MOST_COLUMNS else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(not isinstance(item, dict | list) for item in value)
    return not isinstance(value, dict)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "、".join(_shown(item) for item in value)
    return value if isinstance(value, str) else str(value)


def _names(records: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _table(records: Sequence[Mapping[str, str]], names: Sequence[str], title: str) -> Iterator[Block]:
    header = ((0, c, Cell(name or f"列{c + 1}", header=True)) for c, name in enumerate(names))
    body = (
        (r, c, Cell(record.get(name, "").strip()))
        for r, record in enumerate(records, 1)
        for c, name in enumerate(names)
    )
    table = read_table(place([*header, *body]), title=title, header_rows=1)
    if table is not None:
        yield TableBlock(table)
        return
    for record in records:
        yield Paragraph("\n".join(f"{name}：{text}" for name, text in record.items() if text))


def _prose_field(records: Sequence[Mapping[str, str]], names: Sequence[str]) -> str:
    lengths = {name: sum(len(record.get(name, "")) for record in records) for name in names}
    longest = max(lengths, key=lambda name: lengths[name], default="")
    return longest if longest and lengths[longest] >= _PROSE * len(records) else ""


def _articles(records: Sequence[Mapping[str, str]], names: Sequence[str], prose: str) -> Iterator[Block]:
    titled = next((name for name in names if name.strip().lower() in _TITLES), "")
    for record in records:
        if titled and record.get(titled, "").strip():
            yield Heading(" ".join(record[titled].split()), 1)
        rest = [f"{name}：{record[name]}" for name in record if name not in (titled, prose) and record[name].strip()]
        if rest:
            yield Paragraph("\n".join(rest))
        if record.get(prose, "").strip():
            yield Paragraph(record[prose])


def _nested_pairs(value: Any) -> tuple[QAPair, ...]:
    """A single object with a question and an answer, however its answers are nested."""
    if not isinstance(value, dict):
        return ()
    flat = {str(key): _first_text(item) for key, item in value.items()}
    return pairs_of([flat], list(flat))


def _first_text(value: Any) -> str:
    while isinstance(value, list) and value:
        value = value[0]
    return "" if isinstance(value, dict | list) else _shown(value)


def _paths(value: Any, limits: ParseLimits) -> Iterator[Block]:
    """One line per leaf: 订单.明细[0].名称：苹果. Every element of a top list is a paragraph of its own."""
    lines: list[str] = []
    stack: list[tuple[str, Any, int]] = [("", value, 0)]
    while stack:
        path, item, depth = stack.pop()
        if depth > limits.depth:
            raise TooLarge(f"JSON 嵌套超过 {limits.depth} 层", hint="请展开嵌套后再试")
        if depth == 1 and isinstance(item, dict | list) and lines:
            yield Paragraph("\n".join(lines))
            lines = []
        if isinstance(item, dict):
            stack.extend(
                (f"{path}.{key}" if path else str(key), value, depth + 1) for key, value in reversed(item.items())
            )
        elif isinstance(item, list):
            stack.extend((f"{path}[{i}]", item[i], depth + 1) for i in range(len(item) - 1, -1, -1))
        elif text := _shown(item).strip():
            lines.append(f"{path}：{text}" if path else text)
        if len(lines) >= _LINES_OF_A_BLOCK:
            yield Paragraph("\n".join(lines))
            lines = []
    if lines:
        yield Paragraph("\n".join(lines))
