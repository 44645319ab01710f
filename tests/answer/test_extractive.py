"""Answers of whole sentences: what was asked for, of whom it was asked, nothing cut short."""

from __future__ import annotations

import re

import pytest

from qianxun.answer.extractive.passage_lines import lines
from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Passage

REPORTS = tuple(
    Passage(number, f"d{number}", name, f"c{number}", text, score=0.9)
    for number, (name, text) in enumerate(
        (
            (
                "甲木家具有限公司",
                "引言\n2020年，公司营业收入为8亿元，净利润为1.2亿元；其中出口不足一成。这一业绩创下新高。",
            ),
            (
                "乙水科技有限公司",
                "2020年，公司营业收入为3亿元。除非另有约定，股利不得在亏损年度分发。净利润为0.4亿元。",
            ),
            ("甲木家具有限公司", "2020年5月，公司在苏州建成了新工厂，投资2亿元。新工厂提高了产能。公司没有裁员。"),
        ),
        start=1,
    )
)


def _ask(question: str) -> str:
    return AnswerGenerator().generate(question, REPORTS).answer


def test_a_fact_is_the_sentence_that_tells_it_and_no_clause_is_cut() -> None:
    answer = _ask("甲木家具有限公司2020年的净利润是多少？")
    assert answer == "2020年，公司营业收入为8亿元，净利润为1.2亿元；其中出口不足一成。[1]"


def test_another_subjects_figure_is_never_given() -> None:
    assert "0.4亿元" not in _ask("甲木家具有限公司2020年的净利润是多少？")
    assert "8亿元" not in _ask("乙水科技有限公司2020年的营业收入是多少？")


def test_a_comparison_has_a_line_of_each_side_that_says_whose_it_is() -> None:
    lines = _ask("比较甲木家具有限公司和乙水科技有限公司2020年的营业收入，哪家更高？").splitlines()
    assert lines[0].startswith("- 甲木家具有限公司：")
    assert "8亿元" in lines[0]
    assert lines[-1].startswith("- 乙水科技有限公司：")
    assert "3亿元" in lines[-1]


def test_a_sentence_that_refers_back_comes_with_the_one_it_refers_to() -> None:
    answer = _ask("甲木家具有限公司的业绩创下了什么新高？")
    assert answer.index("8亿元") < answer.index("这一业绩")


def test_conditions_and_negations_stay() -> None:
    assert "除非另有约定" in _ask("乙水科技有限公司的股利在亏损年度可以分发吗？")
    assert "没有裁员" in _ask("甲木家具有限公司裁员了吗？")


def test_every_sentence_stands_word_for_word_in_its_source() -> None:
    whole = "\n".join(each.text for each in REPORTS)
    for question in ("结合甲木家具有限公司的报告，总结其2020年的表现。", "甲木家具有限公司是如何提高产能的？"):
        answer = AnswerGenerator().generate(question, REPORTS)
        assert answer.citations
        for each in answer.citations:
            told = re.sub("^- ", "", answer.answer[each.start : each.end])
            assert told in whole, told


@pytest.mark.parametrize("between", ["", "\n"])
def test_a_question_of_a_list_is_answered_by_what_stands_behind_it(between: str) -> None:
    pairs = {
        "问：怎么申请退货？": "答：签收后7天内在订单页申请，客服审核后寄回。",
        "问：发票丢了怎么办？": "答：联系客服补发电子发票，每张订单只补一次。",
        "问：保修多久？": "答：整机保修两年，电池保修一年。",
        "问：可以换货吗？": "答：质量问题15天内可以换货，运费由我们承担。",
    }
    text = "\n".join(f"{question}{between}{answer}" for question, answer in pairs.items())
    for question, answer in pairs.items():
        found = AnswerGenerator().generate(question.removeprefix("问："), [{"text": text, "doc_name": "客服问答.txt"}])
        assert found.answer == f"{answer}[1]"


def test_english_questions_are_answered_and_declined_too() -> None:
    tower = [{"text": "The Eiffel Tower is 330 metres tall. It was built in 1889.", "doc_name": "Eiffel Tower"}]
    assert "330" in AnswerGenerator().generate("How tall is the Eiffel Tower?", tower).answer
    assert "1889" in AnswerGenerator().generate("When was the Eiffel Tower built?", tower).answer
    assert AnswerGenerator().generate("Who designed the Louvre?", tower).is_declined


def test_the_same_question_gets_the_same_answer() -> None:
    question = "结合甲木家具有限公司的报告，总结其2020年的表现。"
    assert len({_ask(question) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("采购合同编号是多少", "合同编号：CG-2025-0117"),
        ("合同编号是多少？", "合同编号：CG-2025-0117"),
        ("合同号多少", "合同编号：CG-2025-0117"),
        ("发货单号是多少", "发货单号：SF20250302A"),
        ("联系电话是多少", "联系电话：138-0000-5566"),
        ("总价是多少", "总价：46800元"),
    ],
)
def test_a_code_is_the_number_that_a_label_asks_for(question: str, expected: str) -> None:
    text = "采购合同\n合同编号：CG-2025-0117\n联系电话：138-0000-5566\n发货单号：SF20250302A\n总价：46800元"
    passage = Passage(1, "d1", "采购合同.txt", "c1", text, score=0.9)
    assert AnswerGenerator().generate(question, [passage]).answer == f"{expected}[1]"


@pytest.mark.parametrize(
    ("question", "expected"),
    [("迟到三次怎么办", "迟到三次扣半天工资"), ("谁指定导师", "导师由部门经理指定")],
)
def test_a_short_line_among_others_of_a_slide_is_no_heading(question: str, expected: str) -> None:
    slide = (
        "试用期三个月，研发岗六个月\n导师由部门经理指定\n社保次月缴纳\n\n考勤\n\n"
        "上班时间9:30，弹性30分钟\n迟到三次扣半天工资\n居家办公每月不超过4天"
    )
    passage = Passage(1, "d1", "入职培训.pptx", "c1", slide, score=0.9)
    assert f"{expected}[1]" in AnswerGenerator().generate(question, [passage]).answer


def test_a_short_line_after_a_whole_sentence_is_a_heading() -> None:
    text = "报销应当及时。\n报销材料\n发票、审批单与行程单原件。"
    passage = Passage(1, "d1", "报销.txt", "c1", text, score=0.9)
    assert [line.text for line in lines([passage])] == ["报销应当及时。", "发票、审批单与行程单原件。"]


HANDBOOK = (
    "1.3 年休假\n\n入职满一年的员工享有带薪年休假：满 1 年不满 5 年的为 7 天，满 5 年不满 10 年的为 10 天，"
    "满 10 年的为 15 天。当年未休完的可顺延至次年 3 月 31 日，逾期作废。"
)


def test_a_date_is_no_number_of_days_however_it_is_spaced() -> None:
    """And a line below a heading that has the word is worth no less for writing it otherwise itself."""
    about = {"headings": ["1.3 年休假"]}
    passage = Passage(1, "d", "员工手册.md", "c", HANDBOOK, score=0.9, metadata=about)
    assert AnswerGenerator().generate("年假有几天", (passage,)).answer.startswith("入职满一年的员工")
