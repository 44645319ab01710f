"""A language model behind an OpenAI-compatible service: POST {base_url}/chat/completions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from qianxun.errors import BadInput, BadModelReply
from qianxun.models.checks import sound_text
from qianxun.models.endpoints import ChatEndpoint
from qianxun.models.http import ModelService
from qianxun.types import Message

LARGEST_REPLY = 4 << 20


class RemoteChat:
    """A ChatModel over HTTP, one whole reply at a time. Safe to call from several threads; close it when done."""

    def __init__(self, endpoint: ChatEndpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        if not 0.0 <= endpoint.temperature <= 2.0 or (endpoint.max_tokens is not None and endpoint.max_tokens < 1):
            raise BadInput("temperature 须在 0 到 2 之间，max_tokens 须大于零", hint="请改正对话模型的设置")
        if endpoint.top_p is not None and not 0.0 < endpoint.top_p <= 1.0:
            raise BadInput("top_p 须大于 0、不超过 1", hint="请改正对话模型的设置")
        self._endpoint = endpoint
        self._service = ModelService(endpoint, sleep=sleep)

    @property
    def name(self) -> str:
        return self._service.name

    def complete(self, messages: Sequence[Message]) -> str:
        """The reply's text, never blank. Raises ModelUnavailable or BadModelReply."""
        if not messages:
            raise BadInput("没有要发给对话模型的消息", hint="至少要有一条消息")
        return _read_text(self._service.ask("chat/completions", self._asked(messages), LARGEST_REPLY), self.name)

    def close(self) -> None:
        self._service.close()

    def _asked(self, messages: Sequence[Message]) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [{"role": each.role, "content": sound_text(each.content)} for each in messages],
            "temperature": self._endpoint.temperature,
            "stream": False,
        }
        if self._endpoint.top_p is not None:
            asked["top_p"] = self._endpoint.top_p
        if self._endpoint.max_tokens is not None:
            asked["max_tokens"] = self._endpoint.max_tokens
        return asked


def _read_text(body: bytes, model: str) -> str:
    try:
        text = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise BadModelReply(
            f"对话服务 {model} 的回复不是 OpenAI 格式（{type(error).__name__}）",
            hint="请检查 base_url 指向的是 /chat/completions 接口",
        ) from error
    if not isinstance(text, str) or not text.strip():
        raise BadModelReply(f"对话服务 {model} 的回复里没有文字", hint="请换一个模型，或检查 max_tokens 是否太小")
    return sound_text(text)
