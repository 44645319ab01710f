"""A real server that speaks Bolt, the protocol of Neo4j's drivers, to test against: ArcadeDB, whose programs and Java
come as a wheel.

Nothing has to be installed or configured, and any user may run it, root too. It listens on loopback alone, on ports
that the system chooses, has its data in a folder of its own and a random password.

    with bolt_server() as server:                # about two seconds
        driver = GraphDatabase.driver(server.uri, auth=server.auth)

The server belongs to a guard, a process that waits for the end of its user: then, or when its time is up, it ends the
server and removes the folder.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tests.servers import child_environment

WHEEL: Final = "arcadedb_embedded"
DATABASE: Final = "neo4j"
START_SECONDS: Final = 90.0
LIFETIME_SECONDS: Final = 900.0  # after which it ends, even in use
_LISTENS: Final = re.compile(r"BOLT connections on [^\s]*:(\d+)")
_STARTED: Final = "ArcadeDB Server started"
_PR_SET_PDEATHSIG: Final = 1
_JAVA: Final = (
    "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true",
    "-Darcadedb.server.httpIncomingHost=127.0.0.1",
    "-Darcadedb.server.httpIncomingPort=0",
    "-Darcadedb.server.plugins=Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
    "-Darcadedb.bolt.host=127.0.0.1",
    "-Darcadedb.bolt.port=0",
    f"-Darcadedb.server.defaultDatabases={DATABASE}[root]",
)  # fmt: skip


class NoBolt(RuntimeError):
    """No server can be started here; the message says why."""


@dataclass(frozen=True, slots=True)
class BoltServer:
    port: int
    password: str = field(repr=False)
    user: str = "root"

    @property
    def uri(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def auth(self) -> tuple[str, str]:
        return self.user, self.password


def unavailable() -> str:
    """Why no server can be started on this machine; empty when one can."""
    home = _home()
    if home is None:
        return "没有 arcadedb-embedded（这个平台或 Python 版本可能没有它的 wheel）"
    if not (home / "jre" / "bin" / "java").exists() or not any((home / "jars").glob("arcadedb-bolt-*.jar")):
        return "arcadedb-embedded 里没有这个平台的 Java，或没有 Bolt 插件"
    return ""


@contextmanager
def bolt_server(lifetime_seconds: float = LIFETIME_SECONDS) -> Iterator[BoltServer]:
    """A server of its own, empty, until the block ends. Raises NoBolt."""
    if reason := unavailable():
        raise NoBolt(reason)
    password = secrets.token_hex(16)
    command = [sys.executable, "-m", "tests.servers.bolt", str(lifetime_seconds)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd="/",
        env=child_environment(),
    ) as guarding:
        assert guarding.stdin is not None
        assert guarding.stdout is not None
        try:
            print(password, file=guarding.stdin, flush=True)
            yield BoltServer(_port(guarding.stdout), password)
        finally:
            guarding.stdin.close()  # the sign to end
            guarding.wait()


def _port(output: IO[str]) -> int:
    is_ready, _, _ = select.select([output], [], [], START_SECONDS + 10)
    word, _, rest = (output.readline() if is_ready else "").strip().partition(" ")
    if word != "ready":
        raise NoBolt(f"Bolt 服务没有启动：{rest or '没有回答'}")
    return int(rest)


def _home() -> Path | None:
    found = importlib.util.find_spec(WHEEL)
    return Path(found.origin).parent if found is not None and found.origin is not None else None


# ── the guard ────────────────────────────────────────────────────────────────────────────────────


def guard(lifetime_seconds: float) -> None:
    """The life of a server. Runs in a process of its own; its input ends with its user."""
    password = sys.stdin.readline().strip()
    folder = Path(tempfile.mkdtemp(prefix="qx-bolt-"))
    try:
        with (folder / "output").open("wb") as output, _java(folder, password, output) as java:
            try:
                _print(_started(java, folder / "output"))
                select.select([sys.stdin], [], [], lifetime_seconds)
            finally:
                java.kill()  # its data are removed with the folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _java(folder: Path, password: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
    home = _home()
    assert home is not None
    own = (f"-Darcadedb.server.rootPath={folder}", f"-Darcadedb.server.rootPassword={password}")
    program = ("-cp", f"{home / 'jars'}/*", "com.arcadedb.server.ArcadeDBServer")
    command = [str(home / "jre" / "bin" / "java"), *_JAVA, *own, *program]
    plain = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}  # with none of the caller's JAVA_* variables
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=folder,
        env=plain,
        preexec_fn=_die_with_guard,
    )


def _die_with_guard() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _started(java: subprocess.Popen[bytes], log: Path) -> str:
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and java.poll() is None:
        words = log.read_text(errors="replace")
        port = _LISTENS.search(words)
        if port is not None and _STARTED in words:
            return f"ready {port[1]}"
        time.sleep(0.05)
    return "failed " + " ".join(log.read_text(errors="replace")[-1_000:].split())


def _print(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    guard(float(sys.argv[1]))
