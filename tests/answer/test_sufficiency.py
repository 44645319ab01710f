"""What passages do not say is not answered, in law and medicine as in reports; what they do say is."""

from __future__ import annotations

import pytest

from qianxun.answer.extractive.sufficiency import read
from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Passage


def _passages(*texts: tuple[str, str]) -> tuple[Passage, ...]:
    return tuple(
        Passage(number, f"d{number}", name, f"c{number}", text, score=0.9 - number / 50)
        for number, (name, text) in enumerate(texts, start=1)
    )


LAW = _passages(
    (
        "江城县人民法院刑事判决书（王强盗窃案）",
        "被告人王强，男，1985年6月12日出生于江城县，汉族，初中文化，无业。2019年3月2日因涉嫌盗窃罪被江城县公安局刑事拘留，"
        "同年3月15日被逮捕。公诉机关指控，2019年2月20日凌晨，被告人王强翻窗进入江城县幸福小区3栋201室，盗走现金8600元及笔记本"
        "电脑一台。经鉴定，该笔记本电脑价值4200元。",
    ),
    (
        "江城县人民法院刑事判决书（王强盗窃案）",
        "本院认为，被告人王强以非法占有为目的，入户盗窃他人财物，数额较大，其行为已构成盗窃罪。被告人王强归案后如实供述自己的罪行，"
        "可以从轻处罚。依照《中华人民共和国刑法》第二百六十四条之规定，判决如下：被告人王强犯盗窃罪，判处有期徒刑一年六个月，并处罚金"
        "人民币五千元。",
    ),
    (
        "东山市人民法院刑事判决书（李敏诈骗案）",
        "被告人李敏，女，1990年1月8日出生于东山市。被告人李敏的辩护律师为正大律师事务所的赵立。2020年5月，被告人李敏虚构投资项目，"
        "骗取被害人陈某人民币12万元。被告人李敏的家属已退赔被害人全部损失，并取得谅解。审判长为孙华，书记员为周洁。",
    ),
)
LAW_ANSWERED = {
    "王强是哪一天被刑事拘留的？": "2019年3月2日",
    "王强盗窃案中笔记本电脑的鉴定价值是多少？": "4200元",
    "王强被判处多长时间的有期徒刑？": "一年六个月",
    "王强盗窃案的判决依据是刑法第几条？": "第二百六十四条",
    "王强是从哪里盗走现金的？": "幸福小区",
    "李敏骗取了被害人多少钱？": "12万元",
    "李敏的辩护律师是谁？": "赵立",
}
LAW_UNANSWERED = (
    "王强的辩护律师是谁？",
    "王强盗窃案的审判长是谁？",
    "王强的家属是否退赔了被害人的损失？",
    "王强有哪些前科？",
    "张伟盗窃案判处了多少罚金？",
    "王强的身高是多少？",
    "李敏诈骗案的作案工具是什么？",
    "李敏被判处多长时间的有期徒刑？",
)
MEDICINE = _passages(
    (
        "仁和医院住院病历（刘芳）",
        "患者刘芳，女，52岁，因“反复上腹痛3个月，加重1周”入院。患者3个月前无明显诱因出现上腹部隐痛，餐后加重，伴反酸、嗳气，无呕血、黑便。"
        "既往有高血压病史8年，长期口服氨氯地平5mg，每日一次，血压控制尚可。否认糖尿病史，否认药物过敏史。",
    ),
    (
        "仁和医院住院病历（刘芳）",
        "胃镜检查示：胃窦部可见一约1.2cm×0.8cm溃疡，表面覆白苔。幽门螺杆菌检测阳性。诊断为胃溃疡（活动期）。给予奥美拉唑20mg，"
        "每日两次，联合阿莫西林1.0g、克拉霉素0.5g，每日两次，疗程14天。出院时腹痛缓解，嘱4周后复查碳13呼气试验。",
    ),
    (
        "仁和医院住院病历（赵军）",
        "患者赵军，男，67岁，退休教师，因“活动后胸闷气促2年”入院。吸烟40年，每日20支，已戒烟1年。肺功能检查示FEV1/FVC为58%。"
        "诊断为慢性阻塞性肺疾病。主治医师为何文，住院费用共计9860元。",
    ),
)
MEDICINE_ANSWERED = {
    "刘芳长期口服什么降压药？": "氨氯地平",
    "刘芳的胃溃疡大小是多少？": "1.2cm",
    "刘芳服用奥美拉唑的剂量是多少？": "20mg",
    "刘芳出院后多久复查碳13呼气试验？": "4周",
    "刘芳的高血压病史有多少年？": "8年",
    "赵军吸烟多少年？": "40年",
    "赵军的住院费用是多少？": "9860元",
}
MEDICINE_UNANSWERED = (
    "刘芳的住院费用是多少？",
    "刘芳的主治医师是谁？",
    "刘芳的血型是什么？",
    "刘芳吸烟多少年？",
    "刘芳的肺功能检查结果如何？",
    "赵军的胃镜检查结果是什么？",
    "赵军的联系电话是多少？",
    "陈丽的诊断结果是什么？",
)


