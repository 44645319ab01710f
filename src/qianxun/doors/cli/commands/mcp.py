"""`qianxun mcp`: the tools of the Model Context Protocol over stdin and stdout, for programs that start it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qianxun.doors.cli.i18n import hint
from qianxun.doors.cli.session import Session, find_base, session_of, with_library

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from qianxun.doors.mcp.collection import Collection
    from qianxun.doors.mcp.stdio import Wire

STOPPED_BY = (signal.SIGINT, signal.SIGTERM)


def mcp(
    context: typer.Context,
    kb: Annotated[
        list[str] | None,
        typer.Option("--kb", metavar="NAME", help="只给出这个知识库，可重复；默认全部 · only this base; repeatable"),
    ] = None,
) -> None:
    """供 Claude、Cherry Studio、Cursor 等程序启动的 MCP 服务（stdio） · an MCP server over stdio"""
    from qianxun.doors.mcp import require_driver

    require_driver()
    from qianxun.doors.mcp.stdio import own_wire

    if sys.stdin.isatty():
        hint(
            "在等 MCP 客户端从标准输入说话：这个命令由 Claude、Cursor 之类的程序启动（写法见 docs/connecting.md）。"
            "Ctrl-C 结束。",
            "Waiting for an MCP client on stdin; programs such as Claude or Cursor start this. Ctrl-C ends it.",
        )
    with own_wire() as wire:
        _until_it_ends(session_of(context), kb or [], wire)


def _until_it_ends(session: Session, names: list[str], wire: Wire) -> None:
    with suppress(KeyboardInterrupt):  # that came before the signal handlers: nothing had begun
        with_library(session, lambda library: _until_signalled(_serve(session, library, names, wire)))


async def _until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Ctrl-C and SIGTERM end the work: that is how the program that started us stops us."""
    task, loop = asyncio.create_task(work), asyncio.get_running_loop()
    for number in STOPPED_BY:
        loop.add_signal_handler(number, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await task
    finally:
        for number in STOPPED_BY:
            loop.remove_signal_handler(number)


async def _serve(session: Session, library: Any, names: list[str], wire: Wire) -> None:
    from qianxun.doors.mcp.collection import Collection
    from qianxun.doors.mcp.ids import local_address, service_address
    from qianxun.doors.mcp.stdio import Answers, lines

    if not session.url and session.principal is None and (principal := session.settings().access.principal):
        from qianxun.core.governance.access import read_principal

        library = library.on_behalf_of(read_principal(principal))
    found = [await find_base(library, name, session.start) for name in names]
    address = service_address(library.url) if session.url else local_address
    collection = Collection(library, address, frozenset(base.id for base in found) if found else None)

    @asynccontextmanager
    async def opened(_request: object, _is_answer: bool) -> AsyncIterator[Collection]:
        yield collection

    from qianxun.doors.mcp.server import answer_stdio, create_server  # last: loading it takes a while

    await answer_stdio(create_server(opened), lines(wire.incoming), Answers(wire.outgoing))
