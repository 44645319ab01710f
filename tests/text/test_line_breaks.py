"""Lines that are broken at a width are read as one; lines of a list, of fields and of verse are not."""

from __future__ import annotations

import re

import pytest

from qianxun.text.line_breaks import in_one_line, unwrapped, wrap_breaks

CLAUSES = (
    "申请理赔应提交：理赔申请书、身份证明、诊断证明和病历、医疗费用原始发票、费用清单；申请伤残保险金的，另附鉴定书。"
    "保险人收到申请后，应在30日内作出核定，情形复杂的不超过60日；借款400000元，冻结期限一年，由法院执行。"
    "对属于保险责任的，在达成给付协议后10日内履行给付义务。"
)


def by_characters(text: str, width: int) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


def by_columns(text: str, width: int) -> str:
    lines, line, columns = [], "", 0
    for mark in text:
        columns += 1 if mark.isascii() else 2
        if columns > width and mark not in "，。；、":
            lines.append(line)
            line, columns = "", 1 if mark.isascii() else 2
        line += mark
    return "\n".join([*lines, line])


@pytest.mark.parametrize("width", [24, 30, 36, 40])
def test_prose_that_was_broken_is_whole_again(width: int) -> None:
    for broken in (by_characters(CLAUSES, width), by_columns(CLAUSES, 2 * width)):
        assert broken != CLAUSES
        assert re.sub(r"(?<=[。；：])\n", "", unwrapped(broken)) == CLAUSES  # a line that ends as one ends may stay


@pytest.mark.parametrize(
    "text",
    [
        "静夜思\n床前明月光，疑是地上霜，举头望明月，低头思故乡\n春眠不觉晓，处处闻啼鸟，夜来风雨声，花落知多少",
        "\n".join(f"第{number}条 甲方应当按照本合同的约定向乙方支付全部价款及其利息" for number in range(1, 9)),
        "\n".join(f"京A{number}000 东城区某某街道某某小区某某号楼某某单元某某室" for number in range(1, 9)),
        "姓名：某某某某某某某某某某某某某某某某某\n住址：某某某某某某某某某某某某某某某某某\n电话：8023",
        "一行很短\n" + CLAUSES + "\n又一行很短",
        "| 编号 | 品名 |\n| QH-1 | 白板笔 |",
    ],
)
def test_lines_that_are_lines_stay(text: str) -> None:
    assert wrap_breaks(text) == []
    assert unwrapped(text) == text


def test_words_of_latin_letters_stay_apart() -> None:
    assert in_one_line("由 Redis\ncluster 记\n录") == "由 Redis cluster 记录"
