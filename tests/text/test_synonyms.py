"""Groups of words that mean the same: the shipped list, and those that users write."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest

from qianxun.core.errors import BadInput
from qianxun.text.chinese import fold
from qianxun.text.synonyms import (
    ALL_WORDS,
    GROUPS,
    LONGEST,
    ONLY_FOUND,
    WORDS,
    groups_of,
    read_groups,
    shipped,
    shipped_groups,
    user_thesaurus,
    write_groups,
)


def words(found: object) -> list[str]:
    return [each.word for each in found]  # type: ignore[attr-defined]


# ── a thesaurus ──────────────────────────────────────────────────────────────────────────────────


def test_the_words_of_a_group_find_one_another() -> None:
    own = user_thesaurus([["报销", "报账", "核销"]])
    assert words(own.of("报账")) == ["报销", "核销"]
    assert words(own.of("核销")) == ["报销", "报账"]
    assert own.of("付款") == ()


def test_a_word_that_is_only_found_finds_nothing_and_weighs_less() -> None:
    own = user_thesaurus([["手机", ">智能手机", "移动电话"]])
    assert words(own.of("手机")) == ["移动电话", "智能手机"]
    assert own.of("智能手机") == ()
    same, kin = own.of("手机")
    assert same.weight > kin.weight


def test_groups_that_share_a_word_are_not_merged_into_one() -> None:
    own = user_thesaurus([["雇主", "老板"], ["雇主", "用人单位"]])
    assert words(own.of("雇主")) == ["老板", "用人单位"]
    assert words(own.of("老板")) == ["雇主"]


def test_width_case_and_traditional_forms_do_not_matter() -> None:
    own = user_thesaurus([["發票", "ＡＩ助手"]])
    assert words(own.of(fold("发票"))) == ["ＡＩ助手"]
    assert words(own.of("ai助手")) == ["發票"]
    assert user_thesaurus([["发票", "發票"]]).of("发票") == ()


def test_a_group_of_one_word_says_that_it_stands_alone() -> None:
    own = user_thesaurus([["苹果"], ["梨", "雪梨"]])
    assert own.alone == {"苹果"}
    assert "苹果" in own


def test_words_are_found_in_a_text_longest_first() -> None:
    own = user_thesaurus([["高血压", "血压高"], ["高血压病", "原发性高血压"]])
    assert list(own.starting("得了高血压病", 2)) == ["高血压病", "高血压"]
    assert list(own.starting("高血", 0)) == []


# ── what people write ────────────────────────────────────────────────────────────────────────────


def test_groups_are_written_on_one_line() -> None:
    told = "报销=报账 = 核销；云溪＝云溪市;手机>智能手机=大哥大\n心梗"
    groups = read_groups(told)
    assert groups == [["报销", "报账", "核销"], ["云溪", "云溪市"], ["手机", ">智能手机", ">大哥大"], ["心梗"]]
    assert read_groups(write_groups(groups)) == groups


def test_what_is_only_found_is_written_last() -> None:
    assert write_groups([["手机", ">智能手机", "移动电话"]]) == "手机=移动电话>智能手机"


def test_words_are_stripped_and_kept_once() -> None:
    assert groups_of([[" 报销 ", "报账", "報銷", "> 核销"]]) == [["报销", "报账", ">核销"]]
    assert groups_of([["报销", "报账"], ["报销", "报账"]]) == [["报销", "报账"]]
    assert groups_of(()) == []


@pytest.mark.parametrize(
    "value",
    [
        "报销=报账",
        ["报销", "报账"],
        [["报销", 7]],
        [["报销", None]],
        [[]],
        [["报销", " "]],
        [["报销", ">"]],
        [[">报销", ">报账"]],
        [["报\n销", "报账"]],
        [["报销", "长" * (LONGEST + 1)]],
        [["报销", "报=账"]],
        [["报销", "报;账"]],
        [["报销", "\ud800"]],
        [[f"词{n}" for n in range(WORDS + 1)]],
        [[f"词{n}", f"字{n}"] for n in range(GROUPS + 1)],
        [[f"词{n}.{m}" for m in range(WORDS)] for n in range(ALL_WORDS // WORDS + 1)],
        {"报销": "报账"},
        7,
    ],
)
def test_what_cannot_be_synonyms_is_refused_with_a_hint(value: object) -> None:
    with pytest.raises(BadInput) as refused:
        groups_of(value)
    assert refused.value.hint


# ── the shipped list ─────────────────────────────────────────────────────────────────────────────


def test_the_shipped_list_is_sound() -> None:
    groups = shipped_groups()
    assert 1_500 <= len(groups) <= GROUPS
    assert [group for group in groups if groups_of([group]) != [list(group)]] == []  # each word once, none empty
    assert [group for group in groups if len(group) < 2] == []
    short = [word for group in groups for word in group if len(word.removeprefix(ONLY_FOUND)) < 2]
    assert short == []  # one character means too much


def test_the_shipped_list_says_nothing_twice() -> None:
    pairs = [(fold(group[0]), fold(word.removeprefix(ONLY_FOUND))) for group in shipped_groups() for word in group[1:]]
    assert [pair for pair, following in pairwise(sorted(pairs)) if pair == following] == []


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        ("报销", "报账"),
        ("年假", "带薪年休假"),
        ("血压高", "高血压"),
        ("扑热息痛", "对乙酰氨基酚"),
        ("软体", "软件"),
        ("打不着火", "无法启动"),
        ("心梗", "心肌梗死"),
        ("营收", "营业收入"),
        ("招生人数", "录取人数"),
        ("ai", "人工智能"),
        ("驾照", "机动车驾驶证"),
        ("主角", "主人公"),
        ("合同期满", "合同到期"),
        ("kpi", "关键绩效指标"),
        ("lpr", "贷款市场报价利率"),
        ("串标", "围标"),
        ("智能快件箱", "快递柜"),
        ("老赖", "失信被执行人"),
        ("卫计委", "卫生健康委员会"),
        ("住宅专项维修资金", "维修基金"),
        ("危化品", "危险化学品"),
    ],
)
def test_the_shipped_list_knows_what_people_call_differently(asked: str, other: str) -> None:
    assert other in words(shipped().of(asked))


def test_the_list_is_read_when_it_is_first_asked_for() -> None:
    program = (
        "import qianxun.text.synonyms as s\n"
        "assert s.shipped.cache_info().currsize == 0\n"
        "assert s.shipped() is s.shipped()\n"
        "assert s.shipped.cache_info().currsize == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