@pytest.mark.parametrize(("passages", "asked"), [(LAW, LAW_ANSWERED), (MEDICINE, MEDICINE_ANSWERED)])
def test_what_the_passages_say_is_answered(passages: tuple[Passage, ...], asked: dict[str, str]) -> None:
    missed = []
    for question, told in asked.items():
        answer = AnswerGenerator().generate(question, passages)
        if told not in answer.answer:
            missed.append((question, answer.answer))
    assert len(missed) <= 1, missed


@pytest.mark.parametrize(("passages", "asked"), [(LAW, LAW_UNANSWERED), (MEDICINE, MEDICINE_UNANSWERED)])
def test_what_the_passages_do_not_say_is_declined(passages: tuple[Passage, ...], asked: tuple[str, ...]) -> None:
    answered = [
        (question, answer.answer)
        for question in asked
        if not (answer := AnswerGenerator().generate(question, passages)).is_declined
    ]
    assert len(answered) <= 2, answered


@pytest.mark.parametrize(
    ("question", "text", "told"),
    [
        ("住院报销比例是多少", "三级医院住院费用报销 85%。门诊费用报销 60%。", "85%"),
        ("门诊报销比例是多少？", "三级医院住院费用报销 85%。门诊费用报销 60%。", "60%"),
        ("违约金比例是多少", "逾期付款的，按合同总额的百分之五支付违约金。", "百分之五"),
        ("培训费用是多少", "参加培训每人收取 300 元。教材另购。", "300 元"),
        ("门票价格", "门票每张 80 元，学生半价。", "80 元"),
        ("参会人数是多少", "本次年会共有 120 人参会。会期两天。", "120 人"),
        ("退休年龄是多少", "男职工年满 60 岁退休，女职工年满 55 岁退休。", "60 岁"),
        ("报名期限是多少", "报名须在 30 个工作日内完成。", "30 个工作日"),
        ("开业日期是什么时候", "本店于 2020 年 3 月 1 日开业。", "2020"),
    ],
)
def test_a_figure_stands_for_the_label_of_its_kind(question: str, text: str, told: str) -> None:
    assert told in AnswerGenerator().generate(question, [text]).answer


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("住院报销比例是多少", "住院押金为 2000 元。门诊费用报销 60%。"),
        ("生育报销比例是多少", "三级医院住院费用报销 85%。门诊费用报销 60%。"),
        ("住院报销比例是多少", "住院费用报销须在 30 日内办理。"),
        ("参会人数是多少", "本次年会参会费用 120 元。"),
        ("退休年龄是多少", "退休手续须在 30 日内办理。"),
        ("住院报销金额是多少", "三级医院住院费用报销 85%。"),
        ("海外营业收入占比是多少", "公司海外营业收入同比增长 12%。"),
        ("股东持股比例是多少", "公司营业收入同比增长 12%，股东大会于5月召开。"),
    ],
)
def test_a_figure_of_another_kind_or_thing_does_not(question: str, text: str) -> None:
    assert AnswerGenerator().generate(question, [text]).is_declined


