from __future__ import annotations

from qianxun.core.types import Attributes, Chunk, Found
from qianxun.doors.mcp.texts import AROUND, EXCERPT, excerpt, joined, surroundings


def chunk(
    index: int, start: int, text: str, *, lead: str = "", name: str = "手册.md", **more: tuple[str, ...]
) -> Chunk:
    headings = more.get("headings", ())
    about = Attributes(doc_id="d")
    end = start + len(text)
    return Chunk(0, f"c_1_d_{index}", "d", name, index, lead + text, start, end, "text", headings, None, 1, about)


def found(text: str, *highlights: str) -> Found:
    return Found(chunk(0, 0, text), 0.5, "keyword", {}, highlights=highlights)


def test_chunks_make_the_text_that_they_were_cut_from() -> None:
    text = "第一段。\n\n第二段。\n第三段。"
    cut = [chunk(0, 0, text[0:4]), chunk(1, 6, text[6:10]), chunk(2, 11, text[11:15])]
    assert joined(cut) == text
    assert joined([]) == ""


def test_what_two_chunks_share_stands_there_once() -> None:
    text = "一二三四五六七八九十"
    assert (
        joined([chunk(0, 0, text[:6]), chunk(1, 4, text[4:8]), chunk(2, 5, text[5:7]), chunk(3, 8, text[8:])]) == text
    )


def test_a_tables_header_stands_there_once() -> None:
    head, rows = "| 品名 | 单价 |\n", ["| 书桌 | 2199 |\n", "| 复印纸 | 22.5 |"]
    first = chunk(0, 0, head + rows[0])
    second = chunk(1, first.end, rows[1], lead=head)
    assert joined([first, second]) == head + rows[0] + rows[1]
    assert joined([second]) == head + rows[1]  # alone it would say nothing without it


def test_a_passage_has_whole_neighbours_as_far_as_they_are_near() -> None:
    size = AROUND // 2
    held = [chunk(index, index * size, "字" * size) for index in range(9)]
    assert [each.index for each in surroundings(held, 4)] == [2, 3, 4, 5, 6]
    assert [each.index for each in surroundings(held, 0)] == [0, 1, 2]
    assert [each.index for each in surroundings(held, 8)] == [6, 7, 8]
    far = [chunk(0, 0, "字" * (AROUND + 1)), chunk(1, AROUND + 1, "字"), chunk(2, AROUND + 2, "字" * (AROUND + 1))]
    assert [each.index for each in surroundings(far, 1)] == [1]


def test_an_excerpt_shows_the_words_that_were_looked_for() -> None:
    assert excerpt(found("短短一句。")) == "短短一句。"
    long = "前" * 1000 + "报销比例" + "后" * 1000
    told = excerpt(found(long, "没有的", "报销比例"))
    assert "报销比例" in told
    assert (told[0], told[-1], len(told)) == ("…", "…", EXCERPT + 2)
    assert excerpt(found(long)) == "前" * EXCERPT + "…"
    assert excerpt(found("前" * 1000 + "末尾", "末尾")).endswith("末尾")
