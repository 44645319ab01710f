"""A language model behind an OpenAI-compatible service: POST {base_url}/chat/completions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.core.ports import never
from qianxun.core.types import Message
from qianxun.core.unicode import sound_text
from qianxun.models.remote.chat_stream import ServiceError, StreamedReply, check_finish
from qianxun.models.remote.endpoints import ChatEndpoint
from qianxun.models.remote.http import ModelService
from qianxun.models.remote.redaction import reply_without_key
from qianxun.models.remote.repetition import Circling
from qianxun.text.reasoning import reply_in, without_thoughts

PATH: Final = "chat/completions"
LARGEST_REPLY: Final = 4 << 20
LARGEST_STREAM: Final = 64 << 20  # each word comes in some two hundred bytes of its own


class RemoteChat:
    """A StreamingChatModel over HTTP. Safe to call from several threads; close it when done.

    What a model says to itself in <think>…</think> before its reply is not part of the reply, nor is its key.
    """

    def __init__(self, endpoint: ChatEndpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        if not 0.0 <= endpoint.temperature <= 2.0 or (endpoint.max_tokens is not None and endpoint.max_tokens < 1):
            raise BadInput("temperature 须在 0 到 2 之间，max_tokens 须大于零", hint="请改正对话模型的设置")
        if endpoint.top_p is not None and not 0.0 < endpoint.top_p <= 1.0:
            raise BadInput("top_p 须大于 0、不超过 1", hint="请改正对话模型的设置")
        if not endpoint.stream_seconds > 0:
            raise BadInput("stream_seconds 须大于零", hint="请改正对话模型的设置")
        self._endpoint = endpoint
        self._service = ModelService(endpoint, sleep=sleep)

    @property
    def name(self) -> str:
        return self._service.name

    def complete(self, messages: Sequence[Message]) -> str:
        """The reply's text, never blank. Raises ModelUnavailable or BadModelReply, also for one that was cut short."""
        asked = self._asked(messages, stream=False)
        reply, finish = _read(self._service.ask(PATH, asked, LARGEST_REPLY), self.name)
        check_finish(self.name, finish)
        return "".join(reply_without_key(iter([reply]), self._endpoint.api_key))

    def stream(self, messages: Sequence[Message], stop: Callable[[], bool] = never) -> Iterator[str]:
        """The reply's text as it comes, in pieces that are not empty; together they are not blank.

        Raises ModelUnavailable or BadModelReply, also in the midst: a reply that ends without saying that it is done,
        or because it ran out of room, or that goes round in circles, is a partial one. Closing the iterator closes the
        connection, as ``stop`` does.
        """
        asked = self._asked(messages, stream=True)  # now, so that a wrong question fails before anybody listens
        return self._told(asked, stop)

    def close(self) -> None:
        self._service.close()

    def _told(self, asked: dict[str, Any], stop: Callable[[], bool]) -> Iterator[str]:
        has_text = False
        with closing(self._pieces(asked, stop)) as pieces:
            for piece in reply_without_key(without_thoughts(pieces), self._endpoint.api_key):
                has_text = has_text or not piece.isspace()
                yield sound_text(piece)
        if not has_text:
            raise _no_text(self.name)

    def _pieces(self, asked: dict[str, Any], stop: Callable[[], bool]) -> Generator[str, None, None]:
        reply, circling = StreamedReply(self.name, LARGEST_REPLY), Circling()
        try:
            with closing(self._listen(asked, lambda: stop() or reply.lingers())) as raw:
                for text in (text for piece in raw for text in reply.feed(piece)):
                    yield text
                    if circling.goes_on_with(text):
                        raise _circles(self.name)
        except ServiceError as error:
            raise self._service.unavailable(f"回复到一半出错：{error}", "请稍后再试") from None
        except ModelUnavailable:
            if not reply.is_complete:  # else all was said before the line broke
                raise
        if reply.whole is not None:
            text, finish = _read(reply.whole, self.name)
            yield text
            check_finish(self.name, finish)
        else:
            reply.check_end()

    def _listen(self, asked: dict[str, Any], stop: Callable[[], bool]) -> Generator[bytes, None, None]:
        return self._service.stream(PATH, asked, LARGEST_STREAM, self._endpoint.stream_seconds, stop)

    def _asked(self, messages: Sequence[Message], *, stream: bool) -> dict[str, Any]:
        if not messages:
            raise BadInput("没有要发给对话模型的消息", hint="至少要有一条消息")
        asked: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [{"role": each.role, "content": _content(each)} for each in messages],
            "temperature": self._endpoint.temperature,
            "stream": stream,
        }
        if self._endpoint.top_p is not None:
            asked["top_p"] = self._endpoint.top_p
        if self._endpoint.max_tokens is not None:
            asked["max_tokens"] = self._endpoint.max_tokens
        return asked


def _content(message: Message) -> str | list[dict[str, Any]]:
    """A picture travels with the message: no service is told to fetch one from somewhere."""
    text = sound_text(message.content)
    if not message.images:
        return text
    if not all(each.startswith("data:image/") for each in message.images):
        raise BadInput("图片须以 data:image/… 的形式随消息一起发送", hint="把图片读出来，写成 base64")
    pictures = [{"type": "image_url", "image_url": {"url": each}} for each in message.images]
    return [{"type": "text", "text": text}, *pictures]


def _read(body: bytes | bytearray, model: str) -> tuple[str, Any]:
    """The text of a whole reply, and why it ended where it does."""
    try:
        choice = json.loads(body)["choices"][0]
        text, finish = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise BadModelReply(
            f"对话服务 {model} 的回复不是 OpenAI 格式（{type(error).__name__}）",
            hint="请检查 base_url 指向的是 /chat/completions 接口",
        ) from error
    said = reply_in(text) if isinstance(text, str) else ""
    if not said.strip():
        raise _no_text(model)
    return sound_text(said), finish


def _circles(model: str) -> BadModelReply:
    hint = "请换一个模型，或在模型服务那边加大对重复的惩罚"
    return BadModelReply(f"对话服务 {model} 的回复一再重复同样的话，已停下", hint=hint)


def _no_text(model: str) -> BadModelReply:
    return BadModelReply(f"对话服务 {model} 的回复里没有文字", hint="请换一个模型，或检查 max_tokens 是否太小")
