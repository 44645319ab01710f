"""The one call of a RAG framework over a data folder: ask in any of the six modes, and get an answer.

async with RAGAnythingAdapter({"working_dir": "./qianxun-data", "graph_id": "医学"}) as adapter:
    result = await adapter.query("糖尿病有什么症状", mode="hybrid")
    print(result.answer)
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from qianxun.core.answer_types import Answer
from qianxun.core.errors import BadInput, BadSettings
from qianxun.core.options import QueryMode
from qianxun.doors.frameworks.engine_caller import GraphId, base_of
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.engine.shared_engines import shared_engines

if TYPE_CHECKING:
    from qianxun.doors.client import Client


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """``engine`` is one that somebody else has opened and closes, or a service's `Client`; otherwise one over
    ``working_dir`` is opened on first use (without it, over the folder of the settings), and shared with others on the
    same loop who bring none."""

    working_dir: str | Path | None = None
    graph_id: GraphId | None = None  # the name or id of a knowledge base; None: the only one
    mode: QueryMode = "mix"
    top_k: int | None = None
    engine: Engine | Client | None = None


@dataclass
class _OfLoop:
    loop: asyncio.AbstractEventLoop
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    taken: tuple[Engine, Path] | None = None  # and its folder


class RAGAnythingAdapter:
    """Asks one graph of one data folder. Close it with `aclose`, or use it as an asynchronous context manager.

    ``config`` is an `AdapterConfig`, a mapping with its fields, an engine, a service's `Client`, a folder, or anything
    that has a ``working_dir``.
    """

    def __init__(self, config: Any = None) -> None:
        self.config = read_config(config)
        self._of: _OfLoop | None = None

    async def query(self, text: str, mode: QueryMode | None = None, **options: Any) -> Answer:
        """``options`` are those of `Engine.ask`: top_k, where, history, multimodal_content, trace_id."""
        engine = await self._opened()
        base = await base_of(engine, self.config.graph_id)
        chosen: dict[str, Any] = {"top_k": self.config.top_k, **options}
        return await engine.ask(base.id, text, mode=mode or self.config.mode, **chosen)

    async def query_with_multimodal(
        self, text: str, multimodal_content: Sequence[Mapping[str, Any]], mode: QueryMode | None = None, **options: Any
    ) -> Answer:
        """A question that comes with pictures and tables."""
        return await self.query(text, mode, multimodal_content=multimodal_content, **options)

    async def aclose(self) -> None:
        """Lets the folder go, unless others use it or it was given. The next query would open it again."""
        own, self._of = self._of, None
        if own is not None and own.loop is asyncio.get_running_loop():
            async with own.opening:
                taken, own.taken = own.taken, None
                if taken is not None:
                    await shared_engines().give_back(taken[1])

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _opened(self) -> Engine | Client:
        if self.config.engine is not None:
            return self.config.engine
        own = self._here()
        async with own.opening:
            if own.taken is None:
                folder = self.config.working_dir
                settings = load(arguments={"data": None if folder is None else str(folder)})
                own.taken = await shared_engines().take(settings), settings.folder
            return own.taken[0]

    def _here(self) -> _OfLoop:
        """What was opened on this loop. An engine ends with the loop that it was opened on."""
        loop = asyncio.get_running_loop()
        if self._of is None or self._of.loop is not loop:
            if self._of is not None and self._of.loop.is_running():
                raise BadInput("这个适配器正在另一个事件循环里使用", hint="每个事件循环各建一个，或先 aclose()")
            self._of = _OfLoop(loop)
        return self._of


def read_config(config: Any) -> AdapterConfig:
    """Raises BadSettings for a field that there is not."""
    if config is None or isinstance(config, AdapterConfig):
        return config or AdapterConfig()
    if inspect.iscoroutinefunction(getattr(config, "ask", None)):
        return AdapterConfig(engine=config)
    if isinstance(config, str | Path):
        return AdapterConfig(working_dir=config)
    known = [one.name for one in fields(AdapterConfig)]
    if not isinstance(config, Mapping):
        if not hasattr(config, "working_dir"):
            raise BadSettings(f"{type(config).__name__} 不是设置", hint="可以是映射、数据目录，或有 working_dir 的对象")
        return AdapterConfig(**{name: getattr(config, name) for name in known if hasattr(config, name)})
    given = dict(config)
    if "data" in given:
        given.setdefault("working_dir", given.pop("data"))
    if strange := [name for name in given if name not in known]:
        raise BadSettings(f"没有设置 {'、'.join(map(str, strange))}", hint=f"可用：{'、'.join(known)}")
    return AdapterConfig(**given)