@pytest.mark.parametrize(
    ("question", "text", "told"),
    [
        ("住院能报多少", "住院费用在职职工报销 85%，退休职工报销 90%。", "85%"),
        ("养老保险每月要交多少", "职工养老保险每月按工资的 8% 缴纳。", "8%"),
        ("公积金能贷多少", "公积金贷款最高 60 万元。", "60 万元"),
        ("高血压能喝酒吗", "高血压患者应当戒酒，避免情绪激动。", "戒酒"),
        ("高血压能不能喝酒？", "高血压患者应当戒酒，避免情绪激动。", "戒酒"),
    ],
)
def test_what_is_said_short_is_found_as_it_is_written(question: str, text: str, told: str) -> None:
    assert told in AnswerGenerator().generate(question, [text]).answer


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("门诊能报多少", "住院费用在职职工报销 85%。"),
        ("住院能报多少", "门诊费用报销 60%。住院需办理登记。"),
        ("高血压能吃柚子吗", "高血压患者应当戒酒，避免情绪激动。"),
        ("赵军喝酒多少年", "赵军已戒酒 3 年。"),
    ],
)
def test_what_is_said_short_of_something_else_is_not(question: str, text: str) -> None:
    assert AnswerGenerator().generate(question, [text]).is_declined


def test_of_several_subjects_the_first_counts_whatever_order_a_set_has() -> None:
    """Strings have other hashes in every process: the grade of the same passages must not follow them."""
    names = ["火车站", "电影院", "体育馆", "图书馆", "自行车"]
    texts = [f"{name[:-1]}的费用是{at}元。" for at, name in enumerate(names, start=3)]
    passages = [Passage(at, f"d{at}", f"d{at}", f"c{at}", text) for at, text in enumerate(texts, start=1)]
    for first in range(len(names)):
        ordered = names[first:] + names[:first]
        assert read(f"{'、'.join(ordered)}的费用是多少", passages).subject == ordered[0]


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("合同总金额是多少？", "合同总金额为人民币193万元（大写：壹佰玖拾叁万元整）。", "193万元"),
        ("合同总价是多少？", "合同总价：1,930,000.00元（大写：壹佰玖拾叁万元整），含税。", "1,930,000.00元"),
        ("门诊时间是几点？", "门诊时间：上午8:00至12:00，请提前取号。", "8:00"),
    ],
)
def test_marks_within_a_figure_or_in_brackets_do_not_part_it_from_its_label(
    question: str, text: str, answer: str
) -> None:
    written = AnswerGenerator().generate(question, _passages(("云帆技术服务", text)))
    assert answer in written.answer
    assert written.is_sure


CONTRACT = (
    "乙方：苏州锐捷机械制造有限公司\n乙方向甲方供应灌装机两台。乙方逾期交货的，每日按合同总价的千分之三支付违约金。"
    "甲方在签订后支付合同总价的30%作为预付款。"
)


def test_a_line_that_is_labelled_by_what_is_asked_comes_first() -> None:
    passages = _passages(("采购合同", "乙方应于合同生效后四十五日内将设备运至甲方工厂。"), ("采购合同", CONTRACT))
    assert "苏州锐捷" in AnswerGenerator().generate("乙方是谁？", passages).answer


def test_a_share_of_something_is_not_how_much_it_is() -> None:
    assert not AnswerGenerator().generate("总价是多少？", _passages(("采购", CONTRACT))).is_sure
    assert "30%" in AnswerGenerator().generate("预付款是多少？", _passages(("采购", CONTRACT))).answer
