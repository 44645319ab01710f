"""Registered models over HTTP: kept, masked, tried."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from qianxun.core.codec.wire import read_model
from qianxun.core.model_types import ModelTest
from qianxun.doors.http.native.models import ModelInfo
from qianxun.doors.http.response_models import of
from tests.http.asking import Asking, asking
from tests.http.vendor import (
    DIMENSION,
    RUBBISH,
    TRADES,
    Mood,
    dripping,
    failing,
    gone,
    hanging,
    of_dimension,
    refusing,
    saying,
    vendor,
)
from tests.models.embedding_service import unheard

KEY = "sk-canary0123456789abcdefWXYZ"
# The names and kinds of the seed's UserApiInfo.
USER_API_INFO = {
    "id": int,
    "user_id": int,
    "config_name": str,
    "api_key": str,
    "base_url": str,
    "model_name": str,
    "model_type": str,
    "model_dim": int,
    "max_tokens": int,
    "temperature": float,
    "top_p": float,
    "timeout": int,
    "status": int,
    "is_default": int,
    "created_at": str,
    "updated_at": str,
}
PUBLIC = "https://models.example.com/v1"


def model(kind: str, **told: Any) -> dict[str, Any]:
    about = {"config_name": f"我的 {kind}", "base_url": PUBLIC, "model_name": "m", "model_type": kind, "api_key": KEY}
    return {**about, **({"model_dim": DIMENSION} if kind == "embedding" else {}), **told}


async def registered(at: Asking, kind: str, user: str = "7", **told: Any) -> dict[str, Any]:
    response = await at.post(f"/user/api/{user}", model(kind, **told))
    assert response.status_code == 201, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


async def listed(at: Asking, kind: str, user: str = "7") -> list[dict[str, Any]]:
    response = await at.http.get(f"/user/api/{user}/{kind}")
    data = response.json()["data"]
    assert (response.status_code, data["total"]) == (200, len(data["list"]))
    found: list[dict[str, Any]] = data["list"]
    return found


def spellings(key: str) -> list[str]:
    """As a leak would show it: raw, in a URL, encoded."""
    return [key, quote(key), base64.b64encode(key.encode()).decode().rstrip("="), key[3:-4], key[::-1]]


# ── kept ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_is_that_of_the_seed(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            await registered(at, "embedding", temperature=0.5, is_default=1)
            await registered(at, "rerank")
            response = await at.http.get("/user/api/7/embedding")
            told = response.json()
            assert (told["code"], told["msg"], list(told["data"])) == (200, "success", ["total", "list"])
            (one,) = told["data"]["list"]
            assert list(one) == list(USER_API_INFO)
            assert {name: type(value) for name, value in one.items()} == USER_API_INFO
            assert (one["user_id"], one["model_dim"], one["is_default"]) == (7, DIMENSION, 1)
            assert set(one) == set(ModelInfo.model_fields)
            assert read_model(one) == (await at.engine.registry.list("7", "embedding"))[0]

    asyncio.run(run())


def test_models_come_change_and_go(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            made = await registered(at, "chat", max_tokens=100)
            path = f"/user/api/7/{made['id']}"
            changed = await at.http.patch(path, json={"config_name": "另一个名字", "top_p": 0.5, "status": 0})
            assert changed.status_code == 200
            kept = {**made, "config_name": "另一个名字", "top_p": 0.5, "status": 0}
            assert {**changed.json()["data"], "updated_at": ""} == {**kept, "updated_at": ""}
            assert (await at.http.patch(path, json={})).json()["data"] == changed.json()["data"]
            assert [each["id"] for each in await listed(at, "chat")] == [made["id"]]
            assert (await at.http.delete(path)).json()["data"] == {"deleted": True}
            assert await listed(at, "chat") == []
            for gone_now in (await at.http.delete(path), await at.http.patch(path, json={"status": 1})):
                assert (gone_now.status_code, gone_now.json()["error"]) == (404, "not_found")
            assert (await at.http.post(f"{path}/test")).status_code == 404

    asyncio.run(run())


def test_one_default_of_each_type(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            first = await registered(at, "rerank", is_default=1)
            second = await registered(at, "rerank", is_default=1)
            other = await registered(at, "qa", is_default=1)
            theirs = await registered(at, "rerank", user="8", is_default=1)
            assert [each["is_default"] for each in await listed(at, "rerank")] == [0, 1]
            await at.http.patch(f"/user/api/7/{first['id']}", json={"is_default": 1})
            assert {each["id"]: each["is_default"] for each in await listed(at, "rerank")} == {
                first["id"]: 1,
                second["id"]: 0,
            }
            assert (await listed(at, "qa"))[0]["id"] == other["id"]
            assert (await listed(at, "qa"))[0]["is_default"] == 1
            assert (await listed(at, "rerank", "8"))[0]["id"] == theirs["id"]
            assert (await listed(at, "rerank", "8"))[0]["is_default"] == 1

    asyncio.run(run())


def test_users_are_numbers_where_they_look_like_numbers(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            for user, shown in {"7": 7, "007": "007", "u_7": "u_7", "张三": "张三", str(2**63): str(2**63)}.items():
                assert (await registered(at, "qa", user=quote(user)))["user_id"] == shown
                assert [each["user_id"] for each in await listed(at, "qa", quote(user))] == [shown]

    asyncio.run(run())


def test_another_users_model_is_not_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            mine = (await registered(at, "rerank"))["id"]
            assert await listed(at, "rerank", "8") == []
            for answer in (
                await at.http.patch(f"/user/api/8/{mine}", json={"status": 0}),
                await at.http.delete(f"/user/api/8/{mine}"),
                await at.http.post(f"/user/api/8/{mine}/test"),
            ):
                assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
            assert (await listed(at, "rerank"))[0]["status"] == 1

    asyncio.run(run())


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"config_name": ""}, "config_name"),
    ({"config_name": "n" * 201}, "config_name"),
    ({"config_name": "看不见\x0f"}, "config_name"),
    ({"model_name": None}, "model_name"),
    ({"model_name": "　"}, "model_name"),
    ({"model_type": "image"}, "model_type"),
    ({"model_type": "embedding"}, "model_dim"),
    ({"model_dim": -1}, "model_dim"),
    ({"model_dim": 65_537}, "model_dim"),
    ({"max_tokens": 10**30}, "max_tokens"),
    ({"temperature": 2.1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": 601}, "timeout"),
    ({"timeout": "30"}, "timeout"),
    ({"status": 2}, "status"),
    ({"status": True}, "status"),
    ({"is_default": "yes"}, "is_default"),
    ({"api_key": "k" * 4097}, "api_key"),
    ({"api_key": 7}, "api_key"),
    ({"api_key": "sk 两段"}, "api_key"),
    ({"id": 3}, "id"),
    ({"base_url": ""}, "base_url"),
    ({"base_url": "ftp://models.example.com"}, "base_url"),
    ({"base_url": "http://127.0.0.1:9/v1"}, "base_url"),
    ({"base_url": "http://2130706433/v1"}, "base_url"),
    ({"base_url": "http://[::ffff:127.0.0.1]/v1"}, "base_url"),
    ({"base_url": "http://169.254.169.254/latest"}, "base_url"),
    ({"base_url": "http://localhost/v1"}, "base_url"),
    ({"base_url": "http://user:secret@models.example.com/v1"}, "base_url"),
)


def test_a_wrong_field_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            number = (await registered(at, "rerank"))["id"]
            for told, field in WRONG:
                responses = [await at.post("/user/api/7", model("rerank", **told))]
                if not {"model_type", "id"} & set(told) and None not in told.values():
                    whole = told if "base_url" not in told else {**told, "api_key": KEY}
                    responses.append(await at.http.patch(f"/user/api/7/{number}", json=whole))
                for response in responses:
                    assert response.status_code == 422, (told, response.text)
                    assert {each["field"] for each in response.json()["fields"]} == {field}, told
                    assert KEY not in response.text
            assert len(await listed(at, "rerank")) == 1

    asyncio.run(run())


def test_a_path_that_means_no_model(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            for path, status in (
                ("/user/api/7/pictures", 422),
                ("/user/api/7/17", 422),
                (f"/user/api/{'u' * 129}/chat", 422),
                ("/user/api/%00/chat", 422),
                ("/user/api/%20/chat", 422),
            ):
                response = await at.http.get(path)
                assert response.status_code == status, path
                assert response.json()["fields"][0]["field"] in ("user_id", "model_type")
            for number, status in (("0", 422), (str(2**63), 422), (str(2**63 - 1), 404), ("x", 422)):
                assert (await at.http.delete(f"/user/api/7/{number}")).status_code == status, number
                assert (await at.http.post(f"/user/api/7/{number}/test")).status_code == status, number

    asyncio.run(run())


def test_a_key_never_comes_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address]}) as at:
                made = await registered(at, "rerank", base_url=sold.url)
                path = f"/user/api/7/{made['id']}"
                assert made["api_key"].endswith(KEY[-4:])
                base = await at.base(config={"search": {"rerank": f"user-model:{made['id']}"}})
                sold.become("rerank", refusing)  # with the key in what it says
                told = [
                    await at.http.get("/user/api/7/rerank"),
                    await at.http.patch(path, json={"api_key": KEY, "timeout": 1}),
                    await at.http.patch(path, json={"api_key": KEY + "\n;", "timeout": 1}),
                    await at.http.patch(path, json={"api_key": KEY + "…"}),
                    await at.http.patch(path, json={"api_key": [KEY]}),
                    await at.http.patch(path, json={"model_dim": -1, "api_key": KEY}),
                    await at.http.post(f"{path}/test"),
                    await at.post(f"/v1/retrieval/{base}", {"query": "住院"}),
                    await at.http.get("/v1/retrieval-logs"),
                    await at.http.get(f"/v1/knowledge-bases/{base}"),
                    await at.http.get("/openapi.json"),
                ]
                assert [each.status_code for each in told] == [200, 200, 422, 422, 422, 422, 200, 200, 200, 200, 200]
                assert told[6].json()["data"]["ok"] is False
                for response in told:
                    assert not [one for one in spellings(KEY) if one in response.text], response.text[:300]

    with caplog.at_level("DEBUG"):
        asyncio.run(run())
    assert not [one for one in spellings(KEY) if one in caplog.text]


# ── tried ────────────────────────────────────────────────────────────────────────────────────────

TRIALS: tuple[tuple[str, Mood, str], ...] = (
    ("embedding", refusing, "401"),
    ("embedding", of_dimension(DIMENSION + 1), f"{DIMENSION + 1}"),
    ("embedding", hanging, "超时"),
    ("embedding", failing(404, "no such model"), "404"),
    ("rerank", saying(RUBBISH[1]), "回复"),
    ("rerank", failing(500), "500"),
    ("chat", dripping(60), "超时"),
    ("chat", saying(b"{}"), "回复"),
    ("chat", gone, "不完整"),
)


def test_a_trial_says_what_is_wrong(tmp_path: Path) -> None:
    async def run() -> None:
        with vendor(KEY) as sold:
            async with asking(tmp_path, {"outbound.allow": [sold.address]}) as at:
                paths = {}
                for kind in ("embedding", "rerank", "chat"):
                    made = await registered(at, kind, base_url=sold.url, timeout=60)
                    paths[kind] = f"/user/api/7/{made['id']}/test"
                    told = (await at.http.post(paths[kind])).json()["data"]
                    assert (told["ok"], told["reason"]) == (True, ""), told
                    assert told["dimension"] == (DIMENSION if kind == "embedding" else None)
                    assert set(told) == set(of(ModelTest).model_fields)
                for kind, mood, word in TRIALS:
                    sold.moods = dict.fromkeys(TRADES, mood)
                    patience = {"timeout": 1 if word == "超时" else 60}
                    await at.http.patch(paths[kind].removesuffix("/test"), json=patience)
                    response = await at.http.post(paths[kind])
                    told = response.json()["data"]
                    assert (response.status_code, told["ok"]) == (200, False), word
                    assert word in told["reason"], (word, told["reason"])
                    assert KEY not in response.text

    asyncio.run(run())


def test_a_trial_of_a_service_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        with unheard() as url:
            async with asking(tmp_path, {"outbound.allow": ["127.0.0.1"]}) as at:
                made = await registered(at, "chat", base_url=url, timeout=60)
                told = (await at.http.post(f"/user/api/7/{made['id']}/test")).json()["data"]
                assert told["ok"] is False
                assert told["reason"]

    asyncio.run(run())
