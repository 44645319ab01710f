"""Questions to a service: their attachments read here and sent along, their answers heard whole or as they come."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from qianxun.core.answer_types import AnswerEvent, Done, Failed
from qianxun.core.codec.options import ask_body
from qianxun.core.codec.sse import Event, Events, EventTooLarge
from qianxun.core.codec.wire import read_event
from qianxun.core.errors import BadInput, BadQuery, ServiceUnavailable, Unreadable, UnsupportedFile, error_named
from qianxun.core.limits import IMAGE_BYTES_LIMIT
from qianxun.core.options import AskChoices
from qianxun.doors.client.connection import Connection, Request, message_and_hint
from qianxun.doors.client.payloads import traced
from qianxun.engine.local_files import decode, read_bounded

LARGEST_EVENT: Final = 64 << 20  # the last one holds the whole answer with its sources
TEXT_TABLES: Final = frozenset((".csv", ".tsv", ".md", ".markdown", ".txt", ".html", ".htm", ".json"))


async def ask_request(
    knowledge_base: int, question: str, choices: AskChoices, trace_id: str, *, stream: bool = False
) -> Request:
    """The request. What stands in files of this machine is sent along: the service reads none of its own."""
    content = [await asyncio.to_thread(_sent, item) for item in choices.get("multimodal_content", ())]
    body = ask_body(question, {**choices, "multimodal_content": content}, stream=stream)
    path, mistake = f"v1/query/{knowledge_base}", BadQuery.word
    headers = traced(trace_id)
    return Request("POST", path, body, headers=headers, repeatable=True, takes_long=True, mistake=mistake)


async def answer_events(connection: Connection, request: Request) -> AsyncGenerator[AnswerEvent, None]:
    """The events of an answer; the last is `Done` or `Failed`. Raises where the service fails, or breaks off."""
    events = Events(LARGEST_EVENT)
    async with aclosing(connection.stream(request)) as pieces:
        async for piece in pieces:
            for event in _read(events, piece, connection.url):
                yield event
                if isinstance(event, Done | Failed):
                    return
    raise ServiceUnavailable(f"服务 {connection.url} 的回答到一半断了", hint="再问一次；看看它的日志与前面的代理")


def _read(events: Events, piece: bytes, url: str) -> list[AnswerEvent]:
    try:
        read = [_event(event) for event in events.feed(piece)]
    except (KeyError, TypeError, ValueError, AttributeError, EventTooLarge) as error:
        raise ServiceUnavailable(
            f"看不懂服务 {url} 的回答（{type(error).__name__}：{error}）", hint="两边的版本要一致"
        ) from error
    return [event for event in read if event is not None]


def _event(event: Event) -> AnswerEvent | None:
    data = json.loads(event.data)
    if event.name == "error" and data["answer"] is None:
        message, hint = message_and_hint(data)
        raise error_named(data["error"], message, hint=hint)
    return read_event(event.name, data)


def _sent(item: Mapping[str, Any]) -> dict[str, Any]:
    """An attachment with the content of its file in place of its path. Raises Refused."""
    if not isinstance(item, Mapping):
        raise BadInput("multimodal_content 的每一项应是键值对", hint='例如 {"type": "image", "img_path": "片子.png"}')
    rest = dict(item)
    if path := rest.pop("img_path", None):
        packed = base64.b64encode(read_bounded(Path(path), IMAGE_BYTES_LIMIT, "图片")).decode("ascii")
        return {"image_caption": Path(path).name, **rest, "img_base64": packed}
    if path := rest.pop("table_path", None):
        return {"table_caption": Path(path).stem, **rest, "table_data": _table_text(Path(path))}
    return rest


def _table_text(path: Path) -> str:
    if path.suffix.lower() not in TEXT_TABLES:
        raise UnsupportedFile(
            f"{path.name} 不能随问题发给服务：它只收文字写成的表格",
            hint="另存为 CSV 再问；或先用 add 放进知识库，再用 tables 或 ask 问",
        )
    decoded = decode(read_bounded(path, IMAGE_BYTES_LIMIT, "表格"))  # spreadsheets save CSV as GBK
    if decoded is None:
        raise Unreadable(f"{path.name} 不是文字，认不出它的编码", hint="另存为 UTF-8 的 CSV 再问")
    return decoded.text
