"""A request's filters become typed conditions, or are refused by the name of what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.errors import BadFilter
from qianxun.core.filters import (
    CONDITION_LIMIT,
    DEPTH_LIMIT,
    NAME_LIMIT,
    TEXT_LIMIT,
    TEXTS_LIMIT,
    VALUE_LIMIT,
    BadFilterField,
    ChunkKind,
    read_filters,
    written_filters,
)
from qianxun.core.types import EVERYTHING, And, Attributes, Eq, Filter, In, Not, Or, Range, Spelled, matches, predicate
from tests.hypothesis_settings import examples


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, EVERYTHING),
        ({}, EVERYTHING),
        ({"content_type": ["chapter"]}, In("content_type", ("chapter",))),
        ({"content_type": "chapter"}, Eq("content_type", "chapter")),
        ({"tags": []}, In("tags", ())),
        ({"metadata.年份": 2023}, Eq("metadata.年份", 2023)),
        ({"metadata.公开": True}, Eq("metadata.公开", True)),
        ({"metadata.年份": {"ge": 2020, "lt": 2024}}, Range("metadata.年份", ge=2020, lt=2024)),
        ({"metadata.日期": {"gte": "2020-01-01"}}, Range("metadata.日期", ge="2020-01-01")),
        ({"metadata.标题": {"contains": "报销"}}, Spelled("metadata.标题", contains="报销")),
        ({"tags": {"starts": "住", "ends": "院"}}, Spelled("tags", starts="住", ends="院")),
        ({"user_id": "u", "tags": "重要"}, And((Eq("user_id", "u"), Eq("tags", "重要")))),
        ({"or": [{"tags": "a"}, {"not": {"tags": "b"}}]}, Or((Eq("tags", "a"), Not(Eq("tags", "b"))))),
        ({"or": []}, Or(())),
        ({"not": {}}, Not(EVERYTHING)),
    ],
)
def test_what_a_request_writes_is_what_is_asked(written: Any, read: Filter) -> None:
    assert read_filters(written) == read


@pytest.mark.parametrize(
    ("spelled", "values", "passes"),
    [
        (Spelled("tags", starts="住院"), ["住院报销"], True),
        (Spelled("tags", starts="院"), ["住院"], False),
        (Spelled("tags", contains="院"), ["门诊", "住院报销"], True),
        (Spelled("tags", ends="报销"), ["住院报销"], True),
        (Spelled("tags", ends="住院"), ["住院报销"], False),
        (Spelled("tags", starts="门", ends="院"), ["门诊", "住院"], False),  # of one and the same value
        (Spelled("tags", contains="A"), ["a"], False),
        (Spelled("tags"), [""], True),
        (Spelled("tags"), [], False),
        (Spelled("metadata.n"), [1, True, 2.5], False),
        (Spelled("metadata.n", contains="1"), [1], False),
        (Spelled("metadata.n", contains="1"), [1, "21"], True),
    ],
)
def test_what_a_spelling_lets_through(spelled: Spelled, values: list[Any], passes: bool) -> None:
    held = (
        Attributes("d", tags=tuple(values)) if spelled.field == "tags" else Attributes("d", metadata={"n": (*values,)})
    )
    assert matches(spelled, held) is passes


def deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"tags": "x"}
    for _ in range(levels - 1):
        found = {"not": found}
    return found


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ({"chapter": 1}, "filters.chapter"),
        ({"metadata": {"年份": 1}}, "filters.metadata"),
        ({"metadata.": 1}, "filters.metadata."),
        ({"content_type": None}, "filters.content_type"),
        ({"content_type": [["a"]]}, "filters.content_type[0]"),
        ({"content_type": ["a", {"ge": 1}]}, "filters.content_type[1]"),
        ({"metadata.n": {"ge": 1, "between": 2}}, "filters.metadata.n.between"),
        ({"metadata.n": {"ge": 1, "gte": 2}}, "filters.metadata.n.gte"),
        ({"metadata.n": {"ge": True}}, "filters.metadata.n.ge"),
        ({"metadata.n": {"ge": None}}, "filters.metadata.n.ge"),
        ({"metadata.n": {}}, "filters.metadata.n"),
        ({"metadata.n": {"contains": 1}}, "filters.metadata.n.contains"),
        ({"metadata.n": {"contains": None}}, "filters.metadata.n.contains"),
        ({"metadata.n": {"contains": "x", "ge": "a"}}, "filters.metadata.n.ge"),
        ({"metadata.n": {"ends": "x" * (TEXT_LIMIT + 1)}}, "filters.metadata.n.ends"),
        ({"metadata.n": 2**63}, "filters.metadata.n"),
        ({"metadata.n": 10**400}, "filters.metadata.n"),
        ({"metadata.n": float("nan")}, "filters.metadata.n"),
        ({"metadata.n": float("inf")}, "filters.metadata.n"),
        ({"tags": "x" * (TEXT_LIMIT + 1)}, "filters.tags"),
        ({"tags": "\ud800"}, "filters.tags"),
        ({"and": {"tags": "x"}}, "filters.and"),
        ({"or": [{"tags": "x"}, "tags"]}, "filters.or[1]"),
        ({"or": [{"nope": 1}]}, "filters.or[0].nope"),
        ({"not": [{"tags": "x"}]}, "filters.not"),
        ([], "filters"),
        ("content_type = 'x' OR 1=1", "filters"),
        ({"content_type; DROP TABLE": "x"}, "filters.content_type; DROP TABLE"),
        (deep(DEPTH_LIMIT + 1), "filters" + ".not" * DEPTH_LIMIT),
        ({"tags": ["x"] * (VALUE_LIMIT + 1)}, f"filters.tags[{VALUE_LIMIT}]"),
        ({"or": [{"tags": "x"}] * CONDITION_LIMIT}, f"filters.or[{CONDITION_LIMIT - 1}].tags"),
        ({"tags": ["x" * TEXT_LIMIT] * 65}, f"filters.tags[{TEXTS_LIMIT // TEXT_LIMIT}]"),
        ({"or": [{}] * 100_000}, f"filters.or[{CONDITION_LIMIT - 1}]"),
        ({"and": [{"or": [{}] * 60}, {"or": [{}] * 60}]}, "filters.and[1].or[37]"),
    ],
    ids=lambda told: str(told)[:50],
)
def test_what_cannot_be_asked_is_refused_by_name(written: Any, field: str) -> None:
    with pytest.raises(BadFilter) as refused:
        read_filters(written)
    assert isinstance(refused.value, BadFilterField)
    assert refused.value.field == field
    assert refused.value.hint


def test_the_bounds_themselves_pass() -> None:
    read_filters(deep(DEPTH_LIMIT))
    read_filters({"tags": ["x" * TEXT_LIMIT]})
    read_filters({"tags": ["x" * (TEXTS_LIMIT // VALUE_LIMIT)] * VALUE_LIMIT})
    read_filters({"or": [{"tags": "x"}] * (CONDITION_LIMIT - 1)})
    read_filters({"metadata." + "n" * (NAME_LIMIT - len("metadata.")): 2**63 - 1})


@pytest.mark.parametrize("name", ["x" * 100_000, "\ud800", "metadata.\udfff", "metadata." + "n" * NAME_LIMIT])
def test_a_name_that_no_answer_can_hold_is_told_in_one_that_can(name: str) -> None:
    with pytest.raises(BadFilterField) as refused:
        read_filters({name: 1})
    told = json.dumps([refused.value.field, str(refused.value)], ensure_ascii=False).encode("utf-8")
    assert len(told) < 3_000


NAMES = st.sampled_from(["user_id", "content_type", "tags", "metadata.n", "metadata.年份"])
SCALARS = st.one_of(st.sampled_from(["a", "b", "1"]), st.integers(-2, 2), st.booleans(), st.sampled_from([0.5, 1.0]))
ORDERED = st.one_of(st.sampled_from(["a", "b"]), st.integers(-2, 2), st.just(0.5))
RANGES = st.dictionaries(st.sampled_from(["ge", "gt", "le", "lt"]), ORDERED, min_size=1)
SPELLINGS = st.dictionaries(
    st.sampled_from(["starts", "contains", "ends"]), st.sampled_from(["", "a", "b", "1"]), min_size=1
)
CONDITIONS = st.dictionaries(NAMES, st.one_of(SCALARS, st.lists(SCALARS, max_size=3), RANGES, SPELLINGS), max_size=2)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "and": st.lists(inner, max_size=3),
            "or": st.lists(inner, max_size=3),
            "not": inner,
            "tags": SCALARS,
        },
    ),
    max_leaves=6,
)
ATTRIBUTES = st.builds(
    Attributes,
    doc_id=st.just("d"),
    user_id=st.sampled_from(["", "a"]),
    content_type=st.sampled_from(["a", "b"]),
    tags=st.lists(st.sampled_from(["a", "b", "1"]), max_size=2).map(tuple),
    metadata=st.dictionaries(st.sampled_from(["n", "年份"]), SCALARS, max_size=2),
)


def meant(written: dict[str, Any], attributes: Attributes) -> bool:
    """The meaning of the written form, said once more without any type of the engine's."""
    return all(_meant(name, value, attributes) for name, value in written.items())


