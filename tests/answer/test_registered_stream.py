"""A registered model whose reply is read while it comes: its client is lent for as long as that takes."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import ModelUnavailable, NotFound
from qianxun.core.model_types import NewModel, UserModel
from qianxun.core.types import Message
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Outbound, Settings, Vectorization
from tests.models.chat_service import ChatService, Reply, chat_service

ASKED = [Message("user", "住院报销多少？")]


def with_model(folder: Path, url: str, work: Any) -> None:
    """``work(engine, model)``, blocking, beside an engine that has the model registered."""

    async def run() -> None:
        settings = Settings(
            data=str(folder), vectorization=Vectorization(model="none"), outbound=Outbound(allow=("127.0.0.1",))
        )
        async with Engine.open(settings=settings, background=False) as engine:
            told = NewModel(config_name="我的", base_url=url, model_name="m", model_type="chat", api_key="sk-1")
            model = await engine.registry.add("7", told)
            loop = asyncio.get_running_loop()
            await asyncio.to_thread(
                work, engine, model, lambda doing: asyncio.run_coroutine_threadsafe(doing, loop).result(30)
            )

    asyncio.run(run())


def slowly(given: queue.SimpleQueue[str | None]) -> Reply:
    return Reply(pieces=iter(given.get, None))


def begun(engine: Engine, model: UserModel, given: queue.SimpleQueue[str | None]) -> Iterator[str]:
    given.put("住院")
    told = engine.registry.chat(model.ref).stream(ASKED)
    assert next(told) == "住院"
    return told


def test_a_model_that_is_changed_or_removed_meanwhile_finishes_what_it_says(tmp_path: Path) -> None:
    given: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def work(engine: Engine, model: UserModel, done: Any) -> None:
        told = begun(engine, model, given)
        done(engine.registry.change("7", model.id, {"model_name": "n"}))
        given.put("报销")
        assert next(told) == "报销"
        done(engine.registry.remove("7", model.id))
        given.put("85%")
        given.put(None)
        assert list(told) == ["85%"]
        with pytest.raises(NotFound):
            engine.registry.chat(model.ref)

    with chat_service(lambda request: slowly(given)) as service:
        with_model(tmp_path, service.url, work)
        assert service.left == []


def test_who_stops_reading_gives_the_client_back(tmp_path: Path) -> None:
    given: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def work(engine: Engine, model: UserModel, done: Any) -> None:
        told = begun(engine, model, given)
        assert engine.registry.clients.opened == 1
        told.close()  # type: ignore[attr-defined]
        given.put("没有人听")
        service.wait(lambda served: served.left == [0])
        assert [line.uses for line in engine.registry.clients._entries.values()] == [0]

    with chat_service(lambda request: slowly(given)) as service:
        with_model(tmp_path, service.url, work)


def test_a_stop_and_a_cut_give_it_back_too(tmp_path: Path) -> None:
    def work(engine: Engine, model: UserModel, done: Any) -> None:
        chat = engine.registry.chat(model.ref)
        told: list[str] = []
        with pytest.raises(ModelUnavailable):
            told.extend(chat.stream(ASKED, lambda: bool(service.sent and service.sent[0])))
        with pytest.raises(ModelUnavailable):
            list(chat.stream(ASKED))
        assert [line.uses for line in engine.registry.clients._entries.values()] == [0]

    def answers(request: Any) -> Reply:
        return Reply("住院", hang_after=1) if request.number == 0 else Reply("住院", cut_after=1)

    with chat_service(answers) as service:
        with_model(tmp_path, service.url, work)
        service.wait(_has_left)


def _has_left(service: ChatService) -> bool:
    return service.left == [0]


def test_a_disabled_model_says_nothing(tmp_path: Path) -> None:
    def work(engine: Engine, model: UserModel, done: Any) -> None:
        chat = engine.registry.chat(model.ref)
        done(engine.registry.change("7", model.id, {"status": 0}))
        with pytest.raises(ModelUnavailable, match="停用"):
            list(chat.stream(ASKED))

    with chat_service("不该问到") as service:
        with_model(tmp_path, service.url, work)
        assert service.requests == []
