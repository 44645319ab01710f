"""Threads for models: lanes that do not get in each other's way, and end when nobody needs them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait

import pytest

from qianxun.core.errors import ModelUnavailable
from qianxun.models.threads import CONCURRENT_REMOTE_CALLS, Lane, ModelThreads


def held_up(lane: Lane, count: int, until: threading.Event) -> list[Future[object]]:
    """So many calls under way."""
    begun = threading.Semaphore(0)

    def call() -> None:
        begun.release()
        until.wait()

    calls = [lane.submit(call) for _ in range(count)]
    for _ in range(count):
        begun.acquire()
    return calls


def test_a_registered_model_has_a_lane_of_its_own() -> None:
    threads, until = ModelThreads(stuck=2), threading.Event()
    assert threads.lane("chat", "甲/1") is threads.lane("chat", "甲/1")
    calls = held_up(threads.lane("chat", "甲/1"), CONCURRENT_REMOTE_CALLS, until)
    for other in (threads.lane("chat"), threads.lane("chat", "乙/1"), threads.lane("rerank", "甲/1")):
        assert other.submit(lambda: "好").result(timeout=60) == "好"
    for call in calls[:2]:
        call.cancel()
    with pytest.raises(ModelUnavailable):
        threads.lane("chat", "甲/1").submit(lambda: "好")
    assert threads.lane("chat", "乙/1").submit(lambda: "好").result(timeout=60) == "好"
    until.set()
    wait(calls, timeout=60)
    threads.shutdown()


def test_threads_without_work_end_and_come_back_with_it() -> None:
    lane, until = Lane("idle-test", concurrent=4, idle_seconds=0.05), threading.Event()
    calls = held_up(lane, 4, until)
    until.set()
    wait(calls, timeout=60)
    deadline = time.monotonic() + 60
    while any(each.name == "model-idle-test" for each in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [lane.submit(lambda at=at: at).result(timeout=60) for at in range(3)] == [0, 1, 2]
    lane.shutdown()


def test_no_call_is_left_waiting_however_it_meets_a_thread_that_ends() -> None:
    lane = Lane("meeting-test", concurrent=2, idle_seconds=0.001)
    for turn in range(300):
        assert lane.submit(lambda turn=turn: turn).result(timeout=60) == turn
        if turn % 3 == 0:
            time.sleep(0.001)  # about as long as a thread waits for work
    lane.shutdown()
