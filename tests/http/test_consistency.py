"""What was added is found by the next question, and what was deleted by none, whoever else writes and reads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.http.consistency import Ledger, Siege
from tests.http.served import serving
from tests.sampling import share


def besiege(folder: Path, rounds: int, writers: int, readers: int, *, judged: int = 0, planted: Any = None) -> Ledger:
    async def run() -> Ledger:
        async with serving(folder) as served:
            if planted is not None:
                served.app.add_middleware(planted)
            return await Siege(served.http, await served.base(), rounds, 1, judged=judged).run(writers, readers)

    return asyncio.run(run())


def test_sixteen_at_once_find_what_was_promised(tmp_path: Path) -> None:
    rounds = share(4, 2)
    ledger = besiege(tmp_path, rounds=rounds, writers=8, readers=8, judged=25)
    assert not ledger.broken, "\n".join(ledger.broken)
    assert ledger.writes == 8 * rounds
    assert ledger.questions > 2 * ledger.writes
    assert ledger.by_readers >= 25


# ── the negative controls ────────────────────────────────────────────────────────────────────────


class Forgetful:
    """Keeps the answers to questions and gives them again, whatever has happened since."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.kept: dict[bytes, list[Message]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith("/v1/retrieval/"):
            return await self.app(scope, receive, send)
        asked = await receive()
        answer = self.kept.get(asked["body"])
        if answer is None:
            answer = await _answered(self.app, scope, asked)
            self.kept[asked["body"]] = answer
        for message in answer:
            await send(message)


class Hasty:
    """Says that a document is gone, and then deletes it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.later: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "DELETE":
            return await self.app(scope, receive, send)
        self.later.add(asyncio.create_task(self._delete(scope, await receive())))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def _delete(self, scope: Scope, asked: Message) -> None:
        await asyncio.sleep(100)  # later than any of its questions is answered
        await _answered(self.app, scope, asked)


async def _answered(app: ASGIApp, scope: Scope, asked: Message) -> list[Message]:
    messages: list[Message] = []
    coming = [asked]

    async def receive() -> Message:
        if coming:
            return coming.pop()
        return await asyncio.Future[Message]()

    async def send(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, send)
    return messages


@pytest.mark.parametrize(("planted", "words"), [(Forgetful, ""), (Hasty, "was deleted, and what is found is {")])
def test_a_service_that_breaks_its_promise_is_caught(tmp_path: Path, planted: Any, words: str) -> None:
    broken = besiege(tmp_path, rounds=8, writers=2, readers=2, planted=planted).broken
    assert any(words in each for each in broken), broken
