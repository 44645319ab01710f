from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.core.ports import ChatModel
from qianxun.core.types import Message
from qianxun.models import ChatEndpoint
from qianxun.models.remote.chat import RemoteChat
from tests.models.embedding_service import Answer, Service, body, says, serving, status

KEY = "sk-chat-0123456789"
MESSAGES = [Message("system", "改写查询"), Message("user", "住院能报多少\ud800")]


@contextmanager
def remote(*answers: Answer, **changes: Any) -> Iterator[tuple[RemoteChat, Service]]:
    with serving(*answers) as service:
        endpoint = ChatEndpoint(service.url, "qwen", api_key=KEY)
        model = RemoteChat(replace(endpoint, **changes), sleep=lambda wait: None)
        try:
            yield model, service
        finally:
            model.close()


def test_a_reply_is_its_text() -> None:
    with remote(says("住院报销比例")) as (model, service):
        port: ChatModel = model
        assert port.complete(MESSAGES) == "住院报销比例"
        assert port.name == "qwen"
        asked = service.asked[0]
        assert asked["path"] == "/v1/chat/completions"
        assert asked["messages"] == [
            {"role": "system", "content": "改写查询"},
            {"role": "user", "content": "住院能报多少\ufffd\ufffd\ufffd"},
        ]
        assert (asked["model"], asked["temperature"], asked["stream"]) == ("qwen", 0.0, False)
        assert "max_tokens" not in asked
        assert service.headers[0]["authorization"] == f"Bearer {KEY}"
        assert "top_p" not in asked
    with remote(says("好"), max_tokens=50, temperature=0.3, top_p=0.9, name="改写") as (model, service):
        model.complete(MESSAGES)
        assert service.asked[0]["top_p"] == 0.9
        assert (service.asked[0]["max_tokens"], service.asked[0]["temperature"], model.name) == (50, 0.3, "改写")


def test_a_service_that_stumbles_is_asked_again_and_one_that_fails_is_unavailable() -> None:
    with remote(status(500), says("好")) as (model, service):
        assert model.complete(MESSAGES) == "好"
        assert len(service.asked) == 2
    with remote(status(500), attempts=2) as (model, _), pytest.raises(ModelUnavailable, match="试了 2 次"):
        model.complete(MESSAGES)


@pytest.mark.parametrize(
    "answer",
    [
        says(None),
        says(""),
        says("  \n"),
        says(7),
        says([{"text": "好"}]),
        body(b'{"choices": []}'),
        body(b'{"choices": {}}'),
        body(b'{"choices": [{"message": null}]}'),
        body(b"[]"),
        body(b"<html>"),
        body(b"[" * 200_000),
    ],
)
def test_a_bad_reply_is_refused(answer: Answer) -> None:
    with remote(answer) as (model, service):
        with pytest.raises(BadModelReply):
            model.complete(MESSAGES)
        assert len(service.asked) == 1


def test_a_reply_with_a_lone_surrogate_can_be_stored() -> None:
    with remote(body(b'{"choices": [{"message": {"content": "\\ud800a"}}]}')) as (model, _):
        assert model.complete(MESSAGES).encode().endswith(b"a")


def test_a_reply_that_is_too_long_is_cut_off() -> None:
    with remote(says("长" * (1 << 21))) as (model, _), pytest.raises(BadModelReply, match="超过"):
        model.complete(MESSAGES)


def test_the_key_shows_nowhere() -> None:
    with remote(status(403, f"{KEY} may not".encode())) as (model, _):
        with pytest.raises(ModelUnavailable, match="api_key") as caught:
            model.complete(MESSAGES)
        shown = "".join(traceback.format_exception(caught.value)) + repr(model) + repr(model._endpoint)
    assert "HTTP 403" in shown
    assert KEY not in shown


def test_impossible_settings_are_refused() -> None:
    odd = float("nan")
    for changes in (
        {"temperature": -1.0}, {"temperature": odd}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_p": odd}, {"max_tokens": 0},
        {"attempts": 0},
    ):  # fmt: skip
        with pytest.raises(BadInput):
            RemoteChat(replace(ChatEndpoint("https://example.com/v1", "qwen"), **changes))  # type: ignore[arg-type]
    with remote(says("好")) as (model, _), pytest.raises(BadInput):
        model.complete([])
