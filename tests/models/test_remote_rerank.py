from __future__ import annotations

import math
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.models import RerankEndpoint
from qianxun.models.remote.rerank import RemoteRerank
from tests.models.embedding_service import (
    Answer,
    Exchange,
    Service,
    body,
    overlap,
    ranks_well,
    serving,
    status,
    with_results,
)

KEY = "sk-rerank-0123456789"
QUERY = "住院报销"
PASSAGES = ["机油更换周期", "住院费用的报销比例", "报销", "住", "异地就医备案"]


@contextmanager
def remote(*answers: Answer, **changes: Any) -> Iterator[tuple[RemoteRerank, Service, list[float]]]:
    waits: list[float] = []
    with serving(*answers) as service:
        endpoint = RerankEndpoint(service.url, "bge-reranker", api_key=KEY)
        model = RemoteRerank(replace(endpoint, **changes), sleep=waits.append)
        try:
            yield model, service, waits
        finally:
            model.close()


def shifted(factor: float, offset: float) -> Answer:
    return with_results(
        lambda results: [each | {"relevance_score": each["relevance_score"] * factor + offset} for each in results]
    )


def test_scores_come_back_in_the_order_of_the_passages_over_several_requests() -> None:
    with remote(ranks_well, batch_size=2) as (model, service, waits):
        assert model.score(QUERY, PASSAGES) == [overlap(QUERY, passage) for passage in PASSAGES]
        assert [asked["documents"] for asked in service.asked] == [PASSAGES[:2], PASSAGES[2:4], PASSAGES[4:]]
        first = service.asked[0]
        assert first["path"] == "/v1/rerank"
        assert (first["model"], first["query"], first["top_n"]) == ("bge-reranker", QUERY, 2)
        assert first["return_documents"] is False
        assert service.headers[0]["authorization"] == f"Bearer {KEY}"
        assert (model.name, model.share, waits) == ("bge-reranker", 1.0, [])


def test_logits_go_through_a_sigmoid_all_or_none() -> None:
    with remote(shifted(8, -4), batch_size=2) as (model, _, _):
        logits = [overlap(QUERY, passage) * 8 - 4 for passage in PASSAGES]
        assert model.score(QUERY, PASSAGES) == pytest.approx([1 / (1 + math.exp(-logit)) for logit in logits])
    with remote(ranks_well, scale="logit") as (model, _, _):
        assert model.score(QUERY, ["报销"]) == pytest.approx([1 / (1 + math.exp(-0.5))])
    with remote(shifted(8, -4), scale="unit") as (model, _, _), pytest.raises(BadModelReply, match="scale"):
        model.score(QUERY, PASSAGES)
    with remote(shifted(2e300, -1e300)) as (model, _, _):
        assert set(model.score(QUERY, PASSAGES)) <= {0.0, 0.5, 1.0}


def test_blank_texts_score_zero_and_are_not_sent() -> None:
    with remote(ranks_well) as (model, service, _):
        assert model.score(QUERY, []) == []
        assert model.score(" \n", PASSAGES) == [0.0] * 5
        assert service.asked == []
        assert model.score(QUERY, ["", "住院报销", "\u3000"]) == [0.0, 1.0, 0.0]
        assert service.asked[0]["documents"] == ["住院报销"]
        assert model.score("住\ud800", ["住院"]) == [0.25]


