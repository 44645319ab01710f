"""Figures are read by patterns; which of them a text can match at all is seen from its signs."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from qianxun.text import figures as reading
from qianxun.text.figures import Clock, Code, Day, Number, Share, figures, placed, prepared, without_gaps

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


@pytest.mark.parametrize(
    "text",
    [
        "自 2025 年 3 月 1 日起施行",
        "次年 3 月 31 日前",
        "上午 9 点 30 分到 11 点",
        "13 时 05 分",
        "2025 年第 3 季度",
        "共 1 年 8 个月",
        "每次 2 个半小时",
        "不低于百分之 5",
        "约 9 成",
        "满 1 年不满 5 年的为 7 天",
        "12 月 8 号",
    ],
)
def test_blanks_between_chinese_and_figures_change_no_figure(text: str) -> None:
    spaced = [replace(figure, written=figure.written.replace(" ", "")) for figure in figures(text)]
    assert spaced == figures(text.replace(" ", ""))


def test_a_blank_that_parts_two_fields_stays() -> None:
    fields = "手术时间：14:10 时长：1 小时 手术者：某某"
    assert without_gaps(fields) == "手术时间：14:10 时长：1小时 手术者：某某"


def test_the_number_of_a_section_keeps_its_blank() -> None:
    """By which it is told from a figure."""
    assert without_gaps("3.5 定时\n## 4 排水方式\n每 3 天") == "3.5 定时\n## 4 排水方式\n每3天"
    assert figures(without_gaps("3.5 定时")) == []


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
