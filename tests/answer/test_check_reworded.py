"""Sentences as a language model words them: what follows from the source is kept, what turns it around is not, and what
it does not speak of is marked as not found."""

from __future__ import annotations

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import Passage

LOAN = (
    "2022年3月1日，双方签订装修合同，工程总价250000元，工期60天。逾期竣工的，每逾期一日按总价的千分之二支付违约金。"
    "甲方已付200000元。乙方逾期10日完工。同月28日验收，次日乙方交付钥匙。"
)
STOVE = (
    "额定容量4升。煮粥时不得超过容量的二分之一。阀门未落下前严禁强行开盖。气温低于0℃时续航下降20%，常温续航50公里。"
    "机器先清洗15分钟，再烘干30分钟。不得在楼道、室内、地下室充电。E1表示缺水，E2表示过热。邮寄费用由买方承担。"
)
VISIT = "父亲患高血压，母亲死于肺癌。患者否认糖尿病病史。经左侧入路置管。累计捐款有望突破8亿元。全部记录将被清除。"
FEES = "项目 | 期末余额 | 上年余额\n应收款 | 1,780,263.24 | 608,621.47\n存货 | 90,000.00 | 20,000.00"
ROOMS = """| 校区 | 楼栋 | 住宿费（元） | 独立卫生间 |
| --- | --- | --- | --- |
| 东校区 | 松楼 | 800 | 无 |
| 东校区 | 柏楼 | 1200 | 有 |
| 西校区 | 公寓 | 2600 | 有 |"""

SHOPS = """单位：家

| 地区 | 年初数 | 本年新开 | 本年关闭 | 年末数 |
| --- | --- | --- | --- | --- |
| 东部 | 310 | 45 | 22 | 333 |
| 西部 | 206 | 39 | 16 | 229 |
| 南部 | 141 | 28 | 7 | 162 |
| 合计 | 657 | 112 | 45 | 724 |"""
SALES = "单位：万元\n\n| 产品 | 收入 |\n| --- | --- |\n| 果茶 | 73,460 |\n| 奶茶 | 52,100 |"
TRAVEL = (
    "第七条 自驾出差的，按每公里1.5元报销，不再报销油费。合住的，每人每天奖励60元；住在亲友家的，每天补助80元。\n"
    "第九条 市内交通费实行包干，每天50元；由接待单位派车的，减半发放。\n"
    "第十条 一类地区伙食补助每天120元，其他地区每天100元。"
)
CLUB = "会员每月免费游泳2次。非会员每次收30元。四年级5个班的学生自愿报名。逾期没交报名表视为不报名。"


def checked(sentence: str, source: str) -> Checked:
    return check(Sentence(sentence, (1,)), [Passage(1, "d", "资料.md", "c", source)])


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("已付的款项正好是总价的八成，还剩5万元没付。", LOAN),
        ("逾期10天的违约金应为5000元。", LOAN),
        ("3月28日验收，3月29日就交了钥匙。", LOAN),
        ("煮粥最多装到2升。", STOVE),
        ("只有等阀门落下以后，才能打开盖子。", STOVE),
        ("零度以下续航大约只有40公里。", STOVE),
        ("清洗和烘干总共45分钟。", STOVE),
        ("应收款由上年末的60.86万元增至178.03万元。", FEES),
        ("应收款增加了约117万元。", FEES),
        ("公寓的住宿费为2600元，是东校区松楼的三倍多。", ROOMS),
        ("三栋楼的住宿费总额是4600元。", ROOMS),
        ("这一年公司净增门店67家。", SHOPS),
        ("果茶带来约7.35亿元收入。", SALES),
        ("自驾400公里可以报600元。", TRAVEL),
        ("由接待单位派车的，市内交通费每天只发25元。", TRAVEL),
        ("工程总价250000元，甲方已付200000元，两者相差50000元。", LOAN),
        ("会员游泳不用花钱，外人每次30元。", CLUB),  # 非会员 is a name, and denies nothing
        ("四年级去不去由学生自愿报名。", CLUB),  # 去不去 leaves it open
        ("逾期没有交报名表的，按不报名处理。", CLUB),  # two denials that do not undo each other
    ],
)
def test_what_follows_from_the_source_is_kept(sentence: str, source: str) -> None:
    assert checked(sentence, source).accepted


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("已付的款项正好是总价的七成。", LOAN),
        ("逾期10天的违约金应为6000元。", LOAN),
        ("煮粥最多装到3升。", STOVE),
        ("自驾400公里可以报700元。", TRAVEL),
        ("工程总价250000元，甲方已付200000元，两者相差60000元。", LOAN),
        ("机器会先烘干30分钟，再清洗15分钟。", STOVE),
        ("可以在楼道充电。", STOVE),
        ("显示E1说明机器过热，E1表示过热。", STOVE),
        ("邮寄费用由卖方承担。", STOVE),
        ("患者的母亲患高血压。", VISIT),
        ("患者有糖尿病病史。", VISIT),
        ("手术经右侧入路置管。", VISIT),
        ("累计捐款已经突破8亿元。", VISIT),
        ("只有部分记录会被清除。", VISIT),
        ("应收款由上年末的70.86万元增至178.03万元。", FEES),
        ("松楼的住宿费为2600元。", ROOMS),
        ("松楼有独立卫生间。", ROOMS),
    ],
)
def test_what_turns_the_source_around_is_not(sentence: str, source: str) -> None:
    assert checked(sentence, source).verdict != "supported"


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("逾期竣工的，每逾期一日按总价的千分之三支付违约金。", LOAN),
        ("邮寄费用由卖方承担。", STOVE),
        ("患者有糖尿病病史。", VISIT),
        ("应收款由上年末的70.86万元增至178.03万元。", FEES),
        ("松楼的住宿费为2600元。", ROOMS),
        ("松楼有独立卫生间。", ROOMS),
    ],
)
def test_what_is_copied_but_for_one_thing_is_dropped(sentence: str, source: str) -> None:
    assert not checked(sentence, source).accepted


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("机器会先烘干30分钟，再清洗15分钟。", STOVE),  # the opposite, in other words
        ("煮粥最多装到3升。", STOVE),  # which two steps might lead to
    ],
)
def test_what_is_told_in_other_words_is_flagged_and_kept(sentence: str, source: str) -> None:
    found = checked(sentence, source)
    assert found.accepted
    assert found.flags


