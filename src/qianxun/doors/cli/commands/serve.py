"""`qianxun serve`: the HTTP service over the data folder."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from qianxun.doors.cli.i18n import out, tr
from qianxun.doors.cli.session import session_of


def serve(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="监听的地址，默认只在本机 · the address; loopback by default")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", min=0, max=65535, help="端口，默认 8000 · the port")
    ] = None,
    background: Annotated[
        bool,
        typer.Option(
            "--background/--no-background",
            help="在这里建索引；不要时留给 qianxun worker · index here, or leave that to qianxun worker",
        ),
    ] = True,
    workers: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=64,
            help="另用几个进程检索，一个写入；默认都在一个进程里 · so many processes search, one writes",
        ),
    ] = 0,
) -> None:
    """启动 HTTP 服务，直到 Ctrl-C · run the HTTP service until Ctrl-C"""
    from qianxun.doors.http import require_drivers

    require_drivers()
    from qianxun.doors.http.listener import new_loop
    from qianxun.doors.http.middleware.log_lines import logs_as_lines
    from qianxun.engine.settings import load

    session = session_of(context)
    arguments: dict[str, object] = {"data": session.data, "service.host": host, "service.port": port}
    if not background:
        arguments["service.background"] = False
    settings = load(file=session.config, arguments=arguments)
    if workers:  # this process only starts the others, and loads nothing of the service
        from qianxun.doors.http.workers.supervise import serve_with_workers

        serving = serve_with_workers(settings, workers, session.config, arguments, _show_address)
    else:
        from qianxun.doors.http.serve import serve as run

        serving = run(settings, _show_address)
    with logs_as_lines(sys.stderr), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serving)
    out().print(tr("已停下，数据都已存好。", "Stopped; everything is stored."), style="green")


def _show_address(url: str) -> None:
    """On stdout: stderr holds lines of the log and nothing else."""
    console = out()
    console.print(tr(f"千寻在 {url} 上提供服务", f"Qianxun is serving at {url}"), style="green", soft_wrap=True)
    places = tr(
        f"用浏览器打开它就是控制台　接口说明：{url}/docs　Ctrl-C 停止",
        f"Open it in a browser for the console  API: {url}/docs  Ctrl-C stops it",
    )
    console.print(places, style="dim", soft_wrap=True)