def _meant(name: str, value: Any, attributes: Attributes) -> bool:
    if name == "and":
        return all(meant(part, attributes) for part in value)
    if name == "or":
        return any(meant(part, attributes) for part in value)
    if name == "not":
        return not meant(value, attributes)
    held = attributes.values(name)
    if isinstance(value, dict):
        is_spelling = bool({"starts", "contains", "ends"} & set(value))
        return any(_spelled(value, each) if is_spelling else _within(value, each) for each in held)
    wanted = value if isinstance(value, list) else [value]
    return any(_same(each, one) for each in held for one in wanted)


def _same(left: Any, right: Any) -> bool:
    """As JSON has it: true is not 1, "1" is not 1, 1.0 is."""
    kinds = [bool if isinstance(each, bool) else str if isinstance(each, str) else float for each in (left, right)]
    return kinds[0] is kinds[1] and left == right


def _spelled(parts: dict[str, str], value: Any) -> bool:
    if not isinstance(value, str):
        return False
    start, end = parts.get("starts", ""), parts.get("ends", "")
    return value[: len(start)] == start and value[len(value) - len(end) :] == end and parts.get("contains", "") in value


def _within(bounds: dict[str, Any], value: Any) -> bool:
    if isinstance(value, bool):
        return False
    holds = {"ge": lambda a, b: a >= b, "gt": lambda a, b: a > b, "le": lambda a, b: a <= b, "lt": lambda a, b: a < b}
    return all(isinstance(value, str) == isinstance(b, str) and holds[op](value, b) for op, b in bounds.items())


