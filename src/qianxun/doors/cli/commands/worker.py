"""`qianxun worker`: what runs in the background of a service, without the service."""

from __future__ import annotations

import asyncio
import signal
import sys

import typer

from qianxun.doors.cli.i18n import out, tr
from qianxun.doors.cli.session import session_of


def worker(context: typer.Context) -> None:
    """建索引、学词、建图谱，不带 HTTP，直到 Ctrl-C · index, learn and build graphs without HTTP until Ctrl-C"""
    from qianxun.doors.http.middleware.log_lines import logs_as_lines
    from qianxun.engine.settings import load

    session = session_of(context)
    settings = load(file=session.config, arguments={"data": session.data})

    async def work() -> None:
        from qianxun.engine.engine import Engine
        from qianxun.engine.wiring import preload

        preload()
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        async with Engine.open(settings=settings, background="worker"):
            out().print(tr("千寻在后台建索引　Ctrl-C 停止", "Qianxun is indexing  Ctrl-C stops it"), style="green")
            await stopped.wait()

    with logs_as_lines(sys.stderr):
        asyncio.run(work())
    out().print(tr("已停下，做到一半的都已做完。", "Stopped; what was begun is done."), style="green")
