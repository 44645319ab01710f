"""Every figure of a sentence stands in what it cites, in equal value; right ones are let through however written."""

from __future__ import annotations

import random
import re

import pytest

from qianxun.answer.verify import sentence_check
from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.grounding import Evidence, Ungrounded, ungrounded, unsupported
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Passage
from qianxun.text.figures import figures
from tests.sampling import share


def _wrong(sentence: str, *texts: str, asked: str = "") -> list[str]:
    return [each.written for each in unsupported(sentence, Evidence.of(texts), asked)]


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("人口1361万。", "全市共有1,361万人。"),
        ("人口约1400万。", "全市共有1,361万人。"),
        ("人口近1400万人。", "全市共有1,361万人。"),
        ("人口超过1300万人。", "全市共有1,361万人。"),
        ("人口1300多万人。", "全市共有1,361万人。"),
        ("续保率35%左右。", "续保率为34.6%。"),
        ("迟到超过三十分钟算旷工。", "迟到超过30分钟算旷工。"),
        ("两天内派员到场。", "应在48小时内派员到场。"),
        ("1998年结婚，3年后得子。", "1998年结婚，2001年得子。"),
        ("每逢星期一晚上九点～21:54放映。", "每逢星期一21:00～21:54放映。"),
        ("人口13,610,000人。", "全市共有1361万人。"),
        ("2018年1月开业。", "开业日期：2018-01-15"),
        ("二〇一八年一月十五日开业。", "2018年1月15日开业。"),
        ("2018年1月15日开业。", "2018年，公司筹备已久，于1月15日开业。"),
        ("增长5%。", "增长百分之五。"),
        ("9月2日至4日只上半天，8:30至11:00。", "9月2日至4日只上半天（8:30—11:00，不用餐），9月9日起全天。"),
        ("见3.5节。", "3.5 定时\n可设1～24小时。"),
        ("共有九条。", "第九条 本办法自公布之日起施行，共九条。"),
        ("DH-26的水箱。", "DH 26家用除湿机使用说明书"),
        ("甲地15天内可退，乙地30天内可退。", "甲地15天内可退。\n乙地30天内可退。"),
        ("增长了百分之五点五。", "同比增长5.5％。"),
        ("约三成。", "占30%。"),
        ("每次0.5g，每日三次。", "每次500毫克，一日3次。"),
        ("营业收入1361万元。", "项目 | 营业收入（万元）\n合计 | 1361"),
        ("2型糖尿病患者。", "Ⅱ型糖尿病患者。"),
        ("依据第264条。", "依据《刑法》第二百六十四条。"),
        ("收费10%至20%。", "收费10-20%。"),
        ("投资5万元至10万元。", "投资5至10万元。"),
        ("１２３４元", "1234元"),
        ("主要有三种症状：发热、咳嗽和乏力。", "症状有发热、咳嗽、乏力。"),
        ("主要包括以下三点：", "症状有发热、咳嗽、乏力。"),
        ("1. 首先是发热。\n2. 其次是咳嗽。", "先发热，后咳嗽。"),
        ("公司十分重视一个原则。", "公司重视原则。"),
        ("符合ISO 14001标准。", "通过了ISO14001认证。"),
        ("2017-2019年持续增长。", "2017年至2019年持续增长。"),
        ("血压140/90mmHg。", "血压 140/90 mmHg"),
        ("亏损3亿元。", "净利润-3亿元。"),
        ("The revenue was $5 million in 2018.", "Revenue of 5 million dollars in 2018"),
        ("版本1.2.3。", "1.2.3版已发布。"),
        ("三分之一的人。", "1/3的人，即三分之一。"),
        (r"比例为 $60\%$。", "比例为60%。"),
        ("住院报销八成五。", "住院报销85%。"),
        ("近八成一线员工满意，七成二手房降价。", "80%的一线员工满意，70%的二手房降价。"),
        (r"每次 $5\sim10$ mg，体温 $38.5^{\circ}\text{C}$。", "每次5～10毫克，体温38.5℃。"),
        (r"共 \(1{,}361\,\text{万元}\)。", "共1361万元。"),
        ("比例为60%。", r"比例为 \(60\%\)。"),
    ],
)
def test_a_right_figure_is_let_through(sentence: str, text: str) -> None:
    assert _wrong(sentence, text) == []


