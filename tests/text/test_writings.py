"""Other writings of a word, by its value and by its sound."""

from __future__ import annotations

import pytest

from qianxun.text.writings import is_written_otherwise


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("十年", "有效期10年"),
        ("一天", "一日剂量不超过4克"),
        ("nianjia", "员工享有年休假"),
        ("报箫", "报销"),  # the first character stands, the last is another
        ("报箫", "报告后报销"),  # … and stands elsewhere, too
        ("暴销", "可以报销"),  # the last one stands, at the end of the text
        ("糖尿丙", "糖尿病患者"),
        ("糖鸟病", "患有糖尿病"),
    ],
)
def test_a_word_is_found_by_its_value_or_its_sound(word: str, text: str) -> None:
    assert is_written_otherwise(word, text)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("报箫", "报"),  # nothing follows
        ("暴销", "销"),  # nothing is before it
        ("报箫", "报告销售"),  # another character of another sound
        ("报箫", "报消"),  # the same sound, but no word of the dictionary
        ("病假", "并假"),  # a word of the dictionary is no misspelling of another
    ],
)
def test_what_sounds_otherwise_is_another_word(word: str, text: str) -> None:
    assert not is_written_otherwise(word, text)
