"""A language model behind an OpenAI-compatible service: POST {base_url}/chat/completions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from qianxun.core.codec.sse import Events, EventTooLarge
from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.core.ports import never
from qianxun.core.types import Message
from qianxun.core.unicode import sound_text
from qianxun.models.remote.endpoints import ChatEndpoint
from qianxun.models.remote.http import RemoteModel
from qianxun.models.remote.redaction import reply_without_key
from qianxun.text.reasoning import reply_in, without_thoughts

PATH: Final = "chat/completions"
LARGEST_REPLY: Final = 4 << 20
LARGEST_STREAM: Final = 64 << 20  # each word comes in some two hundred bytes of its own
DONE: Final = "[DONE]"
LINGER_SECONDS: Final = 1.0  # for the end of a stream after the reply: a connection read to its end can be reused
# A model that only streams, as DashScope and others put it
_ONLY_STREAMS: Final = re.compile(r"only supports? stream|non-stream(?:ing)? call")
# A parameter that a model does not take, as OpenAI's reasoning models and gateways to them put it
_NOT_TAKEN: Final = re.compile(r"Unsupported (?:parameter|value): \W*(max_tokens|temperature|top_p)\b")
_FORM_HINT: Final = "请检查 base_url 指向的是 /chat/completions 接口"

# Reasons for which a reply ended
NOT_FINISHED: Final = "null"  # DashScope's, as a word
FULL: Final = ("length", "model_context_window_exceeded")
FILTERED: Final = ("content_filter", "sensitive")  # OpenAI's word, and Zhipu's
INTERRUPTED: Final = ("insufficient_system_resource", "network_error", "abort")  # DeepSeek's, Zhipu's, vLLM's

# Repetition
LONGEST_PERIOD: Final = 200  # characters
REPEATED: Final = 1200  # characters of repetition, at least six periods
_CHECK_EVERY: Final = 100  # characters


class RemoteChat(RemoteModel):
    """A StreamingChatModel over HTTP. Thread-safe; close it when done.

    The reasoning in <think>…</think> before a reply is no part of it; the key is masked.
    """

    def __init__(self, endpoint: ChatEndpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        if not 0.0 <= endpoint.temperature <= 2.0 or (endpoint.max_tokens is not None and endpoint.max_tokens < 1):
            raise BadInput("temperature 须在 0 到 2 之间，max_tokens 须大于零", hint="请改正对话模型的设置")
        if endpoint.top_p is not None and not 0.0 < endpoint.top_p <= 1.0:
            raise BadInput("top_p 须大于 0、不超过 1", hint="请改正对话模型的设置")
        if not endpoint.stream_seconds > 0:
            raise BadInput("stream_seconds 须大于零", hint="请改正对话模型的设置")
        self._endpoint = endpoint
        self._not_taken: frozenset[str] = frozenset()  # parameters that the service has refused
        super().__init__(endpoint, sleep)

    def complete(self, messages: Sequence[Message]) -> str:
        """The reply's text, never blank. Raises ModelUnavailable or BadModelReply, also for a truncated reply."""
        try:
            body = self._service.post(PATH, self._payload(messages, stream=False), LARGEST_REPLY)
        except ModelUnavailable as error:
            if "HTTP 400 " in error.message and _ONLY_STREAMS.search(error.message):
                return "".join(self.stream(messages)).strip()
            self._drop_parameter(error)
            return self.complete(messages)
        reply, finish = self._read(body)
        check_finish(self.name, finish)
        return "".join(reply_without_key(iter([reply]), self._endpoint.api_key))

    def stream(self, messages: Sequence[Message], stop: Callable[[], bool] = never) -> Iterator[str]:
        """The reply's text as it arrives, in non-empty pieces; together they are not blank.

        Raises ModelUnavailable or BadModelReply, also in the middle: for a reply that is truncated, ends without saying
        so, or repeats itself. Closing the iterator closes the connection, as ``stop`` does.
        """
        payload = self._payload(messages, stream=True)  # now, so that bad messages fail before the first piece

        def pieces() -> Iterator[str]:
            has_text = False
            with closing(self._accepted(payload, stop)) as raw:
                for piece in reply_without_key(without_thoughts(raw), self._endpoint.api_key):
                    has_text = has_text or not piece.isspace()
                    yield sound_text(piece)
            if not has_text:
                raise _no_text(self.name)

        return pieces()

    def _accepted(self, payload: dict[str, Any], stop: Callable[[], bool]) -> Generator[str, None, None]:
        """The pieces of a reply, asked for again without a parameter that the service does not take."""
        while True:
            try:
                return (yield from self._pieces(payload, stop))
            except ModelUnavailable as error:
                self._drop_parameter(error)
                payload = self._without_refused(payload)

    def _drop_parameter(self, error: ModelUnavailable) -> None:
        """Notes the parameter that the service refuses. Raises the error where it is another, or has been dropped."""
        refused = _NOT_TAKEN.search(error.message) if "HTTP 400 " in error.message else None
        if refused is None or refused.group(1) in self._not_taken:
            raise error
        self._not_taken |= {refused.group(1)}

    def _pieces(self, payload: dict[str, Any], stop: Callable[[], bool]) -> Generator[str, None, None]:
        reply, repetition = StreamedReply(self.name, LARGEST_REPLY), Repetition()
        seconds = self._endpoint.stream_seconds

        def is_over() -> bool:
            return stop() or reply.lingers()

        try:
            with closing(self._service.stream(PATH, payload, LARGEST_STREAM, seconds, is_over)) as raw:
                for text in (text for piece in raw for text in reply.feed(piece)):
                    yield text
                    if repetition.continues_with(text):
                        hint = "请换一个模型，或在模型服务那边加大对重复的惩罚"
                        raise _bad(self.name, "的回复一再重复同样的话，已停下", hint)
        except ServiceError as error:
            raise self._service.unavailable(f"回复到一半出错：{error}", "请稍后再试") from None
        except ModelUnavailable:
            if not reply.is_complete:  # otherwise all arrived before the connection broke
                raise
        if reply.whole is not None:
            text, finish = self._read(reply.whole)
            yield text
            check_finish(self.name, finish)
        else:
            reply.check_end()

    def _read(self, body: bytes | bytearray) -> tuple[str, Any]:
        try:
            return _read(body, self.name)
        except ServiceError as error:  # which may show the key that it was sent
            raise self._service.unavailable(f"报错：{error}", "请稍后再试，或检查模型服务") from None

    def _payload(self, messages: Sequence[Message], *, stream: bool) -> dict[str, Any]:
        if not messages:
            raise BadInput("没有要发给对话模型的消息", hint="至少要有一条消息")
        payload = {
            "model": self._endpoint.model,
            "messages": [{"role": message.role, "content": _content(message)} for message in _alternating(messages)],
            "temperature": self._endpoint.temperature,
            "stream": stream,
            "top_p": self._endpoint.top_p,
            "max_tokens": self._endpoint.max_tokens,
        }
        return self._without_refused({name: value for name, value in payload.items() if value is not None})

    def _without_refused(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        accepted = {name: value for name, value in payload.items() if name not in self._not_taken}
        if "max_tokens" in payload and "max_tokens" in self._not_taken:
            accepted["max_completion_tokens"] = payload["max_tokens"]
        return accepted


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """Those of one role in a row as one: the chat templates of Gemma, Mistral and others refuse two."""
    several: list[Message] = []
    for message in messages:
        if several and several[-1].role == message.role:
            before = several.pop()
            text = f"{before.content}\n\n{message.content}"
            message = Message(message.role, text, (*before.images, *message.images))
        several.append(message)
    return several


def _content(message: Message) -> str | list[dict[str, Any]]:
    """Images are sent within the message: no service is asked to fetch one."""
    text = sound_text(message.content)
    if not message.images:
        return text
    if not all(image.startswith("data:image/") for image in message.images):
        raise BadInput("图片须以 data:image/… 的形式随消息一起发送", hint="把图片读出来，写成 base64")
    images = [{"type": "image_url", "image_url": {"url": image}} for image in message.images]
    return [{"type": "text", "text": text}, *images]


def _read(body: bytes | bytearray, model: str) -> tuple[str, Any]:
    """The text of a whole reply, and its finish reason. Raises ServiceError for an error that it reports."""
    try:
        whole = json.loads(body)
        if isinstance(whole, dict) and (reported := _reported_error(whole)):
            raise ServiceError(reported)
        choice = whole["choices"][0]
        text, finish = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise _bad(model, f"的回复不是 OpenAI 格式（{type(error).__name__}）") from error
    reply = reply_in(_text_of(text) or "")
    if not reply.strip():
        raise _no_text(model)
    return sound_text(reply), finish


def _text_of(content: object) -> str | None:
    """A text, also one in parts: those of thoughts are no part of the reply. None: it is neither."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        texts = [part.get("text") for part in content if part["type"] == "text"]
        return "".join(texts) if all(isinstance(text, str) for text in texts) else None
    return None


def _reported_error(reply: Mapping[str, Any]) -> str:
    """What went wrong, of a reply that has no choices but says that; "" where it does not."""
    if error := reply.get("error"):
        message = error.get("message") if isinstance(error, dict) else error
        return str(message or error)[:200]
    if "choices" not in reply and isinstance(reply.get("message"), str):  # vLLM before 0.9, DashScope's own form
        return str(reply["message"])[:200]
    return ""


def _no_text(model: str) -> BadModelReply:
    return _bad(model, "的回复里没有文字", "请换一个模型，或检查 max_tokens 是否太小")


def _bad(model: str, reason: str, hint: str = _FORM_HINT) -> BadModelReply:
    return BadModelReply(f"对话服务 {model} {reason}", hint=hint)


def check_finish(model: str, finish: object) -> None:
    """Raises BadModelReply or ModelUnavailable if a reply ended before it was complete."""
    if finish in FULL:
        raise _bad(model, "的回复没有写完：到了长度的上限", "请调大 max_tokens，或减少放进问题的资料")
    if finish in INTERRUPTED:
        raise ModelUnavailable(f"对话服务 {model} 的回复没有写完：服务方中断（{finish}）", hint="请稍后再试")
    if finish in FILTERED:
        raise _bad(model, "的回复没有写完：被服务方的内容审查截断", "请换一种问法，或换一个模型")


# ── streamed replies ─────────────────────────────────────────────────────────────────────────────


class ServiceError(Exception):
    """The service reported an error in the middle of its reply."""


class StreamedReply:
    """Parses one streamed reply. The reply of a service without streaming is collected in ``whole``."""

    def __init__(self, model: str, limit: int) -> None:
        self._model = model
        self._events = Events()
        self._left = limit  # characters, or bytes of a whole reply
        self._finish = ""
        self._is_done = False
        self._finished_at = 0.0
        self._has_events = False
        self.whole: bytearray | None = None

    @property
    def is_complete(self) -> bool:
        return self._is_done or bool(self._finish)

    def lingers(self) -> bool:
        """Whether the reply is complete, but the stream does not end."""
        return self.is_complete and time.monotonic() - self._finished_at > LINGER_SECONDS

    def feed(self, piece: bytes) -> Iterator[str]:
        """The text that this piece adds, without empty strings. Raises BadModelReply or ServiceError."""
        if self.whole is None and not self._has_events and piece.lstrip().startswith(b"{"):
            self.whole = bytearray()
        if self.whole is not None:
            self._spend(len(piece))
            self.whole += piece
            return
        try:
            for event in self._events.feed(piece):
                self._has_events = True
                if event.data.strip() == DONE:
                    self._end()
                    self._is_done = True
                elif event.name == "error":
                    raise ServiceError(_error_text(event.data))
                elif not self._is_done and (text := self._text(_parsed(event.data, self._model))):
                    self._spend(len(text))
                    yield text
        except EventTooLarge:
            raise _bad(self._model, "的回复里有一段过大") from None

    def check_end(self) -> None:
        """Raises BadModelReply or ModelUnavailable unless the reply is complete."""
        if not self._has_events:
            raise _bad(self._model, "的回复不是 OpenAI 格式的事件流")
        if not self.is_complete:
            raise ModelUnavailable(f"对话服务 {self._model} 的回复到一半断了", hint="请稍后再试")
        check_finish(self._model, self._finish)

    def _text(self, event: Mapping[str, Any]) -> str:
        if reported := _reported_error(event):
            raise ServiceError(reported)
        try:
            choices = event["choices"]
            if not choices:  # token counts at the end, or filter results at the beginning
                return ""
            content = (choices[0].get("delta") or {}).get("content")
            finish = choices[0].get("finish_reason")
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise _bad(self._model, f"的回复不是 OpenAI 格式（{type(error).__name__}）") from error
        text = _text_of(content)
        if content is not None and text is None:
            raise _bad(self._model, "的回复里有不是文字的内容")
        if finish and finish != NOT_FINISHED and not self._finish:
            self._end()
            self._finish = str(finish)
        return text or ""

    def _end(self) -> None:
        if not self.is_complete:
            self._finished_at = time.monotonic()

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _bad(self._model, "的回复过长，已中断", "请设置 max_tokens")


def _error_text(data: str) -> str:
    try:
        error = json.loads(data)
    except (ValueError, RecursionError):
        return data[:200]
    return (_reported_error(error) if isinstance(error, dict) else "") or data[:200]


def _parsed(data: str, model: str) -> Mapping[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad(model, "的回复里有一段不是 JSON") from error
    if not isinstance(event, dict):
        raise _bad(model, "的回复不是 OpenAI 格式")
    return event


class Repetition:
    """Detects a reply that repeats itself endlessly, as those of small models do until they run out of room."""

    def __init__(self) -> None:
        self._end, self._unchecked = "", 0

    def continues_with(self, piece: str) -> bool:
        """Returns True if the end of the reply is nothing but repetition."""
        self._end = (self._end + piece)[-REPEATED:]
        self._unchecked += len(piece)
        if self._unchecked < _CHECK_EVERY or len(self._end) < REPEATED:
            return False
        self._unchecked = 0
        return any(self._end.startswith(self._end[period:]) for period in range(1, LONGEST_PERIOD + 1))
