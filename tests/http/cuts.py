"""Answers whose model breaks off in the midst, in every way that is known; and what becomes of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.http.questions import ANSWER, Asking
from tests.models.chat_service import PIECE, Reply, Request

PIECES = len(ANSWER) // PIECE  # of the answer: after any of them it may break off
LATEST_SECONDS = 120.0  # a stream that has no end by then hangs
BROKEN: tuple[Callable[[int], Reply], ...] = (
    lambda at: Reply(ANSWER, cut_after=at),  # the connection closes
    lambda at: Reply(ANSWER, is_done=False),  # the stream ends, but never says so
    lambda at: Reply(ANSWER, finish="length"),  # no room for the rest
    lambda at: Reply(ANSWER, hang_after=at),  # silence
    lambda at: Reply(status=500),
    lambda at: Reply(raw=_told("职工住院") * at + b"data: <html>\n\n"),
    lambda at: Reply(raw=_told("职工住院") * at + b'data: {"error": {"message": "overloaded"}}\n\n'),
    lambda at: Reply(raw=_told("职工住院") * at + b'data: {"choices": [{"del'),
)


@dataclass
class Cuts:
    rounds: int = 0
    failed: int = 0  # told as such, with what there was
    without_model: int = 0  # nothing of the model's had been told: the sources' own sentences answered, aloud
    wrong: list[str] = field(default_factory=list)


def cutting(seed: int) -> Callable[[Request], Reply]:
    """What a model says that never comes to its end: each time another way, at another place."""
    random, lock = Random(seed), threading.Lock()

    def answer(request: Request) -> Reply:
        with lock:
            return random.choice(BROKEN)(random.randint(0, PIECES))

    return answer


async def cut(at: Asking, rounds: int, at_once: int = 1) -> Cuts:
    cuts = Cuts()
    turns = asyncio.Semaphore(at_once)

    async def once() -> None:
        async with turns:
            try:
                events = await asyncio.wait_for(at.events(mode="naive"), LATEST_SECONDS)
            except TimeoutError:
                cuts.wrong.append("hung")
            else:
                _judge(cuts, events)
            cuts.rounds += 1

    await asyncio.gather(*(once() for _ in range(rounds)))
    return cuts


def _judge(cuts: Cuts, events: list[tuple[str, Any]]) -> None:
    (name, data), names = events[-1], [name for name, _ in events]
    if name not in ("done", "error") or {"done", "error"} & set(names[:-1]):
        cuts.wrong.append(f"no end, or two: {names}")
    elif name == "error" and (data["answer"] is None or data["answer"]["is_partial"]):
        cuts.failed += 1
    elif name == "done" and data["form"] != "model" and data["degraded"]:
        cuts.without_model += 1
    else:
        cuts.wrong.append(f"told as complete: {data}")


def _told(text: str) -> bytes:
    return b'data: {"choices": [{"delta": {"content": "' + text.encode() + b'"}}]}\n\n'