@pytest.mark.parametrize(
    ("sentence", "text", "wrong"),
    [
        (r"比例为 $61\%$。", "比例为60%。", "61%"),
        ("增长6%。", "增长5%，共6家。", "6%"),
        ("人口约1500万。", "全市共有1,361万人。", "1500万"),
        ("人口超过1400万人。", "全市共有1,361万人。", "1400万人"),
        ("人口近1300万人。", "全市共有1,361万人。", "1300万人"),
        ("人口1400万人。", "全市共有1,361万人。", "1400万人"),  # nothing says that it is rounded
        ("研发支出约1400万元。", "营业收入1361万元，研发支出1800万元。", "1400万元"),
        ("迟到超过七十分钟算旷工。", "迟到超过30分钟算旷工。", "七十分钟"),
        ("1998年结婚，4年后得子。", "1998年结婚，2001年得子，2003年搬家。", "4年"),
        ("门诊300元，住院200元，相差200元。", "门诊300元，住院200元。", "200元"),
        ("收入5亿美元。", "收入5亿元。", "5亿美元"),
        ("每次5克。", "每次5毫克。", "5克"),
        ("2019年1月15日开业。", "2018年1月15日开业。", "2019年1月15日"),
        ("2018年2月开业。", "2018年1月15日开业，2019年2月歇业。", "2018年2月"),
        ("共15人。", "共150人。", "15人"),
        ("收入5亿元。", "收入5万元。", "5亿元"),
        ("版本1.2.4。", "1.2.3版已发布。", "1.2.4"),
        ("型号H7N8。", "型号H7N9。", "h7n8"),
        ("第三季度。", "第二季度共3次。", "第三季度"),
        ("主要有四种症状：发热、咳嗽和乏力。", "症状有发热、咳嗽、乏力。", "四种"),
        ("到货后9个工作日内验收。", "第九条 物品到货后，应在5个工作日内验收。第十条 档案至少保存九年。", "9个"),
        ("水箱容量为3.5升。", "3.5 定时\n可设1～24小时。\n\n| 项目 | 参数 |\n|---|---|\n| 水箱容量 | 6.5升 |", "3.5升"),
        ("A0胶装每本8元。", "A4胶装每本8元，封面覆膜，货号CA05。", "a0"),
        ("避免提重物（超过0kg）。", "避免提重物（超过5kg）。硝酸甘油每次0.5mg。", "0kg"),
    ],
)
def test_a_wrong_figure_is_caught(sentence: str, text: str, wrong: str) -> None:
    assert _wrong(sentence, text) == [wrong]


def test_a_figure_of_something_else_is_caught() -> None:
    text = "总资产为5000万元，总负债为3000万元，股东权益为2000万元。"
    assert _wrong("股东权益为2000万元。", text) == []
    assert _wrong("股东权益为3000万元。", text) == ["3000万元"]
    answer = ungrounded("3000万元。", Evidence.of((text,)), "股东权益是多少？")
    assert [each.written for each in answer.displaced] == ["3000万元"]


def test_two_documents_may_say_the_same_of_two_subjects() -> None:
    texts = ("净利润为8亿元，总资产为20亿元。", "净利润为3亿元，总资产为9亿元。")
    assert _wrong("甲公司净利润为8亿元，乙公司净利润为3亿元。", *texts) == []


# ── a model's answer with a digit changed ────────────────────────────────────────────────────────

FACTS = (
    "{n}年{m}月，公司完成了资产收购，总价值{a}万元。",
    "公司于{n}年{m}月进行了债务重组，减少负债{a}亿元。",
    "门诊报销比例为{p}%，起付线为{a}元。",
    "成人每次{b}毫克，每日{c}次，最大剂量{a}毫克。",
    "截至{n}年末，员工满意度为{p}%，社区投资额达{a}万元。",
    "依据第{a}条，处{c}年以上{b}年以下有期徒刑。",
)


