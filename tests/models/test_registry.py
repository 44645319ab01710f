"""Registered models in use, over real HTTP: looked up for every call, and gone with the very next one."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qianxun.core.errors import BadInput, ModelUnavailable, NotFound, QianxunError
from qianxun.core.model_types import ModelTest, NewModel, UserModel, is_ref
from qianxun.core.types import Message
from qianxun.engine.model_catalog import BaseModels, ModelCatalog
from qianxun.engine.settings import Settings
from qianxun.models.client_pool import ClientPool
from qianxun.models.registry import Registry
from qianxun.models.remote.url_policy import UrlPolicy
from qianxun.records import Records
from qianxun.records.database.open import sqlite_url
from qianxun.records.secrets.sealing import Sealing
from tests.answer.asked import FakeChat
from tests.models.embedding_service import (
    DIMENSION,
    Exchange,
    body,
    expected,
    ranks_well,
    says,
    serving,
    status,
    well,
    with_rows,
)

KEY = "sk-canary-0123456789abcdef"
OTHER = "sk-another-9876543210fedc"
HELLO = [Message("user", "你好")]


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records.open(sqlite_url(tmp_path / "models.db"))
    yield opened
    opened.close()


@pytest.fixture
def registry(records: Records, tmp_path: Path) -> Iterator[Registry]:
    made = Registry(records, Sealing("", tmp_path / "secret.key"), "甲", UrlPolicy(allow=("127.0.0.1",)))
    yield made
    made.clients.close()


def model(url: str, model_type: str = "embedding", **told: Any) -> NewModel:
    dimension = DIMENSION if model_type == "embedding" else 0
    about = {"config_name": "我的", "base_url": url, "model_name": "m", "model_type": model_type, "timeout": 60}
    return NewModel(**({"api_key": KEY, "model_dim": dimension} | about | told))


def add(registry: Registry, url: str, model_type: str = "embedding", user: str = "7", **told: Any) -> UserModel:
    return asyncio.run(registry.add(user, model(url, model_type, **told)))


def change(registry: Registry, one: UserModel, **told: Any) -> UserModel:
    return asyncio.run(registry.change("7", one.id, told))


def tried(registry: Registry, one: UserModel) -> ModelTest:
    return asyncio.run(registry.test("7", one.id))


# ── using ────────────────────────────────────────────────────────────────────────────────────────


def test_an_embedding_model_answers_with_its_key(registry: Registry) -> None:
    with serving(well) as service:
        one = add(registry, service.url)
        used = registry.embedding(one.ref)
        assert (used.name, used.dimension) == (f"user-model:{one.id}", DIMENSION)
        np.testing.assert_allclose(used.embed_query("住院"), expected(["住院"])[0], atol=1e-6)
        assert used.embed_passages(["甲", "乙"]).shape == (2, DIMENSION)
        assert {each["authorization"] for each in service.headers} == {f"Bearer {KEY}"}
        assert service.asked[0]["model"] == "m"


def test_a_language_model_is_asked_as_it_was_registered(registry: Registry) -> None:
    with serving(says("好")) as service:
        for model_type in ("chat", "qa", "rewrite", "vision"):
            one = add(registry, service.url, model_type, temperature=0.5, top_p=0.9, max_tokens=64)
            used = registry.chat(one.ref)
            assert (used.complete(HELLO), used.name) == ("好", f"{one.ref}/m")
            asked = service.asked[-1]
            assert (asked["temperature"], asked["top_p"], asked["max_tokens"]) == (0.5, 0.9, 64)
        registry.chat(add(registry, service.url, "chat").ref).complete(HELLO)
        assert {"top_p", "max_tokens"}.isdisjoint(service.asked[-1])


def test_a_reranker_scores_and_has_another_name_after_a_change(registry: Registry) -> None:
    with serving(ranks_well) as service:
        one = add(registry, service.url, "rerank")
        used = registry.rerank(one.ref)
        assert list(used.score("住院", ["住院的报销", "公园"])) == [1.0, 0.0]
        change(registry, one, model_name="m2")
        assert registry.rerank(one.ref).name != used.name  # scores are kept by it


def test_a_model_without_a_key_sends_none(registry: Registry, tmp_path: Path) -> None:
    with serving(says("好")) as service:
        one = add(registry, service.url, "chat", api_key="")
        assert one.masked_key == ""
        registry.chat(one.ref).complete(HELLO)
        assert "authorization" not in service.headers[-1]
    assert not (tmp_path / "secret.key").exists()


def test_a_new_key_is_used_by_the_very_next_call_and_the_old_one_never_again(registry: Registry) -> None:
    with serving(says("好")) as service:
        one = add(registry, service.url, "chat")
        used = registry.chat(one.ref)  # held on to, as by a document with many chunks
        used.complete(HELLO)
        assert change(registry, one, api_key=OTHER).masked_key == "sk-…fedc"
        used.complete(HELLO)
        change(registry, one, api_key="")
        used.complete(HELLO)
        assert [each.get("authorization") for each in service.headers] == [f"Bearer {KEY}", f"Bearer {OTHER}", None]


def test_what_is_disabled_or_removed_is_not_asked_again(registry: Registry) -> None:
    with serving(well) as service:
        one = add(registry, service.url)
        used = registry.embedding(one.ref)
        used.embed_query("甲")
        change(registry, one, status=0)
        for ask in (lambda: used.embed_query("甲"), lambda: registry.embedding(one.ref)):
            with pytest.raises(ModelUnavailable, match="停用"):
                ask()
        change(registry, one, status=1)
        used.embed_query("甲")
        asyncio.run(registry.remove("7", one.id))
        with pytest.raises(ModelUnavailable, match="删去"):
            used.embed_query("甲")
        with pytest.raises(NotFound):
            registry.embedding(one.ref)
        assert len(service.asked) == 2
    assert registry.clients.opened == 0


def test_what_another_process_changed_is_seen(registry: Registry, tmp_path: Path) -> None:
    beside = Records.open(sqlite_url(tmp_path / "models.db"))
    elsewhere = Registry(beside, Sealing("", tmp_path / "secret.key"), "甲", registry.policy)
    with serving(says("好")) as service:
        one = add(registry, service.url, "chat")
        registry.chat(one.ref).complete(HELLO)
        change(elsewhere, one, api_key=OTHER)
        registry.chat(one.ref).complete(HELLO)
        assert service.headers[-1]["authorization"] == f"Bearer {OTHER}"
    beside.close()


def test_each_kind_of_use_wants_its_own_type(registry: Registry) -> None:
    chat, rerank = add(registry, "https://example.com", "chat"), add(registry, "https://example.com", "rerank")
    for find, one in ((registry.rerank, chat), (registry.embedding, chat), (registry.chat, rerank)):
        with pytest.raises(BadInput, match=one.model_type):
            find(one.ref)


@pytest.mark.parametrize(
    "ref", ["user-model:", "user-model:x", "user-model:-1", "user-model:１", "user-model:" + "9" * 40]
)
def test_a_name_that_no_model_can_have_is_not_found(registry: Registry, ref: str) -> None:
    assert is_ref(ref)
    for find in (registry.chat, registry.rerank, registry.embedding, registry.find):
        with pytest.raises(NotFound):
            find(ref)


def test_another_tenants_model_is_not_there(registry: Registry) -> None:
    one = add(registry, "https://example.com", "chat", is_default=1)
    foreign = registry.of("乙")
    for find in (foreign.chat, foreign.find):
        with pytest.raises(NotFound):
            find(one.ref)
    for asked in (
        foreign.get("7", one.id),
        foreign.test("7", one.id),
        foreign.remove("7", one.id),
        foreign.change("7", one.id, {}),
    ):
        with pytest.raises(NotFound):
            asyncio.run(asked)
    assert asyncio.run(foreign.list("7", "chat")) == []
    assert foreign.default("7", "chat") is None
    assert asyncio.run(registry.get("7", one.id)) == one


def test_a_key_moved_to_another_row_is_not_used(registry: Registry, records: Records) -> None:
    with serving(says("好")) as service:
        one, two = add(registry, service.url, "chat"), add(registry, service.url, "chat", api_key=OTHER)
        with records.writing() as tx:
            moved = "update user_models set sealed_key = (select sealed_key from user_models where id = ?) where id = ?"
            tx.exec_driver_sql(moved, (one.id, two.id))
        with pytest.raises(ModelUnavailable, match="解不开"):
            registry.chat(two.ref).complete(HELLO)
        assert service.asked == []


def test_a_wrong_secret_spoils_the_models_with_a_key_and_nothing_else(registry: Registry, tmp_path: Path) -> None:
    with serving(says("好")) as service:
        keyed, open_to_all = add(registry, service.url, "chat"), add(registry, service.url, "chat", api_key="")
        (tmp_path / "secret.key").unlink()
        with pytest.raises(ModelUnavailable, match="不见了"):
            registry.chat(keyed.ref).complete(HELLO)
        assert registry.chat(open_to_all.ref).complete(HELLO) == "好"
        told = tried(registry, keyed)
        assert (told.ok, "不见了" in told.reason) == (False, True)
        change(registry, keyed, api_key=OTHER)
        assert registry.chat(keyed.ref).complete(HELLO) == "好"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/v1", "http://localhost/v1", "http://[::1]/", "http://169.254.169.254/"]
)
def test_an_address_of_the_own_network_is_refused(records: Records, tmp_path: Path, url: str) -> None:
    strict = Registry(records, Sealing("", tmp_path / "secret.key"), "甲")
    with pytest.raises(BadInput, match="base_url"):
        add(strict, url, "chat")
    one = add(strict, "https://example.com/v1", "chat")
    with pytest.raises(BadInput, match="base_url"):
        change(strict, one, base_url=url, api_key=KEY)


def test_an_address_that_is_allowed_no_more_is_not_asked(registry: Registry) -> None:
    with serving(says("好")) as service:
        one = add(registry, service.url, "chat")
        strict = replace(registry, policy=UrlPolicy(), clients=ClientPool())
        with pytest.raises(QianxunError, match="不允许"):
            strict.chat(one.ref).complete(HELLO)
        assert not tried(strict, one).ok
        assert service.asked == []


# ── trying ───────────────────────────────────────────────────────────────────────────────────────


def slow(exchange: Exchange) -> None:
    exchange.service.released.wait(20)


@pytest.mark.parametrize(
    ("model_type", "answer", "told"),
    [
        ("embedding", with_rows(lambda rows: [row[:7] for row in rows]), "7 维"),
        ("embedding", status(401, b'{"error": "bad key"}'), "api_key"),
        ("rerank", status(403), "api_key"),
        ("chat", status(404), "base_url"),
        ("chat", status(500), "500"),
        ("chat", status(302, location="http://127.0.0.1:9/"), "重定向"),
        ("chat", body(b"<html>"), "OpenAI"),
        ("embedding", body(b"{}"), "OpenAI"),
        ("embedding", with_rows(lambda rows: rows * 2), "向量"),
        ("embedding", with_rows(lambda rows: [[0.0] * DIMENSION]), "全为零"),
        ("embedding", with_rows(lambda rows: [["甲"] * DIMENSION]), "不是数字"),
        ("embedding", with_rows(lambda rows: []), "向量"),
        ("rerank", body(b'{"results": []}'), "分数"),
        ("chat", says(""), "没有文字"),
    ],
)
def test_trying_says_what_is_wrong(registry: Registry, model_type: str, answer: Callable[..., None], told: str) -> None:
    with serving(answer) as service:
        found = tried(registry, add(registry, service.url, model_type))
        assert (found.ok, len(service.asked)) == (False, 1)
        assert told in found.reason
        assert KEY not in found.reason


def test_trying_says_the_dimension_that_came(registry: Registry) -> None:
    with serving(well) as service:
        assert tried(registry, add(registry, service.url)) == ModelTest(True, "", pytest.approx(0, abs=60), DIMENSION)
        wrong = tried(registry, add(registry, service.url, model_dim=99))
        assert (wrong.ok, wrong.dimension) == (False, DIMENSION)


def test_a_service_that_does_not_answer_is_given_up(registry: Registry) -> None:
    with serving(slow) as service:
        found = tried(registry, add(registry, service.url, "chat", timeout=1))
        assert (found.ok, "超时" in found.reason) == (False, True)
    gone = tried(registry, add(registry, service.url, "chat", timeout=1))
    assert (gone.ok, "连接" in gone.reason) == (False, True)


def test_a_disabled_model_can_be_tried_and_a_good_one_is_told_so(registry: Registry) -> None:
    with serving(says("好")) as service:
        assert tried(registry, add(registry, service.url, "chat", status=0)).ok
    with serving(ranks_well) as service:
        assert tried(registry, add(registry, service.url, "rerank")).ok


def test_a_key_that_the_service_echoes_is_not_shown(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(status(401, json.dumps({"error": f"wrong key {KEY}"}).encode())) as service:
        one = add(registry, service.url, "chat")
        assert KEY not in tried(registry, one).reason
        with pytest.raises(ModelUnavailable) as refused:
            registry.chat(one.ref).complete(HELLO)
    shown = f"{refused.value!r} {refused.value} {caplog.text} {one!r} {registry!r} {registry.clients!r}"
    assert KEY not in shown
    assert "401" in shown


# ── opened clients ───────────────────────────────────────────────────────────────────────────────


@dataclass
class Client:
    version: int
    is_closed: bool = False

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


def lend(clients: ClientPool, model: int, version: int, made: list[Client]) -> Any:
    def opened() -> Client:
        made.append(Client(version))
        return made[-1]

    return clients.borrow(model, version, opened)


def test_a_client_serves_many_calls_and_an_old_one_closes_once_idle() -> None:
    clients, made = ClientPool(), list[Client]()
    with lend(clients, 1, 1, made) as old:
        with lend(clients, 1, 1, made) as same:
            assert same is old
        with lend(clients, 1, 2, made) as latest:
            assert latest is not old
        assert not old.is_closed  # somebody still reads its reply
    assert [each.is_closed for each in made] == [True, False]
    clients.close()
    assert [each.is_closed for each in made] == [True, True]


def test_a_call_that_comes_late_with_the_old_version_does_not_push_out_the_new_one() -> None:
    clients, made = ClientPool(), list[Client]()
    with lend(clients, 1, 2, made):
        pass
    with lend(clients, 1, 1, made) as late:
        assert (late.version, late.is_closed) == (1, False)
    assert [(each.version, each.is_closed) for each in made] == [(2, False), (1, True)]
    clients.close()


def test_a_dropped_client_closes_once_idle() -> None:
    clients, made = ClientPool(), list[Client]()
    with lend(clients, 1, 1, made):
        clients.drop(1)
        assert not made[0].is_closed
    assert made[0].is_closed
    clients.drop(1)
    with lend(clients, 1, 1, made):
        assert len(made) == 2


def test_only_so_many_clients_stay_open_and_the_longest_unused_goes_first() -> None:
    clients, made = ClientPool(size=2), list[Client]()
    for model in (1, 2, 1, 3):
        with lend(clients, model, model, made):
            pass
    assert [(each.version, each.is_closed) for each in made] == [(1, False), (2, True), (3, False)]


def test_a_call_that_fails_gives_its_client_back() -> None:
    clients, made = ClientPool(), list[Client]()
    with pytest.raises(ValueError, match="x"), lend(clients, 1, 1, made):
        raise ValueError("x")
    clients.close()
    assert made[0].is_closed
    with pytest.raises(RuntimeError, match="closed"), lend(clients, 1, 1, made):
        pass
    assert made[1].is_closed


def test_no_client_is_closed_in_use_or_left_open_however_calls_and_changes_meet() -> None:
    clients, made, wrong = ClientPool(size=3), list[Client](), list[str]()

    def call(seed: int) -> None:
        for turn in range(200):
            model, version = (seed + turn) % 5, turn // 20
            with lend(clients, model, version, made) as client:
                if client.is_closed or client.version != version:
                    wrong.append(f"{client} for {version}")
            if turn % 7 == 0:
                clients.drop(model)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clients.close()
    assert wrong == []
    assert all(each.is_closed for each in made)


# ── what a base sees ─────────────────────────────────────────────────────────────────────────────


def test_a_base_sees_its_tenants_models_and_what_all_have(registry: Registry) -> None:
    brought = FakeChat("qwen", lambda: "好")
    shelf = ModelCatalog(Settings(), [], {"qwen": brought})
    one = add(registry, "https://example.com", "chat")
    own, foreign = (BaseModels(shelf, registry.of(tenant), lambda: "7") for tenant in ("甲", "乙"))
    assert own.chat(one.ref).name == f"{one.ref}/m"
    assert own.chat("qwen") is foreign.chat("qwen") is brought
    with pytest.raises(ModelUnavailable, match="删去"):
        foreign.chat(one.ref)
    with pytest.raises(NotFound):
        foreign.check_chat(one.ref)
    own.check_chat(one.ref)


def test_default_means_the_owners_of_this_moment(registry: Registry) -> None:
    owner = "7"
    own = BaseModels(ModelCatalog(Settings(), [], {}), registry, lambda: owner)
    own.check_chat("default")
    own.check_rerank("default", None)
    for find in (lambda: own.chat("default", "rewrite"), lambda: own.rerank("default", None)):
        with pytest.raises(ModelUnavailable, match="默认"):
            find()
    chat, rewrite = (add(registry, "https://example.com", kind, is_default=1) for kind in ("chat", "rewrite"))
    assert own.chat("default", "rewrite").name == f"{rewrite.ref}/m"
    assert own.chat("default", "qa").name == f"{chat.ref}/m"  # none for questions: the one for everything
    later = add(registry, "https://example.com", "rewrite", is_default=1)
    assert own.chat("default", "rewrite").name == f"{later.ref}/m"
    owner = "8"
    with pytest.raises(ModelUnavailable, match="用户 8"):
        own.chat("default", "rewrite")
