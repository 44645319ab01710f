from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.models.remote.embedding import RemoteEmbedding
from qianxun.models.remote.endpoints import RemoteEndpoint
from tests.models.embedding_service import (
    DIMENSION,
    Answer,
    Exchange,
    Service,
    body,
    expected,
    reply,
    serving,
    status,
    unheard,
    well,
    with_rows,
)

TEXTS = ["住院报销比例", "门诊起付线", "异地就医备案", "药品目录", "ＡＢＣ１２３"]
KEY = "sk-绝密".encode("unicode_escape").decode() + "0123456789"


@contextmanager
def remote(*answers: Answer, **changes: Any) -> Iterator[tuple[RemoteEmbedding, Service, list[float]]]:
    """A model over a scripted service, and the waits that it asked for instead of sleeping."""
    waits: list[float] = []
    with serving(*answers) as service:
        endpoint = RemoteEndpoint(base_url=service.url, model="bge", dimension=DIMENSION, api_key=KEY)
        model = RemoteEmbedding(replace(endpoint, **changes), sleep=waits.append)
        try:
            yield model, service, waits
        finally:
            model.close()


def test_a_good_service_gives_unit_rows_in_order_over_several_batches() -> None:
    with remote(well, batch_size=2) as (model, service, waits):
        vectors = model.embed_passages(TEXTS)
        assert vectors == pytest.approx(expected(TEXTS), abs=1e-6)
        assert vectors.dtype == np.float32
        assert [len(asked["input"]) for asked in service.asked] == [2, 2, 1]
        assert {asked["path"] for asked in service.asked} == {"/v1/embeddings"}
        assert service.headers[0]["authorization"] == f"Bearer {KEY}"
        assert waits == []


def test_queries_and_passages_get_their_own_prefix() -> None:
    with remote(well, query_prefix="查询：", passage_prefix="段落：", ask_dimension=True) as (model, service, _):
        model.embed_query("医保")
        model.embed_passages(["医保"])
        assert [asked["input"] for asked in service.asked] == [["查询：医保"], ["段落：医保"]]
        assert service.asked[0]["dimensions"] == DIMENSION


def test_no_texts_ask_nothing_and_odd_texts_are_asked_in_a_form_that_services_take() -> None:
    with remote(well) as (model, service, _):
        assert model.embed_passages([]).shape == (0, DIMENSION)
        assert service.asked == []
        assert model.embed_passages(["", "甲\ud800"]).shape == (2, DIMENSION)
        assert service.asked[0]["input"] == [" ", "甲\ufffd\ufffd\ufffd"]


def test_rows_are_put_in_the_order_of_their_index() -> None:
    def reordered(exchange: Exchange) -> None:
        exchange.send(reply(exchange.rows(), order=[3, 0, 4, 2, 1]))

    with remote(reordered) as (model, _, _):
        assert model.embed_passages(TEXTS) == pytest.approx(expected(TEXTS), abs=1e-6)


def test_server_errors_are_tried_again_with_growing_seeded_waits() -> None:
    with remote(status(500), status(502), status(503), well, backoff_seconds=1.0) as (model, service, waits):
        assert model.embed_query("医保") == pytest.approx(expected(["医保"])[0], abs=1e-6)
        assert len(service.asked) == 4
    assert all(half <= wait <= 2 * half for wait, half in zip(waits, (0.5, 1.0, 2.0), strict=True))
    with remote(status(500), status(502), status(503), well, backoff_seconds=1.0) as (model, _, again):
        model.embed_query("医保")
    assert again == waits


def test_errors_without_end_become_unavailable() -> None:
    with remote(status(500, b"out of memory"), attempts=3) as (model, service, waits):
        with pytest.raises(ModelUnavailable, match=r"试了 3 次.*HTTP 500 out of memory"):
            model.embed_passages(TEXTS)
        assert (len(service.asked), len(waits)) == (3, 2)


def test_retry_after_is_honoured_in_seconds_and_as_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    with remote(status(429, retry_after="7"), status(429, retry_after=later), well) as (model, _, waits):
        model.embed_query("医保")
    assert waits[0] == 7.0
    assert 0 < waits[1] <= 20


def test_a_retry_after_beyond_the_bound_gives_up_at_once() -> None:
    with remote(status(429, retry_after="3600"), well) as (model, service, waits):
        with pytest.raises(ModelUnavailable, match="HTTP 429"):
            model.embed_query("医保")
        assert (len(service.asked), waits) == (1, [])


def test_a_slow_answer_is_a_timeout_and_is_tried_again() -> None:
    waits: list[float] = []

    def slow_at_first(exchange: Exchange) -> None:
        if waits:
            well(exchange)
        else:
            exchange.service.released.wait(60)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        patient = replace(model._service._endpoint, timeout_seconds=60.0)  # a good answer may take a while, too
        model._service._endpoint = patient

    with serving(slow_at_first) as service:
        endpoint = RemoteEndpoint(service.url, "bge", DIMENSION, timeout_seconds=0.3)
        with closing(RemoteEmbedding(endpoint, sleep=wait)) as model:
            assert model.embed_query("医保") == pytest.approx(expected(["医保"])[0], abs=1e-6)
    assert len(waits) == 1