@pytest.mark.parametrize(
    ("sentence", "source"),
    [("果茶带来约8.35亿元收入。", SALES), ("由接待单位派车的，市内交通费每天只发35元。", TRAVEL)],
)
def test_a_figure_that_may_be_a_coincidence_is_not_taken_for_supported(sentence: str, source: str) -> None:
    assert checked(sentence, source).verdict == "not_found"


@pytest.mark.parametrize("sentence", ["经医生同意，他才转到普通病房继续观察。", "新任院长曾在海外留学多年。"])
def test_what_the_source_does_not_speak_of_is_kept_and_marked(sentence: str) -> None:
    found = checked(sentence, VISIT)
    assert found.accepted
    assert found.verdict == "not_found"
    assert checked("患者的父亲患有高血压。", VISIT).verdict == "supported"


DISPUTE = "崔某主张现金交付10,000元，未提交证据，本院不予认定。案件受理费3,900元，减半收取1,950元，由被告齐某负担。"
WARD = """入院记录（卢某）
主治医师王建国查房。初步诊断：社区获得性肺炎；Ⅰ型呼吸衰竭。
突发胸骨后压榨性疼痛4小时不缓解。腹痛、发热、呕吐及时就诊。"""


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("崔某未能证明现金交付10,000元。", DISPUTE),  # what somebody claims is no fact
        ("江陵县人民法院的案件受理费更高，减半收取1,950元。", DISPUTE + "江陵县人民法院"),  # 1,950 is one figure
        ("突发胸骨后压榨性疼痛4小时。", WARD),  # what is denied, 缓解, is not said
        ("不适及时就诊。", WARD),
        ("卢某为Ⅰ型呼吸衰竭。", WARD),  # of the patient, though below the doctor's name
    ],
)
def test_what_is_denied_or_named_beside_it_is_not_taken_for_the_opposite(sentence: str, source: str) -> None:
    passage = Passage(1, "d", "资料", "c", source)
    assert check(Sentence(sentence, (1,)), [passage]).accepted


PENALTY = (
    "年利率为4.35%。逾期部分按合同利率上浮50%计收罚息；挪用部分按合同利率上浮100%计收罚息。"
    "馆藏珍贵文物1,947件，包括一级63件、二级412件。停车首小时5元，之后每小时3元，全天封顶30元。"
)


@pytest.mark.parametrize(
    "sentence",
    [
        "逾期后的罚息利率是6.525%，也就是合同利率的1.5倍。",
        "贷款一旦被挪用，挪用部分的利率会达到8.7%。",
        "一级文物在珍贵文物里只占3%左右。",
        "停车两小时比全天停放省22元。",
    ],
)
def test_what_two_steps_lead_to_is_kept_whatever_words_tell_it(sentence: str) -> None:
    assert checked(sentence, PENALTY).accepted


def test_a_figure_that_nothing_leads_to_is_dropped() -> None:
    assert not checked("珍贵文物的总估价为52,714元。", PENALTY).accepted


PARTS = (
    Passage(1, "d1", "办法", "c1", "门诊费用按年度结算，由医保科办理。"),
    Passage(2, "d2", "标准", "c2", "住院报销比例为85%，门诊报销比例为60%。"),
)


def test_a_figure_of_a_passage_that_is_not_cited_is_flagged_and_kept() -> None:
    found = check(Sentence("住院的费用能报销85%。", (1,)), PARTS)
    assert found.accepted
    assert [flag.reason for flag in found.flags] == ["85% 不在所引的资料中，在另一段资料中"]
    assert not check(Sentence("住院的费用能报销87%。", (1,)), PARTS).accepted


def test_a_figure_of_the_question_is_no_claim_of_the_answer() -> None:
    source = [Passage(1, "d", "故障代码", "c", "E1表示缺水，E2表示过热。额定容量4升。")]
    assert check(Sentence("资料列出的代码里没有E3。", (1,)), source, "E3是什么故障？").accepted
    assert not check(Sentence("额定容量5升。", (1,)), source, "额定容量是5升吗？").accepted


@pytest.mark.parametrize(
    ("sentence", "verdict"),
    [
        ("本办法自2025年3月1日起施行。", "supported"),
        ("上午9:30到前台领取工牌。", "supported"),
        ("会议在下午2点到4点举行。", "supported"),
        ("下午 2 点开会。", "supported"),
        ("本办法自2025年3月2日起施行。", "not_found"),
        ("上午9点40分到前台领取工牌。", "not_found"),
    ],
)
def test_blanks_within_dates_and_times_change_no_verdict(sentence: str, verdict: str) -> None:
    source = "本办法自 2025 年 3 月 1 日起施行。上午 9 点 30 分到前台领取工牌，下午 2 点到 4 点开会。"
    found = check(Sentence(sentence, (1,)), [Passage(1, "d", "办法.md", "c", source)])
    assert found.verdict == verdict
    assert found.accepted == (verdict == "supported")
