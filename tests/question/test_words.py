"""The word lists of questions: every name that the code uses is there, and none is there for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import qianxun
from qianxun.question.question import read
from qianxun.question.words import entries, lay_words
from qianxun.text.chinese import fold

SOURCE = Path(qianxun.__file__).parent
USED = re.compile(r'"([a-z_]+(?:\.[a-z_]+)+)"')
# By names that are put together: f"everyday.{idea}.cue"
COMPOSED = re.compile(
    r"everyday\..*|(?:where|when)\.(?:table|column)|label\.(?:units|question)\..*|superlative\.(?:top|ordinal)|table_type\..*|relation\..*"
)
MAPPINGS = {"label.words", "label.full", "label.forbidden", "superlative.about", "bound.unit_column"}
MAPPINGS |= {"follow_up.types", "graph.asked_for", "label.same_unit", "spoken.standard"}


def _names(value: Any, path: str = "") -> Iterator[str]:
    if path in MAPPINGS or not isinstance(value, dict):
        yield path
    else:
        for key, inner in value.items():
            yield from _names(inner, f"{path}.{key}" if path else key)


def test_every_list_is_used_and_every_used_list_is_there() -> None:
    listed = set(_names(entries("")))
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")).replace("'", '"')
    used = set(USED.findall(code))
    assert [name for name in listed if name not in used and not COMPOSED.fullmatch(name)] == []
    sections = {name.partition(".")[0] for name in listed}
    cues = set(re.findall(r'\b(?:cue|listed|joined|entries|free|_free|_names)\("([a-z_.]+)"', code))
    assert [name for name in cues if name.partition(".")[0] in sections and name not in listed | sections] == []


def test_a_list_may_be_of_one_use_alone() -> None:
    """分别 makes sentences of both sides an answer, but is no comparison that a model should analyse."""
    question = read("年假和产假分别有多少天")
    assert question.kind != "comparison"
    assert question.for_evidence().kind == "comparison"
    assert [subject.name for subject in question.subjects] == ["年假", "产假"]
    assert read("年假和产假分别有多少天") is question


# ── everyday words ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("everyday", "written"),
    [
        ("谁出钱", "承担"),
        ("拍片", "x线"),  # in the form in which lines are compared
    ],
)
def test_what_people_say_is_known_as_documents_write_it(everyday: str, written: str) -> None:
    assert written in lay_words()[everyday]


def test_everyday_words_are_in_the_form_in_which_they_are_compared() -> None:
    words = {word for everyday, written in lay_words().items() for word in (everyday, *written)}
    assert [word for word in words if fold(word) != word] == []


def test_no_everyday_word_is_there_for_nothing() -> None:
    assert [everyday for everyday, written in lay_words().items() if not set(written) - {everyday}] == []
