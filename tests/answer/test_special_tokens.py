"""Tokens of a model's template are no part of what it says, unless they are what is spoken of."""

from __future__ import annotations

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.answer.verify.marks import without_special_tokens
from qianxun.testing.scripted import ScriptedChat


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_special_tokens_are_left_out_however_the_reply_is_cut(size: int) -> None:
    text = "<|begin_of_box|>门诊60%<|end_of_box|>，若 a<|b 且 c<d。<｜end▁of▁sentence｜><|im_end|><|endoftext|><|"
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    assert "".join(without_special_tokens(pieces)) == "门诊60%，若 a<|b 且 c<d。<|"


def test_a_token_that_the_sources_speak_of_stays() -> None:
    model = ScriptedChat("每一轮以 <|im_end|> 结束[1]。<|endoftext|>")
    answer = AnswerGenerator(model).generate("一轮怎样结束", ["ChatML 每一轮以 <|im_end|> 结束。"])
    assert answer.answer == "每一轮以 <|im_end|> 结束。[1]"
