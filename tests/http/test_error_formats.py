"""An error takes the form of the door that was asked, whoever answers it: a route, the routing, the guard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from qianxun.doors.http.error_formats import (
    FORMATS,
    BaseProblem,
    DifyProblem,
    OpenAIProblem,
    Problem,
    RerankProblem,
    formatted,
)
from tests.http.asking import asking
from tests.http.served import Served, issue, serving

FORMS: Mapping[str, type[BaseProblem]] = {
    "/retrieval": DifyProblem,
    "/v1/rerank": RerankProblem,
    "/v2/rerank": RerankProblem,
    "/v1/responses": OpenAIProblem,
    "/v1/files": OpenAIProblem,
    "/v1/files/1001/手册": OpenAIProblem,
    "/v1/chat/completions": OpenAIProblem,
    "/v1/embeddings": OpenAIProblem,
    "/v1/models": OpenAIProblem,
    "/v1/vector_stores": OpenAIProblem,
    "/v1/vector_stores/1001/search": OpenAIProblem,
    "/v1/vector_stores/planted": OpenAIProblem,
    "/v1/retrieval/1001": Problem,
    "/v1/modelsx": Problem,
    "/retrieval/": Problem,  # an address that there is not, and no knowledge that there is not
}
SAID = {"code": 422, "msg": "top_k：应不大于 100", "data": None, "error": "validation"}
FIELDS = [{"field": "top_k", "reason": "应不大于 100"}]


def run(folder: Path, story: Callable[[Served], Awaitable[None]]) -> None:
    async def asked() -> None:
        async with serving(folder) as served:
            await story(served)

    asyncio.run(asked())


def holds(path: str, answer: httpx.Response, status: int, word: str) -> dict[str, Any]:
    """The error that this is, after a look at its form: all of our own, and all of the door's, in the same words."""
    said: dict[str, Any] = answer.json()
    assert (answer.status_code, said["code"], said["data"]) == (status, status, None), answer.text
    assert answer.headers["x-trace-id"]
    form = FORMS[path]
    read = form.model_validate(said)
    unknown = set(said) - set(form.model_fields)
    assert not unknown, unknown
    told = read.error.code if isinstance(read, OpenAIProblem) else said["error"]
    assert told == word, answer.text
    words = {said.get(name, said["msg"]) for name in ("msg", "error_msg", "message", "detail")}
    assert words == {said["msg"]}
    if isinstance(read, OpenAIProblem):
        assert read.error.message == said["msg"]
    return said


def test_every_door_has_a_form_and_what_lies_beside_it_has_ours() -> None:
    below = {"/v1/vector_stores/1001/search", "/v1/vector_stores/planted", "/v1/files/1001/手册"}
    assert {path for path in FORMS if FORMS[path] is not Problem} - below == set(FORMATS)
    for path, form in FORMS.items():
        form.model_validate(formatted({**SAID, "fields": FIELDS}, path, {}))
        if form is not Problem:
            with pytest.raises(ValidationError):
                form.model_validate(formatted(SAID, "/v1/retrieval/1001", {}))
    assert formatted(SAID, "/v1/retrieval/1001", {}) == SAID


def test_openai_is_told_which_field_is_wrong_and_whose_fault_it_is() -> None:
    told = formatted({**SAID, "fields": FIELDS}, "/v1/embeddings", {})
    assert told["code"] == 400  # its clients raise BadRequestError for that alone
    assert told["error"] == {
        "message": SAID["msg"],
        "type": "invalid_request_error",
        "param": "top_k",
        "code": "validation",
    }
    failed = formatted({**SAID, "code": 503, "error": "overloaded"}, "/v1/embeddings", {})["error"]
    assert (failed["type"], failed["param"], failed["code"]) == ("server_error", None, "overloaded")


def test_what_the_guard_turns_away_is_told_in_the_form_of_the_door(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        for path in FORMS:
            other = await served.http.post(path, headers={"host": "example.com"})
            holds(path, other, 403, "forbidden")
        issue(served.engine)
        wrong = {"authorization": "Bearer qx_" + "A" * 43}
        for path in FORMS:
            holds(path, await served.http.post(path), 401, "unauthorized")
            answer = await served.http.post(path, headers=wrong)
            holds(path, answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
            english = await served.http.post(path, headers={**wrong, "accept-language": "en"})
            said = holds(path, english, 401, "unauthorized")
            assert said["msg"].startswith("Unauthorized: ")

    run(tmp_path, story)


def test_dify_is_told_what_is_wrong_with_the_key(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, str], int]] = [
        ({}, 1001),
        ({"authorization": "qx_abc"}, 1001),
        ({"authorization": "Bearer"}, 1001),
        ({"authorization": "Basic cXg6cXg="}, 1001),
        ({"authorization": "Bearer qx_abc"}, 1002),
        ({"authorization": "bearer  qx_abc"}, 1002),
        ({"x-api-key": "qx_abc"}, 1002),
    ]

    async def story(served: Served) -> None:
        issue(served.engine)
        for headers, code in cases:
            answer = await served.http.post("/retrieval", headers=headers)
            assert (answer.status_code, answer.json()["error_code"]) == (401, code), (headers, answer.text)

    run(tmp_path, story)


def test_what_fails_behind_a_door_is_told_in_its_form(tmp_path: Path) -> None:
    async def crash() -> None:
        raise RuntimeError("unforeseen")

    async def story() -> None:
        async with asking(tmp_path) as asked:
            asked.app.post("/v1/vector_stores/planted")(crash)
            broken = await asked.http.post("/v1/vector_stores/planted", headers={"accept-language": "en"})
            said = holds("/v1/vector_stores/planted", broken, 500, "internal")
            assert (said["error"]["type"], said["trace_id"]) == ("server_error", broken.headers["x-trace-id"])
            assert said["msg"].startswith("Internal: ")
            base = await asked.base()
            asked.app.state.service.recalls.close()  # as when the service stops
            body = {"knowledge_id": str(base), "query": "报销", "documents": ["报销"], "model": "maxsim"}
            for path in ("/retrieval", "/v1/rerank"):
                busy = await asked.post(path, body)
                holds(path, busy, 503, "overloaded")
                assert busy.headers["retry-after"]

    asyncio.run(story())


def test_a_body_that_is_too_large_is_told_in_the_form_of_the_door(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path, {"service.body_megabytes": 1}) as asked:
            for path in FORMS:
                answer = await asked.http.post(path, content=b"x" * 1_200_000, headers={"accept-language": "en"})
                said = holds(path, answer, 413, "too_large")
                assert said["msg"].startswith("Too large: ")

    asyncio.run(story())
