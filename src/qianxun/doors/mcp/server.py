"""The protocol, by its own SDK: the only module that knows it. One server, over stdio or over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import ValidationError

from mcp import MCPError, types
from qianxun.core.errors import QianxunError
from qianxun.core.system.version import installed_version
from qianxun.doors.mcp.catalog import ABOUT, TOOLS, Tool
from qianxun.doors.mcp.collection import Collection
from qianxun.doors.mcp.conversation import Conversation, Writer

log = logging.getLogger(__name__)

ToolServer: TypeAlias = Server[Any]
# Given the HTTP request that a call came with (None over stdio), and whether it is for an answer, which may take as
# long as a language model: what it works on, for as long as it works.
Opened: TypeAlias = Callable[[Any, bool], AbstractAsyncContextManager[Collection]]


def create_server(opened: Opened) -> ToolServer:
    """The tools behind the protocol."""

    offered = [_described(tool) for tool in TOOLS.values()]

    async def listed(_context: Any, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=offered)

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            known = "、".join(TOOLS)
            raise MCPError(types.INVALID_PARAMS, f"没有“{params.name[:80]}”这个工具；有：{known}")
        return await _answer(tool, params.arguments or {}, opened, context.request)

    return Server(
        "qianxun",
        version=installed_version(),
        title="千寻 Qianxun",
        description="中文优先的知识库检索 · Chinese-first recall over knowledge bases",
        instructions=ABOUT,
        get_tool_input_schema=lambda name: TOOLS[name].input() if name in TOOLS else None,
        on_list_tools=listed,
        on_call_tool=called,
    )


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input(),
        output_schema=tool.output,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


async def _answer(tool: Tool, arguments: dict[str, Any], opened: Opened, request: Any) -> types.CallToolResult:
    """As structured content, and the same as JSON text for those who read nothing else."""
    try:
        read = tool.read(arguments)
        async with opened(request, tool.is_answer) as collection:
            answer = await tool.run(collection, **read)
    except QianxunError as error:
        return _failed(str(error))
    except Exception:  # an outer door: answered without detail, which is in the log
        log.exception("unforeseen in tool %s", tool.name)
        return _failed("千寻内部出错　再试一次；还是不行，请管理员看日志")
    text = json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=answer)


def _failed(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────────


async def answer_http(server: ToolServer, scope: Any, receive: Any, send: Any, *, body_bytes: int) -> None:
    """Answers one request, as JSON, and remembers nothing of it. Who may ask was looked into before.

    A request has a session manager of its own: what works for it ends with it, and nothing is to be started or stopped
    with the service.
    """
    sessions = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=body_bytes
    )
    async with sessions.run():
        await sessions.handle_request(scope, receive, send)


# ── over stdio ───────────────────────────────────────────────────────────────────────────────────


async def answer_stdio(server: ToolServer, lines: AsyncIterable[str], out: Writer) -> None:
    """Answers what comes line by line until all of it is answered, or nobody reads the answers."""
    conversation = Conversation(lines, out, _is_message)
    given: Any = conversation.lines(), conversation  # the SDK says that it wants files, and uses no more of them
    try:
        async with stdio_server(*given) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except* BrokenPipeError:
        log.info("nobody reads the answers any more")


def _is_message(line: str) -> bool:
    try:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return False
    return True
