"""A word compared with many lines at once, as with each of them alone."""

from __future__ import annotations

import random

import pytest

from qianxun.answer.extractive.sentence_scores import coverage, coverages
from qianxun.text.chinese import fold

TEXTS = tuple(
    map(
        fold,
        (
            "职工年休假为十年以上15天",
            "门诊报销比例为85%，住院另算",
            "员工每年有10年工龄的，带薪假按规定",
            "医保保销的材料：发票、病历",
            "电子邮箱 hr@example.com，Tel 021-5555",
            "",
            "报",
            "销售部负责报告，年底放假",
        ),
    )
)
WORDS = (
    *(
        "年假",
        "年休假",
        "报销",
        "报销比例",
        "十年",
        "10年",
        "nianjia",
        "email",
        "hr",
        "天",
        "天天",
        "发票",
        "工龄",
        "带薪假",
    ),
    *("住院报销比例", "报表", "假年", "二十年", "电话", "邮箱地址", "住另", "a", "合同金额"),
)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_in_many_texts_as_far_as_in_each(word: str) -> None:
    assert coverages(word, TEXTS, "\n".join(TEXTS)) == [coverage(word, text) for text in TEXTS]


def test_the_words_are_found_in_every_way() -> None:
    found = {share for word in WORDS for share in coverages(word, TEXTS, "\n".join(TEXTS))}
    assert {0.0, 0.25, 0.5, 0.8, 0.9, 1.0} <= found


def test_parts_of_lines_are_compared_alike() -> None:
    drawn = random.Random(7)
    for _ in range(300):
        text = drawn.choice([text for text in TEXTS if len(text) > 8])
        at = drawn.randrange(len(text) - 6)
        word = text[at : at + drawn.randint(1, 6)]
        others = drawn.sample(TEXTS, 5)
        assert coverages(word, others, "\n".join(others)) == [coverage(word, other) for other in others], word
