"""OpenAI's own client searches a knowledge base as a vector store; filters are held against a plain reading of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.filters import BadFilterField
from qianxun.core.types import Attributes, Document, matches
from qianxun.doors.http.openai.vector_stores import read_store_filters
from tests.http.openai_doors import Doors, doors
from tests.hypothesis_settings import examples

QUERY = "住院费用的报销比例是多少？"
METADATA: tuple[Mapping[str, Any], ...] = (
    {"年份": 2023, "地区": "北京", "有效": True},
    {"年份": 2024, "地区": "上海", "有效": False, "科室": ("内科", "外科")},
    {"年份": 2025.5, "地区": "2024", "tags": "元数据里的"},
    {},
)
DOCUMENTS = tuple(
    Document(
        f"d{number}",
        f"第{number}号通知：住院费用的报销比例为{80 + number}%。",
        name=f"通知{number}.md",
        user_id="" if number else "u0",
        content_type=("章节", "附录")[number % 2],
        tags=("重要", "旧")[: number % 3],
        metadata=told,
    )
    for number, told in enumerate(METADATA)
)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with doors(tmp_path_factory.mktemp("service")) as made:
        made.base("医保/住院", *DOCUMENTS)
        made.base("别人的", *DOCUMENTS, tenant="乙")
        yield made


def found(at: Doors, **asked: Any) -> list[str]:
    client = at.client()
    return [each.file_id for each in client.vector_stores.search("医保/住院", **{"query": QUERY, **asked})]


# ── filters ──────────────────────────────────────────────────────────────────────────────────────

OWN: Mapping[str, Callable[[Document], Any]] = {
    "doc_id": lambda document: document.id,
    "content_type": lambda document: document.content_type,
    "user_id": lambda document: document.user_id,
    "tags": lambda document: document.tags,
}
ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def _is(held: Any, value: Any) -> bool:
    return isinstance(held, bool) == isinstance(value, bool) and held == value


def _compared(kind: str, held: Any, value: Any) -> bool:
    if isinstance(held, bool) or isinstance(held, str) != isinstance(value, str):
        return False
    return ORDER[kind](held, value)


def passes(document: Document, told: Mapping[str, Any]) -> bool:
    """What OpenAI's documentation says of a filter, on lists of values: one of them suffices."""
    kind = told["type"]
    if kind in ("and", "or"):
        return (all if kind == "and" else any)(passes(document, part) for part in told["filters"])
    key, value = told["key"], told["value"]
    held = OWN[key](document) if key in OWN else document.metadata.get(key.removeprefix("metadata."))
    values = held if isinstance(held, tuple) else () if held is None else (held,)
    if kind in ORDER:
        return any(_compared(kind, each, value) for each in values)
    wanted = value if isinstance(value, list) else [value]
    is_there = any(_is(each, one) for each in values for one in wanted)
    return is_there is (kind in ("eq", "in"))


scalars = st.sampled_from(["北京", "上海", "2024", "重要", "d1", "附录", "内科", "", 2023, 2024, 2025.5, True, False])
keys = st.sampled_from(
    ["年份", "地区", "有效", "科室", "没有的", "tags", "metadata.tags", "doc_id", "content_type", "user_id"]
)
comparisons = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["eq", "ne"]), "key": keys, "value": scalars}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(list(ORDER)),
            "key": keys,
            "value": scalars.filter(lambda each: not isinstance(each, bool)),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["in", "nin"]), "key": keys, "value": st.lists(scalars, max_size=3)}
    ),
)
filters = st.recursive(
    comparisons,
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["and", "or"]), "filters": st.lists(inner, max_size=3)}
    ),
    max_leaves=6,
)


def attributes(document: Document) -> Attributes:
    return Attributes(
        document.id,
        user_id=document.user_id,
        content_type=document.content_type,
        tags=document.tags,
        metadata=document.metadata,
    )


@given(filters)
@examples(100)
def test_a_filter_lets_through_what_it_says(told: Mapping[str, Any]) -> None:
    where = read_store_filters(told)
    for document in DOCUMENTS:
        assert matches(where, attributes(document)) is passes(document, told), document.id


RECENT = {"type": "gte", "key": "年份", "value": 2024}


@pytest.mark.parametrize(
    "told",
    [
        {"type": "eq", "key": "年份", "value": 2024},
        {"type": "ne", "key": "年份", "value": 2024},
        {"type": "gt", "key": "年份", "value": 2023},
        {"type": "in", "key": "地区", "value": ["北京", "上海"]},
        {"type": "nin", "key": "地区", "value": ["北京", "上海"]},
        {"type": "eq", "key": "tags", "value": "重要"},
        {"type": "eq", "key": "metadata.tags", "value": "元数据里的"},
        {
            "type": "or",
            "filters": [
                {"type": "and", "filters": [RECENT, {"type": "eq", "key": "有效", "value": False}]},
                {"type": "eq", "key": "user_id", "value": "u0"},
            ],
        },
        {"type": "or", "filters": []},
    ],
)  # fmt: skip
def test_a_filter_bounds_what_is_found(at: Doors, told: Mapping[str, Any]) -> None:
    assert sorted(found(at, filters=told)) == [each.id for each in DOCUMENTS if passes(each, told)]


