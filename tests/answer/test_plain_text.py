"""Links, images and HTML are never shown, however they are written and wherever a text is cut."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qianxun.answer.verify.plain_text import Mark, TextReader, Words, quotable, without_links
from tests.hypothesis_settings import examples
from tests.linear import is_linear

HOSTILE = (
    "详见 http://evil.test/a?b=1。",
    "[点这里](https://evil.test/x)",
    "![图](http://evil.test/p.png?d=secret)",
    "<img src=x onerror=alert(1)>",
    "<a href='//evil.test'>看</a>",
    "访问www.evil.test/x",
    "evil.com/steal?q=1",
    "data:text/html,<script>alert(1)</script>",
    "javascript:alert(1)",
    "![a][1]\n[1]: http://evil.test/z",
    "ht\u200btp://evil.test/q",
    "[http://evil.test](http://evil.test)",
    "<http://evil.test>",
    "[1](http://evil.test)",
    "\\\\evil.test\\share",
    "C://evil.test/x",
    "ftp://evil.test",
    "![未完 http://evil.test/",
    "<script",
    "[a [b] c](https&colon;&sol;&sol;evil.pw)",
    "[r]: https&colon;&sol;&sol;evil.pw",
    "&#104;ttps&#x3a;&#47/evil.pw",
    "https&amp;colon;//evil.pw",
    "https&col&#111;n;//evil.pw",
    "evil.pw/a",
    "evil.pw:8080/",
    "evil.sh/a?b=1",
    "[x](\nhttps://evil.test\n)",
    "[x\ny](evil)",
    "[[1]](https://evil.pw)",
    "[![图](evil.png)](https://evil.pw)",
    "![a][evil]",
    "[官方网站][evil]",
)
FRAGMENTS = (
    *HOSTILE,
    *("[1]", "甲乙丙。", "a.b", "!", "[", "]", "(", ")", ":", "<", ">", " ", "\n", "12", "@", "evil.com", "x.yy/"),
    *(
        "&",
        "&amp;",
        "#58",
        "#x3a",
        "lt;",
        "&lpar;",
        "&rsqb;",
        "&lsqb;",
        "&NewLine;",
        "&ZeroWidthSpace;",
        ";",
        "【",
        "】",
    ),
)
LINKED = re.compile(r"!\[(?!\d+\])|\]\(|^ {0,3}\[[^\[\]]*\]:", re.MULTILINE)
"""An image, a link or a definition of Markdown."""


@pytest.mark.parametrize("text", ["模板在 C:\\共享\\2026\\模板.docx", "映射为 Z:\\ 盘", "D:/data/a.txt"])
def test_a_path_of_windows_is_no_link(text: str) -> None:
    assert without_links(text) == text


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_link_is_left(text: str) -> None:
    shown = without_links(f"前{text} 后")
    assert "evil" not in shown
    assert "://" not in shown
    assert "<" not in shown or "<script" not in shown.replace("＜", "")


@pytest.mark.parametrize(
    "text",
    [
        "血压140/90mmHg",
        "p<0.05，n>30",
        "ISO/IEC 27001",
        "A/B 测试",
        "3.14，1.2.3 版",
        "ASP.NET 与 C++",
        "[2015]12号文",
        "数组[i]",
        "数组[i][j]，matrix[row][column]",
        "1.2/3，3.5/10，km/h，和/或",
        "a.py/b，Node.js/Vue.js，ASP.NET/C#",
        "R&D，AT&T; &没有; &nothing;",
        "真好![1]",
    ],
)
def test_what_is_no_link_stays(text: str) -> None:
    assert without_links(text) == text


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("[1]", (1,)), ("【2】", (2,)), ("[1, 3]", (1, 3)), ("[2-4]", (2, 3, 4)), ("[资料1]", (1,)), ("[^2]", (2,))],
)
def test_marks_are_told_in_every_form(text: str, numbers: tuple[int, ...]) -> None:
    reader = TextReader()
    assert [*reader.feed(f"好{text}"), *reader.close()] == [Words("好"), Mark(numbers, text)]


def test_a_year_in_brackets_is_no_mark() -> None:
    reader = TextReader()
    assert [*reader.feed("国发[2015]12号"), *reader.close()] == [Words("国发[2015]12号")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a [b] c](https&colon;//evil.pw)", "a [b] c"),
        ("[x](\nhttps://evil.test\n)", "x"),
        ("[[1]](https://evil.test)", "[1]"),
        ("![a][r]", ""),
        ("[[b]](u)(v)", "[b]（v)"),
        ("[r]: /a", "[r]： /a"),
        ("[x](u)[官方网站][r]", "x官方网站"),
        ("p&lt;0.05", "p<0.05"),
    ],
)
def test_the_words_of_a_link_stay(text: str, shown: str) -> None:
    assert without_links(text) == shown


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8))
@examples(300)
@example(["!", "[1]", "[a]"])
@example(["[x\ny](evil)", ":", " /a"])
def test_no_markdown_link_comes_about(parts: list[str]) -> None:
    shown = quotable("".join(parts))
    assert not LINKED.search(shown), shown
    assert "://" not in shown


@pytest.mark.parametrize("part", ["[", "[a](", "&", "&am", "&amp;", "![", "](", "a.", "[[1]](b)", "<a", "&#5", "[a]["])
def test_work_grows_with_the_text(part: str) -> None:
    assert is_linear(lambda size: lambda: without_links(part * size), 2_500)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8), st.data())
@examples(300)
def test_where_a_text_is_cut_makes_no_difference(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    whole, pieces = TextReader(), TextReader()
    bounds = [0, *cuts, len(text)]
    told = [atom for a, b in itertools.pairwise(bounds) for atom in pieces.feed(text[a:b])]
    told += pieces.close()
    assert _joined(told) == _joined([*whole.feed(text), *whole.close()])


def _joined(atoms: list[object]) -> list[object]:
    found: list[object] = []
    for atom in atoms:
        if isinstance(atom, Words) and found and isinstance(found[-1], Words):
            found[-1] = Words(found[-1].text + atom.text)
        else:
            found.append(atom)
    return found


def test_a_line_break_parts_what_it_stands_between() -> None:
    assert without_links("60<br>85<BR/>90<br >完") == "60 85 90 完"
