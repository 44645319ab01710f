"""The application as a whole: one shape for errors, a complete OpenAPI document, a page without anything foreign."""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from qianxun.core.errors import (
    AlreadyThere,
    BadFilter,
    BadInput,
    BadModelReply,
    BadQuery,
    Forbidden,
    IndexUnusable,
    MissingExtra,
    NotFound,
    Overloaded,
    QianxunError,
    RecallFailed,
    TooLarge,
    TooSlow,
    Unauthorized,
    Unreadable,
    UnsupportedFile,
)
from qianxun.doors.http import error_formats
from qianxun.doors.http.field_errors import InvalidField
from qianxun.doors.http.responses import json_response, status_of
from tests.http.asking import Asking, asking

BASES = "/v1/knowledge-bases"
SECRET = "at /home/somebody/secret.db"


def run(folder: Path, story: Callable[[Asking], Awaitable[None]], told: dict[str, Any] | None = None) -> None:
    async def whole() -> None:
        async with asking(folder, told) as asked:
            await story(asked)

    asyncio.run(whole())


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


STATUS_OF: list[tuple[QianxunError, int]] = [
    (BadInput("x"), 400),
    (InvalidField("a", "b"), 422),
    (BadQuery("x"), 422),
    (BadFilter("x"), 422),
    (NotFound("x"), 404),
    (AlreadyThere("x"), 409),
    (Unauthorized("x"), 401),
    (Forbidden("x"), 403),
    (TooLarge("x"), 413),
    (UnsupportedFile("x"), 415),
    (Unreadable("x"), 422),
    (TooSlow("x"), 422),
    (Overloaded("x"), 503),
    (RecallFailed("x"), 503),
    (BadModelReply("x"), 503),
    (IndexUnusable("x"), 503),
    (MissingExtra("x", "y"), 503),
    (QianxunError("x"), 500),
]


