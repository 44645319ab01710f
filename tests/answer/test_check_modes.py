"""The check of a model's sentences: strict, flag, off; and what it says of each sentence."""

from __future__ import annotations

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Passage
from qianxun.core.options import CheckMode
from qianxun.testing.scripted import ScriptedStreamingChat as Says

REPLY = "展厅门票为30元[1]。展厅允许携带宠物入内[1]。展厅面积有900平方米[1]。"
PASSAGES = [Passage(1, "d", "展厅须知.md", "c1", "展厅门票为30元。展厅禁止携带宠物入内。")]


def checked(mode: CheckMode) -> tuple[str, list[tuple[str, bool]]]:
    answer = AnswerGenerator(Says(REPLY), check=mode).generate("展厅有什么规定？", PASSAGES)
    return answer.answer, [(one.verdict, one.is_dropped) for one in answer.checks]


def test_strict_drops_what_is_contradicted_or_has_a_figure_found_nowhere() -> None:
    text, verdicts = checked("strict")
    assert text == "展厅门票为30元[1]。" or text == "展厅门票为30元。[1]"
    assert verdicts == [("supported", False), ("contradicted", True), ("not_found", True)]


def test_flag_leaves_every_sentence_and_says_what_is_wrong_with_it() -> None:
    text, verdicts = checked("flag")
    assert "允许携带宠物" in text
    assert "900" in text
    assert verdicts == [("supported", False), ("contradicted", False), ("not_found", False)]


def test_off_checks_nothing() -> None:
    text, verdicts = checked("off")
    assert "900" in text
    assert verdicts == []


def test_a_verdict_comes_with_the_sentence_of_the_source() -> None:
    answer = AnswerGenerator(Says(REPLY)).generate("展厅有什么规定？", PASSAGES)
    assert [one.evidence for one in answer.checks][:2] == ["展厅门票为30元。", "展厅禁止携带宠物入内"]


@pytest.mark.parametrize("mode", ["strict", "flag"])
def test_a_stream_ends_with_the_same_checks(mode: CheckMode) -> None:
    generator = AnswerGenerator(Says(REPLY), check=mode)
    *_, last = generator.stream("展厅有什么规定？", PASSAGES)
    assert last.answer.checks == generator.generate("展厅有什么规定？", PASSAGES).checks  # type: ignore[union-attr]
