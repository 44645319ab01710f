"""A base of near ties, opened once for the tests that only read, and models that obey the test."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from qianxun.core.ports import never
from qianxun.core.types import Document, Message, Recall
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Search, Settings
from qianxun.testing.scripted import HashEmbedding

T = TypeVar("T")
PLACES = ("住院", "门诊", "生育", "异地就医", "慢性病")
MATTERS = ("报销比例", "起付标准", "封顶线", "备案材料")


def near_ties() -> list[Document]:
    """Ninety short documents: many alike but for a word, some the same to the letter, under two owners."""
    made: list[Document] = []
    for number in range(90):
        place, matter = PLACES[number % 5], MATTERS[number // 5 % 4]
        text = f"{place}的{matter}为百分之{60 + number % 3 * 10}，由参保地的医疗保障局规定。"
        owner = "张三" if number % 2 else "李四"
        made.append(Document(f"d{number:02}", text, name=f"文件{number:02}.md", user_id=owner))
    return made


@dataclass
class FakeRerank:
    """Scores by a hash of query and passage, with many ties; or as it is told."""

    name: str
    share: float
    act: Callable[[Sequence[str]], Any] | None = None
    asked: list[int] = field(default_factory=list)

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> Any:
        self.asked.append(len(passages))
        return [tenth(query, passage) for passage in passages] if self.act is None else self.act(passages)


def tenth(query: str, passage: str) -> float:
    return hashlib.md5((query + passage).encode(), usedforsecurity=False).digest()[0] % 11 / 10


@dataclass
class FakeChat:
    name: str
    reply: Callable[[], Any]
    asked: list[str] = field(default_factory=list)

    def complete(self, messages: Sequence[Message]) -> Any:
        self.asked.append(messages[-1].content)
        return self.reply()


LEFT_SECONDS = 60.0  # for which a call that nobody waits for may go on


class Opened:
    """An engine on a loop of its own."""

    def __init__(
        self,
        folder: Path,
        documents: Sequence[Document],
        *models: Any,
        search: Search | None = None,
        config: Mapping[str, Any] | None = None,
        model: str = "fake-64",
        settings: Settings | None = None,
    ) -> None:
        held = {each.name: each for each in (HashEmbedding(), *models)}
        self.loop = asyncio.new_event_loop()
        told = settings or Settings(data=str(folder), search=search or Search())
        self.context = Engine.open(settings=told, models=held, background=False)
        self.engine = self.run(self.context.__aenter__())
        known = self.run(self.engine.knowledge_bases())
        if known:
            self.kb = known[0].id
        else:
            self.kb = self.run(self.engine.create_knowledge_base("医保", model=model, config=config)).id
            self.run(self.engine.add_documents(self.kb, documents))

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def ask(self, query: str, **options: Any) -> Recall:
        return self.run(self.engine.retrieve(self.kb, query, **options))

    def close(self) -> None:
        self.run(self.context.__aexit__(None, None, None))
        if left := asyncio.all_tasks(self.loop):  # a model's call that was left may take a moment to notice it
            _, unending = self.run(asyncio.wait(left, timeout=LEFT_SECONDS))
            assert not unending
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()


class HungEmbedding(HashEmbedding):
    """Hangs on queries until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.hangs = True
        self.calls = 0

    def embed_query(self, text: str) -> Any:
        self.calls += 1
        if self.hangs:
            self.released.wait()
        return super().embed_query(text)
