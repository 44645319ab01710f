"""A listener on every address of this machine that counts who comes, and answers whoever asks."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


@dataclass
class Canary:
    port: int = 0
    asked: list[bytes] = field(default_factory=list)  # the head of each request; b"" of a connection without one

    @property
    def hits(self) -> int:
        return len(self.asked)


@contextmanager
def canary() -> Iterator[Canary]:
    """Both families where the machine has both: an IPv6 socket that takes IPv4 as well."""
    listener = _listener()
    bird = Canary(listener.getsockname()[1])
    thread = threading.Thread(target=_listen, args=(listener, bird), daemon=True)
    thread.start()
    try:
        yield bird
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def _listener() -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
    return socket.create_server(("0.0.0.0", 0), backlog=64)


def _listen(listener: socket.socket, bird: Canary) -> None:
    while True:
        try:
            line, _ = listener.accept()
        except OSError:  # shut down
            return
        with line:
            line.settimeout(60)
            bird.asked.append(b"")
            try:
                bird.asked[-1] = whole_request(line)
                line.sendall(REPLY)
            except OSError:
                continue  # it was a hit all the same


def whole_request(line: socket.socket) -> bytes:
    """All of it: a line that is closed with something unread is reset, and the reply lost."""
    read = b""
    while piece := line.recv(65536):
        read += piece
        head, end, body = read.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *([0-9]+)", head.lower())
        if not read.startswith(b"POST") or (end and length and len(body) >= int(length[1])):
            break
    return read
