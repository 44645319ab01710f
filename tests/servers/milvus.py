"""A light Milvus (`milvus-lite`) to test against: a process of its own on loopback that ends with whoever started it.

    with own_server() as server:
        MilvusClient(uri=server.uri)
        server.stop()          # killed, as by a power cut of the server alone
        server.start()         # with the same data, at the same address

It speaks the protocol of a real server and keeps little of its speed: use it to see that things work, not how fast.
"""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.servers import child_environment

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 60.0


class NoMilvus(RuntimeError):
    """No server can be started here; the message says why."""


@dataclass
class LightServer:
    """The server whose data lie in ``folder``."""

    folder: Path
    port: int = 0
    host: str = HOST
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        """Returns once it takes connections; at the address it had before, if it had one."""
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.servers.milvus", str(self.folder), str(self.port)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=child_environment(),
            )
        until = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise NoMilvus(f"milvus-lite 没有起来：{(self.folder / 'log').read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
        self.port = int(port_file.read_text())

    def stop(self) -> None:
        """As if it were killed, which it is."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


def unavailable() -> str:
    """Why no server can be started on this machine; empty when one can."""
    return "" if importlib.util.find_spec("milvus_lite") else "没有 milvus-lite（这个平台没有它的 wheel）"


@contextmanager
def own_server(folder: Path | None = None) -> Iterator[LightServer]:
    if reason := unavailable():
        raise NoMilvus(reason)
    with contextlib.ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qx-milvus-")))
        server = LightServer(place)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _serve(folder: Path, port: int) -> None:
    """Until whoever started it closes its end of our input, which the kernel does when it dies."""
    from milvus_lite.adapter.grpc.server import start_server_in_thread

    server, database, bound = start_server_in_thread(str(folder / "data"), HOST, port)
    (folder / "port.new").write_text(str(bound))
    (folder / "port.new").rename(folder / "port")
    sys.stdin.buffer.read()
    server.stop(grace=1).wait()
    database.close()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
