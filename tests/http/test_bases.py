"""Knowledge bases over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.http.asking import MODEL, Asking, asking

BASES = "/v1/knowledge-bases"
NEW = {"name": "医保", "embedding_model": MODEL}


def run(folder: Path, story: Callable[[Asking], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asking(folder) as asked:
            await story(asked)

    asyncio.run(told())


def test_a_base_is_made_told_renamed_configured_and_deleted(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        made = await asked.post(BASES, {**NEW, "config": {"chunk_size": 300, "search": {"fusion": "rrf"}}})
        assert made.status_code == 201
        told = made.json()
        assert (told["code"], told["msg"]) == (201, "success")
        base = told["data"]["id"]
        assert told["data"] == {
            "id": base,
            "name": "医保",
            "kind": "documents",
            "embedding_model": MODEL,
            "dimension": 64,
            "config": {"chunk_size": 300, "chunk_overlap": 50, "by_meaning": False, "search": {"fusion": "rrf"}},
            "created_at": told["data"]["created_at"],
        }
        one = f"{BASES}/{base}"
        assert (await asked.http.get(one)).json()["data"] == {**told["data"], "statistics": {"chunks": 0, "tables": 0}}
        changed = await asked.http.patch(
            one, json={"name": "医疗保险", "config": {"search": {"fusion": None, "top_k": 5}}}
        )
        assert changed.json()["data"]["name"] == "医疗保险"
        assert changed.json()["data"]["config"]["search"] == {"top_k": 5}
        assert (await asked.http.patch(one, json={})).json()["data"] == changed.json()["data"]
        assert (await asked.http.delete(one)).json()["data"]["deleted"] is True
        for again in (asked.http.get(one), asked.http.delete(one), asked.http.patch(one, json={"name": "x"})):
            assert (await again).status_code == 404

    run(tmp_path, story)


def test_synonyms_are_lists_of_groups(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        made = await asked.post(BASES, {**NEW, "config": {"synonyms": [["报销", "报账"], ["手机", ">智能手机"]]}})
        assert made.json()["data"]["config"]["synonyms"] == [["报销", "报账"], ["手机", ">智能手机"]]
        one = f"{BASES}/{made.json()['data']['id']}"
        changed = await asked.http.patch(one, json={"config": {"synonyms": [["报销"]]}})
        assert changed.json()["data"]["config"]["synonyms"] == [["报销"]]
        for wrong in ("报销=报账", ["报销"], [["报销", 7]], [[]], [["报销", {"a": 1}]]):
            refused = await asked.http.patch(one, json={"config": {"synonyms": wrong}})
            assert (refused.status_code, refused.json()["error"]) == (400, "bad_input")
            assert "同义词" in refused.json()["msg"]
        assert (await asked.http.get(one)).json()["data"]["config"]["synonyms"] == [["报销"]]
        cleared = await asked.http.patch(one, json={"config": {"synonyms": None}})
        assert "synonyms" not in cleared.json()["data"]["config"]

    run(tmp_path, story)


def test_bases_are_listed_a_page_at_a_time(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        ids = [(await asked.post(BASES, {**NEW, "name": f"库{n}"})).json()["data"]["id"] for n in range(5)]
        seen: list[int] = []
        after: int | None = 0
        while after is not None:
            page = (await asked.http.get(BASES, params={"limit": 2, "after": after})).json()["data"]
            assert page["total"] == 5
            seen += [each["id"] for each in page["knowledge_bases"]]
            after = page["next"]
        assert seen == ids

    run(tmp_path, story)


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        await asked.post(BASES, NEW)
        other = (await asked.post(BASES, {**NEW, "name": "别的"})).json()["data"]["id"]
        again = await asked.post(BASES, NEW)
        assert (again.status_code, again.json()["error"]) == (409, "already_there")
        taken = await asked.http.patch(f"{BASES}/{other}", json={"name": "医保", "config": {"chunk_size": 200}})
        assert taken.status_code == 409
        held = (await asked.http.get(f"{BASES}/{other}")).json()["data"]
        assert (held["name"], held["config"]["chunk_size"]) == ("别的", 500)

    run(tmp_path, story)


def test_a_configuration_that_is_refused_takes_the_new_name_back(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        base = (await asked.post(BASES, NEW)).json()["data"]["id"]
        for config, status in (({"chunk_size": -5}, 400), ({"rewrite_model": "没有这个模型"}, 422)):
            refused = await asked.http.patch(f"{BASES}/{base}", json={"name": "新名", "config": config})
            assert refused.status_code == status, refused.text
            assert (await asked.http.get(f"{BASES}/{base}")).json()["data"]["name"] == "医保"

    run(tmp_path, story)


def _nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


NOT_BASES = [
    ({}, 422, "name"),
    ({"name": ""}, 422, "name"),
    ({"name": "x" * 201}, 422, "name"),
    ({"name": 5}, 422, "name"),
    ({"name": None}, 422, "name"),
    ({"name": "a", "kind": "other"}, 422, "kind"),
    ({"name": "a", "nmae": "b"}, 422, "nmae"),
    ({"name": "a", "embedding_model": "没有这个模型"}, 422, "embedding_model"),
    ({"name": "a", "config": []}, 422, "config"),
    ({"name": "a", "config": _nested(10)}, 422, "config"),
    ({"name": "a", "config": _nested(400)}, 422, "config"),
    ({"name": "a", "config": {"rewrite_model": "没有"}}, 422, "config"),
    ({"name": "a", "config": {"unknown": 1}}, 400, None),
    ({"name": "   "}, 400, None),
    ({"name": "a\x00b"}, 400, None),
    ([], 422, "body"),
    ("text", 422, "body"),
]


def test_what_cannot_be_a_base_is_told_by_field(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        for body, status, field in NOT_BASES:
            told = await asked.post(BASES, body)
            assert told.status_code == status, (body, told.text)
            said = told.json()
            assert (said["code"], said["data"]) == (status, None)
            if field is not None:
                assert field in [each["field"] for each in said["fields"]]
                assert all(each["reason"] for each in said["fields"])
            else:
                assert said["error"] == "bad_input"
            assert (await asked.http.get(BASES)).json()["data"]["total"] == 0

    run(tmp_path, story)


NOT_NUMBERS = ["0", "-1", "abc", "1.5", str(2**63), "9" * 400, "%00", "１００１"]


def test_what_cannot_be_a_number_of_a_base_is_no_base(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        for number in NOT_NUMBERS:
            told = await asked.http.get(f"{BASES}/{number}")
            assert told.status_code in (404, 422), told.text
            assert told.json()["code"] == told.status_code

    run(tmp_path, story)


def test_a_model_that_its_user_has_disabled_is_a_wrong_field(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        about = {"config_name": "嵌入", "base_url": "https://api.example.com/v1", "model_name": "m", "status": 0}
        kind = {"model_type": "embedding", "model_dim": 8, "is_default": 1}
        model = (await asked.post("/user/api/7", {**about, **kind})).json()["data"]["id"]
        for named in ({"embedding_model": f"user-model:{model}"}, {"user_id": "7"}):
            refused = await asked.post(BASES, {"name": "医保", **named})
            assert (refused.status_code, refused.json()["fields"][0]["field"]) == (422, "embedding_model")
            assert "retry-after" not in refused.headers

    run(tmp_path, story)
