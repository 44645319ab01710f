"""No base_url that a user registers leads the service to this machine, in whatever way it is used afterwards."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from qianxun.core.types import Document
from qianxun.records.schema import UserModelRow
from tests.http.asking import MODEL, Asking, asking
from tests.http.vendor import Counter, vendor
from tests.models.canary import Canary, canary
from tests.models.test_url_policy import INSIDE, LOOPBACK, NAMES, PUBLIC

KINDS = ("embedding", "rerank", "chat")


@pytest.fixture
def bird() -> Iterator[Canary]:
    with canary() as listening:
        yield listening


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What the machine's resolver answers for these names; the others it answers itself."""
    held = dict(NAMES)
    ask = socket.getaddrinfo

    def answer(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        if host not in held:
            return ask(host, port, *rest, **{**named, "flags": socket.AI_NUMERICHOST})
        found = []
        for address in held[host]:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            found.append((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)))
        return found

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return held


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every address that a connection was tried to; those outside are not tried for long."""
    seen: list[str] = []
    connect = socket.create_connection

    def spy(address: tuple[str, int], *rest: Any, **named: Any) -> socket.socket:
        seen.append(address[0])
        if address[0] == PUBLIC:
            raise TimeoutError(address)
        return connect(address, *rest, **named)

    monkeypatch.setattr(socket, "create_connection", spy)
    return seen


def run(folder: Path, allow: list[str], story: Callable[[Asking], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asking(folder, {"outbound.allow": allow, "search.cache_entries": 0}) as asked:
            await story(asked)

    asyncio.run(told())


def model(kind: str, base_url: str) -> dict[str, Any]:
    about = {"config_name": kind, "base_url": base_url, "model_name": kind, "model_type": kind, "timeout": 60}
    return {**about, "api_key": "sk-0123456789abcdef", "model_dim": 8 if kind == "embedding" else 0}


class User:
    """Registers models and uses them in every way there is."""

    def __init__(self, asked: Asking, base: int) -> None:
        self.asked, self.base = asked, base
        self.numbers = itertools.count()

    async def register(self, kind: str, base_url: str) -> int:
        """Its id; 0 where the address is refused."""
        made = await self.asked.post("/user/api/7", model(kind, base_url))
        assert made.status_code in (201, 400, 422), made.text
        return made.json()["data"]["id"] if made.status_code == 201 else 0

    async def try_out(self, number: int) -> None:
        told = (await self.asked.post(f"/user/api/7/{number}/test", None)).json()["data"]
        assert (told["ok"], bool(told["reason"])) == (False, True)

    async def use(self, kind: str, number: int) -> None:
        """Whatever becomes of it, a search is answered and says what was missing."""
        if kind == "rerank":
            strategy = {"type": "rerank", "rerank_model_id": number}
            body = {"query": "报销", "retrieval_config": {"hybrid_strategy": strategy}}
            told = await self.asked.post(f"/v1/retrieval/{self.base}", body)
            assert [each["part"] for each in told.json()["data"]["degraded"]] == ["rerank"]
            return
        about: dict[str, Any] = {"name": f"库{next(self.numbers)}", "embedding_model": MODEL}
        about |= {"embedding": {"embedding_model": f"user-model:{number}"}}.get(kind, {})
        about |= {"chat": {"config": {"rewrite_model": f"user-model:{number}"}}}.get(kind, {})
        made = await self.asked.post("/v1/knowledge-bases", about)
        if made.status_code != 201:
            assert made.status_code in (400, 422, 503), made.text
            return
        base = made.json()["data"]["id"]
        added = await self.asked.post(f"/v1/knowledge-bases/{base}/documents", {"name": "d", "content": "报销。"})
        assert added.status_code == 201
        told = await self.asked.post(f"/v1/retrieval/{base}", {"query": "报销"})
        assert told.status_code == 200
        assert told.json()["data"]["degraded"]
        assert (await self.asked.http.delete(f"/v1/knowledge-bases/{base}")).status_code == 200

    def smuggle(self, number: int, base_url: str) -> None:
        """Past the check at registration: as if the row had been there before the check was."""
        with self.asked.engine.records.writing() as tx:
            row = update(UserModelRow).where(UserModelRow.id == number)
            tx.execute(row.values(base_url=base_url, version=UserModelRow.version + 1))


async def user(asked: Asking) -> User:
    return User(asked, await asked.base(Document("d1", "住院费用可以报销。"), Document("d2", "门诊费用也可以报销。")))


def test_no_spelling_that_is_registered_is_reached(
    tmp_path: Path, bird: Canary, names: dict[str, list[str]], dialled: list[str]
) -> None:
    async def story(asked: Asking) -> None:
        one = await user(asked)
        kept = [await one.register(kind, "https://api.example.com/v1") for kind in KINDS]
        taken = 0
        for spelling in (*LOOPBACK, *INSIDE):
            url = spelling.format(port=bird.port)
            number = await one.register(KINDS[next(one.numbers) % 3], url)
            taken += bool(number)
            changed = await asked.http.patch(f"/user/api/7/{kept[0]}", json={"base_url": url, "api_key": "sk-1"})
            assert (changed.status_code == 200) == bool(number), (url, changed.text)
            if number:
                await one.try_out(number)
                await one.try_out(kept[0])
            assert (bird.hits, dialled) == (0, []), url
        assert 0 < taken < 40  # names, which only their resolver knows

    run(tmp_path, [], story)


@pytest.mark.parametrize("kind", KINDS)
def test_no_spelling_that_is_kept_already_is_reached(
    tmp_path: Path, bird: Canary, names: dict[str, list[str]], dialled: list[str], kind: str
) -> None:
    """However it came to be in the records: the address is looked at again when it is used."""

    async def story(asked: Asking) -> None:
        one = await user(asked)
        number = await one.register(kind, "https://api.example.com/v1")
        for at, spelling in enumerate(each for each, arrives in LOOPBACK.items() if arrives):
            one.smuggle(number, spelling.format(port=bird.port))
            await one.try_out(number)
            if kind == "rerank" or at % 5 == 0:
                await one.use(kind, number)
            assert (bird.hits, dialled) == (0, []), spelling

    run(tmp_path, [], story)


def test_a_name_that_changes_its_mind_is_not_followed(
    tmp_path: Path, bird: Canary, names: dict[str, list[str]], dialled: list[str]
) -> None:
    """Whatever it meant when it was registered, and between the look at it and the call."""

    class Fickle(list[str]):
        asked = 0

        def __iter__(self) -> Iterator[str]:
            self.asked += 1
            return iter([PUBLIC] if self.asked % 2 else ["127.0.0.1"])

    async def story(asked: Asking) -> None:
        one = await user(asked)
        names["rebind.example"] = [PUBLIC]
        number = await one.register("rerank", f"http://rebind.example:{bird.port}/v1")
        await one.try_out(number)
        assert set(dialled) == {PUBLIC}
        names["rebind.example"] = ["127.0.0.1"]
        await one.try_out(number)
        await one.use("rerank", number)
        names["rebind.example"] = Fickle()
        for _ in range(6):
            await one.try_out(number)
            await one.use("rerank", number)
        assert bird.hits == 0
        assert set(dialled) == {PUBLIC}

    run(tmp_path, [], story)


def test_a_service_that_sends_one_on_is_not_followed(tmp_path: Path, bird: Canary) -> None:
    with vendor() as sold:

        async def story(asked: Asking) -> None:
            one = await user(asked)
            for status in (301, 302, 303, 307, 308):
                sold.become("rerank", lambda counter, status=status: sends_on(counter, status))
                number = await one.register("rerank", sold.url)
                before = len(sold.asked["rerank"])
                await one.try_out(number)
                await one.use("rerank", number)
                assert len(sold.asked["rerank"]) == before + 2
            assert bird.hits == 0

        def sends_on(counter: Counter, status: int) -> None:
            counter.send(b"{}", status, location=f"http://127.0.0.1:{bird.port}/v1/rerank")

        run(tmp_path, [sold.address], story)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_operator_allows_is_reached(
    tmp_path: Path, bird: Canary, names: dict[str, list[str]], kind: str
) -> None:
    """The control: the same steps arrive where they are allowed to."""

    async def story(asked: Asking) -> None:
        one = await user(asked)
        for host in ("127.0.0.1", "localhost", "loopback.example"):
            before = bird.hits
            number = await one.register(kind, f"http://{host}:{bird.port}/v1")
            await one.try_out(number)
            assert bird.hits == before + 1
            await one.use(kind, number)
            assert bird.hits > before + 1

    run(tmp_path, [f"127.0.0.1:{bird.port}"], story)
