"""Records that nobody tuned for: whom a document is about, other words for the same, lists, comparisons, claims."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qianxun.answer.extractive.meaning import is_of_alternative, likeness_without_names
from qianxun.answer.extractive.passage_lines import lines
from qianxun.answer.extractive.record_heads import people, record_subjects
from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Answer, Passage
from qianxun.question.question import read


def passage(text: str, name: str, number: int = 1, score: float = 0.9, start: int = 0, heading: str = "") -> Passage:
    headings = {"headings": [heading]} if heading else {}
    return Passage(number, name, name, f"c{number}", text, start, start + len(text), score, headings)


def answer(question: str, *passages: Passage, alike: str = "") -> Answer:
    """``alike``: a text of which a line must be to mean the same as the question."""

    def likeness(_: str, texts: Sequence[str]) -> list[float]:
        return [0.7 if alike and alike in text else 0.3 for text in texts]

    return AnswerGenerator(likeness=likeness if alike else None).generate(question, passages)


PETS = (
    passage("姓名：豆豆子\n品种：柯基\n年龄：3岁\n疫苗：已接种狂犬疫苗。", "病历甲.txt", 1),
    passage("既往史：对鸡肉过敏，进食后皮肤红肿。", "病历甲.txt", 2, start=900),
    passage("姓名：团团子\n品种：布偶\n年龄：5岁\n既往史：对海鱼过敏。", "病历乙.txt", 3),
)


def test_what_stands_in_the_head_of_a_record_holds_for_all_of_it() -> None:
    found = answer("豆豆子对什么过敏？", *PETS)
    assert "鸡肉" in found.answer
    assert "海鱼" not in found.answer


def test_an_identifier_in_the_head_names_the_document() -> None:
    orders = (
        passage("维修单号：WX-2031-07\n客户：江女士", "单一.txt", 1),
        passage("检测费80元，更换主板260元。", "单一.txt", 2, start=700),
        passage("维修单号：WX-2031-08\n客户：白先生\n检测费95元。", "单二.txt", 3),
    )
    assert "80元" in answer("WX-2031-07的检测费是多少？", *orders).answer


def test_people_whom_a_passage_introduces_are_words() -> None:
    text = passage("被告人钭建军，男，1990年生。被告人苟小兰，女。", "判决.txt")
    assert people("钭建军和苟小兰分别判了几年", [text]) == ("苟小兰", "钭建军")
    terms = read("后钭建军分得多少钱").for_evidence((), ("钭建军",)).terms
    assert "钭建军" in [term.text for term in terms]


def test_a_record_of_several_people_is_about_none_alone() -> None:
    assert record_subjects("甲一人是谁", [passage("姓名：甲一人 姓名：乙二人", "名单.txt")]) == {}


def test_meaning_is_compared_without_names() -> None:
    seen: list[str] = []

    def likeness(question: str, texts: Sequence[str]) -> list[float]:
        seen.extend((question, *texts))
        return [0.0] * len(texts)

    line = lines([passage("林小满出院后一周内不要洗澡。", "小结.txt")])
    likeness_without_names(likeness, "林小满的伤口多久能碰水？", line, ["林小满"])
    assert seen == ["伤口多久能碰水？", "出院后一周内不要洗澡。"]


SHOP = (
    passage("第九条 货物签收后，门店应当在三日内完成清点。", "门店制度.md", 1, 0.95),
    passage("员工每年体检一次，费用由公司承担。", "福利.md", 2, 0.4),
)


def test_everyday_words_for_what_a_document_says_otherwise_probably_answer() -> None:
    found = answer("东西送到以后多长时间要点一遍数？", *SHOP, alike="清点")
    assert found.form == "probable"
    assert "三日内" in found.answer


def test_what_several_documents_may_mean_is_none_of_them() -> None:
    rules = (*SHOP, passage("调拨单送达后，仓库应当在两日内完成清点。", "仓库制度.md", 3, 0.9))
    assert answer("东西送到以后多长时间要点一遍数？", *rules, alike="清点").is_declined


@pytest.mark.parametrize("question", ["五级会员多久能换一次卡？", "K900多久要充一次电？", "小学生一次能借多久？"])
def test_a_line_about_an_alternative_means_something_else(question: str) -> None:
    line = lines([passage("三级会员、K300与初中生适用：每三十天一次。", "规则.md")])[0]
    assert is_of_alternative(read(question).for_evidence(), line)


def test_a_whole_list_is_given_where_its_members_are_asked_for() -> None:
    text = "随车物品\n1.千斤顶\n2.5米拖车绳\n3.三角警示牌\n\n检查日期：6月2日"
    found = answer("随车物品有哪些？", passage(text, "交车单.txt"))
    assert all(item in found.answer for item in ("千斤顶", "拖车绳", "三角警示牌"))


def test_a_short_line_with_a_label_is_no_heading() -> None:
    text = passage("仲裁结果如上。\n书记员 戚晚晴\n2031年5月4日", "仲裁书.txt")
    assert "戚晚晴" in answer("这份仲裁书的书记员是谁？", text).answer


def test_a_finding_comes_before_a_claim() -> None:
    text = "申请人主张加班费共计9600元。\n仲裁委员会查明，加班费为4200元。"
    assert "4200" in answer("加班费是多少？", passage(text, "裁决书.txt")).answer.split("[1]")[0]


@pytest.mark.parametrize("question", ["松鼠号和海鸥号哪个载客多？", "松鼠号和海鸥号的载客相差多少？"])
def test_both_sides_of_a_comparison_are_given(question: str) -> None:
    text = "| 船名 | 载客（人） |\n| --- | --- |\n| 松鼠号 | 40 |\n| 海鸥号 | 65 |\n| 白鹭号 | 12 |"
    found = answer(question, passage(text, "船表.md"))
    assert "40" in found.answer
    assert "65" in found.answer


def test_what_would_have_to_be_worked_out_is_not_given_as_stated() -> None:
    text = passage("郊游第一天花费300元，第二天花费450元。", "账本.txt")
    assert answer("郊游一共花费多少元？", text).form != "extractive"
    stated = passage("郊游第一天花费300元，第二天花费450元，合计花费750元。", "账本.txt")
    assert answer("郊游一共花费多少元？", stated).form == "extractive"


def test_one_date_is_no_duration() -> None:
    text = passage("展览日期：2031年3月2日。展览开放40天。", "展览.txt")
    assert answer("展览开放多长时间？", text).answer.startswith("展览开放40天")


def test_a_part_that_only_goes_on_is_no_question_of_its_own() -> None:
    assert read("甲店和乙店谁的租金更高，各是多少？").parts == ()
    assert read("程砚是哪天报名的？裁判判他犯规还是越位？").parts[1].startswith("裁判判程砚")


def test_a_short_form_of_the_title_is_not_another_subject() -> None:
    text = passage("申请理赔应提交：申请书、发票。", "旅行意外伤害保险条款.md")
    assert "发票" in answer("申请意外险理赔要提交哪些材料？", text).answer


def test_a_cell_belongs_to_what_its_row_is_called() -> None:
    text = "每档评定一次，其中出勤占60%。\n| 组别 | 档次 | 金额（元） |\n| --- | --- | --- |\n| 甲组 | 一档 | 900 |"
    assert "900" in answer("甲组一档津贴是多少？", passage(text, "津贴.md", heading="津贴")).answer


FEES = (
    "| 订单金额 | 审批人 |\n| --- | --- |\n| 2000元以下 | 店长 |\n"
    "| 2000元（含）至3万元 | 区域经理 |\n| 3万元（含）以上 | 总监 |"
)


@pytest.mark.parametrize(("amount", "who"), [("800元", "店长"), ("1.2万元", "区域经理"), ("3万元", "总监")])
def test_a_quantity_chooses_the_row_of_its_tier(amount: str, who: str) -> None:
    found = answer(f"订单金额{amount}由谁审批？", passage(FEES, "审批.md"))
    assert f"审批人：{who}" in found.answer
    assert found.answer.count("审批人") == 1


def test_a_bound_on_what_the_question_states_comes_along() -> None:
    text = "停电等特殊情况下，店长可以先行垫付维修费。先行垫付维修费的金额不得超过6000元。"
    assert "6000" in answer("停电了，店长可以先行垫付9000元维修费吗？", passage(text, "门店.md")).answer


def test_the_name_of_somebody_alone_is_no_answer_about_them() -> None:
    text = "申请人：佟小满，住河西路9号。\n佟小满的视力经鉴定构成七级残疾。"
    assert answer("佟小满的残疾是几级？", passage(text, "鉴定.txt")).answer.startswith("佟小满的视力")


@pytest.mark.parametrize("question", ["苗苗的帐篷是什么牌子的？", "林间步道的地质勘测结果如何？"])
def test_what_is_asked_of_a_subject_must_be_spoken_of(question: str) -> None:
    text = "苗苗的帐篷搭在湖边，容纳四人。林间步道的水文勘测结果：水位2米，流速平缓。"
    assert answer(question, passage(text, "林间步道.txt")).form != "extractive"


def test_a_thing_that_no_line_has_is_not_answered_by_the_rest_of_the_question() -> None:
    text = passage("云杉水库的坝高为32米，坝顶长210米，由云杉镇管理。", "云杉镇志.txt")
    assert answer("云杉水库的坝高是多少？", text).form == "extractive"
    assert answer("云杉镇管理的枫林水库的坝高是多少米？", text).form != "extractive"
