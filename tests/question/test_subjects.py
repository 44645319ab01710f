"""Questions about several subjects, rows of tables, reasons: an answer says what each part asks for, and reads well."""

from __future__ import annotations

import pytest

from qianxun.answer.extractive.passage_lines import table_rows
from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Passage
from qianxun.question.subjects import subjects

FEES = """收费标准
| 类别 | 项目 | 起付线（元） | 比例 |
| --- | --- | --- | --- |
| 在职人员 | 门诊 | 300 | 75% |
| 退休人员 | 门诊 | 200 | 80% |
| 学生 | 门诊 | 50 | 60% |"""
LIBRARY = tuple(
    Passage(number, f"d{number}", name, f"c{number}", text, score=0.9 - number / 100)
    for number, (name, text) in enumerate(
        (
            ("用药手册", "布洛芬每日最大剂量为 1.2 克。对乙酰氨基酚每日最大剂量为 2 克，肝病患者减半。"),
            (
                "员工守则",
                "入职满一年的员工享有带薪年休假：不满 5 年的为 7 天，满 5 年的为 10 天。女员工产假为 158 天。",
            ),
            ("收费标准", FEES),
            ("财务制度", "发票由财务部开具。丢失发票的，凭存根联复印件报销。"),
            (
                "古镇游记",
                "古镇的码头开在河湾。清晨有人卖鱼。码头早已停用，因为上游修了水坝，水位降低。老街每天十点开门。",
            ),
        ),
        start=1,
    )
)


def _ask(question: str) -> str:
    answer = AnswerGenerator().generate(question, LIBRARY)
    for each in answer.sources:
        assert f"[{each.number}]" in answer.answer
    return answer.answer


def test_each_subject_of_a_question_is_answered() -> None:
    answer = _ask("年假和产假分别有多少天？")
    assert "7 天" in answer
    assert "158 天" in answer
    answer = _ask("布洛芬与对乙酰氨基酚的每日最大剂量各是多少？")
    assert "1.2 克" in answer
    assert "2 克，肝病患者减半" in answer


def test_the_subject_that_the_sources_do_not_tell_of_is_named() -> None:
    answer = _ask("产假和婚假分别有多少天？")
    assert "158 天" in answer
    assert answer.endswith("资料中没有找到关于“婚假”的回答。")
    assert "没有找到" not in _ask("年假和产假分别有多少天？")


def test_a_question_of_which_no_subject_is_known_is_declined() -> None:
    assert AnswerGenerator().generate("探亲假和婚假分别有多少天？", LIBRARY).is_declined


def test_rows_read_by_their_columns_and_both_sides_are_there() -> None:
    assert _ask("比较在职职工和退休职工的门诊收费比例").splitlines() == [
        "- 类别：在职人员；项目：门诊；起付线（元）：300；比例：75%[1]",
        "- 类别：退休人员；项目：门诊；起付线（元）：200；比例：80%[1]",
    ]


def test_a_kind_of_thing_that_is_asked_for_need_not_stand_in_the_text() -> None:
    assert _ask("发票由哪个部门开具？").startswith("发票由财务部开具。")


def test_a_reason_is_the_sentence_that_tells_it_not_the_opening() -> None:
    assert _ask("古镇的码头为什么停用？") == "码头早已停用，因为上游修了水坝，水位降低。[1]"


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("布洛芬、对乙酰氨基酚和阿司匹林的剂量分别是多少？", ["布洛芬", "对乙酰氨基酚", "阿司匹林"]),
        ("公司的营业收入与净利润各是多少", ["营业收入", "净利润"]),
        ("比较甲公司与乙公司2019年的净利润，哪家更高？", ["甲公司", "乙公司"]),
        ("盗窃罪和诈骗罪有什么区别", ["盗窃罪", "诈骗罪"]),
        ("产假有多少天", []),
        ("研究和开发的费用是多少", []),
        ("和分别", []),
        ("、、和比较", []),
    ],
)
def test_subjects_are_read_from_the_question(question: str, names: list[str]) -> None:
    assert [each.name for each in subjects(question)] == names


def test_rows_without_a_header_and_with_holes_keep_every_value() -> None:
    assert _read("| 1 | 2 |", "| 3 | 4 |") == ["1；2", "3；4"]
    assert _read("| 甲 | 乙 |", "| 3 |  |", "散文", "| 甲 | 乙 | 丙 |") == ["", "甲：3", None, "甲；乙；丙"]
    assert _read("| 名\\|称 | 值 |", "| a\\|b | 5 |") == ["", "名|称：a|b；值：5"]
    assert _read() == []


def _read(*lines: str) -> list[str | None]:
    return [row.text if row else None for row in table_rows(lines)]


def test_a_summary_tells_what_has_no_figures_too() -> None:
    passages = [
        {
            "doc_name": "病历（刘芳）",
            "text": "刘芳因上腹痛 3 个月入院。胃镜见 1.2cm 溃疡。诊断为胃溃疡。给予奥美拉唑 20mg，疗程 14 天。",
        }
    ]
    answer = AnswerGenerator().generate("总结刘芳的诊疗经过", passages).answer
    for told in ("3 个月", "1.2cm", "诊断为胃溃疡", "14 天"):
        assert told in answer