BAD_REPLIES = {
    "one too few": with_results(lambda results: results[1:]),
    "one too many": with_results(lambda results: [*results, results[0] | {"index": 5}]),
    "same index twice": with_results(lambda results: [results[0], *results[:-1]]),
    "index out of range": with_results(lambda results: [results[0] | {"index": 99}, *results[1:]]),
    "negative index": with_results(lambda results: [results[0] | {"index": -1}, *results[1:]]),
    "index no integer": with_results(lambda results: [each | {"index": str(each["index"])} for each in results]),
    "index a truth value": with_results(
        lambda results: [each | {"index": True} if each["index"] == 1 else each for each in results]
    ),
    "not a number": with_results(lambda results: [results[0] | {"relevance_score": math.nan}, *results[1:]]),
    "infinite": with_results(lambda results: [results[0] | {"relevance_score": math.inf}, *results[1:]]),
    "beyond any float": with_results(lambda results: [results[0] | {"relevance_score": 10**400}, *results[1:]]),
    "a string": with_results(lambda results: [results[0] | {"relevance_score": "0.5"}, *results[1:]]),
    "null": with_results(lambda results: [results[0] | {"relevance_score": None}, *results[1:]]),
    "a truth value": with_results(lambda results: [results[0] | {"relevance_score": True}, *results[1:]]),
    "no scores": with_results(lambda results: [{"index": each["index"]} for each in results]),
    "results an object": with_results(lambda results: {"index": 0}),
    "results a number": with_results(lambda results: 7),
    "rubbish": body(b"<html>login</html>"),
    "another shape": body(b'{"error": "loading"}'),
    "a list": body(b"[]"),
    "nested beyond reason": body(b"[" * 200_000),
}


@pytest.mark.parametrize("answer", BAD_REPLIES.values(), ids=BAD_REPLIES.keys())
def test_a_bad_reply_is_refused_at_once(answer: Answer) -> None:
    with remote(answer) as (model, service, _):
        with pytest.raises(BadModelReply):
            model.score(QUERY, PASSAGES)
        assert len(service.asked) == 1


def test_a_service_that_stumbles_is_asked_again() -> None:
    with remote(status(503), status(429, retry_after="3"), ranks_well) as (model, service, waits):
        assert model.score(QUERY, ["报销"]) == [0.5]
        assert (len(service.asked), waits[1]) == (3, 3.0)


def test_stop_ends_the_waiting() -> None:
    with remote(status(429, retry_after="20"), ranks_well) as (model, service, waits):
        with pytest.raises(ModelUnavailable, match="时限"):
            model.score(QUERY, PASSAGES, lambda: len(waits) >= 3)
        assert len(service.asked) == 1
        assert sum(waits) < 1.0
    with remote(ranks_well) as (model, service, _):
        with pytest.raises(ModelUnavailable):
            model.score(QUERY, PASSAGES, lambda: True)
        assert service.asked == []


def test_stop_ends_the_wait_for_a_reply() -> None:
    def silent(exchange: Exchange) -> None:
        exchange.service.released.wait(60)

    with remote(silent, timeout_seconds=60.0) as (model, service, _):
        with pytest.raises(ModelUnavailable, match="时限"):
            model.score(QUERY, PASSAGES, lambda: bool(service.asked))
        assert not service.released.is_set()
        assert len(service.asked) == 1


def test_a_huge_or_dripping_body_is_cut_off() -> None:
    def huge(exchange: Exchange) -> None:
        exchange.send(b"", content_length=str(1 << 40))
        try:
            for _ in range(100):
                exchange.wfile.write(b" " * (1 << 20))
        except OSError:
            exchange.close_connection = True

    def drip(exchange: Exchange) -> None:
        exchange.send(b"", content_length="1000")
        while not exchange.service.released.wait(0.05):
            exchange.wfile.write(b" ")
            exchange.wfile.flush()

    with remote(huge) as (model, _, _), pytest.raises(BadModelReply, match="超过"):
        model.score(QUERY, PASSAGES)
    with (
        remote(drip, timeout_seconds=0.4, attempts=1) as (model, _, _),
        pytest.raises(ModelUnavailable, match="超时"),
    ):
        model.score(QUERY, PASSAGES)


def test_the_key_shows_nowhere() -> None:
    with remote(status(401, f"bad key {KEY}".encode())) as (model, _, _):
        with pytest.raises(ModelUnavailable, match="api_key") as caught:
            model.score(QUERY, PASSAGES)
        shown = "".join(traceback.format_exception(caught.value)) + repr(model) + repr(model._endpoint)
    assert "HTTP 401" in shown
    assert KEY not in shown


@pytest.mark.parametrize(
    "changes", [{"batch_size": 0}, {"attempts": 0}, {"timeout_seconds": 0}, {"base_url": "ftp://x"}]
)
def test_impossible_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        RemoteRerank(replace(RerankEndpoint("https://example.com/v1", "bge"), **changes))
