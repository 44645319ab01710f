"""Recall over HTTP: the example of the seed, every choice a request has, and what is refused by name."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from qianxun.core.codec.options import search_body
from qianxun.core.codec.wire import read_recall, written_recall
from qianxun.core.filters import FIELDS
from qianxun.core.options import search_options
from qianxun.core.types import EVERYTHING, Document, Eq, Found, In, Not, Or, Range
from qianxun.doors.http.field_errors import FIELDS_SHOWN
from qianxun.doors.http.native.retrieval import Retrieved
from qianxun.doors.http.request_models import Search
from qianxun.doors.http.response_models import of
from qianxun.engine.settings import Search as SearchSettings
from tests.http.asking import Asking, asking
from tests.http.vendor import vendor
from tests.hypothesis_settings import examples

# As the seed and the contract print them.
REQUEST = """
{"query": "RAG 阈值配置", "retrieval_mode": "hybrid",
 "retrieval_config": {"top_k": 10, "score_threshold": 0.6, "fuzzy": false,
   "hybrid_strategy": {"type": "weighted", "weights": {"vector": 0.7, "keyword": 0.3}, "rerank_model_id": 0}},
 "doc_ids": ["doc_123"], "filters": {"content_type": ["chapter"]}}
"""
RESPONSE = """
{"code": 200, "msg": "success", "data": {"knowledge_base_id": 1001, "doc_ids": ["123"], "time_cost_ms": 45,
  "trace_id": "...", "tier": "strict", "degraded": [],
  "chunks": [{"chunk_id": "c_1001_123_0", "doc_id": "123", "doc_name": "RAG系统设计.pdf", "content": "...",
              "score": 0.85, "source": "hybrid", "highlights": ["..."], "metadata": {}}]}}
"""

GUIDE = "RAG 系统的阈值配置：相似度阈值默认为 0.7，可以在知识库的配置里修改。"
LIBRARY = (
    Document("doc_123", GUIDE, name="RAG系统设计.pdf", content_type="chapter", tags=("设计",), metadata={"年份": 2024}),
    Document("124", "配置指南：关键词检索没有阈值，只看词语。", name="配置指南.md", content_type="chapter"),
    Document("125", "阈值配置的变更记录。", name="变更.md", content_type="note", user_id="u7", metadata={"年份": 2020}),
    Document("126", "住院费用的报销比例为百分之八十五。", name="医保.md", content_type="chapter"),
)


def shape(value: Any) -> Any:
    """The kinds of a JSON value: what an example shows of its form. Every item of a list is as its first."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, float) else type(value).__name__


def agrees(told: Any, example: Any) -> bool:
    """Whether an answer has all that an example's shape has; it may have more."""
    if isinstance(example, dict):
        return isinstance(told, dict) and all(name in told and agrees(told[name], example[name]) for name in example)
    if isinstance(example, list):
        return isinstance(told, list) and all(agrees(each, example[0]) for each in told if example)
    return bool(told == example)


async def asked(at: Asking, base: int, **body: Any) -> dict[str, Any]:
    response = await at.post(f"/v1/retrieval/{base}", {"query": "RAG 阈值配置", **body})
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


def documents(data: dict[str, Any]) -> list[str]:
    return [chunk["doc_id"] for chunk in data["chunks"]]


# ── the example ──────────────────────────────────────────────────────────────────────────────────


