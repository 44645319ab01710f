"""A passage that a model names in words is cited; a number of documents, or a document's name, is not touched."""

from __future__ import annotations

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.answer.verify.marks import named_marks
from qianxun.testing.scripted import ScriptedChat

CITED = [
    ("每次5mg（资料2）。", "每次5mg[2]。"),
    ("每次5mg（来源：资料 2、资料3）。", "每次5mg[2,3]。"),
    ("每次5mg(编号=2)，早晨服用(见[1])。", "每次5mg[2]，早晨服用[1]。"),
    ("每次5mg（[1][2]）。", "每次5mg[1,2]。"),
    ("每次5mg <资料 编号=2>。", "每次5mg [2]。"),
    ("根据资料2，每次5mg；资料 3建议低盐。", "根据资料[2]，每次5mg；资料[3]建议低盐。"),
    ("如资料1", "如资料[1]"),
    ("每次5mg[资料2]，早晨服用【见资料1】。", "每次5mg[2]，早晨服用[1]。"),
    ("每次5mg[资料1、资料2][资料3]。", "每次5mg[1,2][3]。"),
    ("每次5mg（资料1-3）[资料1到2]。", "每次5mg[1-3][1-2]。"),
    ("根据资料1、2和资料3，每次5mg。", "根据资料[1,2,3]，每次5mg。"),
    ("根据资料1和30名患者的情况", "根据资料[1]和30名患者的情况"),
]
LEFT_ALONE = [
    "须提交资料3份，其中资料2页，资料1 份。",
    "所需资料1、身份证；2、户口本。",
    "设备（编号2）已停用，合同（编号：3）照旧。",
    "[2020] 见[注1]与【通知】。",
    "见《资料2》与资料2.docx。",
    "（资料9）里没有，资料10也没有。",
    "血压（收缩压/舒张压）低于140/90（毫米汞柱）。",
    "[官网]([1])",
    "资料（2023年）",
    "未完（资料",
]


def _said(text: str, size: int) -> str:
    return "".join(named_marks((text[at : at + size] for at in range(0, len(text), size)), {1, 2, 3}))


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(("text", "expected"), [*CITED, *((each, each) for each in LEFT_ALONE)])
def test_what_names_a_given_passage_becomes_a_mark(text: str, expected: str, size: int) -> None:
    assert _said(text, size) == expected


def test_words_are_told_as_soon_as_they_can_be_no_name() -> None:
    pieces = iter(["多饮、", "多尿（资", "料2", "）。"])
    assert list(named_marks(pieces, {2})) == ["多饮、", "多尿", "[2]。"]


def test_a_sentence_that_cites_in_words_is_kept_with_its_source() -> None:
    passages = ({"text": "每日食盐不超过5克。"}, {"text": "氨氯地平每日一次，每次5mg。"})
    model = ScriptedChat("根据资料2，氨氯地平每次5mg。食盐不超过5克（资料1）。")
    answer = AnswerGenerator(model).generate("氨氯地平怎么吃", passages)
    assert answer.answer == "根据资料，氨氯地平每次5mg。[1]食盐不超过5克。[2]"
    assert [each.text for each in answer.sources] == ["氨氯地平每日一次，每次5mg。", "每日食盐不超过5克。"]
    assert answer.flags == ()
