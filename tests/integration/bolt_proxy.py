"""A wire between a driver and its server that a test may cut, or hold."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Wire:
    """Passes bytes both ways while it is whole; cut, it drops every connection and takes no new one; held, it keeps
    them all and passes nothing, as a server that hangs."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self._ends: set[socket.socket] = set()
        self._is_whole = True
        self._passes = threading.Event()
        self._passes.set()
        self.passed = 0  # bytes to the server
        threading.Thread(target=self._take, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"bolt://127.0.0.1:{self._door.getsockname()[1]}"

    def cut(self) -> None:
        self._is_whole = False
        for end in list(self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        self._passes.clear()

    def mend(self) -> None:
        self._is_whole = True
        self._passes.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cut()
        self._passes.set()
        self._door.close()

    def _take(self) -> None:
        with contextlib.suppress(OSError):  # the door is closed
            while True:
                near, _ = self._door.accept()
                if not self._is_whole:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._port))
                self._ends |= {near, far}
                threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._passes.wait()
                self.passed += len(data) if is_asking else 0
                target.sendall(data)
        for end in (source, target):
            self._ends.discard(end)
            end.close()