def test_the_example_of_the_seed_is_answered_in_its_form(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            response = await at.http.post(
                f"/v1/retrieval/{base}", content=REQUEST.encode(), headers={"content-type": "application/json"}
            )
            told, example = response.json(), json.loads(RESPONSE)
            assert response.status_code == 200
            assert base == 1001
            assert agrees(shape(told), shape(example)), told
            assert list(told) == list(example)
            assert list(told["data"])[: len(example["data"])] == list(example["data"])
            (chunk,) = told["data"]["chunks"]
            assert list(chunk)[:8] == list(example["data"]["chunks"][0])
            assert told["data"]["doc_ids"] == ["doc_123"]
            assert chunk["chunk_id"] == "c_1001_doc_123_0"
            assert (chunk["content"], chunk["source"], chunk["metadata"]) == (GUIDE, "hybrid", {"年份": 2024})
            assert chunk["highlights"]

    asyncio.run(run())


def test_the_form_test_sees_what_is_missing() -> None:
    told = json.loads(RESPONSE)
    example = shape(told)
    del told["data"]["chunks"][0]["source"]
    assert agrees(example, example)
    assert not agrees(shape(told), example)
    assert not agrees(shape({**told, "code": "200"}), example)


def test_the_documentation_names_every_field_of_an_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            data = await asked(at, await at.base(*LIBRARY))
            assert set(data) == set(Retrieved.model_fields)
            assert set(data["chunks"][0]) == set(of(Found).model_fields)
            Retrieved.model_validate(data, strict=True)

    asyncio.run(run())


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_the_documentation_tells_the_bounds(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            document = (await at.http.get("/openapi.json")).json()
            held = document["components"]["schemas"]
            assert references(document) <= {f"#/components/schemas/{name}" for name in held}
            assert held["Filters"]["properties"]["not"] == {"$ref": "#/components/schemas/Filters"}
            assert set(held["Filters"]["properties"]) == {*FIELDS, "and", "or", "not"}
            top_k = held["RetrievalConfig"]["properties"]["top_k"]["anyOf"][0]
            assert top_k == {"type": "integer", "minimum": 1, "maximum": 100}
            threshold = held["RetrievalConfig"]["properties"]["score_threshold"]["anyOf"][0]
            assert threshold == {"type": "number", "minimum": 0, "maximum": 1}
            assert held["Search"]["properties"]["query"]["maxLength"] == 2048
            assert held["Search"]["properties"]["doc_ids"]["anyOf"][0]["maxItems"] == 1000

    asyncio.run(run())


# ── choices ──────────────────────────────────────────────────────────────────────────────────────


def test_a_question_alone_is_enough(tmp_path: Path) -> None:
    """Ten results, no threshold: with 0.6 for all who say nothing a related text would often not be returned."""

    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*(Document(f"d{n}", f"阈值配置的第 {n} 条说明") for n in range(12)))
            data = await asked(at, base)
            assert len(data["chunks"]) == 10
            assert min(chunk["score"] for chunk in data["chunks"]) < 0.6
            nulls = {"retrieval_config": None, "doc_ids": None, "filters": None}
            assert documents(await asked(at, base, **nulls)) == documents(data)
            empty = {"retrieval_config": {"hybrid_strategy": {"weights": {}}}, "doc_ids": [], "filters": {}}
            assert documents(await asked(at, base, **empty)) == documents(data)

    asyncio.run(run())


def test_modes_say_who_found_what(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            for mode, arms in {"vector": {"vector"}, "fulltext": {"keyword"}, "hybrid": {"vector", "keyword"}}.items():
                data = await asked(at, base, retrieval_mode=mode)
                assert data["retrieval_mode"] == mode
                assert set(data["chunks"][0]["arms"]) == arms
                assert data["chunks"][0]["source"] == ("hybrid" if len(arms) > 1 else min(arms))

    asyncio.run(run())


def test_top_k_and_threshold_cut(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            every = await asked(at, base)
            first = await asked(at, base, retrieval_config={"top_k": 1})
            assert documents(first) == documents(every)[:1]
            bound = every["chunks"][1]["score"]
            sure = await asked(at, base, retrieval_config={"score_threshold": bound})
            assert documents(sure) == documents(every)[:2]
            named = await asked(at, base, retrieval_config={"score_threshold": 1.0}, doc_ids=["126", "124"])
            assert named["tier"] == "document"
            assert set(documents(named)) <= {"126", "124"}
            assert documents(named)

    asyncio.run(run())


def test_full_text_looks_at_top_k_alone(tmp_path: Path) -> None:
    """The seed: 全文检索只利用topk."""

    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            plain = await asked(at, base, retrieval_mode="fulltext")
            strategy = {"type": "rerank", "rerank_model_id": 99}
            config = {"score_threshold": 1.0, "hybrid_strategy": strategy}
            loaded = await asked(at, base, retrieval_mode="fulltext", retrieval_config=config)
            assert documents(plain)
            assert loaded["chunks"] == plain["chunks"]
            one = await asked(at, base, retrieval_mode="fulltext", retrieval_config={**config, "top_k": 1})
            assert one["chunks"] == plain["chunks"][:1]

    asyncio.run(run())


def test_weights_and_fusions_take_effect(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)

            async def params(strategy: dict[str, Any]) -> dict[str, Any]:
                await asked(at, base, retrieval_config={"hybrid_strategy": strategy})
                return dict((await at.engine.logs.list(limit=1))[0].params)

            weighted = await params({"type": "weighted", "weights": {"vector": 0.2, "keyword": 0.8}})
            assert (weighted["fusion"], weighted["weights"]) == ("weighted", {"vector": 0.2, "keyword": 0.8})
            assert (await params({"type": "rrf"}))["fusion"] == "rrf"
            assert (await params({"fusion": "min_max"}))["fusion"] == "min_max"
            assert (await params({"weights": {"vector": 0.75}}))["weights"] == {"vector": 0.75, "keyword": 0.25}
            assert (await params({"weights": {"keyword": 1}}))["weights"] == {"vector": 0.0, "keyword": 1.0}
            assert (await params({"type": "weighted"}))["weights"] == {}

    asyncio.run(run())


def test_weighted_and_rrf_do_without_the_reranker_of_the_base(tmp_path: Path) -> None:
    """加权与重排二选一; a request that says nothing takes what its base has chosen."""

    async def run() -> None:
        with vendor() as sold:
            told = {"rerank.base_url": sold.url, "rerank.model": "judge"}
            async with asking(tmp_path, told) as at:
                base = await at.base(*LIBRARY, config={"search": {"rerank": "judge"}})
                for strategy, reranked in (
                    ({"type": "weighted"}, False),
                    ({"type": "rrf"}, False),
                    ({"rerank_model_id": "none"}, False),
                    ({}, True),
                    ({"fusion": "rrf"}, True),
                    ({"type": "rerank", "rerank_model_id": "judge"}, True),
                    ({"rerank_model_id": "judge"}, True),
                ):
                    data = await asked(at, base, retrieval_config={"hybrid_strategy": strategy})
                    held = [chunk["rerank_score"] is not None for chunk in data["chunks"]]
                    assert held, strategy
                    assert all(each is reranked for each in held), strategy

    asyncio.run(run())


def test_filters_narrow(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)

            async def left(filters: dict[str, Any]) -> set[str]:
                return set(documents(await asked(at, base, filters=filters)))

            every = await left({})
            assert {"doc_123", "124", "125"} <= every
            assert await left({"content_type": ["chapter"]}) == every - {"125"}
            assert await left({"metadata.年份": {"ge": 2021}}) == {"doc_123"}
            assert await left({"or": [{"tags": "设计"}, {"user_id": "u7"}]}) == {"doc_123", "125"}
            assert await left({"not": {"content_type": "chapter"}}) == {"125"}
            assert await left({"content_type": []}) == set()
            assert (await asked(at, base, filters={"user_id": "x"}))["tier"] is None

    asyncio.run(run())


def test_the_trace_of_the_request_is_that_of_the_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base, theirs = await at.base(*LIBRARY), "4bf92f3577b34da6a3ce929d0e0e4736"
            for route in ("retrieval", "explain"):
                for headers in ({}, {"traceparent": f"00-{theirs}-00f067aa0ba902b7-01"}):
                    body = {"query": "RAG 阈值配置"}
                    response = await at.http.post(f"/v1/{route}/{base}", json=body, headers=headers)
                    told = response.json()["data"]["trace_id"]
                    assert told == response.headers["x-trace-id"]
                    assert (told == theirs) is bool(headers)

    asyncio.run(run())


def test_reasons_are_told_in_english_to_whoever_prefers_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base()
            for body in ({"query": " "}, {"query": "a", "retrieval_config": {"top_k": "5"}}):
                english = await at.http.post(f"/v1/retrieval/{base}", json=body, headers={"accept-language": "en"})
                chinese = await at.http.post(f"/v1/retrieval/{base}", json=body)
                assert english.json()["fields"][0]["reason"].isascii()
                assert not chinese.json()["fields"][0]["reason"].isascii()

    asyncio.run(run())


# ── refused ──────────────────────────────────────────────────────────────────────────────────────

STRATEGY = "retrieval_config.hybrid_strategy"


def strategy(**told: Any) -> dict[str, Any]:
    return {"retrieval_config": {"hybrid_strategy": told}}


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"query": ""}, "query"),
    ({"query": " 　\n"}, "query"),
    ({"query": "问" * 2049}, "query"),
    ({"query": None}, "query"),
    ({"query": 7}, "query"),
    ({"query": ["RAG"]}, "query"),
    ({"retrieval_mode": "semantic"}, "retrieval_mode"),
    ({"retrieval_config": []}, "retrieval_config"),
    ({"retrieval_config": {"top_k": 0}}, "retrieval_config.top_k"),
    ({"retrieval_config": {"top_k": 101}}, "retrieval_config.top_k"),
    ({"retrieval_config": {"top_k": 10**30}}, "retrieval_config.top_k"),
    ({"retrieval_config": {"top_k": 2.5}}, "retrieval_config.top_k"),
    ({"retrieval_config": {"top_k": "5"}}, "retrieval_config.top_k"),
    ({"retrieval_config": {"top_k": True}}, "retrieval_config.top_k"),
    ({"retrieval_config": {"topk": 5}}, "retrieval_config.topk"),
    ({"retrieval_config": {"score_threshold": -0.1}}, "retrieval_config.score_threshold"),
    ({"retrieval_config": {"score_threshold": 1.01}}, "retrieval_config.score_threshold"),
    ({"retrieval_config": {"score_threshold": "high"}}, "retrieval_config.score_threshold"),
    ({"retrieval_config": {"fuzzy": "perhaps"}}, "retrieval_config.fuzzy"),
    ({"retrieval_config": {"fuzzy": 1}}, "retrieval_config.fuzzy"),
    (strategy(type="bm25"), f"{STRATEGY}.type"),
    (strategy(rerank_model_id=True), f"{STRATEGY}.rerank_model_id"),
    (strategy(rerank_model_id=1.5), f"{STRATEGY}.rerank_model_id"),
    (strategy(rerank_model_id=["maxsim"]), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank"), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank", rerank_model_id=0), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank", rerank_model_id=None), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank", rerank_model_id=""), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank", rerank_model_id="none"), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank", rerank_model_id=-1), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank", rerank_model_id=2**63), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank", rerank_model_id=str(2**63)), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="rerank", rerank_model_id="9" * 5000), f"{STRATEGY}.rerank_model_id"),
    (strategy(type="weighted", fusion="rrf"), f"{STRATEGY}.fusion"),
    (strategy(weights={"vector": -1}), f"{STRATEGY}.weights.vector"),
    (strategy(weights={"vector": 0, "keyword": 0}), f"{STRATEGY}.weights"),
    (strategy(weights={"vector": 7}), f"{STRATEGY}.weights.keyword"),
    (strategy(weights={"qa": 1}), f"{STRATEGY}.weights.qa"),
    ({"doc_ids": "doc_123"}, "doc_ids"),
    ({"doc_ids": ["d"] * 1001}, "doc_ids"),
    ({"doc_ids": ["d" * 256]}, "doc_ids.0"),
    ({"doc_ids": [""]}, "doc_ids.0"),
    ({"doc_ids": [7]}, "doc_ids.0"),
    ({"filters": ["chapter"]}, "filters"),
    ({"filters": {"chapter": 1}}, "filters.chapter"),
    ({"filters": {"or": [{"tags": None}]}}, "filters.or[0].tags"),
    ({"knowledge_base": 3}, "knowledge_base"),
)