def test_a_body_that_drips_for_ever_meets_the_deadline() -> None:
    def drip(exchange: Exchange) -> None:
        exchange.send(b"", content_length="1000")
        while not exchange.service.released.wait(0.05):
            exchange.wfile.write(b" ")
            exchange.wfile.flush()

    with (
        remote(drip, timeout_seconds=0.4, attempts=1) as (model, _, _),
        pytest.raises(ModelUnavailable, match="超时"),
    ):
        model.embed_query("医保")


def test_a_truncated_body_is_tried_again() -> None:
    def truncated(exchange: Exchange) -> None:
        exchange.send(reply(exchange.rows())[:40], content_length="4000")
        exchange.close_connection = True

    with remote(truncated, well) as (model, service, _):
        assert model.embed_query("医保") == pytest.approx(expected(["医保"])[0], abs=1e-6)
        assert len(service.asked) == 2


def test_nobody_listening_is_unavailable() -> None:
    with unheard() as url:
        model = RemoteEmbedding(RemoteEndpoint(url, "bge", DIMENSION, attempts=2), sleep=lambda wait: None)
        with pytest.raises(ModelUnavailable, match="连接失败"):
            model.embed_query("医保")
        model.close()


BAD_REPLIES = {
    "one row too few": with_rows(lambda rows: rows[1:]),
    "one row too many": with_rows(lambda rows: [*rows, rows[0]]),
    "no rows": with_rows(lambda rows: []),
    "wrong dimension": with_rows(lambda rows: [row[1:] for row in rows]),
    "ragged": with_rows(lambda rows: [rows[0][1:], *rows[1:]]),
    "not a number": with_rows(lambda rows: [[float("nan"), *rows[0][1:]], *rows[1:]]),
    "infinite": with_rows(lambda rows: [[float("inf"), *rows[0][1:]], *rows[1:]]),
    "beyond any float": with_rows(lambda rows: [[10**400, *rows[0][1:]], *rows[1:]]),
    "overflowing when squared": with_rows(lambda rows: [[1e300, *rows[0][1:]], *rows[1:]]),
    "zero vector": with_rows(lambda rows: [[0.0] * DIMENSION, *rows[1:]]),
    "null": with_rows(lambda rows: [[None, *rows[0][1:]], *rows[1:]]),
    "strings": with_rows(lambda rows: [["0.5"] * DIMENSION for _ in rows]),
    "base64 instead of floats": with_rows(lambda rows: ["AACAPw==" for _ in rows]),
    "same index twice": body(reply([[1.0] * DIMENSION] * 5).replace(b'"index": 1', b'"index": 0')),
    "rubbish": body(b"<html>login</html>"),
    "not UTF-8": body(b"\xff\xfe{"),
    "another shape": body(b'{"error": "model is loading"}'),
    "a list": body(b"[]"),
    "nested beyond reason": body(b"[" * 200_000),
}


@pytest.mark.parametrize("answer", BAD_REPLIES.values(), ids=BAD_REPLIES.keys())
def test_a_bad_reply_is_refused_at_once(answer: Answer) -> None:
    with remote(answer) as (model, service, _):
        with pytest.raises(BadModelReply):
            model.embed_passages(TEXTS)
        assert len(service.asked) == 1


def test_a_huge_body_is_cut_off() -> None:
    sent = []

    def huge(exchange: Exchange) -> None:
        exchange.send(b"", content_length=str(1 << 40))
        try:
            while len(sent) < 1000:
                exchange.wfile.write(b" " * (1 << 20))
                sent.append(1)
        except OSError:
            exchange.close_connection = True

    with remote(huge) as (model, _, _), pytest.raises(BadModelReply, match="超过"):
        model.embed_query("医保")
    assert len(sent) < 100


def test_redirects_are_not_followed() -> None:
    with serving(well) as elsewhere:
        with (
            remote(status(307, location=elsewhere.url + "/embeddings")) as (model, _, _),
            pytest.raises(ModelUnavailable, match="重定向"),
        ):
            model.embed_query("医保")
        assert elsewhere.asked == []


def test_the_key_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = status(401, f"bad key {KEY}".encode())
    with remote(echo) as (model, _, _):
        with pytest.raises(ModelUnavailable, match="api_key") as caught:
            model.embed_query("医保")
        shown = "".join(traceback.format_exception(caught.value)) + repr(model) + repr(model._endpoint)
    assert "HTTP 401" in shown
    assert KEY not in shown + caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "file:///etc/passwd"},
        {"base_url": "http://"},
        {"base_url": "http://[::1"},
        {"base_url": "https://user:secret@example.com/v1"},
        {"api_key": "密钥"},
        {"api_key": "sk-1\nx"},
        {"api_key": "sk-1 "},
        {"api_key": " sk-1"},
        {"batch_size": 0},
        {"dimension": 0},
        {"attempts": 0},
    ],
)
def test_impossible_settings_are_refused_without_showing_secrets(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        RemoteEmbedding(replace(RemoteEndpoint("https://example.com/v1", "bge", DIMENSION), **changes))
    assert "secret" not in str(caught.value)
    assert "密钥" not in caught.value.message
