"""A conversation by lines, in which every request gets its answer.

The SDK passes over a line that it cannot read, and drops what it works on when no more lines come: the one would keep a
program waiting for ever, the other would answer nothing to who writes all of its questions at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

ENDING_SECONDS: Final = 60.0  # that open requests may take once no more lines come
PARSE_ERROR, INVALID_REQUEST = -32700, -32600  # of JSON-RPC
UNREADABLE: Final = (
    "读不懂这一行：应为一行一个 JSON-RPC 的消息，文字里不能有不成对的代理字符"
    " · One JSON-RPC message to a line, without lone surrogates"
)
CANCELLED: Final = "notifications/cancelled"

Id: TypeAlias = str | int


class Writer(Protocol):
    async def write(self, text: str) -> None: ...
    async def flush(self) -> None: ...


class Conversation:
    """The lines of ``lines`` that can be read, and answers that go to ``out``: a writer itself."""

    def __init__(self, lines: AsyncIterable[str], out: Writer, is_readable: Callable[[str], bool]) -> None:
        self._lines, self._out, self._is_readable = lines, out, is_readable
        self._open: set[Id] = set()  # requests that nobody has answered yet
        self._closed_one = asyncio.Event()

    async def lines(self) -> AsyncIterator[str]:
        """Ends when the last of them has been answered, or has had its time."""
        async for line in self._lines:
            if not line.strip():
                continue
            message = _read(line)
            if not self._is_readable(line):
                await self._refuse(message)
                continue
            self._note(message or {})
            yield line
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                await self._all_answered()

    async def write(self, text: str) -> None:
        await self._out.write(text)
        self._close((_read(text) or {}).get("id"))

    async def flush(self) -> None:
        await self._out.flush()

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == CANCELLED:  # to which no answer is owed any more
            self._close((message.get("params") or {}).get("requestId"))
        elif "method" in message and _is_id(message.get("id")):
            self._open.add(message["id"])

    def _close(self, id: Any) -> None:
        if _is_id(id):
            self._open.discard(id)
            self._closed_one.set()

    async def _all_answered(self) -> None:
        while self._open:
            self._closed_one.clear()
            await self._closed_one.wait()

    async def _refuse(self, message: dict[str, Any] | None) -> None:
        """A line that is none of the protocol; silently where it says itself that it wants no answer."""
        code, id = PARSE_ERROR, None
        if message is not None:
            if "method" in message and "id" not in message:
                return
            code, id = INVALID_REQUEST, message.get("id") if _is_id(message.get("id")) else None
        answer = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": UNREADABLE}}
        await self._out.write(json.dumps(answer, ensure_ascii=False) + "\n")


def _read(line: str) -> dict[str, Any] | None:
    """None for what is no JSON, nothing for what is no object. Ids in messages that the SDK refuses are read, too."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else {}


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)