def test_what_cannot_be_asked_is_refused_by_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            for body, field in REFUSED:
                response = await at.post(f"/v1/retrieval/{base}", {"query": "RAG", **body})
                told = response.json()
                assert (response.status_code, told["code"], told["data"]) == (422, 422, None), (body, told)
                assert told["error"] == ("bad_filter" if field.startswith("filters.") else "validation")
                assert any(each["field"].startswith(field) for each in told["fields"]), told
                assert all(each["reason"] for each in told["fields"])

    asyncio.run(run())


NO_REQUESTS: tuple[bytes, ...] = (
    b"",
    b"RAG",
    b"[]",
    b"null",
    b'{"query": "RAG"',
    b'{"query": "\\ud800"}',
    b'{"query": "RAG", "retrieval_config": {"score_threshold": NaN}}',
    b'{"query": "RAG", "retrieval_config": {"score_threshold": Infinity}}',
    b'{"query": "RAG", "filters": {"metadata.n": NaN}}',
    b'{"query": "RAG", "filters": {"\\ud800": 1}}',
    b'{"query": "RAG", "doc_ids": ["\\udfff"]}',
    b'{"query": "RAG", "retrieval_config": {"top_k": ' + b"9" * 5000 + b"}}",
    b'{"query": "RAG", "filters": ' + b'{"not": ' * 3000 + b"{}" + b"}" * 3001,
    b'{"query": "\xff"}',
    b"[" * 100_000,
)


