"""Rows of tables and items of lists rest on what their table or list cites; what that does not bear out goes."""

from __future__ import annotations

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Answer, Done, SentenceCited, Token
from qianxun.testing.scripted import ScriptedStreamingChat

CONTEXT = (
    {"text": "门诊报销比例为60%，住院报销比例为85%。急诊报销比例为70%。", "doc_name": "手册"},
    {"text": "研发部预算为500万元，人员12人；市场部预算为300万元，人员8人。", "doc_name": "预算"},
)
HEAD = "| 类别 | 比例 |\n| --- | --- |\n"
ROWS = "| 门诊 | 60% |\n| 住院 | 85% |"
CITED_ROWS = "| 门诊 | 60%[1] |\n| 住院 | 85%[1] |"


def answered(reply: str) -> Answer:
    return AnswerGenerator(ScriptedStreamingChat(reply)).generate("报销比例是多少", CONTEXT)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (f"比例如下[1]：\n\n{HEAD}{ROWS}", f"比例如下：[1]\n\n{HEAD}{CITED_ROWS}"),
        (f"| 类别 | 比例[1] |\n|---|---|\n{ROWS}", f"| 类别 | 比例[1] |\n|---|---|\n{CITED_ROWS}"),
        (f"{HEAD}| 门诊 | 60% |\n| 住院 | 85%[1] |", f"{HEAD}{CITED_ROWS}"),
        (f"{HEAD}{ROWS}\n\n以上见手册[1]。", f"{HEAD}{CITED_ROWS}\n\n以上见手册。[1]"),
        (f"{HEAD}{ROWS}\n数据来源：[1]", f"{HEAD}{CITED_ROWS}\n数据来源：[1]"),
    ],
)
def test_a_row_rests_on_what_its_table_cites_wherever_that_is_said(reply: str, expected: str) -> None:
    answer = answered(reply)
    assert answer.answer == expected
    assert answer.flags == ()
    assert [each.doc_name for each in answer.sources] == ["手册"]


def test_a_row_that_the_tables_sources_do_not_have_is_left_out() -> None:
    answer = answered(f"## 比例\n\n**比例如下[1]：**\n\n{HEAD}| 门诊 | 60% |\n| 急诊70% | 75% |\n\n以上。")
    assert answer.answer == f"## 比例\n\n**比例如下：**[1]\n\n{HEAD}| 门诊 | 60%[1] |\n\n以上。"
    assert [(each.kind, each.reason) for each in answer.flags[:1]] == [("unsupported_number", "所引资料中没有 75%")]


def test_a_figure_of_another_row_is_left_out() -> None:
    answer = answered(f"比例如下[1]：\n\n{HEAD}| 门诊 | 60% |\n| 急诊 | 85% |")
    assert answer.answer.endswith("| 门诊 | 60%[1] |")


def test_a_row_that_cites_another_passage_than_the_one_that_has_it_is_flagged() -> None:
    answer = answered(f"{HEAD}| 门诊 | 60%[2] |\n| 住院 | 85%[1] |")
    assert answer.answer == f"{HEAD}| 门诊 | 60%[1] |\n| 住院 | 85%[2] |"
    assert [each.reason for each in answer.flags] == ["60% 不在所引的资料中，在另一段资料中"]


def test_of_a_table_without_a_row_that_may_stay_nothing_stays() -> None:
    answer = answered(f"住院报销85%[1]。\n\n{HEAD}| 门诊 | 61% |\n| 急诊 | 75% |\n\n完。")
    assert answer.answer == "住院报销85%。[1]\n\n完。"
    assert next(each.text for each in answer.flags if each.kind == "dropped") == "| 类别 | 比例"


def test_units_stand_above_a_column_and_numbers_may_count_the_rows() -> None:
    head = "| 序号 | 部门 | 预算（万元） | 人数（人） |\n|---|---|---|---|\n"
    table = f"{head}| 1 | 研发部 | 500 | 12 |\n| 2 | 市场部 | {{}} | 8 |"
    answer = answered(f"见下表[2]：\n{table.format(300)}")
    assert answer.answer.endswith("| 1 | 研发部 | 500 | 12[1] |\n| 2 | 市场部 | 300 | 8[1] |")
    assert answered(f"见下表[2]：\n{table.format(301)}").answer.endswith("| 1 | 研发部 | 500 | 12[1] |")
    turned = answered("| 项目 | 研发部 | 市场部 |\n|---|---|---|\n| 预算（万元） | 500 | 300 |\n[2]")
    assert turned.answer.endswith("| 预算（万元） | 500 | 300[1] |")
    shares = answered("见下表[1]：\n| 类别 | 比例（%） |\n|---|---|\n| 门诊 | 60 |\n| 住院 | 85 |")
    assert shares.answer.endswith("| 门诊 | 60[1] |\n| 住院 | 85[1] |")


def test_sentences_in_a_cell_are_no_sentences_of_their_own() -> None:
    answer = answered(f"{HEAD}| 门诊 | 报销60%。不限次数。 | [1] |")
    assert answer.answer == f"{HEAD}| 门诊 | 报销60%。不限次数。 |[1] |"


@pytest.mark.parametrize("lead", ["主要包括[1]：", "**主要包括**：[1]", "分为两类[1]。具体如下："])
def test_an_item_rests_on_the_line_that_leads_on_to_its_list(lead: str) -> None:
    answer = answered(f"{lead}\n- 门诊：60%\n  即60%\n- 急诊：75%\n\n1. 住院：85%\n门诊也是61%")
    assert "- 门诊：60%[1]\n  即60%[1]\n" in answer.answer
    assert answer.answer.endswith("1. 住院：85%[1]")
    assert "75%" not in answer.answer


REPLY = (
    f"甲。[2]\n\n比例：\n{HEAD}{ROWS}\n\n {HEAD}| 急诊 | 70%[1] |\n"
    " 以上见[1]。又：[2]\n- 研发部：500万元\n| 完 |\n尾[1]"
)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_stream_shows_a_table_once_it_is_over_and_ends_in_the_same_answer(size: int) -> None:
    whole = answered(REPLY)
    events = list(AnswerGenerator(ScriptedStreamingChat(REPLY, size)).stream("报销比例是多少", CONTEXT))
    assert events[-1] == Done(whole)
    shown = "".join(each.text for each in events if isinstance(each, Token))
    assert "| 住院 | 85%" in shown
    for each in events:
        if isinstance(each, SentenceCited) and each.citation.numbers:
            assert shown[each.citation.end :].startswith(f"[{each.citation.numbers[0]}]")


def test_a_direct_answer_may_have_a_table() -> None:
    answer = AnswerGenerator(ScriptedStreamingChat(f"{HEAD}{ROWS}\n\n完。")).direct("你好")
    assert answer.answer == f"{HEAD}{ROWS}\n\n完。"
