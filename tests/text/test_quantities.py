"""Numbers and dates as people ask for them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.text.quantities import Quantity, han_number, in_unit, moments, parts_of_year, quantities
from tests.linear import is_linear

HAN = "零一二三四五六七八九"


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("超过1.5亿元", 150_000_000, "元"), ("1,200元", 1200, "元"), ("300万", 3_000_000, ""), ("5千米", 5000, "米"),
        ("百分之三十", Decimal("0.3"), "%"), ("12.5%", Decimal("0.125"), "%"), ("三成", Decimal("0.3"), "%"),
        ("三百二十个", 320, "个"), ("一万五的", 15_000, ""), ("两千零五人", 2005, "人"), ("二十", 20, ""),
        ("一点五亿元", 150_000_000, "元"), ("千分之五", Decimal("0.005"), "‰"), ("2万亿元", 2_000_000_000_000, "元"),
    ],
)  # fmt: skip
def test_numbers(text: str, value: Decimal | int, unit: str) -> None:
    (found,) = quantities(text)
    assert (found.value, found.unit) == (value, unit)


@pytest.mark.parametrize("text", ["三级医院", "万科", "一共", "第一中学", "abc12x", "2023年5月", "十分钟爱"])
def test_what_is_no_number(text: str) -> None:
    assert [each for each in quantities(text) if not each.unit] == []


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2023年", "2023"), ("2023年度", "2023"), ("2023年5月", "2023-05"), ("2023年5月3日", "2023-05-03"),
        ("二〇二三年五月三日", "2023-05-03"), ("2023-05-03", "2023-05-03"), ("2023/5/3", "2023-05-03"),
        ("2023年十二月", "2023-12"),
    ],
)  # fmt: skip
def test_dates(text: str, iso: str) -> None:
    assert [each.iso for each in moments(text)] == [iso]
    assert quantities(text) == []


def test_days_that_do_not_exist_are_no_dates() -> None:
    assert moments("2023年13月") == []
    assert moments("2023年2月30日") == []


@given(st.integers(1, 99_999_999))
def test_chinese_numerals_are_read_back(number: int) -> None:
    assert han_number(_written(number)) == number


@pytest.mark.parametrize("numeral", ["一" + "亿" * 2_000, "一" * 5_000, "九千九百" * 1_500, f"一{'亿' * 900}点五"])
def test_a_numeral_of_hundreds_of_signs_is_none(numeral: str) -> None:
    """Its value takes seconds, and Python writes and reads no integer of more than 4,300 digits."""
    assert han_number(numeral.partition("点")[0]) is None
    assert not [one for one in quantities(f"超过{numeral}元的") if one.value > 10**100]


def _written(number: int) -> str:
    """A number in Chinese, every place said: 10500 is 一万零五百."""
    if number >= 10_000:
        low = number % 10_000
        return _written(number // 10_000) + "万" + ("零" if 0 < low < 1000 else "") + (_written(low) if low else "")
    said = ""
    for size, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // size % 10
        if digit:
            said += HAN[digit] + unit
        elif said and number % size and not said.endswith("零"):
            said += "零"
    return said


def _quantity(text: str) -> Quantity:
    (found,) = quantities(text)
    return found


@pytest.mark.parametrize(
    ("asked", "unit", "is_share", "held"),
    [
        ("100万元", "万元", False, 100), ("100万", "万元", False, 100), ("100", "万元", False, 100),
        ("1亿元", "万元", False, 10_000), ("5000元", "元/吨", False, 5000), ("3公里", "米", False, 3000),
        ("2吨", "千克", False, 2000), ("50%", "", True, Decimal("0.5")), ("50", "%", True, Decimal("0.5")),
        ("50%", "元", False, None), ("50元", "%", True, None), ("3公里", "千克", False, None),
        ("8千人", "", False, 8000),
    ],
)  # fmt: skip
def test_a_number_in_the_unit_of_a_column(asked: str, unit: str, is_share: bool, held: Decimal | int | None) -> None:
    assert in_unit(_quantity(asked), unit, is_share) == held


def test_a_text_of_nothing_but_dates_takes_no_square_of_its_length() -> None:
    assert is_linear(lambda size: lambda: quantities("2024年1月1日" * size), 500)


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("3月的", (3, 3)), ("3月份", (3, 3)), ("十二月", (12, 12)), ("第一季度", (1, 3)), ("2024年四季度", (10, 12)),
        ("上半年", (1, 6)), ("下半年", (7, 12)), ("1到3月", (1, 3)), ("1月至3月", (1, 3)), ("10-12月", (10, 12)),
    ],
)  # fmt: skip
def test_parts_of_a_year_that_is_not_named(text: str, months: tuple[int, int]) -> None:
    (found,) = parts_of_year(text)
    assert (found.first, found.last) == months


@pytest.mark.parametrize(
    "text",
    ["2024年3月", "3月5日", "3个月", "3月以后", "3月底", "去年3月", "去年上半年", "每月", "13月", "3到1月", "月龄"],
)
def test_what_is_no_part_of_a_year(text: str) -> None:
    assert parts_of_year(text) == []
