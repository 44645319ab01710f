"""Markdown: headings, tables, lists and code, without the markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from markdown_it.token import Token

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile, Table, TableBlock
from qianxun.ingest.headings import numbered_headings
from qianxun.ingest.parse.encoding import read_text
from qianxun.ingest.parse.html import read_fragment
from qianxun.ingest.preprocess import markdown_reader, superscript
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, clean, flow
from qianxun.ingest.tables.pipes import split_at_tables
from qianxun.ingest.tables.read_table import table_blocks

_FRONT_TITLE: Final = re.compile(r"^title:\s*[\"']?(.{1,200}?)[\"']?\s*$", re.MULTILINE)
_TAG: Final = re.compile(r"<[^<>]{0,2000}>")
# MDN's page macros: a cross-reference shows its first argument, or its second where one is given.
_MACRO: Final = re.compile(
    r"\{\{\s{0,4}(?:\w{0,20}(?:xref|element)\(\s{0,4}[\"']([^\"'{}]{1,100})|glossary\(\s{0,4}[\"']([^\"'{}]{1,100})"
    r"(?:[\"']\s{0,4},\s{0,4}[\"']([^\"'{}]{1,100}))?)?[^{}]{0,300}\}\}",
    re.IGNORECASE,
)
_MAX_NESTING: Final = 40
_LONGEST_INLINE: Final = 20_000


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    decoded = read_text(path)
    return replace(parse_text(decoded.text, limits), metadata={"encoding": decoded.encoding}, warnings=decoded.warnings)


def parse_text(text: str, limits: ParseLimits) -> ParsedFile:
    """Markdown that is decoded already."""
    body, front = _split_front_matter(text)
    tokens = _tokens(body)
    blocks = tuple(_blocks(tokens, limits))
    found = _FRONT_TITLE.search(front)
    if found and not any(isinstance(block, Heading) and block.level == 1 for block in blocks):
        blocks = (Heading(found.group(1), 1), *blocks)
    title = found.group(1) if found else next((b.text for b in blocks if isinstance(b, Heading)), "")
    return ParsedFile(tuple(numbered_headings(blocks, only_articles=True)), "markdown", title)


def _tokens(body: str) -> list[Token]:
    """The blocks, with their inline markup parsed unless a block is too long: that is quadratic on hostile input."""
    reader = markdown_reader(_MAX_NESTING).disable("inline")
    environment: dict[str, object] = {}
    tokens = reader.parse(body, environment)
    for token in tokens:
        if token.type == "inline":
            token.children = []
            if len(token.content) <= _LONGEST_INLINE:
                reader.inline.parse(token.content, reader, environment, token.children)
            else:
                token.children.append(Token("text", "", 0, content=token.content))
    return tokens


def _split_front_matter(text: str) -> tuple[str, str]:
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    if not text.startswith("---\n"):
        return text, ""
    end = text.find("\n---", 3)
    if end < 0:
        return text, ""
    after = text.find("\n", end + 1)
    return (text[after + 1 :] if after >= 0 else ""), text[4:end]


def _blocks(tokens: Sequence[Token], limits: ParseLimits) -> Iterator[Block]:
    heading = ""
    bullets: list[str] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.type == "heading_open":
            heading = _inline(tokens[position + 1])
            if heading:
                yield Heading(heading, int(token.tag[1]))
            position += 1
        elif token.type == "table_open":
            end = _closing(tokens, position)
            yield from _table(tokens[position:end], heading, limits)
            position = end
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            end = _closing(tokens, position)
            bullets = list(_list_lines(tokens[position:end]))
            if bullets:
                yield Paragraph("\n".join(bullets))
            position = end
        elif token.type == "html_block":
            yield from read_fragment(_MACRO.sub(_macro_text, token.content), limits)
        elif (text := _leaf(token)).strip():
            yield from _paragraph(text, heading) if token.type == "inline" else (Paragraph(text),)
        position += 1


def _paragraph(text: str, heading: str) -> Iterator[Block]:
    """A paragraph. Rows with pipes but no line of dashes are no table to Markdown; here they are one."""
    if "|" not in text:
        yield Paragraph(text)
        return
    for part in split_at_tables(text.split("\n"), heading):
        yield TableBlock(part) if isinstance(part, Table) else Paragraph("\n".join(part))


def _closing(tokens: Sequence[Token], start: int) -> int:
    level = tokens[start].level
    for position in range(start + 1, len(tokens)):
        if tokens[position].level == level and tokens[position].nesting == -1:
            return position
    return len(tokens) - 1


def _leaf(token: Token) -> str:
    if token.type == "inline":
        return _inline(token)
    if token.type in ("fence", "code_block"):
        return token.content.rstrip()
    if token.type == "html_block":
        return _MACRO.sub(_macro_text, _TAG.sub(" ", _without_comments(token.content))).strip()
    return ""


def _without_comments(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0:
        parts.append(text[at:start])
        end = text.find("-->", start + 4)
        at = end + 3 if end >= 0 else len(text)
    return "".join([*parts, text[at:]])


def _list_lines(tokens: Sequence[Token]) -> Iterator[str]:
    """One line per item with its bullet or number, nested ones indented."""
    kinds: list[tuple[str, int]] = []
    mark = ""
    for token in tokens:
        if token.type in ("bullet_list_open", "ordered_list_open"):
            kinds.append((token.type, int(token.attrs.get("start", 1)) if token.type[0] == "o" else 0))
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            kinds.pop()
        elif token.type == "list_item_open":
            kind, number = kinds[-1]
            mark = f"{number}. " if kind[0] == "o" else "- "
            kinds[-1] = (kind, number + 1)
        elif text := _leaf(token).strip():
            yield "  " * (len(kinds) - 1) + mark + text
            mark = ""


def _inline(token: Token) -> str:
    return _MACRO.sub(_macro_text, "".join(_words(token.children or ()))).strip()


def _macro_text(macro: re.Match[str]) -> str:
    return macro.group(1) or macro.group(3) or macro.group(2) or ""


def _words(children: Sequence[Token]) -> list[str]:
    words: list[str] = []
    high = False
    for child in children:
        if child.type in ("text", "text_special", "code_inline"):  # special: \_ and &lt;, the character itself
            words.append(superscript("".join(words[-3:]), child.content) if high else child.content)
        elif child.type in ("softbreak", "hardbreak"):
            words.append("\n")
        elif child.type == "image":
            words.append(child.content)
        elif child.type == "html_inline":
            high = child.content.lower().startswith("<sup")
            words.append("\n" if child.content.lower().startswith("<br") else "")
    return words


def _table(tokens: Sequence[Token], heading: str, limits: ParseLimits) -> Iterator[Block]:
    rows: list[list[Cell]] = []
    for position, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append(Cell(clean(_inline(tokens[position + 1])), header=token.type == "th_open"))
    grid = flow(rows, limits.cells)
    return table_blocks(grid, title=heading, header_rows=1)
