"""Figures are read by patterns; which of them a text can match at all is seen from its signs."""

from __future__ import annotations

import random
import re

import pytest

from qianxun.text import figures as reading
from qianxun.text.figures import Clock, Code, Day, Number, Share, figures, placed, prepared

SIGNS = list("零一二两三五九十百千万亿0159.,:/-~年月日号点时分半成季度第每%‰qivxab个元型期级小天周 ")


def test_no_pattern_is_left_out_that_would_have_found_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(5)
    written = ["".join(drawn.choices(SIGNS, k=drawn.choice([2, 3, 5, 9]))) for _ in range(3_000)]
    texts = list(map(prepared, written))
    by_signs = [placed(text) for text in texts]
    monkeypatch.setattr(reading, "_SIGN", re.compile(""))
    assert texts == list(map(prepared, written))
    monkeypatch.setattr(reading, "_READERS", [(pattern, reader, "") for pattern, reader, _ in reading._READERS])
    assert by_signs == [placed(text) for text in texts]
    assert {type(one.figure) for found in by_signs for one in found} == {Number, Share, Day, Code, Clock}


def test_what_a_caller_does_to_the_figures_of_a_text_is_not_remembered() -> None:
    figures("住院报销85%，门诊60%").clear()
    assert [figure.written for figure in figures("住院报销85%，门诊60%")] == ["85%", "60%"]


@pytest.mark.parametrize(("text", "amount"), [("人民币壹佰玖拾叁万元整", 1_930_000), ("贰仟伍佰圆整", 2_500)])
def test_amounts_in_formal_numerals_are_read(text: str, amount: int) -> None:
    (figure,) = figures(text)
    assert isinstance(figure, Number)
    assert figure.values == (amount,)
    assert figure.unit == "元"


def test_names_that_are_formal_numerals_are_no_figures() -> None:
    assert figures("陆先生与伍家的壹号院") == []


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("赔偿三万一千二百元", ["三万一千二百元"]),
        ("二〇一一年十一月", ["二〇一一年十一月"]),
        ("万一三天没到，就一一登记", ["三天"]),
        ("四年级的学生住校三年", ["四年级", "三年"]),
    ],
)
def test_words_that_look_like_parts_of_numerals_are_told_from_them(text: str, written: list[str]) -> None:
    assert [figure.written for figure in figures(text)] == written


@pytest.mark.parametrize(
    "numeral", [f"一{'亿' * 900}点五", "一" * 5_000, "9" * 5_000, f"百分之{'九' * 5_000}", f"{'9' * 5_000}分之一"]
)
def test_a_text_with_a_numeral_of_thousands_of_signs_is_read(numeral: str) -> None:
    assert all(isinstance(one, Number | Share) for one in figures(f"住宿标准为{numeral}元，共3天。"))
    assert figures(f"住宿标准为{numeral}元，共3天。")[-1].written == "3天"
