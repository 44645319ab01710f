"""What people say in everyday words, and how documents write it: illness, school, travel, machines, daily life."""

from __future__ import annotations

import pytest

from qianxun.question.evidence_query import evidence_query
from qianxun.question.words import lay_words


@pytest.mark.parametrize(
    ("everyday", "written"),
    [
        ("拉稀", "腹泻"),
        ("忘了吃", "漏服"),
        ("孕妇能用吗", "妊娠期"),
        ("做核磁", "mri"),
        ("做ct", "部ct"),
        ("挂科", "不及格"),
        ("末班车", "首末班"),
        ("充不进电", "无法充电"),
        ("甩不干", "脱水异常"),
        ("连不上", "连接失败"),
        ("蔫了", "萎蔫"),
        ("谁演的", "主演"),
        ("活了多少岁", "享年"),
        ("最晚几点", "截止"),
        ("隔多久", "间隔"),
    ],
)
def test_what_people_say_at_home_is_known_as_documents_write_it(everyday: str, written: str) -> None:
    assert written in lay_words()[everyday]


def test_an_everyday_word_of_a_question_brings_its_formal_words() -> None:
    terms = {term.text: term.formal for term in evidence_query("宝宝拉稀怎么办").terms}
    assert "腹泻" in terms["拉稀"]


def test_few_formal_words_are_single_characters() -> None:
    """One character is in too many sentences."""
    short = {other for formal in lay_words().values() for other in formal if len(other) < 2}
    assert len(short) <= 15