@examples(300)
@given(FILTERS, ATTRIBUTES)
def test_a_filter_lets_through_what_it_says(written: dict[str, Any], attributes: Attributes) -> None:
    where = read_filters(written)
    assert predicate(where)(attributes) == matches(where, attributes) == meant(written, attributes)


@pytest.mark.parametrize(
    "where", [EVERYTHING, Eq("kind", "table"), Eq("kind", "text"), Eq("kind", 1), Eq("doc_id", "d")]
)
@pytest.mark.parametrize("kind", ["text", "table"])
def test_a_filter_for_many_chunks_means_the_same(where: Filter, kind: ChunkKind) -> None:
    attributes = Attributes("d", kind=kind)
    assert predicate(where)(attributes) is matches(where, attributes)


@examples(300)
@given(FILTERS, ATTRIBUTES)
def test_a_filter_written_again_means_the_same(written: dict[str, Any], attributes: Attributes) -> None:
    read = read_filters(written)
    again = read_filters(json.loads(json.dumps(written_filters(read))))
    assert matches(again, attributes) == matches(read, attributes)


def test_a_filter_at_its_deepest_can_be_written_again() -> None:
    inner: dict[str, Any] = {"tags": "a", "user_id": "u"}
    for _ in range(DEPTH_LIMIT - 1):
        inner = {"or": [inner], "content_type": "c"}
    assert read_filters(written_filters(read_filters(inner))) == read_filters(inner)
