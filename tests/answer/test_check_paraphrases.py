"""Right sentences that count, add up and write otherwise are kept; what is of another person, row or rule is not."""

from __future__ import annotations

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import Passage
from qianxun.text.figures import figures

VERDICT = """一、被告人邓志和犯盗窃罪，判处有期徒刑一年八个月，于2023年4月9日被拘留，同年5月16日被逮捕。
二、责令被告人邓志和退赔被害人何某9780元、蔡某2150元、吕某1980元。
三、在共同犯罪中，邓志和起主要作用，系主犯；邹小勇起次要作用，系从犯。
四、被害人蔡某、吕某的自行车价值分别为2150元、1980元。邹小勇再次借款150000元，100000元转账交付，50000元现金交付。"""
RECORD = "手术开始时间：14:10 手术结束时间：15:25 手术者：钱卫东（主任医师） 第一助手：刘畅（主治医师）"
SEALS = """第三条 各类印章的保管：
| 印章 | 保管人 | 可否外带 |
| --- | --- | --- |
| 公章 | 机要秘书 | 经批准可外带 |
| 合同章 | 法务专员 | 不可外带 |
第四条 合同章与公章必须由两人分别保管，不得由同一人兼管。
活性炭滤网（选配）不可水洗。检验由乙方协助，检验费由甲方承担。"""
GRANTS = """| 类别 | 等级 | 金额（元） |
| --- | --- | --- |
| 硕士 | 二等 | 7000 |
| 硕士 | 三等 | 4000 |"""
SALES = """| 区域 | 第一季度（万元） | 第二季度（万元） | 第三季度（万元） | 第四季度（万元） | 目标（万元） |
| --- | --- | --- | --- | --- | --- |
| 华东 | 1260 | 1385 | 1420 | 1655 | 5600 |
| 华北 | 870 | 905 | 940 | 1015 | 3800 |"""
ALLOWANCE = "博士每生每月1500元，按10个月发放（2月和8月不发）。年保养费109440元，月保养费9120元。全日制研究生均可参评。"


def checked(sentence: str, source: str) -> Checked:
    return check(Sentence(sentence, (1,)), [Passage(1, "d", "资料.md", "c", source)])


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("邓志和被判处有期徒刑20个月。", VERDICT),
        ("邓志和需向三名被害人退赔共计13910元。", VERDICT),
        ("邓志和2023年4月9日被拘留，37天后被逮捕。", VERDICT),
        ("第二笔15万元中，转账交付10万元，其余5万元为现金。", VERDICT),
        ("吕某的自行车价值1980元。", VERDICT),
        ("手术从下午2点10分到下午3点25分，历时1小时15分钟。", RECORD),
        ("手术者是钱卫东主任医师。", RECORD),
        ("博士生每月1500元，按10个月发放，一年共15000元。", ALLOWANCE),
        ("年保养费为10.944万元，平均每月9120元。", ALLOWANCE),
        ("华北四个季度合计3730万元，比目标3800万元少70万元。", SALES),
        ("硕士三等为4000元。", GRANTS),
        ("公章由机要秘书保管，合同章由法务专员保管。", SEALS),
    ],
)
def test_a_right_sentence_is_kept(sentence: str, source: str) -> None:
    assert checked(sentence, source).accepted


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("邓志和被判处有期徒刑18个月。", VERDICT),
        ("邓志和需向五名被害人退赔共计13910元。", VERDICT),
        ("邓志和2023年4月9日被拘留，47天后被逮捕。", VERDICT),
        ("邹小勇在共同犯罪中起主要作用。", VERDICT),
        ("吕某的自行车价值2150元。", VERDICT),
        ("手术从下午2点10分到下午3点25分，历时1小时45分钟。", RECORD),
        ("手术者是刘畅主任医师。", RECORD),
        ("华北四个季度合计3830万元。", SALES),
        ("硕士三等为7000元。", GRANTS),
        ("公章由法务专员保管。", SEALS),
        ("合同章经批准可以外带。", SEALS),
        ("合同章与公章可以由同一人保管。", SEALS),
        ("活性炭滤网可以水洗。", SEALS),
        ("检验的检验费由乙方承担。", SEALS),
        ("全日制研究生只有部分可以参评。", ALLOWANCE),
    ],
)
def test_what_is_said_of_something_else_or_the_opposite_is_not(sentence: str, source: str) -> None:
    assert checked(sentence, source).verdict != "supported"


def test_times_of_two_units_are_one_figure() -> None:
    assert [(one.written, one.values) for one in figures("一年八个月、1小时15分、一年半、半年、上半年")] == [  # type: ignore[union-attr]
        ("一年八个月", (20,)),
        ("1小时15分", (75,)),
        ("一年半", (1.5,)),
        ("半年", (0.5,)),
    ]
