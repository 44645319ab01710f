"""One process of `serve --workers`: ``python -m qianxun.doors.http.workers.process JSON``, started by `supervise`.

It says ``{"ready": …}`` on its output once requests are accepted, or why that cannot be; and ends when its input does,
which is when the process that started it has ended, however that ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from qianxun.core.errors import QianxunError

Role: TypeAlias = Literal["writer", "reader"]


@dataclass(frozen=True, slots=True)
class Start:
    """What a process is started with. Sockets are descriptors that it inherits."""

    role: Role
    public: int  # where requests come from
    private: int  # … to the writer, from the others
    address: str  # of that
    config: str  # the file of the settings; "": as they are found
    arguments: dict[str, Any]  # … and what was given on the command line

    def written(self) -> str:
        return json.dumps(asdict(self))


def run(start: Start) -> int:
    from qianxun.doors.http.listener import new_loop
    from qianxun.doors.http.middleware.log_lines import logs_as_lines

    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with logs_as_lines(sys.stderr), asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(start))
    except QianxunError as error:
        _say({"error": error.word, "message": error.message, "hint": error.hint})
        return 1
    return 0


async def _serve(start: Start) -> None:
    from qianxun.doors.http.serve import serve_on
    from qianxun.doors.http.workers.forward import Forwarding, FromReaders
    from qianxun.engine.settings import load

    settings = load(file=Path(start.config) if start.config else None, arguments=start.arguments)
    public = socket.socket(fileno=start.public)

    def say_ready(url: str) -> None:
        _say({"ready": url})

    if start.role == "writer":
        private = socket.socket(fileno=start.private)
        await serve_on(private, settings, say_ready, public=public, around=FromReaders)
    else:
        await serve_on(public, settings, say_ready, reader=True, around=lambda app: Forwarding(app, start.address))


def _say(words: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    given = Start(**json.loads(sys.argv[1]))
    sys.argv[:] = ["qianxun", "serve", "--workers"]  # what others are told of who has the folder
    sys.exit(run(given))
