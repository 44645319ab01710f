"""Dify's conditions, as filters, let through what Dify's own words say, told once more without any of our types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.types import EVERYTHING, Attributes, matches
from qianxun.doors.http.dify import MetadataCondition, as_filter
from qianxun.doors.http.field_errors import InvalidField
from tests.hypothesis_settings import examples

NAMES = ("年份", "部门", "tags", "没有")
TEXTS = ("", "a", "ab", "b", "1", "2024", "2024.5", "2024.50", "true", "上海")
VALUES = st.one_of(st.sampled_from(TEXTS), st.sampled_from([1, 2023, 2024, 2024.0, 2024.5, -1]), st.booleans())
HELD = st.one_of(VALUES, st.lists(VALUES, max_size=3))
OPERATORS = (
    "contains", "not contains", "start with", "end with", "is", "is not", "in", "not in", "empty", "not empty",
    "=", "≠", ">", "<", "≥", "≤", "before", "after",
)  # fmt: skip
NUMBERS = st.sampled_from([2023, 2024, 2024.5])
CONDITION = st.sampled_from(OPERATORS).flatmap(
    lambda operator: st.fixed_dictionaries(
        {
            "name": st.one_of(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)),
            "comparison_operator": st.just(operator),
            "value": st.one_of(st.none(), _values(operator)),
        }
    )
)


def _values(operator: str) -> st.SearchStrategy[Any]:
    if operator in ("in", "not in"):
        return st.one_of(st.lists(VALUES, max_size=3), st.just("a, 2024,,上海"), VALUES)
    return st.one_of(st.sampled_from(TEXTS), NUMBERS) if operator in ("<", ">", "≥", "≤", "before", "after") else VALUES


def spelt(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def holds(operator: str, held: list[Any], value: Any) -> bool:
    """Whether a field with these values satisfies the condition."""
    if operator == "empty":
        return all(each == "" for each in held)
    if operator == "not empty":
        return any(each != "" for each in held)
    if operator in ("not contains", "is not", "≠", "not in"):
        opposite = {"not contains": "contains", "is not": "is", "≠": "=", "not in": "in"}[operator]
        if operator == "not in" and not listed(value):
            return True
        return bool(held) and not holds(opposite, held, value)
    return any(_of_one(operator, each, value) for each in held)


def listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else [value]


def _of_one(operator: str, held: Any, value: Any) -> bool:
    if operator in ("is", "="):
        is_number = operator == "=" and not isinstance(held, str | bool)
        return spelt(held) == spelt(value) or (is_number and held in _also(value))
    if operator == "in":
        return any(spelt(held) == spelt(each) for each in listed(value))
    if operator in ("contains", "start with", "end with"):
        if not isinstance(held, str):
            return False
        text = spelt(value)
        return {"contains": text in held, "start with": held.startswith(text), "end with": held.endswith(text)}[
            operator
        ]
    return any(_compared(operator, held, each) for each in (value, *_also(value)))


def _also(value: Any) -> list[Any]:
    return [float(value)] if isinstance(value, str) and value.startswith(("1", "2024")) else []


def _compared(operator: str, held: Any, value: Any) -> bool:
    if isinstance(held, bool) or isinstance(held, str) != isinstance(value, str):
        return False
    if operator in (">", "after"):
        return bool(held > value)
    if operator in ("<", "before"):
        return bool(held < value)
    return bool(held >= value) if operator == "≥" else bool(held <= value)


def meant(told: dict[str, Any], attributes: dict[str, list[Any]]) -> bool:
    said = []
    for each in told["conditions"]:
        operator, value = each["comparison_operator"], each["value"]
        if value is None and operator not in ("empty", "not empty"):
            continue
        names = each["name"] if isinstance(each["name"], list) else [each["name"]]
        answers = [holds(operator, attributes.get(name, []), value) for name in names]
        of_each = operator in ("not contains", "is not", "≠", "not in", "empty")
        said.append(all(answers) if of_each else any(answers))
    if not said:
        return True
    return all(said) if told["logical_operator"] == "and" else any(said)


@examples(100)
@given(
    st.fixed_dictionaries(
        {"logical_operator": st.sampled_from(["and", "or"]), "conditions": st.lists(CONDITION, max_size=3)}
    ),
    st.fixed_dictionaries({"年份": HELD, "部门": HELD}),
    st.lists(st.sampled_from(["a", "ab", "上海"]), max_size=2),
)
def test_conditions_let_through_what_they_say(told: dict[str, Any], metadata: dict[str, Any], tags: list[str]) -> None:
    held = {name: tuple(value) if isinstance(value, list) else value for name, value in metadata.items()}
    several = {name: value if isinstance(value, list) else [value] for name, value in metadata.items()}
    where = as_filter(MetadataCondition.model_validate(told))
    assert matches(where, Attributes("d", tags=tuple(tags), metadata=held)) == meant(told, {**several, "tags": tags})


def kept(name: Any, operator: str, value: Any, *held: Any) -> list[Any]:
    condition = {"name": name, "comparison_operator": operator, "value": value}
    where = as_filter(MetadataCondition.model_validate({"conditions": [condition]}))
    return [each for each in held if matches(where, Attributes("d", metadata={"价": each}))]


def test_a_number_is_measured_however_it_is_written() -> None:
    for written in ("99.90", "+99.9", " 99.9", "９９.9"):
        assert kept("价", "=", written, 99.9, 99, "x") == [99.9]
        assert kept("价", "≠", written, 99.9, 99, "x") == [99, "x"]
        assert kept("价", "<", written, 99.9, 99, 150) == [99]
        assert kept("价", "≥", written, 99.9, 99, 150) == [99.9, 150]
    assert kept("价", "is", "007", 7, "007") == ["007"]  # a name, no measure
    assert kept("价", "after", "2024-05-01", 2025, "2024-06-01") == ["2024-06-01"]


def test_true_is_not_taken_for_one_among_several() -> None:
    assert kept("价", "in", [True, 1], True, 1, 2) == [True, 1]
    assert kept("价", "in", "1,true", True, 1, "true") == [True, 1, "true"]


def test_the_values_of_a_condition_count_for_each_of_its_names() -> None:
    """A thousand values for each of a hundred fields made a filter of megabytes, searched by and written to the log
    as such."""
    names = [f"f{number}" for number in range(100)]
    assert kept(names, "in", [*range(10)], 1) == []
    for several in ([*range(11)], ["长" * 700]):
        with pytest.raises(InvalidField):
            kept(names, "in", several)


def test_no_condition_lets_everything_through() -> None:
    assert as_filter(None) == as_filter(MetadataCondition()) == EVERYTHING