def nested(depth: int) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "eq", "key": "年份", "value": 1}
    for _ in range(depth):
        told = {"type": "and", "filters": [told]}
    return told


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ({}, "filters.type"),
        ({"type": "like", "key": "a", "value": 1}, "filters.type"),
        ({"type": "eq", "value": 1}, "filters.key"),
        ({"type": "eq", "key": "a", "value": [1]}, "filters.value"),
        ({"type": "in", "key": "a", "value": 1}, "filters.value"),
        ({"type": "eq", "key": "a", "value": {"gt": 1}}, "filters.value"),
        ({"type": "eq", "key": "a"}, "filters.metadata.a"),
        ({"type": "gt", "key": "a", "value": True}, "filters.metadata.a.gt"),
        ({"type": "and", "filters": {}}, "filters.filters"),
        ({"type": "or", "filters": [3]}, "filters.filters[0]"),
        ({"type": "or", "filters": [{"type": "eq", "key": "a", "value": 1}] * 101}, "filters.or"),
        (nested(8), "filters"),
        (nested(400), "filters"),
    ],
)
def test_a_filter_that_says_nothing_sensible_is_refused_by_its_place(told: Mapping[str, Any], place: str) -> None:
    with pytest.raises(BadFilterField) as raised:
        read_store_filters(told)
    assert raised.value.field.startswith(place)


# ── the search ───────────────────────────────────────────────────────────────────────────────────


def test_a_page_is_as_the_client_types_it(at: Doors) -> None:
    client = at.client()
    page = client.vector_stores.search("医保/住院", query=QUERY, max_num_results=3, rewrite_query=True)
    assert page.object == "vector_store.search_results.page"
    assert page.model_extra == {"search_query": [QUERY], "has_more": False, "next_page": None}
    assert [each.score for each in page.data] == sorted((each.score for each in page.data), reverse=True)
    assert len(page.data) == 3
    held = {each.id: each for each in DOCUMENTS}
    for each in page.data:
        (content,) = each.content
        assert (content.type, content.text, each.filename) == (
            "text",
            held[each.file_id].content,
            held[each.file_id].name,
        )
    told = {each.file_id: each.attributes for each in client_search(at).data}
    assert told["d1"] == {
        "doc_id": "d1", "kind": "text", "content_type": "附录", "tags": "重要",
        "年份": 2024, "地区": "上海", "有效": False, "科室": "内科, 外科",
    }  # fmt: skip
    assert told["d2"] is not None
    assert (told["d2"]["tags"], told["d2"]["metadata.tags"]) == ("重要, 旧", "元数据里的")


def client_search(at: Doors, **asked: Any) -> Any:
    client = at.client()
    return client.vector_stores.search("医保/住院", **{"query": QUERY, **asked})


def test_the_scores_are_those_of_retrieval(at: Doors) -> None:
    client = at.client()
    number = client.models.retrieve("医保/住院").model_extra["knowledge_base_id"]  # type: ignore[index]
    page = client.vector_stores.search(str(number), query=QUERY)
    own = at.plain("POST", f"retrieval/{number}", {"query": QUERY}).json()
    assert [(each.file_id, each.score) for each in page.data] == [
        (each["doc_id"], each["score"]) for each in own["data"]["chunks"]
    ]
    best = page.data[0].score
    kept = found(at, ranking_options={"score_threshold": best, "ranker": "none"})
    assert kept == [each.file_id for each in page.data if each.score >= best]


def test_several_questions_are_searched_together(at: Doors) -> None:
    queries = ["第1号通知", "第3号通知"]
    alone = [{each.file_id: each.score for each in client_search(at, query=query)} for query in queries]
    page = client_search(at, query=queries, max_num_results=2)
    best = {name: max(told.get(name, 0.0) for told in alone) for name in {*alone[0], *alone[1]}}
    expected = sorted(best.values(), reverse=True)[:2]
    assert [each.score for each in page.data] == expected
    assert page.model_extra["search_query"][:1] == queries[:1]
    assert set(queries) <= set(page.model_extra["search_query"])


def test_a_client_that_awaits_searches_too(at: Doors) -> None:
    async def story(client: openai.AsyncOpenAI) -> list[str]:
        return [each.file_id async for each in client.vector_stores.search("医保/住院", query=QUERY)]

    assert sorted(at.awaited(story)) == ["d0", "d1", "d2", "d3"]


def test_errors_are_those_that_the_client_knows(at: Doors) -> None:
    client = at.client()
    for name in ("没有", "别人的", "999999"):
        with pytest.raises(openai.NotFoundError) as missing:
            client.vector_stores.search(name, query=QUERY)
        assert missing.value.code == "not_found"
    wrong: tuple[dict[str, Any], ...] = (
        {"max_num_results": 51},
        {"max_num_results": 0},
        {"query": " "},
        {"query": []},
    )
    wrong += ({"ranking_options": {"score_threshold": 2}}, {"filters": {"type": "like"}})
    for asked in wrong:
        with pytest.raises(openai.BadRequestError) as raised:
            client.vector_stores.search("医保/住院", **{"query": QUERY, **asked})
        assert raised.value.param is not None
        assert raised.value.param.split(".")[0] in asked
    client = at.client(key="qx_wrong")
    with pytest.raises(openai.AuthenticationError):
        client.vector_stores.search("医保/住院", query=QUERY)
