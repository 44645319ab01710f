"""Chunks are never too long, stand where they say, cover everything and end where a reader would end them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hypothesis_settings import examples
from tests.linear import is_linear
from tests.sampling import share
from tests.shared import DATA, needs_data

from qianxun.core.errors import BadInput
from qianxun.core.types import Column, Mark, PageStart, Piece, Table, TableSpan, Text
from qianxun.ingest import chunk
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.preprocess import normalise

NOVELS = DATA / "ingest" / "novels"
SIZES = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))
PROSE = st.text(
    alphabet=st.one_of(
        st.sampled_from("住院报销比例。！？；，、：\n\n  abc3.14「」“”（）…é\u0301👩\u200d⚕️🇨🇳"), st.characters()
    ),
    max_size=300,
)


def check(text: Text, splitter: ChunkSplitter, pieces: tuple[Piece, ...]) -> None:
    """What every splitting promises."""
    covered = 0
    for piece in pieces:
        assert 0 < len(piece.text) <= splitter.chunk_size
        assert text.content[piece.start : piece.end] == piece.body
        assert piece.body.strip()
        assert not text.content[covered : piece.start].strip(), "a character was lost"
        assert piece.end > covered, "a chunk without anything new"
        assert covered - piece.start <= splitter.chunk_overlap
        covered = piece.end
    assert not text.content[covered:].strip(), "the end was lost"


@given(PROSE, SIZES)
def test_any_text_is_covered_by_short_chunks_at_exact_offsets(content: str, sizes: tuple[int, int]) -> None:
    splitter = ChunkSplitter(*sizes)
    check(Text(content), splitter, splitter.pieces(Text(content)))
    assert splitter.split(content) == [(piece.body, piece.start) for piece in splitter.pieces(Text(content))]


@given(PROSE, SIZES, st.lists(st.sampled_from(["\n", "。", "，", "ab", "", "[", " "]), max_size=4))
def test_separators_of_ones_own_keep_every_promise(content: str, sizes: tuple[int, int], own: list[str]) -> None:
    splitter = ChunkSplitter(*sizes, separators=own)
    check(Text(content), splitter, splitter.pieces(Text(content)))


@given(PROSE, SIZES, st.lists(st.integers(-5, 320), max_size=6))
def test_no_chunk_reaches_across_a_cut(content: str, sizes: tuple[int, int], cuts: list[int]) -> None:
    splitter = ChunkSplitter(*sizes)
    pieces = splitter.pieces(Text(content), cuts=cuts)
    check(Text(content), splitter, pieces)
    assert not any(piece.start < cut < piece.end for piece in pieces for cut in cuts)


# ── structure ────────────────────────────────────────────────────────────────────────────────────

BLOCKS = st.lists(
    st.one_of(
        st.tuples(st.just("heading"), st.integers(1, 4), st.text(alphabet="总则第一章节 ", min_size=1, max_size=30)),
        st.tuples(st.just("prose"), st.just(0), st.text(alphabet="住院报销。，a1 \n", min_size=1, max_size=120)),
        st.tuples(st.just("table"), st.integers(0, 6), st.text(alphabet="甲乙1 ", min_size=1, max_size=40)),
    ),
    max_size=8,
)


def built(blocks: list[tuple[str, int, str]]) -> Text:
    """A text of blocks, one page each, as the file parsers assemble it."""
    content = ""
    marks, tables, pages = [], [], []
    for number, (kind, level, body) in enumerate(blocks):
        body = body.strip()
        if not body:
            continue
        content += "\n\n" if content else ""
        start = len(content)
        pages.append(PageStart(start, number))
        if kind == "heading":
            marks.append(Mark(start, level, body))
        if kind == "table":
            header = f"{body}\n列一 | 列二"
            rows = [f"{body} | {row}" for row in range(level)]
            lines = [header, *rows]
            starts = [start + sum(len(line) + 1 for line in lines[: row + 1]) for row in range(level)]
            body = "\n".join(lines)
            tables.append(TableSpan(start, start + len(body), table(), tuple(starts)))
        content += body
    return Text(content, tuple(marks), tuple(tables), tuple(pages))


def page_at(text: Text, offset: int) -> int:
    return max(page.page for page in text.pages if page.start <= offset)


def table() -> Table:
    return Table("", (Column("列一", ("列一",)),), (), ())


@given(BLOCKS, SIZES)
def test_any_structure_keeps_every_promise(blocks: list[tuple[str, int, str]], sizes: tuple[int, int]) -> None:
    text = built(blocks)
    splitter = ChunkSplitter(*sizes)
    pieces = splitter.pieces(text)
    check(text, splitter, pieces)
    for piece in pieces:
        crossed = [mark for mark in text.marks if piece.start < mark.start < piece.end]
        above = text.content[piece.start : max((mark.start for mark in crossed), default=piece.start)]
        assert above.strip() in "\n\n".join(piece.headings), "across a heading"  # save those it is itself below
        assert (piece.kind == "table") == (piece.table is not None)
        held = Counter(page_at(text, offset) for offset in range(piece.start, piece.end))
        assert held[piece.page] == max(held.values()), "cited by a page that holds less of it than another"
        if piece.table is not None:
            span = text.tables[piece.table]
            assert span.start < piece.end <= span.end


@given(BLOCKS, SIZES)
def test_a_piece_knows_the_headings_above_it(blocks: list[tuple[str, int, str]], sizes: tuple[int, int]) -> None:
    text = built(blocks)
    for piece in ChunkSplitter(*sizes).pieces(text):
        path: list[Mark] = []
        for mark in text.marks:
            if mark.start < piece.end:
                path = [*(above for above in path if above.level < mark.level), mark]
        titles = tuple(mark.title for mark in path)
        assert piece.headings == titles or piece.headings[: len(titles)] == titles  # a long chain of headings was cut


def test_heading_path_page_and_text_go_together() -> None:
    text = built(
        [
            ("heading", 1, "第一章 总则"),
            ("heading", 2, "第一节 目的"),
            ("prose", 0, "为了保障参保人员的权益，制定本办法。"),
            ("heading", 2, "第二节 范围"),
            ("prose", 0, "本办法适用于本市。"),
            ("heading", 1, "第二章 附则"),
        ]
    )
    pieces = ChunkSplitter(100, 10).pieces(text)
    assert [piece.headings for piece in pieces] == [
        ("第一章 总则", "第一节 目的"),
        ("第一章 总则", "第二节 范围"),
        ("第二章 附则",),
    ]
    assert pieces[0].body == "第一章 总则\n\n第一节 目的\n\n为了保障参保人员的权益，制定本办法。"
    assert [piece.page for piece in pieces] == [2, 4, 5]


def test_what_stands_on_two_pages_is_cut_between_them_unless_a_sentence_goes_on() -> None:
    rule = "各部门应当严格遵照执行，不得擅自变更；违反规定的，按照奖惩办法处理。"
    pages = [
        "员工手册",
        f"一、考勤\n{rule}{rule}",
        f"二、休假\n{rule}{rule}第九条 年假满一年的五天，满十年的",
        "十天。",
    ]
    pieces = ChunkSplitter(500, 50).pieces(built([("prose", 0, page) for page in pages]))
    assert [(piece.page, piece.body.split()[0]) for piece in pieces] == [(1, "员工手册"), (2, "二、休假")]
    assert pieces[1].body.endswith("满十年的\n\n十天。")


def test_no_chunk_is_a_lone_heading_while_there_is_text_below_it() -> None:
    text = built([("heading", 1, "第三条"), ("prose", 0, "无" * 200)])
    pieces = ChunkSplitter(50, 5).pieces(text)
    assert pieces[0].body.startswith("第三条\n\n无")
    assert "第三条" not in pieces[1].body


def test_small_paragraphs_of_a_section_share_a_chunk() -> None:
    text = "\n\n".join(["甲" * 20 + "。"] * 10)
    assert [len(body) for body, _ in ChunkSplitter(100, 0).split(text)] == [90, 90, 44]


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def price_list(rows: int, cell: str = "阿莫西林胶囊") -> Text:
    header = "药品价目\n名称 | 单价\n"
    lines = [f"{cell}{row} | {row}.5元" for row in range(rows)]
    starts = [len(header) + sum(len(line) + 1 for line in lines[:row]) for row in range(rows)]
    content = header + "\n".join(lines)
    return Text(content, tables=(TableSpan(0, len(content), table(), tuple(starts)),))


def test_a_table_that_fits_is_whole() -> None:
    text = price_list(10)
    (piece,) = ChunkSplitter(500, 50).pieces(text)
    assert piece.body == text.content
    assert (piece.kind, piece.table, piece.lead) == ("table", 0, "")


def test_a_long_table_is_cut_between_rows_and_repeats_its_header() -> None:
    text = price_list(100)
    splitter = ChunkSplitter(120, 20)
    pieces = splitter.pieces(text)
    check(text, splitter, pieces)
    assert pieces[0].body.startswith("药品价目\n名称 | 单价\n阿莫西林胶囊0 ")
    for piece in pieces[1:]:
        assert piece.lead == "药品价目\n名称 | 单价\n"
        assert all(line.startswith("阿莫西林胶囊") and line.endswith("元") for line in piece.body.split("\n"))


def test_a_row_longer_than_a_chunk_is_split_too() -> None:
    text = price_list(3, cell="很长的说明，" * 60)
    splitter = ChunkSplitter(100, 10)
    pieces = splitter.pieces(text)
    check(text, splitter, pieces)
    assert all(piece.lead == "药品价目\n名称 | 单价\n" for piece in pieces[1:])


def test_a_heading_goes_along_with_its_table() -> None:
    pieces = ChunkSplitter(500, 50).pieces(built([("heading", 1, "附表"), ("table", 3, "甲")]))
    assert [(piece.kind, piece.headings) for piece in pieces] == [("table", ("附表",))]
    assert pieces[0].body.startswith("附表\n\n甲\n列一")


# ── where chunks end and begin ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("他说：“好。”她就走了。", 8, ["他说：“好。”", "她就走了。"]),
        ("“去吗？”，他问。不去。", 10, ["“去吗？”，他问。", "不去。"]),
        ("圆周率约为3.14159。完", 10, ["圆周率约为", "3.14159。完"]),
        ("请见https://a.cn/x?y=1 好的", 20, ["请见https://a.cn/x?y=1", "好的"]),
        ("网址是https://a.cn/x?y=1", 20, ["网址是", "https://a.cn/x?y=1"]),
        ("血压为140/90mmHg偏高", 10, ["血压为", "140/90mmHg", "偏高"]),
        ("甲乙丙，丁戊己，庚辛", 6, ["甲乙丙，", "丁戊己，庚辛"]),
        ("医👩\u200d⚕️生", 4, ["医", "👩\u200d⚕️", "生"]),
        ("no cut inside words", 8, ["no cut", "inside", "words"]),
    ],
)
def test_cuts_spare_sentences_clauses_words_and_numbers(text: str, size: int, expected: list[str]) -> None:
    assert [body for body, _ in ChunkSplitter(size, 0).split(text)] == expected


def test_a_line_that_goes_on_is_no_place_to_cut() -> None:
    """Lines of a text file broken at a width: a figure is not to be cut in two."""
    prose = "乙方向甲方出售数控铣床三台，单价42万元，合同总价126万元。货到验收合格后三十日内，甲方支付全部价款。"
    text = prose * 4
    broken = "\n".join(text[at : at + 27] for at in range(0, len(text), 27))
    assert "12\n6万元" in broken
    bodies = [body for body, _ in ChunkSplitter(40, 0).split(broken)]
    assert any("12\n6万元" in body for body in bodies)
    assert not any(body.endswith("12") for body in bodies)


def test_overlap_begins_with_a_sentence_where_one_fits_else_with_a_clause() -> None:
    sentences = "".join(f"第{n}句话说的是医保报销。" for n in range(10))
    bodies = [body for body, _ in ChunkSplitter(40, 15).split(sentences)]
    assert all(body.startswith("第") and body.endswith("。") for body in bodies)
    assert all(later[:12] in earlier for earlier, later in pairwise(bodies))
    clauses = "，".join(["这是一个没有句号的分句"] * 20)
    assert all(body.startswith("这是") for body, _ in ChunkSplitter(40, 15).split(clauses))


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (-1, 0), (10, 10), (10, 11), (10, -1)])
def test_impossible_sizes_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(BadInput, match="chunk_"):
        ChunkSplitter(size, overlap)


def test_the_seed_bugs_are_impossible() -> None:
    """D5: chunks of 541 at chunk_size=500, one offset for several chunks, a long sentence never split.

    D1: preprocessing ate the sentence marks, and 5,290 characters became one chunk of 4,490.
    """
    sentence = "参保人员在定点医疗机构发生的住院费用，由统筹基金按比例支付，血压≥140/90mmHg的除外。"
    paragraphs = ["\n".join([sentence * 9, "长" * 900]), sentence * 12, sentence]
    text = normalise("\n\n".join(paragraphs * 3))
    assert len(text) > 5_290
    chunks = ChunkSplitter(500, 50).split(text)
    assert max(len(body) for body, _ in chunks) <= 500
    assert len({start for _, start in chunks}) == len(chunks) > len(text) / 500
    assert all(text[start : start + len(body)] == body for body, start in chunks)
    assert "140/90mmHg" in chunks[0][0]


@given(PROSE, st.integers(1, 8), st.sampled_from([None, ["\n\n", "。", "ab", "]^-"]]))
def test_boundaries_are_the_same_when_a_text_is_searched_in_stretches(
    text: str, stretch: int, separators: list[str] | None
) -> None:
    def boundaries() -> list[list[int]]:
        levels = chunk._LEVELS if separators is None else tuple(chunk._levels(separators))
        return [level.positions(text, 0, len(text)) for level in levels]

    whole = boundaries()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunk, "_STRETCH", stretch)
        assert boundaries() == whole


@pytest.mark.parametrize(
    "unit", ["第一章 总则：住院报销比例为3.14%。“是吗？”他说……\n\n", "word. ", "\n \t", "……」", "ab--"]
)
def test_a_text_of_many_stretches_is_cut_as_if_it_was_searched_at_once(unit: str) -> None:
    text = "始" + unit * (share(2_500_000, 600_000) // len(unit)) + "终"
    for level in chunk._LEVELS:
        searched = level.positions(text, 0, len(text))
        found = level.pattern.finditer(text)
        assert searched == [match.start() if level.before else match.end() for match in found]


@pytest.mark.parametrize("unit", ["中", "x", "\n", "。", "「", "，", " ", "a\n", "\u0301", "!", "a.", ") .", "🇨"])
def test_hostile_input_takes_linear_time(unit: str) -> None:
    def work(characters: int) -> Callable[[], object]:
        text = unit * (characters // len(unit)) + "尾"
        return lambda: ChunkSplitter().split(text)

    assert is_linear(work, 30_000)


@needs_data
@examples(20)
@given(SIZES.map(lambda sizes: (sizes[0] * 10, sizes[1] * 3)), st.integers(0, 300_000))
def test_real_prose_keeps_every_promise(sizes: tuple[int, int], start: int) -> None:
    text = Text((NOVELS / "儒林外史.txt").read_text(encoding="utf-8")[start : start + 30_000])
    splitter = ChunkSplitter(*sizes)
    check(text, splitter, splitter.pieces(text))


def novels() -> list[Path]:
    return sorted(NOVELS.glob("*.txt"))[::2]


@needs_data
def test_real_chunks_end_with_sentences_and_are_well_filled() -> None:
    for novel in novels():
        text = Text(normalise(novel.read_text(encoding="utf-8")))
        splitter = ChunkSplitter()
        pieces = splitter.pieces(text)
        check(text, splitter, pieces)
        whole = sum(piece.body[-1] in "。！？；…．”’」』）\"'" for piece in pieces)
        assert whole > 0.75 * len(pieces), novel.name
        assert sum(len(piece.body) for piece in pieces) > 0.7 * 500 * len(pieces), novel.name