def test_a_body_that_is_no_request_is_the_callers_fault(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            path, headers = f"/v1/retrieval/{await at.base()}", {"content-type": "application/json"}
            for raw in NO_REQUESTS:
                response = await at.http.post(path, content=raw, headers=headers)
                assert response.status_code in (400, 422), (raw[:80], response.text)
                assert response.json()["code"] == response.status_code
                assert response.json()["msg"]

    asyncio.run(run())


NUMBERS = {"999": 404, str(2**63 - 1): 404, "0": 404, "-1": 404, str(2**63): 404, "9" * 500: 422, "x": 404}


def test_of_thousands_of_unknown_fields_a_few_are_told() -> None:
    """A million of them are no work: their errors took the event loop for seconds."""
    body = {"query": "住院", **{f"k{i}": 1 for i in range(10_000)}}
    with pytest.raises(ValidationError) as refused:
        Search.model_validate(body)
    assert [error["loc"] for error in refused.value.errors()] == [(f"k{i}",) for i in range(FIELDS_SHOWN)]
    with pytest.raises(ValidationError, match="query"):
        Search.model_validate({**body, "query": 1})


def test_a_base_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            for number, status in NUMBERS.items():
                for route in ("retrieval", "explain"):
                    response = await at.post(f"/v1/{route}/{number}", {"query": "RAG"})
                    assert response.status_code == status, number
                    assert response.json()["error"] == ("not_found" if status == 404 else "validation")

    asyncio.run(run())


def test_odd_questions_are_questions(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            for query in (
                "RAG\x00阈值",
                "😀",
                "，。！",
                "ＲＡＧ　閾值",
                "a' OR 1=1 --",
                "问" * 2048,
                "(((",
                "AND NOT \\",
            ):
                await asked(at, base, query=query)
            response = await at.post(f"/v1/retrieval/{base}", {"query": "@RAG系统设计.pdf"})
            assert (response.status_code, response.json()["error"]) == (422, "bad_query")

    asyncio.run(run())


def test_an_unknown_reranker_is_not_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            for unknown in (77, "77", "user-model:77", "no-such-model", "user-model:x", 2**63 - 1):
                body = {"query": "RAG", **strategy(type="rerank", rerank_model_id=unknown)}
                response = await at.post(f"/v1/retrieval/{base}", body)
                assert (response.status_code, response.json()["error"]) == (404, "not_found"), unknown

    asyncio.run(run())


# ── there and back ───────────────────────────────────────────────────────────────────────────────


def test_a_client_reads_back_what_the_engine_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            recall = await at.engine.retrieve(base, "RAG 阈值配置")
            read = read_recall(json.loads(json.dumps(written_recall(base, recall))))
            keyless = [replace(each, chunk=replace(each.chunk, key=0)) for each in recall.found]
            assert read == replace(recall, results=tuple(keyless))
            assert read.found[0].chunk.attributes.metadata == {"年份": 2024}

    asyncio.run(run())


FILTERS = st.sampled_from(
    [EVERYTHING, Eq("tags", "a"), In("doc_id", ("1", "2")), Or((Range("metadata.n", ge=1), Not(Eq("user_id", "u"))))]
)
OPTIONS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["hybrid", "vector"]),
        "top_k": st.none() | st.integers(1, 100),
        "threshold": st.floats(0, 1),
        "where": FILTERS,
        "doc_ids": st.lists(st.text("ab", min_size=1), max_size=2).map(tuple),
        "fusion": st.none() | st.sampled_from(["weighted", "min_max", "rrf"]),
        "weights": st.none() | st.just({"vector": 0.5, "keyword": 2.0}),
        "rerank": st.none() | st.sampled_from(["", "maxsim", "user-model:17"]),
        "fuzzy": st.none() | st.booleans(),
    }
)


@examples(200)
@given(OPTIONS)
def test_whatever_the_engine_can_be_asked_a_request_can_ask(options: dict[str, Any]) -> None:
    body = json.loads(json.dumps(search_body("问", options)))
    read = Search.model_validate(body).choices()
    assert search_options(SearchSettings(), {}, read) == search_options(SearchSettings(), {}, options)
