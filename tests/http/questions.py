"""A small library that questions are asked of over HTTP, a model that answers them, and a reader of events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from qianxun.core.codec.sse import Event, Events
from tests.http.served import Served, serving
from tests.models.chat_service import Answers, ChatService, Reply, Request, chat_service

QUESTION = "住院费用的报销比例是多少？"
MANUAL = "职工住院费用的报销比例为85%。门诊费用的报销比例为70%。\n\n办理异地就医须先备案，材料为身份证与医保卡。"
ANSWER = "职工住院费用的报销比例为85%[1]。门诊费用的报销比例为70%[1]。"
GRADED = '{"relevant": [1], "enough": true, "missing": ""}'


def writing(reply: str | Reply | Callable[[Request], str | Reply]) -> Answers:
    """Says this where an answer is to be written; to the steps before it, what they want to hear."""

    def answers(request: Request) -> str | Reply:
        if "JSON" in request.messages[0]["content"]:
            return GRADED
        return reply(request) if callable(reply) else reply

    return answers


@dataclass(frozen=True)
class Asking:
    """A base with the manual in it, behind a service whose model is ``chat``."""

    served: Served
    chat: ChatService
    base: int

    @property
    def path(self) -> str:
        return f"/v1/query/{self.base}"

    async def post(self, **body: Any) -> httpx.Response:
        return await self.served.http.post(self.path, json={"query": QUESTION, **body})

    async def events(self, **body: Any) -> list[tuple[str, Any]]:
        """All events of a streamed answer, (name, data)."""
        response = await self.post(stream=True, **body)
        assert response.status_code == 200, response.text
        return read(response.content)

    @asynccontextmanager
    async def listening(self, **body: Any) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """The events as they come; leaving the block hangs up."""
        asked = {"query": QUESTION, "stream": True, **body}
        async with self.served.http.stream("POST", self.path, json=asked) as response:
            assert response.status_code == 200
            yield _as_they_come(response)

    def written(self) -> int:
        """How many answers the model was asked to write."""
        return sum("JSON" not in each.messages[0]["content"] for each in self.chat.requests)


@asynccontextmanager
async def asking(folder: Path, answers: Answers, told: Mapping[str, Any] | None = None) -> AsyncIterator[Asking]:
    with chat_service(answers) as chat:
        async with serving(folder, {**chat.told, **(told or {})}) as served:
            base = await served.base()
            added = await served.add(base, "手册", MANUAL)
            assert added.status_code < 300, added.text
            yield Asking(served, chat, base)


def read(raw: bytes) -> list[tuple[str, Any]]:
    return [_event(each) for each in Events().feed(raw)]


def _event(event: Event) -> tuple[str, Any]:
    return event.name, json.loads(event.data)


async def _as_they_come(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    events = Events()
    async for piece in response.aiter_raw():
        for event in events.feed(piece):
            yield _event(event)