def _passages(chance: random.Random) -> list[Passage]:
    """Passages of several facts each, every figure another."""
    found = []
    for number in range(1, 6):
        told = []
        for fact in FACTS:
            a, b, c = chance.sample(range(1001, 9999), 1)[0], chance.randint(10, 99), chance.randint(3, 9)
            told.append(
                fact.format(
                    n=chance.randint(2001, 2023), m=chance.randint(1, 12), p=chance.randint(11, 99), a=a, b=b, c=c
                )
            )
        found.append(Passage(number, f"d{number}", f"文档{'甲乙丙丁戊'[number - 1]}", f"c{number}", "".join(told)))
    return found


def _mutations(count: int) -> list[tuple[str, Passage]]:
    """Sentences of the passages, one digit of each changed: none of them is in its passage any more."""
    chance = random.Random(5)
    found: list[tuple[str, Passage]] = []
    while len(found) < count:
        passage = chance.choice(_passages(chance))
        sentence = chance.choice(re.findall("[^。]+。", passage.text))
        at = chance.choice([mark.start() for mark in re.finditer(r"\d", sentence)])
        digit = chance.choice([each for each in "0123456789" if each != sentence[at]])
        wrong = sentence[:at] + digit + sentence[at + 1 :]
        if figures(wrong) != figures(sentence):
            found.append((wrong, passage))
    return found


def _caught(mutations: list[tuple[str, Passage]]) -> int:
    return sum(not check(Sentence(wrong, (passage.number,)), (passage,)).accepted for wrong, passage in mutations)


def test_of_changed_digits_99_in_100_are_caught() -> None:
    count = share(500, 200)
    assert _caught(_mutations(count)) >= 0.99 * count


def test_right_sentences_are_all_kept() -> None:
    for passage in _passages(random.Random(9)):
        for sentence in re.findall("[^。]+。", passage.text):
            assert check(Sentence(sentence, (passage.number,)), (passage,)).accepted, sentence


def test_without_the_check_the_same_digits_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_check, "ungrounded", lambda *_: Ungrounded())
    monkeypatch.setattr(sentence_check, "altered", lambda *_: "")
    assert _caught(_mutations(50)) == 0


# ── what becomes of a sentence ───────────────────────────────────────────────────────────────────

PASSAGE = Passage(1, "d", "年报", "c", "营业收入为5亿元，净利润为1亿元，员工满意度显著提高。")


def test_a_sentence_without_a_mark_is_given_the_passage_it_was_taken_from() -> None:
    checked = check(Sentence("营业收入为5亿元，净利润为1亿元。"), (PASSAGE,))
    assert checked.passages == (PASSAGE,)


def test_a_sentence_of_nowhere_is_flagged_and_dropped_where_it_has_figures() -> None:
    plain = check(Sentence("公司的前景一片光明。"), (PASSAGE,))
    assert plain.accepted
    assert [flag.kind for flag in plain.flags] == ["uncited"]
    assert not check(Sentence("公司明年将盈利9亿元。"), (PASSAGE,)).accepted


@pytest.mark.parametrize("said", ["如有不适，请立即拨打120。", "马上打急救电话 120！", "Please call 911 at once."])
def test_whom_to_call_in_an_emergency_need_not_stand_in_the_sources(said: str) -> None:
    told = check(Sentence(said), (PASSAGE,))
    assert told.accepted
    assert [each.kind for each in told.flags] == ["uncited"]


@pytest.mark.parametrize(
    "said",
    [
        "血压超过120就停药。",
        "请拨打12045678。",
        "打120折。",
        "每次打120mg。",
        "每天打120单位胰岛素。",
        "打120.5元。",
        "胰岛素每天打120。",
        "拨打120，每次吃9片。",
    ],
)
def test_other_figures_beside_it_must(said: str) -> None:
    assert not check(Sentence(said), (PASSAGE,)).accepted


def test_the_questions_year_is_kept_with_a_flag_where_the_source_names_none() -> None:
    ended = Sentence("2021年营业收入为5亿元。", (1,))
    checked = check(ended, (PASSAGE,), "公司2021年的营业收入是多少？")
    assert checked.accepted
    assert [flag.kind for flag in checked.flags] == ["unsupported_number"]
    other = Passage(1, "d", "年报", "c", "2020年营业收入为5亿元。")
    assert not check(ended, (other,), "公司2021年的营业收入是多少？").accepted


def test_that_the_sources_do_not_say_needs_no_source() -> None:
    assert check(Sentence("资料中没有找到相关内容。"), (PASSAGE,)).flags == ()
