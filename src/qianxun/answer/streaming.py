"""What a blocking iterator gives in a model's thread, as it comes, to whoever awaits it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Final, TypeVar

from qianxun.bases.base import OpenBase, in_model_thread

Item = TypeVar("Item")
_END: Final = object()
PARTING_SECONDS: Final = 1.0


async def streamed(
    base: OpenBase, kind: str, model: str, begin: Callable[[Callable[[], bool]], Iterator[Item]]
) -> AsyncGenerator[Item, None]:
    """The items of ``begin(stop)``, which runs in a thread of the model. What it raises is raised here.

    Whoever stops listening sets ``stop`` and is not kept waiting: the iterator is closed in its own thread.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[Any] = asyncio.Queue()
    is_left = threading.Event()

    def work() -> None:
        items = begin(is_left.is_set)
        try:
            for item in items:
                if is_left.is_set():
                    return
                loop.call_soon_threadsafe(waiting.put_nowait, item)
        finally:
            if hasattr(items, "close"):
                items.close()

    reading = asyncio.ensure_future(in_model_thread(base, kind, model, work))
    reading.add_done_callback(lambda _: waiting.put_nowait(_END))  # after the last item: both go by way of the loop
    try:
        while (item := await waiting.get()) is not _END:
            yield item
        await reading
    finally:
        is_left.set()
        part_from(reading)


def part_from(reading: asyncio.Future[Any]) -> None:
    """Leaves a call that has been told to stop. It has a while to notice before it is given up: all who listen may
    leave in one moment, and that is no fault of the model's."""
    reading.add_done_callback(lambda done: done.cancelled() or done.exception())  # which nobody listens to any more
    asyncio.get_running_loop().call_later(PARTING_SECONDS, reading.cancel)
