"""What a chat completion may ask for, without a service: read, bounded, and refused with the name of the field."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from qianxun.core.answer_types import Answer
from qianxun.core.limits import QUERY_LIMIT
from qianxun.doors.http.field_errors import InvalidField, field_problems
from qianxun.doors.http.openai.chat import ALL_PARTS_LIMIT, PARTS_LIMIT, ChatRequest, finish_reason
from qianxun.text.tokens import COUNTED
from tests.http.questions import QUESTION

WORDS = {"type": "text", "text": QUESTION}


def asked(*contents: Any) -> ChatRequest:
    messages = [{"role": "user", "content": each} for each in contents]
    return ChatRequest.model_validate({"model": "医保", "messages": messages})


def test_a_question_is_measured_without_the_space_around_it() -> None:
    question, _ = asked(" " * QUERY_LIMIT + "长" * QUERY_LIMIT + "\n").question_and_choices()
    assert question == "长" * QUERY_LIMIT


def test_a_question_that_is_too_long_says_what_to_do_with_it() -> None:
    """A part of it would be another question, and nobody would be told that the rest was not read."""
    with pytest.raises(InvalidField, match=r"messages\.1\.content：问题有 2049 个字符.*先放入知识库") as raised:
        asked(QUESTION, "长" * (QUERY_LIMIT + 1)).question_and_choices()
    assert raised.value.field == "messages.1.content"


def test_the_parts_of_all_messages_together_are_bounded() -> None:
    """A hundred thousand of them kept everybody else waiting for seconds."""
    full = ALL_PARTS_LIMIT // PARTS_LIMIT
    question, _ = asked(*[[WORDS] * PARTS_LIMIT] * (full - 1), [WORDS]).question_and_choices()
    assert question == QUESTION
    with pytest.raises(ValidationError) as raised:
        asked(*[[WORDS] * PARTS_LIMIT] * full, [WORDS])
    message, _ = field_problems(raised.value.errors())
    assert message == "messages：所有消息的内容合起来最多 2000 段"


def test_what_a_long_conversation_costs_is_estimated_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr("qianxun.text.tokens._RUN", Counting(read))
    long = asked(*["住院 报销 85%，" * COUNTED] * 10)
    assert sum(read) == 0
    assert long.tokens == pytest.approx(10 * COUNTED * 7, rel=0.01)
    assert sum(read) <= COUNTED


class Counting:
    """A pattern that notes how much it is asked to look at."""

    def __init__(self, read: list[int]) -> None:
        self.read = read
        self.pattern = re.compile(r"[a-zA-Z]+|[0-9]+|\s+")

    def findall(self, text: str) -> list[str]:
        self.read.append(len(text))
        return self.pattern.findall(text)


def test_pictures_go_along_with_the_question() -> None:
    url = "data:image/png;base64,iVBORw0KGgo="
    for written in (url, {"url": url, "detail": "low"}):
        content = [WORDS, {"type": "image_url", "image_url": written}]
        question, options = asked(content).question_and_choices()
        assert question == QUESTION
        assert options["multimodal_content"] == [{"type": "image", "url": url}]


def test_an_answer_that_was_cut_says_so() -> None:
    assert finish_reason(Answer("住院", is_partial=True)) == "length"
    assert finish_reason(Answer("住院")) == "stop"
