from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import pytest

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.models.remote.breaker import Breaker, Outage, Paused
from qianxun.models.remote.endpoints import Endpoint
from qianxun.models.remote.http import ModelService
from tests.models.embedding_service import Answer, Exchange, Service, body, serving, status, unheard, well


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Outage), breaker.attempt():
            raise Outage("没有回音")


def succeed(breaker: Breaker) -> None:
    with breaker.attempt():
        pass


def refused(breaker: Breaker) -> Paused:
    with pytest.raises(Paused) as caught, breaker.attempt():
        raise AssertionError("let through")
    return caught.value


def test_outages_in_a_row_open_it_for_the_pause() -> None:
    clock = Clock()
    breaker = Breaker(3, 30.0, clock=clock)
    fail(breaker, 2)
    assert not breaker.is_open
    fail(breaker)
    assert breaker.is_open
    clock.now += 12
    paused = refused(breaker)
    assert (paused.seconds, paused.reason) == (18.0, "没有回音")


def test_an_answer_between_them_starts_the_count_anew() -> None:
    breaker = Breaker(3, 30.0)
    for _ in range(5):
        fail(breaker, 2)
        succeed(breaker)
    assert not breaker.is_open


def test_what_says_nothing_of_the_service_neither_counts_nor_clears() -> None:
    breaker = Breaker(3, 30.0)
    fail(breaker, 2)
    with pytest.raises(KeyError), breaker.attempt():
        raise KeyError("the caller's own trouble")
    assert not breaker.is_open
    fail(breaker)
    assert breaker.is_open


def test_after_the_pause_one_probe_goes_through_and_decides() -> None:
    clock = Clock()
    breaker = Breaker(1, 30.0, clock=clock)
    fail(breaker)
    clock.now += 30
    with breaker.attempt():
        assert refused(breaker).seconds == 0.0  # while it is on its way all others wait
    assert not breaker.is_open
    succeed(breaker)
    fail(breaker)
    clock.now += 30
    fail(breaker)
    assert refused(breaker).seconds == 30.0


def test_a_probe_that_is_given_up_makes_room_for_the_next() -> None:
    clock = Clock()
    breaker = Breaker(1, 30.0, clock=clock)
    fail(breaker)
    clock.now += 30
    with pytest.raises(KeyboardInterrupt), breaker.attempt():
        raise KeyboardInterrupt
    succeed(breaker)
    assert not breaker.is_open


def test_what_set_out_before_does_not_prolong_the_pause() -> None:
    clock = Clock()
    breaker = Breaker(1, 30.0, clock=clock)
    with suppress(Outage), breaker.attempt():
        fail(breaker)  # another, which set out later and failed sooner
        clock.now += 20
        raise Outage("late")
    assert refused(breaker).seconds == 10.0


def test_it_can_be_held_open_and_still_comes_back_by_a_probe() -> None:
    clock = Clock()
    breaker = Breaker(5, 30.0, clock=clock)
    breaker.hold(120.0, "HTTP 429")
    assert (refused(breaker).seconds, refused(breaker).reason) == (120.0, "HTTP 429")
    clock.now += 120
    succeed(breaker)
    assert not breaker.is_open


def test_of_many_threads_at_once_one_is_the_probe() -> None:
    clock = Clock()
    breaker = Breaker(1, 30.0, clock=clock)
    fail(breaker)
    clock.now += 30
    start, done = threading.Barrier(16), threading.Event()
    through: list[int] = []

    def request(number: int) -> None:
        start.wait()
        with suppress(Paused), breaker.attempt():
            through.append(number)
            done.wait(60)

    with ThreadPoolExecutor(16) as pool:
        waiting = [pool.submit(request, number) for number in range(16)]
        for _ in islice(as_completed(waiting), 15):
            assert len(through) <= 1
        done.set()
    assert len(through) == 1


# ── as the client uses it ────────────────────────────────────────────────────────────────────────


@contextmanager
def asking(*answers: Answer, **changes: Any) -> Iterator[tuple[ModelService, Service, Clock]]:
    clock = Clock()
    with serving(*answers) as service:
        settings: dict[str, Any] = {"attempts": 1, "outages": 3, "pause_seconds": 30.0, "api_key": "sk-1234"} | changes
        client = ModelService(Endpoint(service.url, "bge", **settings), sleep=lambda wait: None, clock=clock)
        try:
            yield client, service, clock
        finally:
            client.close()


def ask(client: ModelService) -> bytes:
    return client.post("embeddings", {"input": ["医保"]}, 1 << 20)


def unavailable(client: ModelService) -> str:
    with pytest.raises(ModelUnavailable) as caught:
        ask(client)
    return str(caught.value)


def test_a_service_that_is_down_is_left_alone_until_the_pause_is_over() -> None:
    with asking(status(500), status(502), status(503), well) as (client, service, clock):
        for _ in range(3):
            assert "试了 1 次" in unavailable(client)
        clock.now += 10
        for _ in range(5):
            said = unavailable(client)
            assert "还有 20 秒" in said
            assert "HTTP 503" in said
        assert len(service.asked) == 3
        clock.now += 20
        ask(client)
        ask(client)
        assert len(service.asked) == 5


