"""A sentence that says the opposite of what it cites is found out; one that says the same otherwise is not."""

from __future__ import annotations

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.contradiction import contradicted
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Passage

RULES = (
    "第五条 绝密数据不得通过电子邮件传输，应当使用专用设备。员工可以在试用期内提出辞职。"
    "2023年公司营业收入增长了12%，净利润同比下降。"
    "天合公司收购了新源公司。所有员工均应参加培训。该药不能与酒同服，宜在饭后服用。试用期员工不享受年假。逾期未提交材料的，视为放弃。"
    "门诊费用超过600元以上的部分由统筹基金支付。甲方应当在交货之后三十日内付款。"
)


@pytest.mark.parametrize(
    "sentence",
    [
        "可以，绝密数据允许通过电子邮件传输。",
        "绝密数据通过电子邮件传输。",
        "员工不得在试用期内提出辞职。",
        "2023年公司营业收入下降了12%。",
        "净利润同比上升。",
        "新源公司收购了天合公司。",
        "部分员工应参加培训。",
        "该药可以与酒同服。",
        "该药能与酒同服，饭前服用。",
        "逾期提交材料的，视为放弃。",
        "門診費用超過600元以下的部分由統籌基金支付。",
        "甲方应当在交货之前三十日内付款。",
        "乙方应当在交货之后三十日内付款。",
    ],
)
def test_the_opposite_of_a_source_is_a_contradiction(sentence: str) -> None:
    assert contradicted(sentence, [RULES])


@pytest.mark.parametrize(
    "sentence",
    [
        RULES,
        "绝密数据禁止用电子邮件传输，必须使用专用设备。",
        "绝密数据不能通过电子邮件传输。",
        "员工能在试用期内提出辞职。",
        "2023年公司营业收入上升了12%。",
        "新源公司被天合公司收购。",
        "全部员工都应当参加培训。",
        "该药不可与酒同服。",
        "员工享受年假。",  # of others than the source speaks of
        "没有按期提交材料，就视为放弃。",
        "邮件和专用设备不同。",
        "可以。",
    ],
)
def test_the_same_in_other_words_and_what_is_of_something_else_is_none(sentence: str) -> None:
    assert not contradicted(sentence, [RULES])


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("可拨打甲方投诉电话。", "教练索要财物的，乙方可拨打甲方投诉电话。"),  # a part of the clause that names both
        ("仍不同意的可以向管理局申诉。", "复核后仍不同意的，可以向管理局申诉。"),  # what is denied is the case
    ],
)
def test_words_of_the_source_itself_are_no_contradiction(sentence: str, source: str) -> None:
    assert not contradicted(sentence, [source])
    assert contradicted("不得向管理局申诉。", ["复核后仍不同意的，可以向管理局申诉。"])


def test_yes_or_no_is_read_with_its_question() -> None:
    query = "绝密数据可以通过电子邮件传输吗？"
    assert contradicted("可以。", [RULES], query)
    assert not contradicted("不可以。", [RULES], query)


def test_sources_that_disagree_support_both() -> None:
    assert not contradicted("员工不得在试用期内提出辞职。", [RULES, "员工不得在试用期内提出辞职。"])


def test_a_contradiction_is_dropped_with_the_words_of_its_source() -> None:
    passage = Passage(1, "d", "保密制度", "c", RULES)
    outcome = check(Sentence("绝密数据允许通过电子邮件传输。", (1,), ()), [passage])
    assert not outcome.accepted
    assert [flag.kind for flag in outcome.flags] == ["contradicted"]
    assert "不得通过电子邮件传输" in outcome.flags[0].reason
    assert check(Sentence("绝密数据不得通过电子邮件传输。", (1,), ()), [passage]).accepted
