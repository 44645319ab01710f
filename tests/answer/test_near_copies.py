"""A clause of a source that is copied with one thing altered is caught; what is told in other words is not."""

from __future__ import annotations

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.near_copies import altered
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Passage

JUDGMENT = """原告：陶桂英，女，退休教师。被告：丁小海，男，个体工商户。
原告主张的误工费，因其已退休且未提交收入减少的证据，不予支持。丁小海辩称，其同意承担部分责任，但护理期过长。
本院确定鸿安物业承担50%的责任，丁小海承担35%的责任。家属已退还大部分赃款并取得谅解。本案于2023年5月24日公开开庭审理。
鉴定费由陶桂英垫付。辩护人关于适用缓刑的意见，本院不予采纳。二被告人均自愿认罪认罚。
被告人韩启明，1984年6月21日出生，于2021年10月14日被抓获。韩启明到案后如实供述。韩启明犯职务侵占罪。
二〇二二年五月十七日
"""
RECORD = """对磺胺类药物过敏，表现为皮肤瘙痒和红斑。手术顺利，麻醉满意，未输血。
血气分析（未吸氧）：pH 7.46。母亲患桥本甲状腺炎，姐姐于2019年因甲状腺癌手术。
术后一个月内避免颈部剧烈活动和提重物。改喂处方粮至少8周。自己吃了少量湿粮。孙某仅在门岗放置了一块警示牌。
"""
DENIAL = "否认青霉素及头孢类药物过敏。"


@pytest.mark.parametrize(
    "wrong",
    [
        "原告主张的误工费，因其已退休且未提交收入减少的证据，予以支持。",
        "丁小海辩称，其不同意承担部分责任。",
        "鸿安物业承担35%的责任，丁小海承担50%的责任。",
        "家属已退还小部分赃款并取得谅解。",
        "韩启明的家属已退还全部赃款。",
        "本案于2023年5月24日秘密开庭审理。",
        "鉴定费由丁小海垫付。",
        "二被告人部分自愿认罪认罚。",
        "原告：丁小海，男，个体工商户。",
    ],
)
def test_a_judgment_copied_with_one_thing_altered_is_caught(wrong: str) -> None:
    assert altered(wrong, (JUDGMENT,))


@pytest.mark.parametrize(
    "wrong",
    [
        "患者对青霉素类药物过敏。",
        "手术顺利，麻醉满意，已输血。",
        "血气分析（已吸氧）：pH 7.46。",
        "姐姐患桥本甲状腺炎，母亲于2019年因甲状腺癌手术。",
        "术后一个月内可以提重物。",
        "改喂处方粮至多8周。",
        "自己吃了大量湿粮。",
        "孙某不仅在门岗放置了一块警示牌。",
    ],
)
def test_a_record_copied_with_one_thing_altered_is_caught(wrong: str) -> None:
    assert altered(wrong, (RECORD,))


@pytest.mark.parametrize(
    "right",
    [
        "原告主张的误工费，因其已经退休且没有提交收入减少的证据，不予支持。",
        "丁小海同意承担一部分责任。",
        "被告人到案后如实供述。",  # 被告人韩启明 are one
        "鉴定费由陶桂英垫付。",
        "因此，法院没有采纳辩护人关于适用缓刑的意见。",
        "同时，二被告人均自愿认罪认罚。",
        "患者对磺胺类药物过敏。",
        "青霉素和头孢则没有过敏的情况。",
        "手术顺利，术中没有输血。",
        "术后一个月内应避免提重物。",
    ],
)
def test_what_is_told_in_other_words_is_not(right: str) -> None:
    assert not altered(right, (JUDGMENT, RECORD, DENIAL))


@pytest.mark.parametrize(
    "right",
    [
        "法院于2022年5月17日作出判决。",  # the date below a judgment is of all of it
        "被抓获时，韩启明37岁。",
        "因此，法院没有采纳辩护人关于适用缓刑的意见。",  # a topic, and the denial in the clause after it
    ],
)
def test_what_follows_from_a_judgment_stays(right: str) -> None:
    assert check(Sentence(right, (1,)), (Passage(1, "d", "判决书", "c", JUDGMENT),)).accepted


def test_a_name_that_is_no_subject_is_not_taken_for_one() -> None:
    source = "丁小海送货时洒漏油污，是损害发生的直接原因；陶桂英行走时未尽到注意义务，自身亦有过错。"
    passage = Passage(1, "d", "判决书", "c", source)
    assert check(Sentence("丁小海送货时洒下油污，是陶桂英受伤的直接原因。", (1,)), (passage,)).accepted


def test_a_sum_in_yuan_and_jiao_is_one() -> None:
    passage = Passage(1, "d", "判决书", "c", "支出医疗费43,512.6元。")
    assert check(Sentence("医疗费为四万三千五百一十二元六角。", (1,)), (passage,)).accepted
    assert not check(Sentence("医疗费为四万三千五百一十二元八角。", (1,)), (passage,)).accepted


def test_a_year_that_no_source_names_is_kept_with_a_flag() -> None:
    """Which month it was is there; that of another document does not decide."""
    passages = (
        Passage(1, "d", "甲", "c", "公司于7月更新了合规制度。"),
        Passage(2, "e", "乙", "f", "2019年2月更新制度。"),
    )
    found = check(Sentence("公司于2021年7月更新了合规制度。", (1, 2)), passages)
    assert found.accepted
    assert [flag.kind for flag in found.flags] == ["unsupported_number"]


def test_very_long_input_is_bounded() -> None:
    clause = "原告主张的误工费由被告负担，"
    assert altered(clause * 5_000, (clause * 5_000,)) == ""
    assert altered("不" * 50_000, ("没" * 50_000, "，" * 50_000)) == ""
