"""A chunk is found by what it stands under, and shown as it is."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.codec.passage import below_headings
from qianxun.core.options import QueryMode
from qianxun.core.types import Found
from qianxun.indexing import read
from qianxun.testing.scripted import ScriptedEmbedding
from qianxun.text.headings import LONGEST_ABOVE, LONGEST_READ, read_under_headings, under_headings
from tests.indexing.opened import doc, opened

HANDBOOK = "# 住院待遇\n\n## 起付线\n\n{long}\n\n# 门诊待遇\n\n报销比例为六成。\n"
LONG = "\n\n".join(f"第{number}档由参保人自行承担，超过的部分再按比例支付。" for number in range(1, 60))


@pytest.mark.parametrize(
    ("headings", "text", "searched"),
    [
        ((), "正文", "正文"),
        (("住院",), "比例为 85%", "住院\n比例为 85%"),
        (("住院", "（一）比例"), "（一）比例\n\n85%", "住院\n（一）比例\n\n85%"),
        (("住院", "（一）比例"), "住院\n\n（一）比例\n\n85%", "住院\n\n（一）比例\n\n85%"),
        (("长" * LONGEST_ABOVE, "内层"), "正文", "内层\n正文"),
        (("采购", "三、验收"), "采购人应当付款。", "采购\n三、验收\n采购人应当付款。"),
        (("办法", "三", "（一）住院"), "三百元以下的部分。", "办法\n三\n（一）住院\n三百元以下的部分。"),
        (("住院", "", "比例"), "住院\n\n比例\n\n85%", "住院\n\n比例\n\n85%"),
    ],
)
def test_what_a_chunk_does_not_begin_with_stands_above_it(headings: tuple[str, ...], text: str, searched: str) -> None:
    assert under_headings(text, headings) == searched


@given(st.text(), st.lists(st.text(max_size=90), max_size=5))
def test_the_text_stays_whole_and_what_is_above_it_short(text: str, headings: list[str]) -> None:
    searched = under_headings(text, headings)
    assert searched.endswith(text)
    assert len(searched) - len(text) <= LONGEST_ABOVE


@given(st.text(max_size=700), st.lists(st.text(max_size=90), max_size=5))
def test_a_model_is_given_no_more_than_it_reads(text: str, headings: list[str]) -> None:
    read = read_under_headings(text, headings)
    assert len(read) <= max(len(text), LONGEST_READ)
    assert under_headings(text, headings).endswith(read) or len(read) == max(len(text), LONGEST_READ)


@pytest.mark.parametrize(
    ("size", "headings", "read"),
    [
        (40, ("住院待遇", "一、比例"), "住院待遇\n一、比例\n" + "字" * 40),
        (500, ("题" * 60, "一、比例"), "一、比例\n" + "字" * 500),
        (500, ("总" * 20, "住院待遇"), "总" * 20 + "\n住院待遇\n" + "字" * 484),
        (800, ("住院待遇",), "住院待遇\n" + "字" * 795),
    ],
)
def test_headings_take_no_more_from_a_full_chunk_than_the_next_repeats(
    size: int, headings: tuple[str, ...], read: str
) -> None:
    assert read_under_headings("字" * size, headings) == read


@pytest.mark.parametrize(
    ("headings", "text", "shown"),
    [
        (("住院", "（一）比例"), "住院\n\n（一）比例\n\n85%", "85%"),
        (("住院", "（一）比例"), "（一）比例\n\n85%", "85%"),
        (("办法", "1"), "15 个工作日内办结。", "15 个工作日内办结。"),
        (("第三条",), "第三条 起付线为三百元。", "第三条 起付线为三百元。"),
        (("住院",), "住院", "住院"),
        (("2024",), "2024年起执行。", "2024年起执行。"),
    ],
)
def test_only_lines_that_are_headings_are_left_out_of_a_view(headings: tuple[str, ...], text: str, shown: str) -> None:
    assert below_headings(text, headings) == shown


def test_a_chunk_is_found_by_a_heading_that_stands_chunks_above_it(tmp_path: Path) -> None:
    model = ScriptedEmbedding()

    async def matching() -> list[tuple[str, tuple[str, ...]]]:
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, [doc("手册", HANDBOOK.format(long=LONG), format="markdown")])
            answer = await engine.retrieve(kb, "起付线", mode="fulltext", top_k=50)
            return [(each.chunk.text, each.matched) for each in answer.found]

    first = asyncio.run(matching())
    below = [text for text, matched in first if "起付线" not in text]
    assert below, "only the chunk that holds the heading was found"
    assert all("起付线" in "".join(matched) for _, matched in first)
    assert all(f"住院待遇\n起付线\n{text}" in model.passages for text in below)
    # The same of an index that is made anew from the records.
    shutil.rmtree(tmp_path / "index")
    assert sorted(asyncio.run(matching())) == sorted(first)


def test_a_model_that_refuses_more_than_512_tokens_gets_less(tmp_path: Path) -> None:
    model = ScriptedEmbedding()

    async def take() -> None:
        async with opened(tmp_path, model) as (engine, kb):
            text = HANDBOOK.replace("住院待遇", f"住院待遇{'及其' * 40}").format(long=LONG)
            await engine.add_documents(kb, [doc("手册", text, format="markdown")])
            await engine.admin.rebuild(kb)

    asyncio.run(take())
    assert any(text.startswith("起付线\n第") for text in model.passages), "a full chunk has room for the inner heading"
    assert max(map(len, model.passages)) <= LONGEST_READ


@pytest.mark.parametrize("mode", ["naive", "local", "global", "mix"])
def test_every_query_mode_tells_the_same_matched_words(tmp_path: Path, mode: QueryMode) -> None:
    async def gathered() -> tuple[Found, ...]:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [doc("手册", HANDBOOK.format(long=LONG), format="markdown")])
            return (await engine.gather(kb, "起付线", mode=mode, top_k=50)).found

    below = [each for each in asyncio.run(gathered()) if "起付线" in each.chunk.headings]
    assert any("起付线" not in each.chunk.text for each in below)
    assert all("起付线" in "".join(each.matched) for each in below)


def test_a_word_of_the_heading_hides_no_place_in_the_text(tmp_path: Path) -> None:
    """Single characters are shown where no longer word stands in the text."""

    async def found() -> tuple[Found, ...]:
        async with opened(tmp_path) as (engine, kb):
            text = HANDBOOK.format(long=LONG.replace("承担", "承担，药"))
            await engine.add_documents(kb, [doc("手册", text, format="markdown")])
            return (await engine.retrieve(kb, "起付线 药", mode="fulltext", top_k=50)).found

    below = [each for each in asyncio.run(found()) if "起付线" not in each.chunk.text and "药" in each.chunk.text]
    assert below
    for each in below:
        assert any("药" in shown for shown in each.highlights)
        assert all(shown in each.chunk.text for shown in each.highlights)


def test_a_text_with_headings_is_read_again_by_a_better_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only then do its vectors know of the headings. A plain text has nothing new to be found in it."""
    given = [doc("手册", HANDBOOK.format(long=LONG), format="markdown"), doc("便条", "今日有雨，记得带伞。")]

    async def taken() -> list[list[str]]:
        async with opened(tmp_path) as (engine, kb):
            outcomes = []
            for version in ("3", "4", "4"):
                monkeypatch.setattr(read, "PARSER_VERSION", version)
                outcomes.append([each.outcome for each in await engine.add_documents(kb, given)])
            return outcomes

    assert asyncio.run(taken()) == [["created", "created"], ["updated", "unchanged"], ["unchanged", "unchanged"]]
