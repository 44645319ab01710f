"""Registered models at work in searches; and what a search answers when they are slow, broken, gone or forbidden."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from qianxun.models.remote.http import ModelService
from tests.http.asking import Asking, asking
from tests.http.test_models import KEY, registered
from tests.http.vendor import (
    DIMENSION,
    RUBBISH,
    TRADES,
    Mood,
    Trade,
    Vendor,
    backwards,
    failing,
    gone,
    hanging,
    of_dimension,
    refusing,
    saying,
    slow,
    vendor,
    well,
)

DOCUMENTS = {
    "inpatient": "住院费用的报销比例为百分之八十五，起付线为一千二百元。",
    "outpatient": "门诊费用的报销比例为百分之六十，每年最多两万元。",
    "materials": "报销需要身份证、医保卡、发票和费用清单。",
}
QUERY = "住院能报销多少钱"
PARTS: dict[Trade, str] = {"embeddings": "vector", "chat/completions": "rewrite", "rerank": "rerank"}
# What is to hang may do so for a moment. Words are found in a moment, too, but not on every machine at every time:
# whoever needs them beside vectors that hang asks again. All else has all the time that it may need.
IMPATIENT: dict[Trade, dict[str, float]] = {
    "embeddings": {"search.arm_seconds": 1.0},
    "chat/completions": {"search.rewrite_seconds": 0.2},
    "rerank": {"search.rerank_seconds": 0.2},
}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is asked again at once."""
    monkeypatch.setattr(ModelService, "_wait", lambda *_: 0.0)


class Customer:
    """A user whose models all come from one vendor, and the base that uses them."""

    def __init__(self, at: Asking, sold: Vendor) -> None:
        self.at, self.sold = at, sold
        self.base = 0
        self.models: dict[str, int] = {}

    async def settle(self) -> None:
        for kind in ("embedding", "rewrite", "rerank"):
            made = await registered(self.at, kind, base_url=self.sold.url, timeout=30)
            self.models[kind] = made["id"]
        about = {
            "name": "医保",
            "user_id": "7",
            "embedding_model": f"user-model:{self.models['embedding']}",
            "config": {
                "rewrite_model": f"user-model:{self.models['rewrite']}",
                "search": {"rerank": f"user-model:{self.models['rerank']}"},
            },
        }
        made_base = await self.at.post("/v1/knowledge-bases", about)
        assert made_base.status_code == 201, made_base.text
        self.base = made_base.json()["data"]["id"]
        for doc_id, content in DOCUMENTS.items():
            body = {"doc_id": doc_id, "name": f"{doc_id}.txt", "content": content, "format": "text"}
            added = await self.at.post(f"/v1/knowledge-bases/{self.base}/documents", body)
            assert added.status_code == 201, added.text

    async def forgive(self) -> None:
        """A changed model has a new client, which holds no grudge."""
        self.sold.recover()
        for number in self.models.values():
            await self.at.http.patch(f"/user/api/7/{number}", json={"config_name": "又一次"})

    async def search_until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """A search that is as it should be before long: on a busy machine one may be late for a reason of its own."""
        for _ in range(10):
            if holds(data := await self.search()):
                return data
        raise AssertionError(data)

    async def search(self, **body: Any) -> dict[str, Any]:
        response = await self.at.post(f"/v1/retrieval/{self.base}", {"query": QUERY, **body})
        assert response.status_code == 200, response.text
        assert KEY not in response.text
        data: dict[str, Any] = response.json()["data"]
        return data


def reasons(data: dict[str, Any]) -> dict[str, str]:
    return {one["part"]: one["reason"] for one in data["degraded"]}


def test_registered_models_do_their_work(tmp_path: Path) -> None:
    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address]}) as at:
                customer = Customer(at, sold)
                await customer.settle()
                data = await customer.search()
                assert data["degraded"] == []
                assert data["queries"] == [QUERY, *sold.rewritings]
                assert data["chunks"][0]["doc_id"] == "inpatient"
                assert {"vector", "keyword"} <= set(data["chunks"][0]["arms"])
                assert all(chunk["rerank_score"] is not None for chunk in data["chunks"])
                assert all(sold.asked[trade] for trade in TRADES)
                sold.become("rerank", backwards)
                await at.http.patch(f"/user/api/7/{customer.models['rerank']}", json={"model_name": "contrary"})
                contrary = await customer.search()
                assert contrary["chunks"][0]["doc_id"] != "inpatient"
                assert sold.asked["rerank"][-1]["model"] == "contrary"
                strategy = {"type": "rerank", "rerank_model_id": customer.models["rerank"]}
                chosen = await customer.search(retrieval_config={"hybrid_strategy": strategy})
                assert chosen["chunks"][0]["doc_id"] == contrary["chunks"][0]["doc_id"]

    asyncio.run(run())


