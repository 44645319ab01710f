"""Preprocessing changes widths, spaces and line ends, and nothing that a reader reads."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linear import is_linear
from tests.shared import DATA, needs_data

from qianxun.core.errors import BadInput
from qianxun.core.types import ContentFormat
from qianxun.ingest.parse.markdown import parse_text as parse_markdown
from qianxun.ingest.preprocess import TextPreprocessor, normalise
from qianxun.ingest.sandbox.limits import ParseLimits

UNEVEN = st.text(
    alphabet=" \t\r\n　\u200b\u200d\ufeff\x00ａＡ１aA1，。發票🏴👩🏽‍⚕️❤️\U000e0067\ud800\u2028\xa0", max_size=80
)


@given(st.one_of(UNEVEN, st.text(max_size=80)), st.booleans())
def test_normalising_twice_is_normalising_once(text: str, indent: bool) -> None:
    once = normalise(text, indent=indent)
    assert normalise(once, indent=indent) == once


@given(st.one_of(UNEVEN, st.text(max_size=80)), st.booleans())
def test_normalised_text_is_even(text: str, indent: bool) -> None:
    even = normalise(text, indent=indent)
    assert "\n\n\n" not in even
    assert not set("\r\t\x00　\u200b\ufeff\xa0\ud800") & set(even)
    assert all(line == (line.rstrip() if indent else line.strip()) for line in even.split("\n"))
    even.encode("utf-8")


@given(st.text(alphabet=st.characters(categories=["Lo", "Lu", "Ll", "Nd", "Po", "Ps", "Pe", "Sm", "Sc"]), max_size=60))
def test_every_visible_character_survives(text: str) -> None:
    def narrow(character: str) -> str:
        wide = "\uff10" <= character <= "\uff5a" and character.isalnum()
        return unicodedata.normalize("NFKC", character) if wide else character

    assert normalise(text) == "".join(map(narrow, text))


@pytest.mark.parametrize(
    "text",
    [
        "血压≥140/90mmHg，空腹血糖6.1～7.0mmol/L。",
        "报销比例为85%，起付线1,300元；封顶线×倍？",
        "体温37.5℃！《民法典》第①条，面积12m²……",
        "他说：“好。”「是」『否』（完）【注】",
        "發票與統一編號：臺北市",
        "👨‍👩‍👧 👩🏽‍⚕️ ❤️ 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "全角标点：，。！？；：％＋－＝／（）",
    ],
)
def test_marks_units_signs_and_emoji_survive(text: str) -> None:
    assert normalise(text) == text


def test_widths_spaces_and_line_ends_become_even() -> None:
    assert normalise("\ufeff　　ＡＢＣ１２３　\t x\r\ny\rz\r\n\r\n \r\n\r\nw\u200b ") == "ABC123 x\ny\nz\n\nw"


def test_invisible_tag_letters_outside_a_flag_are_dropped() -> None:
    assert normalise("正文\U000e0069\U000e0067结束") == "正文结束"


def test_the_seed_bug_that_ate_punctuation_is_impossible() -> None:
    """Seed bug D1: "140/90mmHg" became "14090mmHg" and every sentence mark went."""
    text = "血压140/90mmHg，属于高血压；≥160/100mmHg时，应立即就医。《指南》说：体温>38℃、心率>100%？"
    assert TextPreprocessor().preprocess(text) == text


def test_html_loses_scripts_styles_and_tags() -> None:
    html = (
        "<html><head><title>门诊 须知</title><style>p{color:red}</style></head><body><h1>报销</h1>"
        "<p>比例为\n <b>85</b>%，<br>次年&lt;调整&gt;。</p><script>alert('<p>不是正文</p>')</script>"
        "<ul><li>甲</li><li>乙</li></ul><table><tr><td>药品</td><td>3.5</td></tr><tr><td>床位</td><td>60</td></tr></table>"
    )
    expected = "门诊 须知\n\n报销\n\n比例为 85%，\n次年<调整>。\n\n甲\n乙\n\n药品 3.5\n床位 60"
    assert TextPreprocessor().preprocess(html, "html") == expected


def test_markdown_loses_its_marks_and_code_keeps_its_indentation() -> None:
    source = "# 安装\n\n先*运行*：\n\n```python\nif x:\n\tgo()\n    stop()\n```\n\n| 甲 | 乙 |\n|---|---|\n| 1 | 2 |\n\n见[此](http://a.cn)"
    expected = "安装\n\n先运行：\n\nif x:\n    go()\n    stop()\n\n甲 乙\n1 2\n\n见此"
    assert TextPreprocessor().preprocess(source, "markdown") == expected


@pytest.mark.parametrize("text", ["", " ", "\x00", "<!-- 仅注释 -->", "\ud800", "<", "&#0;"])
@pytest.mark.parametrize("content_type", ["text", "html", "markdown"])
def test_next_to_nothing_is_no_error(text: str, content_type: str) -> None:
    assert isinstance(TextPreprocessor().preprocess(text, content_type), str)  # type: ignore[arg-type]


def test_an_unknown_content_type_is_named() -> None:
    with pytest.raises(BadInput, match="pdf"):
        TextPreprocessor().preprocess("x", "pdf")  # type: ignore[arg-type]


HOSTILE = [
    " ",
    "\n",
    "\t",
    " \n",
    "\r",
    "\u200d",
    "　",
    "<div>",
    "<",
    "&",
    "<script>",
    "`",
    "[",
    "*",
    "> ",
    "- ",
    "|",
    "_a",
    "![",
    "](",
    "\\",
    "<a ",
]


@pytest.mark.parametrize("content_type", ["text", "html", "markdown"])
@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_input_takes_linear_time(unit: str, content_type: ContentFormat) -> None:
    def work(characters: int) -> Callable[[], object]:
        text = unit * (characters // len(unit)) + "尾"
        return lambda: TextPreprocessor().preprocess(text, content_type)

    assert is_linear(work, 1_500)


@needs_data
def test_real_pages_become_text() -> None:
    pages = sorted((DATA / "ingest" / "html").glob("*.html"))[:20]
    assert pages
    for page in pages:
        text = TextPreprocessor().preprocess(page.read_text(encoding="utf-8", errors="replace"), "html")
        assert len(text) > 50
        assert "<div" not in text
        assert "function(" not in text


@pytest.mark.parametrize("level", ["{indent}- 第{number}层", "{marks} 第{number}层\n"])
def test_markdown_keeps_every_level_of_a_deep_list_and_what_follows_it(level: str) -> None:
    """Beyond its most levels the library drops all that is left of a document."""
    lines = [level.format(indent="  " * at, marks=">" * (at + 1), number=at) for at in range(60)]
    source = "\n".join([*lines, "", "最后一段"])
    read = TextPreprocessor().preprocess(source, "markdown")
    parsed = repr(parse_markdown(source, ParseLimits()).blocks)
    for text in (read, parsed):
        assert [at for at in range(60) if f"第{at}层" not in text] == []
        assert "最后一段" in text