def test_every_error_has_its_status_and_one_shape(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        for at, (error, status) in enumerate(STATUS_OF):
            assert status_of(error) == status
            _raise_at(asked, f"/raised/{at}", error)
            told = await asked.http.get(f"/raised/{at}")
            said = told.json()
            assert told.status_code == said["code"] == status
            assert (said["data"], said["error"]) == (None, error.word)
            assert set(said) <= {"code", "msg", "data", "error", "fields"}
            assert ("retry-after" in told.headers) is (status == 503)

    run(tmp_path, story)


def _raise_at(asked: Asking, path: str, error: Exception) -> None:
    async def raising() -> None:
        raise error

    asked.app.get(path)(raising)


def _full() -> OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    told = OperationalError("INSERT", None, error)
    told.__cause__ = error
    return told


UNFORESEEN: list[tuple[Exception, int, str]] = [
    (ZeroDivisionError(SECRET), 500, "internal"),
    (OSError(errno.EIO, SECRET), 500, "internal"),
    (OSError(errno.ENOSPC, SECRET), 507, "disk_full"),
    (OSError(errno.EROFS, SECRET), 503, "read_only"),
    (PermissionError(errno.EACCES, SECRET, SECRET), 503, "read_only"),
    (PermissionError(errno.EACCES, SECRET), 500, "internal"),  # of no file
    (OSError(errno.EMFILE, SECRET), 503, "overloaded"),
    (_full(), 507, "disk_full"),
    (OperationalError(SECRET, None, sqlite3.OperationalError(SECRET)), 503, "records_unavailable"),
    (HTTPException(418, "teapot"), 418, "error"),
]


def test_what_nobody_foresaw_is_told_without_detail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(asked: Asking) -> None:
        for at, (error, status, word) in enumerate(UNFORESEEN):
            _raise_at(asked, f"/raised/{at}", error)
            caplog.clear()
            told = await asked.http.get(f"/raised/{at}")
            # Where something is lacking every request would add a traceback to a log on the same disk.
            is_traced = any(record.exc_info for record in caplog.records)
            assert is_traced is (word in ("internal", "records_unavailable"))
            assert (told.status_code, told.json()["code"], told.json()["error"]) == (status, status, word)
            assert "secret" not in told.text
            if status == 500:
                assert told.json()["trace_id"] == told.headers["x-trace-id"]

    run(tmp_path, story)


def test_a_full_disk_is_said_and_searches_go_on(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        base = (await asked.post(BASES, {"name": "医保", "embedding_model": "fake-64"})).json()["data"]["id"]
        documents = f"{BASES}/{base}/documents"
        assert (await asked.post(documents, {"name": "a", "content": "住院费用报销比例。"})).status_code == 201
        pool = asked.engine.records.engine
        full = True

        def shrink(connection: Any, _: Any, __: Any) -> None:
            connection.execute(f"PRAGMA max_page_count = {1 if full else 2**30}")  # it cannot grow any more

        event.listen(pool, "checkout", shrink)
        told = None
        for n in range(50):
            told = await asked.post(documents, {"name": "b", "content": f"门诊{n}" * 5000, "doc_id": f"b{n}"})
            if told.status_code != 201:
                break
        assert told is not None
        assert (told.status_code, told.json()["error"]) == (507, "disk_full"), told.text
        found = await asked.post(f"/v1/retrieval/{base}", {"query": "住院报销"})
        assert (found.status_code, len(found.json()["data"]["chunks"]) > 0) == (200, True)
        full = False
        assert (await asked.post(documents, {"name": "c", "content": "门诊费用。"})).status_code == 201

    run(tmp_path, story)


def test_addresses_that_are_not_there_have_the_same_shape(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        for method, path, status, word in [
            ("GET", "/nowhere", 404, "not_found"),
            ("GET", "/v1/knowledge-bases/", 404, "not_found"),
            ("DELETE", BASES, 405, "method_not_allowed"),
            ("OPTIONS", BASES, 405, "method_not_allowed"),
            ("POST", "/healthz", 405, "method_not_allowed"),
        ]:
            told = await asked.http.request(method, path)
            assert (told.status_code, told.json()["error"]) == (status, word), (method, path, told.text)
            assert told.json()["code"] == status

    run(tmp_path, story)


def test_in_english_the_kind_of_error_comes_first(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        said = (await asked.http.get(f"{BASES}/7", headers={"accept-language": "en-GB,en"})).json()["msg"]
        assert said.startswith("Not found: ")
        wrong = (await asked.http.post(BASES, json={}, headers={"accept-language": "en"})).json()
        assert wrong["fields"] == [{"field": "name", "reason": "Field required"}]
        assert (await asked.http.post(BASES, json={})).json()["fields"] == [{"field": "name", "reason": "缺少这个字段"}]

    run(tmp_path, story)


def test_what_utf8_cannot_say_json_still_does() -> None:
    assert json.loads(bytes(json_response({"a": "\ud800x医"}).body)) == {"a": "\ud800x医"}
    assert json.loads(bytes(json_response({"a": float("nan"), "b": [0.85, 1]}).body)) == {"a": None, "b": [0.85, 1]}


def test_two_applications_of_one_process_know_nothing_of_each_other(tmp_path: Path) -> None:
    async def whole() -> None:
        async with asking(tmp_path / "a") as one, asking(tmp_path / "b") as other:
            await one.base(name="医保")
            one.app.get("/planted")(_nothing)
            told = [(await each.http.get(BASES)).json()["data"]["total"] for each in (one, other)]
            assert told == [1, 0]
            assert [(await each.http.get("/planted")).status_code for each in (one, other)] == [200, 404]
            assert "/planted" in one.app.openapi()["paths"].keys() - other.app.openapi()["paths"].keys()

    asyncio.run(whole())


async def _nothing() -> None:
    return None


# ── the document ─────────────────────────────────────────────────────────────────────────────────


def _operations(api: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _form(path: str) -> str:
    """The shape of a route's errors: that of its door."""
    shapes = {
        error_formats.dify: "DifyProblem",
        error_formats.rerank: "RerankProblem",
        error_formats.openai: "OpenAIProblem",
    }
    forms = [form for door, form in error_formats.FORMATS.items() if path == door or path.startswith(f"{door}/")]
    return shapes[forms[0]] if forms else "Problem"


def test_every_route_is_documented_with_its_errors(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        api = (await asked.http.get("/openapi.json")).json()
        assert "HTTPValidationError" not in api["components"]["schemas"]
        seen = []
        for path, method, operation in _operations(api):
            where = f"{method} {path}"
            answers = operation["responses"]
            assert operation["summary"], where
            assert operation["tags"], where
            if path in ("/healthz", "/readyz"):
                continue
            seen.append(where)
            assert {"401", "403", "500", "503"} <= set(answers), where
            if re.search(r"{(knowledge_base_id|doc_id|id|log_id)}", path):
                assert "404" in answers, where
            if "requestBody" in operation:
                wrong = "400" if _form(path) == "OpenAIProblem" else "422"
                assert {"413", wrong} <= set(answers), where
            for status, answer in answers.items():
                if int(status) >= 400:
                    schema = answer["content"]["application/json"]["schema"]
                    assert schema == {"$ref": f"#/components/schemas/{_form(path)}"}, (where, status)
                assert answer["description"], (where, status)
        assert len(seen) >= 20

    run(tmp_path, story)


def test_every_body_comes_with_an_example_that_its_route_can_read(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        api = (await asked.http.get("/openapi.json")).json()
        bodies = 0
        for path, method, operation in _operations(api):
            for kind, body in operation.get("requestBody", {}).get("content", {}).items():
                if kind != "application/json":
                    continue
                schema = body["schema"]
                if "$ref" in schema:
                    schema = api["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
                examples = schema.get("examples") or list(body.get("examples", {}).values()) or [body.get("example")]
                assert examples, (method, path)
                assert examples[0] is not None, (method, path)
                bodies += 1
        assert bodies >= 6

    run(tmp_path, story)


def test_the_documentation_page_holds_nothing_foreign_and_no_script(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        page = await asked.http.get("/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        text = page.text
        assert not re.search(r"<script|<link|<img|<iframe|src=|javascript:|\son\w+=", text)
        # Within the service, wherever a proxy has put it.
        assert re.findall(r'(?:href|url)[=(]"?([^")>]+)', text) == ["openapi.json"]
        (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = page.headers["content-security-policy"]
        assert f"style-src 'sha256-{digest}'" in policy
        assert "default-src 'none'" in policy
        api = (await asked.http.get("/openapi.json")).json()
        for path, _, operation in _operations(api):
            assert path in text
            assert operation["summary"] in text

    run(tmp_path, story)


def test_the_documentation_page_shows_what_is_within_and_how_it_is_asked_for(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        text = (await asked.http.get("/docs")).text
        within = (
            "retrieval_config.hybrid_strategy.weights.vector", "history[].role", "multimodal_content[].table_data",
            "pairs[].question", "chunks[].content", "documents[].status", "sources[].doc_name", "degraded[].reason",
        )  # fmt: skip
        assert [name for name in within if f"<code>{name}</code>" not in text] == []
        assert "至多 8 层、100 个条件、1000 个值" in text  # what filters take
        told = [
            example["summary"]
            for _, _, operation in _operations((await asked.http.get("/openapi.json")).json())
            for body in operation.get("requestBody", {}).get("content", {}).values()
            for example in body.get("examples", {}).values()
        ]
        assert len(told) > 5
        assert [summary for summary in told if f"<p>{summary}</p><pre>" not in text] == []

    run(tmp_path, story)


def test_a_body_that_is_no_json_is_told_up_to_where_it_could_be_read(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        base = (await asked.http.post(BASES, json={"name": "医保"})).json()["data"]["id"]
        kind = {"content-type": "application/json"}
        wrong = '{"name": "甲"\n "content": "乙"}'.encode()
        told = [
            (await asked.http.post(path, content=wrong, headers=kind)).json()
            for path in (BASES, f"{BASES}/{base}/documents")
        ]
        assert [each["fields"][0]["field"] for each in told] == ["body", "body"]
        assert ["第 15 个字符" in told[0]["msg"], "第 2 行第 2 列" in told[1]["msg"]] == [True, True], told

    run(tmp_path, story)


READY = {"status": "ready", "queue_depth": 0, "missing_writes": 0, "unusable": 0}


def test_readiness_speaks_of_records_indexes_and_closing(tmp_path: Path) -> None:
    async def story(asked: Asking) -> None:
        service = asked.app.state.service
        ready = await asked.http.get("/readyz")
        assert (ready.status_code, ready.json()["data"]) == (200, READY)
        service.engine._bases._failed[1001] = "索引不可用"
        degraded = await asked.http.get("/readyz")
        assert (degraded.status_code, degraded.json()["data"]["status"]) == (200, "degraded")
        assert degraded.json()["data"]["unusable"] == 1
        service.engine._bases._failed.clear()
        service.readiness.to_open = 2
        assert (await asked.http.get("/readyz")).json()["error"] == "opening"
        service.readiness.to_open = 0
        with service.engine.records.writing() as tx:
            tx.exec_driver_sql("ALTER TABLE outbox RENAME TO hidden")
        unready = await asked.http.get("/readyz")
        assert (unready.status_code, unready.json()["error"]) == (503, "records_unavailable")
        with service.engine.records.writing() as tx:
            tx.exec_driver_sql("ALTER TABLE hidden RENAME TO outbox")
        service.recalls.close()
        closing = await asked.http.get("/readyz")
        assert (closing.status_code, closing.json()["error"]) == (503, "closing")
        assert (await asked.http.get("/healthz")).status_code == 200

    run(tmp_path, story)
