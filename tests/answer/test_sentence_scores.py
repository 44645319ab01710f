"""A word compared with many lines at once, as with each of them alone."""

from __future__ import annotations

import random

import pytest

from qianxun.answer.extractive.passage_lines import folded_text, lines
from qianxun.answer.extractive.sentence_scores import (
    BEFORE,
    HEADED,
    NAMED,
    TOPIC,
    JoinedTexts,
    ScoredLine,
    WordReach,
    _Dated,
    _is_here,
    _may_name_year,
    coverage,
    coverages,
    line_coverage,
    score_lines,
)
from qianxun.answer.verify.grounding import Evidence, has_day
from qianxun.core.answer_types import Passage
from qianxun.question.evidence_query import evidence_query
from qianxun.text.chinese import fold
from qianxun.text.figures import Day, figures

TEXTS = tuple(
    map(
        fold,
        (
            "职工年休假为十年以上15天",
            "门诊报销比例为85%，住院另算",
            "员工每年有10年工龄的，带薪假按规定",
            "医保保销的材料：发票、病历",
            "电子邮箱 hr@example.com，Tel 021-5555",
            "",
            "报",
            "销售部负责报告，年底放假",
        ),
    )
)
WORDS = (
    *(
        "年假",
        "年休假",
        "报销",
        "报销比例",
        "十年",
        "10年",
        "nianjia",
        "email",
        "hr",
        "天",
        "天天",
        "发票",
        "工龄",
        "带薪假",
    ),
    *("住院报销比例", "报表", "假年", "二十年", "电话", "邮箱地址", "住另", "a", "合同金额"),
)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_in_many_texts_as_far_as_in_each(word: str) -> None:
    assert coverages(word, JoinedTexts(TEXTS)) == [coverage(word, text) for text in TEXTS]


def test_the_words_are_found_in_every_way() -> None:
    found = {share for word in WORDS for share in coverages(word, JoinedTexts(TEXTS))}
    assert {0.0, 0.25, 0.5, 0.8, 0.9, 1.0} <= found


def test_parts_of_lines_are_compared_alike() -> None:
    drawn = random.Random(7)
    for _ in range(300):
        text = drawn.choice([text for text in TEXTS if len(text) > 8])
        at = drawn.randrange(len(text) - 6)
        word = text[at : at + drawn.randint(1, 6)]
        others = drawn.sample(TEXTS, 5)
        assert coverages(word, JoinedTexts(others)) == [coverage(word, other) for other in others], word


# ── through what is around a line ────────────────────────────────────────────────────────────────

LEAVE = "工龄满十年的，每年15天。\n未休的次年三月前休完。\n有以下情形之一的，不享受当年的年假：\n1、试用期；\n2、离职。"
COSTS = "医保报销分两类。门诊85%，住院另算。材料：发票、病历。\n级别：三级\n销售部负责报告。"
WAGES = "| 姓名 | 年假 |\n| --- | --- |\n| 张三 | 10天 |\n| 李四 | 5天 |\n报销在每月五日。"
DOCUMENTS = (
    ("员工手册.md", ("第三章 休假", "年假"), LEAVE),
    ("报销办法.md", (), COSTS),
    ("工资表.md", ("工资",), WAGES),
)
PASSAGES = tuple(
    Passage(number, f"d{number}", name, f"c{number}", text, 0, len(text), 0.5, {"headings": headings})
    for number, (name, headings, text) in enumerate(DOCUMENTS, start=1)
)


def test_a_word_reaches_each_of_many_lines_as_far_as_it_reaches_that_line_alone() -> None:
    offered = lines(PASSAGES)
    reach = WordReach(offered)
    assert {line.passage.number for line in offered} == {1, 2, 3}
    for word in (*WORDS, "休假", "试用期", "除外", "员工", "住院", "三级", "张三", "医保"):
        assert reach.of(word) == [line_coverage(word, line) for line in offered], word


