"""Marks follow their sentence, name only what was given, and do not depend on how a reply was cut."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from qianxun.answer.verify.citations import CitationReader, Fragment, Sentence
from tests.hypothesis_settings import examples

REPLY = (
    "营业收入为5亿元[1]。净利润为1.5亿元。[2][9]\n\n- 第一，“去吗？”，他说[1]。\n- 详见 [官网](http://evil.test)【2】\n"
    "It grew by 3.5 percent. [1] Dose: 5 mg. [2]未完"
)


def _read(pieces: list[str]) -> tuple[str, list[Sentence]]:
    reader = CitationReader([1, 2])
    readings = [reading for piece in pieces for reading in reader.feed(piece)] + list(reader.close())
    said = "".join(each.text for each in readings if isinstance(each, Fragment))
    return said, [each for each in readings if isinstance(each, Sentence)]


def test_every_sentence_is_told_with_what_it_cites() -> None:
    _, ended = _read([REPLY])
    told = [(each.text, each.numbers) for each in ended]
    assert told == [
        ("营业收入为5亿元。", (1,)),
        ("净利润为1.5亿元。", (2,)),
        ("- 第一，“去吗？”，他说。", (1,)),
        ("- 详见 官网", (2,)),
        ("It grew by 3.5 percent.", (1,)),
        ("Dose: 5 mg.", (2,)),
        ("未完", ()),
    ]


LISTED = (
    "[1] 收入为5亿元。\n[2] 净利润为1亿元\n\n参考资料：\n[1] 年报\n【2】[1] 季报\n"
    "又一句。\n[2]\n再一句\n [1]。\n完\n[2]"
)


def test_a_mark_before_a_line_belongs_to_it_and_one_on_a_line_of_its_own_to_the_line_before() -> None:
    _, ended = _read([LISTED])
    assert [(each.text.strip(), each.numbers) for each in ended] == [
        ("收入为5亿元。", (1,)),
        ("净利润为1亿元", (2,)),
        ("参考资料：", ()),
        ("年报", (1,)),
        ("季报", (2, 1)),
        ("又一句。", (2,)),
        ("再一句", (1,)),
        ("。", ()),
        ("完", (2,)),
    ]
    assert all(_read([LISTED[:at], LISTED[at:]]) == _read([LISTED]) for at in range(len(LISTED)))


def test_a_mark_leaves_no_gap() -> None:
    text = "[1] 收入为5亿元 [1]。 [2] 净利润 [2] 为 [1] [2]\n  - [1] 甲 [2] ，乙 [1]\n　[2] 丙 [1]"
    said, ended = _read([text])
    assert [each.text for each in ended] == ["收入为5亿元。", "净利润 为", "- 甲，乙", "丙"]
    assert [each.space for each in ended] == [" ", "\n  ", "\n　", ""]
    assert all(_read([text[:at], text[at:]]) == (said, ended) for at in range(len(text)))


def test_a_mark_of_nothing_given_is_flagged_and_not_said() -> None:
    said, ended = _read([REPLY])
    assert [flag.kind for flag in ended[1].flags] == ["unknown_citation"]
    assert "[" not in said
    assert "evil" not in said


def test_a_mark_set_behind_a_sentence_makes_no_link_of_the_next() -> None:
    said, ended = _read(["收入为5亿元[1]。(另见附表)完"])
    assert [(each.text, each.numbers) for each in ended] == [("收入为5亿元。", (1,)), ("（另见附表)完", ())]
    assert said == "收入为5亿元。（另见附表)完"


def test_words_are_said_as_soon_as_they_come() -> None:
    reader = CitationReader([1])
    assert list(reader.feed("糖尿病的症状")) == [Fragment("糖尿病的症状")]


def test_what_may_become_a_mark_is_held_back() -> None:
    reader = CitationReader([1])
    assert list(reader.feed("多饮[")) == [Fragment("多饮")]
    assert list(reader.feed("1")) == []
    assert list(reader.feed("]。多尿")) == [Fragment("。"), Sentence("多饮。", (1,)), Fragment("多尿")]


@given(st.lists(st.integers(0, len(REPLY)), max_size=12))
@examples(100)
def test_a_reply_is_the_same_however_it_is_cut(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(REPLY)]
    pieces = [REPLY[a:b] for a, b in itertools.pairwise(bounds)]
    assert _read(pieces) == _read([REPLY])


BEFORE_DIGITS = "产假158天。[1]15天为产前假。[1][2]3天可以顺延。[2]见国发[15]3号。[1]"


def test_a_mark_before_a_digit_cites_the_sentence_that_is_over() -> None:
    _, sentences = _read([BEFORE_DIGITS])
    assert [(sentence.text, sentence.numbers) for sentence in sentences] == [
        ("产假158天。", (1,)),
        ("15天为产前假。", (1, 2)),
        ("3天可以顺延。", (2,)),
        ("见国发[15]3号。", (1,)),
    ]
    cuts = range(len(BEFORE_DIGITS))
    assert all(_read([BEFORE_DIGITS[:at], BEFORE_DIGITS[at:]]) == _read([BEFORE_DIGITS]) for at in cuts)