def test_a_service_that_nobody_answers_for_counts_too() -> None:
    with unheard() as url:
        client = ModelService(Endpoint(url, "bge", attempts=1, outages=2))
        assert "连接失败" in unavailable(client)
        assert "连接失败" in unavailable(client)
        assert "暂停访问到" in unavailable(client)
        client.close()


def test_attempts_end_where_the_breaker_opens() -> None:
    with asking(status(500), attempts=10) as (client, service, _):
        assert "试了 3 次" in unavailable(client)
        assert len(service.asked) == 3


@pytest.mark.parametrize("code", [400, 404, 405, 413, 415, 422])
def test_what_the_caller_did_wrong_is_no_outage(code: int) -> None:
    with asking(status(code), outages=1) as (client, service, _):
        for _ in range(4):
            assert f"HTTP {code}" in unavailable(client)
        assert len(service.asked) == 4


@pytest.mark.parametrize("code", [408, 409, 425, 429])
def test_what_another_attempt_may_mend_is_no_outage(code: int) -> None:
    with asking(status(code), outages=1, attempts=2) as (client, service, _):
        assert "试了 2 次" in unavailable(client)
        assert "试了 2 次" in unavailable(client)
        assert len(service.asked) == 4


def test_rubbish_is_an_answer() -> None:
    with asking(body(b"<html>"), outages=1) as (client, _, _):
        assert ask(client) == b"<html>"
        assert ask(client) == b"<html>"


@pytest.mark.parametrize("code", [401, 402])
def test_a_key_that_is_refused_is_not_offered_again_and_again(code: int) -> None:
    with asking(status(code, b"no such key sk-1234"), well, attempts=4) as (client, service, clock):
        assert f"HTTP {code} no such key ***" in unavailable(client)
        for _ in range(10):
            said = unavailable(client)
            assert f"HTTP {code}" in said
            assert "sk-1234" not in said
        assert len(service.asked) == 1
        clock.now += 30
        ask(client)
        assert len(service.asked) == 2


def test_a_refusal_of_one_request_stops_no_other() -> None:
    with asking(status(403), well) as (client, service, _):
        assert "HTTP 403" in unavailable(client)
        ask(client)
        assert len(service.asked) == 2


def test_a_service_that_asks_for_more_patience_than_there_is_gets_its_peace() -> None:
    with asking(status(429, retry_after="100"), well, attempts=4) as (client, service, clock):
        assert "试了 1 次" in unavailable(client)
        assert "还有 100 秒" in unavailable(client)
        clock.now += 100
        ask(client)
        assert len(service.asked) == 2
    with asking(status(503, retry_after="1e300"), attempts=4) as (client, _, _):
        unavailable(client)
        assert "还有 300 秒" in unavailable(client)


def test_a_probe_that_the_caller_stops_leaves_the_way_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def drip(exchange: Exchange) -> None:
        exchange.send(b" ", content_length="100")
        exchange.service.released.wait(60)

    monkeypatch.setattr("qianxun.models.remote.http.FAIR_SECONDS", 1000.0)  # however long it took until then
    with asking(status(500), drip, well, outages=1) as (client, service, clock):
        unavailable(client)
        clock.now += 30
        with pytest.raises(ModelUnavailable, match="时限"):
            client.post("embeddings", {"input": ["医保"]}, 1 << 20, lambda: len(service.asked) == 2)
        ask(client)


def test_a_service_that_is_too_slow_for_its_callers_again_and_again_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(exchange: Exchange) -> None:
        exchange.service.released.wait(60)

    monkeypatch.setattr("qianxun.models.remote.http.FAIR_SECONDS", 1000.0)
    with asking(silent, outages=2) as (client, service, _):
        for number in (1, 2, 3):  # who allows it no time learns nothing of it
            with pytest.raises(ModelUnavailable, match="时限"):
                client.post("embeddings", {}, 100, lambda number=number: len(service.asked) == number)
        monkeypatch.setattr("qianxun.models.remote.http.FAIR_SECONDS", 0.0)
        for number in (4, 5):
            with pytest.raises(ModelUnavailable, match="时限"):
                client.post("embeddings", {}, 100, lambda number=number: len(service.asked) == number)
        assert "暂停访问到" in unavailable(client)
        assert len(service.asked) == 5


def test_a_reply_that_is_too_long_is_no_outage() -> None:
    with asking(body(b" " * 1000), outages=1) as (client, service, _):
        for _ in range(3):
            with pytest.raises(BadModelReply, match="超过 10 字节"):
                client.post("embeddings", {"input": []}, 10)
        assert len(service.asked) == 3


def test_threads_that_all_fail_leave_a_service_alone_together() -> None:
    with asking(status(500), outages=4) as (client, service, _), ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: unavailable(client), range(200)))
        assert len(said) == 200
        assert 4 <= len(service.asked) <= 4 + 8  # those on their way when the fourth came back


def test_impossible_patience_is_refused() -> None:
    with pytest.raises(BadInput, match="outages"):
        ModelService(Endpoint("http://example.com", "m", outages=0))
