"""Whoever asks by lines is answered: also by a line that nobody can read, and when no more lines come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from qianxun.core.types import KnowledgeBase
from qianxun.doors.mcp import conversation
from qianxun.doors.mcp.collection import Collection
from qianxun.doors.mcp.conversation import Conversation
from qianxun.doors.mcp.server import answer_stdio, create_server

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
CALL = {"name": "list_knowledge_bases", "arguments": {}}


def asked(id: int, method: str, params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\n"


class Told:
    """Where the answers go."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def write(self, text: str) -> None:
        self.messages += map(json.loads, text.splitlines())

    async def flush(self) -> None:
        pass

    def errors(self) -> list[tuple[Any, int]]:
        return [(each["id"], each["error"]["code"]) for each in self.messages if "error" in each]


class Library:
    """One that knows nothing before ``may_answer``."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def knowledge_bases(self) -> tuple[KnowledgeBase, ...]:
        await self.may_answer.wait()
        return ()


async def conversed(*lines: str) -> Told:
    """With the real server, whose library answers only when all lines have been read."""
    library, told = Library(), Told()
    held: Any = library

    @asynccontextmanager
    async def opened(_request: object, _is_answer: bool) -> AsyncIterator[Collection]:
        yield Collection(held)

    async def said() -> AsyncIterator[str]:
        yield asked(1, "initialize", HELLO)
        yield json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n"
        for line in lines:
            yield line
        library.may_answer.set()

    await asyncio.wait_for(answer_stdio(create_server(opened), said(), told), 60)
    return told


def test_what_is_under_way_when_no_more_lines_come_is_answered() -> None:
    told = asyncio.run(conversed(asked(2, "tools/call", CALL), asked(3, "tools/list", {})))
    results = {each["id"]: each["result"] for each in told.messages}
    assert set(results) == {1, 2, 3}
    assert results[2]["structuredContent"] == {"knowledge_bases": [], "total": 0}


def test_a_line_that_nobody_can_read_is_answered_and_the_next_one_too() -> None:
    half = asked(5, "tools/call", {"name": "search", "arguments": {"query": "\ud800"}})
    deep = asked(6, "tools/call", CALL).replace("{}", '{"a":' * 300 + "1" + "}" * 300)
    silent = json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": "\ud800"}}) + "\n"
    told = asyncio.run(conversed("garbage\n", "[]\n", "{}\n", "\n", half, deep, silent, asked(7, "ping", {})))
    assert told.errors() == [(None, -32700), (None, -32600), (None, -32600), (5, -32600), (6, -32600)]
    assert {each["id"] for each in told.messages if "result" in each} == {1, 7}


async def passed_on(*lines: str) -> list[str]:
    """Where nobody ever answers."""

    async def said() -> AsyncIterator[str]:
        for line in lines:
            yield line

    return [line async for line in Conversation(said(), Told(), lambda _: True).lines()]


def test_what_was_taken_back_is_waited_for_no_longer() -> None:
    back = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}) + "\n"
    lines = asked(2, "tools/call", CALL), back
    assert asyncio.run(asyncio.wait_for(passed_on(*lines), conversation.ENDING_SECONDS / 2)) == [*lines]


def test_what_is_never_answered_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "ENDING_SECONDS", 0.0)
    line = asked(1, "ping", {})
    assert asyncio.run(asyncio.wait_for(passed_on(line), 60)) == [line]
