"""What every parser must do, as a test class to inherit.

    class TestEpub(ParserConformance):
        abilities = frozenset({"headings"})

        def parser(self) -> Any:
            return my_package.epub            # has formats = (".epub",) and parse(path, limits)

        def sample(self, folder: Path) -> Path:
            ...                               # a good file that contains the words of `expected`

Optional abilities: ``headings``, ``tables``, ``pairs``, ``pages``; the sample has some of each that is named.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from qianxun.core.errors import MissingExtra, Refused
from qianxun.core.plugins import OWN_FORMATS
from qianxun.core.types import Heading, Paragraph, ParsedFile, QAPair, TableBlock
from qianxun.ingest.assemble import assemble
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.serial import from_json, to_json
from qianxun.testing.model_conformance import Conformance


class ParserConformance(Conformance):
    OPTIONAL = frozenset({"headings", "tables", "pairs", "pages"})
    expected: ClassVar[tuple[str, ...]] = ("住院报销比例",)  # words that the sample contains
    is_builtin: ClassVar[bool] = False

    def parser(self) -> Any:
        raise NotImplementedError

    def sample(self, folder: Path) -> Path:
        raise NotImplementedError

    def parsed(self, folder: Path) -> ParsedFile:
        found: ParsedFile = self.parser().parse(self.sample(folder), ParseLimits())
        return found

    # ── required ─────────────────────────────────────────────────────────────────────────────────

    def test_its_formats_are_endings_that_are_not_ours(self, tmp_path: Path) -> None:
        formats = self.parser().formats
        assert isinstance(formats, tuple)
        assert formats
        assert all(ending.startswith(".") and ending == ending.lower() for ending in formats)
        assert self.is_builtin or not OWN_FORMATS.intersection(formats)
        assert self.sample(tmp_path).suffix.lower() in formats

    def test_the_text_of_the_sample_is_there(self, tmp_path: Path) -> None:
        parsed = self.parsed(tmp_path)
        assert isinstance(parsed, ParsedFile)
        assert all(isinstance(block, (Heading, Paragraph, TableBlock)) for block in parsed.blocks)
        content = assemble(parsed).content
        assert all(words in content for words in self.expected)

    def test_the_result_survives_the_way_out_of_the_sandbox(self, tmp_path: Path) -> None:
        parsed = self.parsed(tmp_path)
        sent = from_json(to_json(parsed))
        assert (sent.blocks, sent.text, sent.title) == (tuple(parsed.blocks), parsed.text, parsed.title)
        assert sent.pairs == tuple(parsed.pairs)

    def test_offsets_are_exact(self, tmp_path: Path) -> None:
        text = assemble(self.parsed(tmp_path))
        for piece in ChunkSplitter(200, 20).pieces(text):
            assert text.content[piece.start : piece.end] == piece.body
        assert all(text.content[mark.start :].startswith(mark.title) for mark in text.marks)

    def test_parsing_twice_gives_the_same_and_changes_nothing(self, tmp_path: Path) -> None:
        path = self.sample(tmp_path)
        before = path.read_bytes()
        parser = self.parser()
        assert to_json(parser.parse(path, ParseLimits())) == to_json(parser.parse(path, ParseLimits()))
        assert path.read_bytes() == before

    @pytest.mark.parametrize("damage", ["empty", "half", "noise", "zeros"])
    def test_a_damaged_file_is_refused_or_read(self, tmp_path: Path, damage: str) -> None:
        path = self.sample(tmp_path)
        whole = path.read_bytes()
        broken = {"empty": b"", "half": whole[: len(whole) // 2], "noise": bytes(range(256)) * 8, "zeros": bytes(4096)}
        path.write_bytes(broken[damage])
        try:
            assert isinstance(self.parser().parse(path, ParseLimits()), ParsedFile)
        except (Refused, MissingExtra) as refusal:
            assert refusal.message  # noqa: PT017
            assert refusal.hint  # noqa: PT017

    # ── optional ─────────────────────────────────────────────────────────────────────────────────

    def test_headings_are_marked(self, tmp_path: Path) -> None:
        self.need("headings")
        found = assemble(self.parsed(tmp_path)).marks
        assert found
        assert all(mark.title.strip() and 1 <= mark.level <= 9 for mark in found)

    def test_tables_are_tables(self, tmp_path: Path) -> None:
        self.need("tables")
        tables = [span.table for span in assemble(self.parsed(tmp_path)).tables]
        assert tables
        assert all(len(row) == len(table.columns) for table in tables for row in (*table.rows, *table.texts))

    def test_questions_come_with_answers(self, tmp_path: Path) -> None:
        self.need("pairs")
        pairs = self.parsed(tmp_path).pairs
        assert pairs
        assert all(isinstance(pair, QAPair) and pair.question and pair.answer for pair in pairs)

    def test_blocks_know_their_page(self, tmp_path: Path) -> None:
        self.need("pages")
        pages = [block.page for block in self.parsed(tmp_path).blocks if block.page is not None]
        assert pages
        assert pages == sorted(pages)
        assert pages[0] >= 1
