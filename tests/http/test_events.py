"""Events of another system over HTTP: durable when answered, searchable soon, harmless when repeated or late."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.http.asking import Asking, asking

DOCUMENT = {"document_id": "123", "name": "手册.md", "content": "住院报销比例为百分之八十五。"}


async def sent(at: Asking, base: int, kind: str, **told: Any) -> dict[str, Any]:
    body = {"type": kind, "knowledge_base_id": base, **DOCUMENT, **told}
    response = await at.post("/v1/events", body)
    assert response.status_code == 202, response.text
    assert response.json()["code"] == 202
    data: dict[str, Any] = response.json()["data"]
    return data


async def found(at: Asking, base: int, query: str) -> list[str]:
    """What a search finds once the index has caught up."""
    await at.engine.drain(base)
    response = await at.post(f"/v1/retrieval/{base}", {"query": query, "retrieval_mode": "fulltext"})
    return [chunk["content"] for chunk in response.json()["data"]["chunks"]]


def test_a_document_comes_changes_and_goes(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base()
            told = await sent(at, base, "document.created", event_id="e1", content_type="chapter", tags=["医保"])
            assert told == {"result": "accepted", "document_id": "123", "generation": 1, "reason": ""}
            assert await found(at, base, "住院报销") == [DOCUMENT["content"]]
            assert (await sent(at, base, "document.created", event_id="e1"))["result"] == "duplicate"
            assert (await sent(at, base, "document.updated", content="门诊报销百分之六十。"))["result"] == "accepted"
            assert await found(at, base, "门诊报销") == ["门诊报销百分之六十。"]
            assert (await sent(at, base, "document.updated", content=""))["result"] == "accepted"  # cleared
            assert await found(at, base, "门诊报销") == []
            assert (await sent(at, base, "document.updated", content="门诊报销百分之六十。"))["result"] == "accepted"
            assert (await sent(at, base, "document.deleted"))["result"] == "accepted"
            assert await found(at, base, "门诊报销") == []
            assert (await sent(at, base, "document.deleted"))["result"] == "unchanged"

    asyncio.run(run())


def test_what_comes_late_changes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base()
            await sent(at, base, "updated", generation=5)
            late = await sent(at, base, "created", generation=2, content="旧的内容")
            assert (late["result"], late["generation"]) == ("stale", 5)
            assert (await sent(at, base, "deleted", generation=4))["result"] == "stale"
            assert await found(at, base, "住院报销") == [DOCUMENT["content"]]
            assert (await sent(at, base, "deleted", generation=6))["result"] == "accepted"
            assert await found(at, base, "住院报销") == []

    asyncio.run(run())


def test_fields_of_the_senders_own_are_passed_over(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base()
            own = {"occurred_at": "2026-01-01", "trace": {"id": [1, None]}}
            assert (await sent(at, base, "document.created", **own))["result"] == "accepted"

    asyncio.run(run())


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"type": "document.moved"}, "type"),
    ({"type": None}, "type"),
    ({"document_id": ""}, "document_id"),
    ({"document_id": "d" * 256}, "document_id"),
    ({"document_id": 123}, "document_id"),
    ({"knowledge_base_id": 0}, "knowledge_base_id"),
    ({"knowledge_base_id": 2**63}, "knowledge_base_id"),
    ({"knowledge_base_id": ""}, "knowledge_base_id"),
    ({"knowledge_base_id": True}, "knowledge_base_id"),
    ({"event_id": "e" * 201}, "event_id"),
    ({"generation": 0}, "generation"),
    ({"generation": True}, "generation"),
    ({"generation": 2**62}, "generation"),
    ({"format": "pdf"}, "format"),
    ({"tags": "医保"}, "tags"),
    ({"metadata": [1]}, "metadata"),
    ({"content": {"text": "x"}}, "content"),
    ({"user_id": "u" * 129}, "user_id"),
)


def test_a_wrong_field_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base()
            for told, field in WRONG:
                body = {"type": "document.created", "knowledge_base_id": base, **DOCUMENT, **told}
                response = await at.post("/v1/events", body)
                assert response.status_code == 422, (told, response.text)
                assert {each["field"].partition(".")[0] for each in response.json()["fields"]} == {field}, told

    asyncio.run(run())


SENSELESS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"content": None}, "content"),
    ({"content": "  "}, "content"),
    ({"document_id": "  "}, "document_id"),
    ({"metadata": {"页": {"第": 1}}}, "metadata.页"),
    ({"name": "有\x00空字符"}, "name"),
    ({"tags": ["\x00"]}, "tags"),
)


def test_an_event_that_makes_no_sense_is_sent_back_with_its_reason(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base()
            for told, word in SENSELESS:
                body = {"type": "document.created", "knowledge_base_id": base, **DOCUMENT, **told}
                response = await at.post("/v1/events", body)
                assert (response.status_code, response.json()["error"]) == (422, "rejected"), told
                assert word in response.json()["msg"], told
            assert await found(at, base, "住院报销") == []

    asyncio.run(run())


def test_what_a_type_may_be_is_said_in_chinese(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            body = {"type": "chapter.saved", "knowledge_base_id": await at.base(), **DOCUMENT}
            told = (await at.post("/v1/events", body)).json()["msg"]
            assert "'document.created'、'document.updated'、" in told
            assert told.endswith("'updated' 或 'deleted'")

    asyncio.run(run())


def test_an_unknown_base_is_not_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            for kind in ("created", "updated", "deleted"):
                body = {"type": kind, "knowledge_base_id": 4711, **DOCUMENT}
                response = await at.post("/v1/events", body)
                assert (response.status_code, response.json()["error"]) == (404, "not_found")

    asyncio.run(run())
