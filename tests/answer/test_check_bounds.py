"""The check of a sentence stands any reply and any document: odd figures, and very many of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import Passage
from qianxun.text.figures import figures
from tests.linear import is_linear

LONG = "9" * 400


def checked(sentence: str, source: str) -> Checked:
    return check(Sentence(sentence, (1,)), [Passage(1, "d", "资料.md", "c", source)])


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("次日即5月3日办理。", "合同于九九九九年十二月三十一日签订，次日生效。"),
        ("共历时5天。", "从二〇二三年一月一日到九九九九年十二月三十一日。"),
        ("到期日是2024年3月1日。", "合同2023年1月1日签订，为期二千零二十二年。"),
        (f"合计{LONG}元。", f"甲5元，乙6元，丙{LONG[1:]}元。"),
        ("流水号为202311180000123456789012345678901234。", "甲5元，乙6元。"),
        ("占2分之" + "9" * 5000 + "。", "甲5元，乙6元。"),
        (f"约{LONG[:308]}元。", f"甲{LONG[:307]}元，乙8{LONG[:307]}元。"),
    ],
)
def test_figures_out_of_range_are_not_found(sentence: str, source: str) -> None:
    assert checked(sentence, source).verdict == "not_found"


def test_a_fraction_of_many_digits_is_read() -> None:
    assert figures("2分之" + "9" * 5000)


DOSE = "每次500毫克，每日3次，共计1500毫克。"
MANY_FIGURES = "".join(f"第{n}项{n * 7}元，" for n in range(150))


@pytest.mark.parametrize("sentence", [DOSE, MANY_FIGURES], ids=["dose", "figures"])
@pytest.mark.parametrize("mark", ["元、", "元，", "%，", "|"])
def test_very_many_figures_are_checked_in_time(sentence: str, mark: str) -> None:
    numbers = random.Random(5)
    words = ["费用", "部门", "经理", "住院", "门诊", "报销", "赔偿", "药品", "设备", "温度"]

    def work(size: int) -> Callable[[], object]:
        source = "".join(f"{numbers.choice(words)}{numbers.randint(1, 99_999)}{mark}" for _ in range(size))
        return lambda: checked(sentence, source)

    assert is_linear(work, 200)
