"""Figures are read by patterns; which of them a text can match at all is seen from its signs."""

from __future__ import annotations

import random

import pytest

from qianxun.text import figures as reading
from qianxun.text.figures import Clock, Code, Day, Number, Share, figures, placed, prepared

SIGNS = list("零一二两三五九十百千万亿0159.,:/-~年月日号点时分半成季度第每%‰qivxab个元型期级小天周 ")


def test_no_pattern_is_left_out_that_would_have_found_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(5)
    texts = [prepared("".join(drawn.choices(SIGNS, k=drawn.choice([2, 3, 5, 9])))) for _ in range(3_000)]
    by_signs = [placed(text) for text in texts]
    monkeypatch.setattr(reading, "_READERS", [(pattern, reader, "") for pattern, reader, _ in reading._READERS])
    assert by_signs == [placed(text) for text in texts]
    assert {type(one.figure) for found in by_signs for one in found} == {Number, Share, Day, Code, Clock}


def test_what_a_caller_does_to_the_figures_of_a_text_is_not_remembered() -> None:
    figures("住院报销85%，门诊60%").clear()
    assert [figure.written for figure in figures("住院报销85%，门诊60%")] == ["85%", "60%"]
