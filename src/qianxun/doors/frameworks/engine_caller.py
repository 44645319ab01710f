"""An engine, asked by code that awaits and by code that does not, from any thread or loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.types import KnowledgeBase
from qianxun.engine.blocking import BlockingEngine, running_loop
from qianxun.engine.engine import Engine

if TYPE_CHECKING:
    from qianxun.doors.client import Client

GraphId: TypeAlias = str | int
Params = ParamSpec("Params")
Result = TypeVar("Result")
Work: TypeAlias = Callable[Concatenate[Any, Params], Coroutine[Any, Any, Result]]

ROUND_SECONDS: Final = 60.0  # an engine's loop that has not come round by then waits for whoever asks


class EngineCaller:
    """An engine, asked on its own loop: that of a blocking engine, or else the one that runs where this is made."""

    def __init__(self, rag: Engine | BlockingEngine) -> None:
        loop = running_loop()
        self.engine = rag.engine if isinstance(rag, BlockingEngine) else rag
        self._home = rag if isinstance(rag, BlockingEngine) else BlockingEngine(rag, loop) if loop else None

    def wait(self, call: Callable[[Engine], Coroutine[Any, Any, Result]], *, instead: str) -> Result:
        if self._home is None:
            raise BadInput(
                "不知道引擎在哪个事件循环里，没法阻塞等待",
                hint=f"请用 open_blocking 打开引擎，或在引擎的事件循环里建检索器，或改用 {instead}",
            )
        if (seen := self._seen()) is not None:
            try:
                seen.result(ROUND_SECONDS)
            except TimeoutError:
                seen.cancel()
                raise _stuck(instead) from None
        return self._home.run(call(self.engine), instead=instead)

    async def join(self, call: Callable[[Engine], Coroutine[Any, Any, Result]]) -> Result:
        if self._home is None:
            return await call(self.engine)
        if (seen := self._seen()) is not None:
            try:
                await asyncio.wait_for(asyncio.wrap_future(seen), ROUND_SECONDS)
            except TimeoutError:
                raise _stuck("await") from None
        return await self._home.join(call(self.engine))

    def _seen(self) -> Future[None] | None:
        """Done when the engine's loop comes round; None on that loop, or where it runs no more.

        A framework that is called on the engine's loop may block it and ask from threads of its own (LangChain's
        ``batch``, LlamaIndex's fusion): each would wait for the other for ever.
        """
        assert self._home is not None
        loop = self._home.loop
        if loop is running_loop() or not loop.is_running():
            return None
        seen: Future[None] = Future()
        with suppress(RuntimeError):  # it has closed a moment ago: the call itself will fail
            loop.call_soon_threadsafe(_set_result, seen)
            return seen
        return None


def _set_result(seen: Future[None]) -> None:
    if seen.set_running_or_notify_cancel():  # else no caller waits for it any more
        seen.set_result(None)


def _stuck(instead: str) -> BadInput:
    return BadInput(
        f"引擎的事件循环 {ROUND_SECONDS:g} 秒没有动静：多半正等着这次检索",
        hint=f"在那个事件循环里请改用 {instead} 等异步调用，或用 open_blocking 打开引擎",
    )


def two_forms(
    work: Work[Params, Result],
) -> tuple[Callable[Concatenate[Any, Params], Result], Work[Params, Result]]:
    """The call that blocks and the one that is awaited, of what a retriever's method does on the loop of its
    ``_caller``: ``retrieve, aretrieve = two_forms(_retrieve)``."""
    name = work.__name__.removeprefix("_")

    def wait(self: Any, /, *given: Params.args, **named: Params.kwargs) -> Result:
        caller: EngineCaller = self._caller
        return caller.wait(lambda _: work(self, *given, **named), instead=f"a{name}")

    async def join(self: Any, /, *given: Params.args, **named: Params.kwargs) -> Result:
        caller: EngineCaller = self._caller
        return await caller.join(lambda _: work(self, *given, **named))

    for form, called in ((wait, name), (join, f"a{name}")):
        update_wrapper(form, work).__name__ = called
    return wait, join


async def base_of(engine: Engine | Client, graph_id: GraphId | None) -> KnowledgeBase:
    """The base of that name or id; None: the only one. Raises NotFound, or BadInput where there are several."""
    if graph_id is not None:
        return await engine.knowledge_base(graph_id)
    bases = await engine.knowledge_bases(limit=2)
    if len(bases) > 1:
        raise BadInput("有多个知识库，没有说是哪一个", hint="请给出 graph_id：知识库的名称或编号")
    if not bases:
        raise NotFound("还没有知识库", hint="请先建一个：qianxun kb create 名称")
    return bases[0]