def test_a_model_of_another_trade_is_the_requests_wrong_field(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base, number = await at.base(), (await registered(at, "chat"))["id"]
            body = {
                "query": QUERY,
                "retrieval_config": {"hybrid_strategy": {"type": "rerank", "rerank_model_id": number}},
            }
            for route in ("retrieval", "explain"):
                response = await at.post(f"/v1/{route}/{base}", body)
                assert response.status_code == 422, response.text
                (wrong,) = response.json()["fields"]
                assert wrong["field"] == "retrieval_config.hybrid_strategy.rerank_model_id"
                assert "chat" in wrong["reason"]

    asyncio.run(run())


# What all three models do at once.
FAULTS: dict[str, Mood] = {
    "failing": failing(500),
    "revoked": refusing,
    "hangs up": gone,
    "a page": saying(RUBBISH[1]),
    "an odd reply": saying(RUBBISH[6]),
    "not a number": saying(RUBBISH[7]),
    "deep": saying(RUBBISH[8]),
}


def test_a_search_answers_whatever_its_models_do(tmp_path: Path) -> None:
    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address]}) as at:
                customer = Customer(at, sold)
                await customer.settle()
                for name, mood in FAULTS.items():
                    sold.moods = dict.fromkeys(TRADES, mood)
                    _is_plain(await customer.search(), name)
                    await customer.forgive()
                assert not (await customer.search())["degraded"]

    asyncio.run(run())


def test_a_search_answers_though_all_its_models_are_slow(tmp_path: Path) -> None:
    async def run() -> None:
        impatient = {name: seconds for each in IMPATIENT.values() for name, seconds in each.items()}
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address], **impatient}) as at:
                customer = Customer(at, sold)
                await customer.settle()
                sold.moods = dict.fromkeys(TRADES, slow(100))
                _is_plain(await customer.search_until(lambda data: bool(data["chunks"])), "slow")
                await customer.forgive()
                await customer.search_until(lambda data: not data["degraded"])

    asyncio.run(run())


def _is_plain(data: dict[str, Any], name: str) -> None:
    """Found by words alone, and it says so."""
    told = reasons(data)
    assert {"vector", "rewrite", "rerank"} <= set(told), (name, told)
    assert all(told.values()), name
    assert data["chunks"][0]["doc_id"] == "inpatient", name
    assert data["queries"] == [QUERY], name
    assert data["chunks"][0]["rerank_score"] is None, name


@pytest.mark.parametrize("trade", TRADES)
def test_one_that_hangs_takes_only_its_own_part(tmp_path: Path, trade: Trade) -> None:
    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address], **IMPATIENT[trade]}) as at:
                customer = Customer(at, sold)
                await customer.settle()
                sold.become(trade, hanging)
                data = await customer.search_until(lambda data: bool(data["chunks"]))
                assert PARTS[trade] in reasons(data)
                assert not set(reasons(data)) & (set(PARTS.values()) - {PARTS[trade]})
                assert data["chunks"][0]["doc_id"] == "inpatient"

    asyncio.run(run())


def test_every_search_answers_while_models_and_documents_change(tmp_path: Path) -> None:
    chance = Random(4)
    moods = (well, failing(500), gone, saying(b"{}"), refusing)

    async def disturb(customer: Customer, is_over: asyncio.Event) -> None:
        at = customer.at
        while not is_over.is_set():
            number = chance.choice(list(customer.models.values()))
            changed = await at.http.patch(f"/user/api/7/{number}", json={"status": chance.choice((0, 1, 1))})
            assert changed.status_code == 200, changed.text
            customer.sold.moods = {trade: chance.choice(moods) for trade in TRADES}
            event = {"type": chance.choice(("created", "deleted")), "content": f"门诊 {chance.random()}"}
            named = {"knowledge_base_id": customer.base, "document_id": f"d{chance.randrange(3)}"}
            assert (await at.post("/v1/events", {**event, **named})).status_code == 202
            await asyncio.sleep(0.01)

    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address]}) as at:
                customer = Customer(at, sold)
                await customer.settle()
                is_over = asyncio.Event()
                disturbance = asyncio.create_task(disturb(customer, is_over))
                answers = await asyncio.gather(*(customer.search() for _ in range(24)))  # 200, each of them
                is_over.set()
                await disturbance
                assert all("inpatient" in {chunk["doc_id"] for chunk in data["chunks"]} for data in answers)

    asyncio.run(run())


def test_vectors_of_another_length_find_nothing_and_store_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address]}) as at:
                customer = Customer(at, sold)
                await customer.settle()
                sold.become("embeddings", of_dimension(DIMENSION - 1))
                data = await customer.search()
                assert str(DIMENSION) in reasons(data)["vector"]
                assert data["chunks"][0]["doc_id"] == "inpatient"

    asyncio.run(run())


def test_models_that_are_gone_or_switched_off_are_told_of(tmp_path: Path) -> None:
    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address]}) as at:
                customer = Customer(at, sold)
                await customer.settle()
                for number in customer.models.values():
                    await at.http.patch(f"/user/api/7/{number}", json={"status": 0})
                off = await customer.search()
                assert {"vector", "rewrite", "rerank"} <= set(reasons(off))
                assert off["chunks"][0]["doc_id"] == "inpatient"
                for number in customer.models.values():
                    assert (await at.http.delete(f"/user/api/7/{number}")).status_code == 200
                left = await customer.search()
                assert {"vector", "rewrite", "rerank"} <= set(reasons(left))
                assert left["chunks"][0]["doc_id"] == "inpatient"

    asyncio.run(run())


def test_an_address_that_is_allowed_no_more_is_not_called(tmp_path: Path) -> None:
    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address]}) as at:
                customer = Customer(at, sold)
                await customer.settle()
                base = customer.base
            before = {trade: len(asked) for trade, asked in sold.asked.items()}
            async with asking(tmp_path) as at:
                customer = Customer(at, sold)
                customer.base = base
                data = await customer.search()
                assert {"vector", "rewrite", "rerank"} <= set(reasons(data))
                assert data["chunks"][0]["doc_id"] == "inpatient"
            assert {trade: len(asked) for trade, asked in sold.asked.items()} == before

    asyncio.run(run())
