"""Chat models: LangChain's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.core.foreign.about import failed, name_of, unusable
from qianxun.core.ports import ChatModel, never
from qianxun.core.types import Message


def chat_model(given: Any, name: str = "") -> ChatModel:
    if hasattr(given, "complete") and not hasattr(given, "invoke"):
        return cast(ChatModel, given)
    if callable(getattr(given, "invoke", None)):
        return ForeignChat(name or name_of(given), given)
    raise unusable(given, "语言模型", "LangChain 的对话模型，或有 complete(messages) 的对象")


@dataclass(frozen=True, slots=True)
class ForeignChat:
    """A ChatModel over a LangChain one: `invoke` and `stream` with messages."""

    name: str
    model: Any

    def complete(self, messages: Sequence[Message]) -> str:
        try:
            return _text(self.model.invoke(_messages(messages)))
        except Exception as error:
            raise failed(self.name, error) from error

    def stream(self, messages: Sequence[Message], stop: Callable[[], bool] = never) -> Iterator[str]:
        try:
            for piece in self.model.stream(_messages(messages)):
                if stop():
                    raise ModelUnavailable(f"模型 {self.name} 的回复没有读完", hint="请求已结束")
                if text := _text(piece):
                    yield text
        except ModelUnavailable:
            raise
        except Exception as error:
            raise failed(self.name, error) from error


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [
        {
            "role": message.role,
            "content": [
                {"type": "text", "text": message.content},
                *({"type": "image_url", "image_url": {"url": image}} for image in message.images),
            ]
            if message.images
            else message.content,
        }
        for message in messages
    ]


def _text(reply: Any) -> str:
    """Of a message whose content may be a list of parts, or of a plain string."""
    content = reply if isinstance(reply, str) else getattr(reply, "content", None)
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadModelReply(f"语言模型的回复是 {type(reply).__name__}，没有文字", hint="它应给出有 content 的消息")
    parts = (part if isinstance(part, str) else part.get("text", "") for part in content)
    return "".join(str(part) for part in parts)
