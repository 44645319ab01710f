"""The standard input and output of this process as the two ends of a conversation, and as nothing else.

Both are read and written by daemon threads: what waits for a program that says nothing, or reads nothing, keeps no
process from ending.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Final

STDIN, STDOUT, STDERR = 0, 1, 2

_END: Final = ""  # no line is empty: each has its end


@dataclass(frozen=True, slots=True)
class Wire:
    """The descriptors at which the other side is."""

    incoming: int
    outgoing: int


@contextmanager
def own_wire() -> Iterator[Wire]:
    """Within the block whatever this process prints goes to stderr, and whatever it or a child of it reads is empty."""
    sys.stdout.flush()
    wire = Wire(os.dup(STDIN), os.dup(STDOUT))
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, STDIN)
        os.dup2(STDERR, STDOUT)
        yield wire
    finally:
        os.close(nothing)
        sys.stdout.flush()  # what was printed and waits there goes where the rest went
        os.dup2(wire.incoming, STDIN)
        os.dup2(wire.outgoing, STDOUT)
        # `wire` stays open: a thread may still wait at it, and its number must not become another file's.


async def lines(incoming: int) -> AsyncIterator[str]:
    """Line by line until the other side has no more to say."""
    came: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    stream = os.fdopen(incoming, "rb", closefd=False)
    _in_background(lambda: _read(stream, lambda line: loop.call_soon_threadsafe(came.put_nowait, line)))
    while (line := await came.get()) != _END:
        yield line


def _read(stream: BinaryIO, put: Callable[[str], object]) -> None:
    try:
        for line in stream:
            put(line.decode("utf-8", "replace"))
        put(_END)
    except RuntimeError:  # the loop has been closed: nobody listens any more
        return


class Answers:
    """Where the answers go. What cannot be written raises OSError there where it is written."""

    def __init__(self, outgoing: int) -> None:
        self._outgoing = outgoing
        self._waiting: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        _in_background(self._write)

    async def write(self, text: str) -> None:
        """Returns when all of it is out."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put((text.encode("utf-8", "replace"), done))
        await done

    async def flush(self) -> None:
        """There is nothing that `write` leaves behind."""

    def _write(self) -> None:
        while True:
            left, done = self._waiting.get()
            failure: OSError | None = None
            try:
                while left:
                    left = left[os.write(self._outgoing, left) :]
            except OSError as error:
                failure = error
            try:
                done.get_loop().call_soon_threadsafe(_settle, done, failure)
            except RuntimeError:  # the loop has been closed: nobody waits any more
                return


def _settle(done: asyncio.Future[None], failure: OSError | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)


def _in_background(work: Callable[[], None]) -> None:
    Thread(target=work, daemon=True).start()