def test_what_a_line_stands_under_counts_by_where_it_is() -> None:
    offered = lines(PASSAGES[:1])
    reach = WordReach(offered)
    assert set(reach.of("休假")) == {HEADED}
    assert set(reach.of("员工手册")) == {NAMED}
    of_item = next(at for at, line in enumerate(offered) if "离职" in line.text)
    assert reach.of("享受")[of_item] == NAMED
    assert set(reach.of("工龄")[1:]) == {TOPIC}
    assert reach.of("三月")[1:3] == [1.0, BEFORE]


# ── the time that is asked about ─────────────────────────────────────────────────────────────────


def of_report(*texts: str) -> list[Passage]:
    return [
        Passage(number, "d1", "公司年报.md", f"c{number}", text, 0, len(text), 0.5)
        for number, text in enumerate(texts, start=1)
    ]


def scored(question: str, passages: list[Passage]) -> list[ScoredLine]:
    return score_lines(evidence_query(question), WordReach(lines(passages)))


@pytest.mark.parametrize("year", ["2019年", "２０１９年", "二〇一九年", "2019-12-31，"])
def test_a_line_of_the_year_that_is_asked_about_fits_better_than_one_of_another(year: str) -> None:
    text = f"2018年全年的营业收入为10亿元。\n其他业务略有增长。\n{year}全年的营业收入为12亿元。"
    other, _, own = scored("2019年的营业收入是多少", of_report(text))
    assert own.is_timely
    assert own.fit > other.fit


def test_a_passage_without_a_year_is_of_that_of_its_document_and_one_with_another_is_not() -> None:
    passages = of_report("2019年情况如下。", "营业收入增长较快。", "2017年的营业收入增长较快。")
    own, undated, outdated = scored("2019年营业收入增长得怎么样", passages)
    assert own.is_timely
    assert undated.is_timely
    assert not outdated.is_timely


# ── times, seen before any figure is read ─────────────────────────────────────────────────────────

TIMES = (
    "2023年", "2023年度", "2000年", "2020年", "2023年5月", "2023年5月7日", "5月", "5月7日", "11月", "十一月三日", "7日",
    "九号", "2023-05-07", "二〇二三年", "2023年12月", "1月",
)  # fmt: skip
TOLD = (
    *TIMES, "2023年、2024年", "12023年", "编号12023年5", "共2023项", "2,023", "2.023千", "二千零二十三", "2千",
    "2千零20", "2023.5.7", "2023/5", "同月7日", "15月7", "7天", "九天", "每日", "5月龄", "$2023$年", "1$2023年",
    "2023", "２０２３年", "| 年份（年） | 2023 |\n| --- | --- |\n| 2023 | 5 |", "十五月", "一号线", "2022—2023年",
    "1998-2023年5月", "没有时间", "三号", "2020-2023年", "20.20年", "2023年5～7月", "05月07日", "5 月 7 日", "2023 年",
)  # fmt: skip


@pytest.mark.parametrize("asked", TIMES)
def test_what_is_seen_of_a_time_is_what_its_figures_say(asked: str) -> None:
    days = [figure for figure in figures(asked) if isinstance(figure, Day)]
    assert days
    for day in days:
        for one in TOLD:
            for other in ("", *TOLD):
                text = f"{one}，{other}。"
                whole = Passage(1, "d", "年报", "c", text)
                evidence = Evidence.of((text,), ("年报",))
                dated = _Dated.of("年报", (whole,))
                assert dated.has(day) == has_day(day, evidence), (asked, text)
                assert dated.names_years == bool(evidence.years), text


@pytest.mark.parametrize("asked", TIMES)
def test_what_is_seen_in_two_lines_is_what_their_figures_say(asked: str) -> None:
    day = next(figure for figure in figures(asked) if isinstance(figure, Day))
    for before in map(folded_text, ("", *TOLD)):
        for folded in map(folded_text, TOLD):
            said = _may_name_year(day, (before, folded)) and has_day(day, Evidence.of((before, folded)))
            assert _is_here(day, before, folded) == said, (asked, before, folded)
