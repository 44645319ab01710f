"""The streamed form of an OpenAI-compatible reply: what each event adds, and whether the reply came to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.core.sse import Events, EventTooLarge

DONE: Final = "[DONE]"
FULL: Final = ("length", "model_context_window_exceeded")
FILTERED: Final = ("content_filter", "sensitive")  # OpenAI's word, and Zhipu's
INTERRUPTED: Final = ("insufficient_system_resource", "network_error", "abort")  # DeepSeek's, Zhipu's, vLLM's
LINGER_SECONDS: Final = (
    1.0  # for the end of a stream whose reply is finished: a connection read to its end serves again
)
_FORM_HINT: Final = "请检查 base_url 指向的是 /chat/completions 接口"


class ServiceError(Exception):
    """The service said in the midst of its reply that something went wrong."""


class StreamedReply:
    """Reads one reply. A service that knows no streams answers with a ``whole`` one, which is kept as it is."""

    def __init__(self, model: str, most: int) -> None:
        self._model = model
        self._events = Events()
        self._left = most  # characters, or bytes of a whole reply
        self._finish = ""
        self._is_done = False
        self._finished_at = 0.0
        self._has_spoken = False  # in events
        self.whole: bytearray | None = None

    @property
    def is_complete(self) -> bool:
        return self._is_done or bool(self._finish)

    def lingers(self) -> bool:
        """Whether all is said, and the end of the stream does not come."""
        return self.is_complete and time.monotonic() - self._finished_at > LINGER_SECONDS

    def feed(self, piece: bytes) -> Iterator[str]:
        """What this adds to the reply, no piece empty. Raises BadModelReply, or ServiceError as the service says so."""
        if self.whole is None and not self._has_spoken and piece.lstrip().startswith(b"{"):
            self.whole = bytearray()
        if self.whole is not None:
            self._spend(len(piece))
            self.whole += piece
            return
        try:
            for event in self._events.feed(piece):
                self._has_spoken = True
                if event.data.strip() == DONE:
                    self._end()
                    self._is_done = True
                elif not self._is_done and (text := self._text(_parsed(event.data, self._model))):
                    self._spend(len(text))
                    yield text
        except EventTooLarge:
            raise self._bad("的回复里有一段过大", _FORM_HINT) from None

    def check_end(self) -> None:
        """Raises BadModelReply or ModelUnavailable unless the reply is all that the model had to say."""
        if not self._has_spoken:
            raise self._bad("的回复不是 OpenAI 格式的事件流", _FORM_HINT)
        if not self.is_complete:
            raise ModelUnavailable(f"对话服务 {self._model} 的回复到一半断了", hint="请稍后再试")
        check_finish(self._model, self._finish)

    def _text(self, told: Mapping[str, Any]) -> str:
        if told.get("error"):
            raise ServiceError(_words(told["error"]))
        try:
            choices = told["choices"]
            if not choices:  # of a service that counts tokens at the end, or speaks of its filters at the beginning
                return ""
            text = (choices[0].get("delta") or {}).get("content")
            finish = choices[0].get("finish_reason")
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise self._bad(f"的回复不是 OpenAI 格式（{type(error).__name__}）", _FORM_HINT) from error
        if text is not None and not isinstance(text, str):
            raise self._bad("的回复里有不是文字的内容", _FORM_HINT)
        if finish and not self._finish:
            self._end()
            self._finish = str(finish)
        return text or ""

    def _end(self) -> None:
        if not self.is_complete:
            self._finished_at = time.monotonic()

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self._bad("的回复过长，已中断", "请设置 max_tokens")

    def _bad(self, reason: str, hint: str) -> BadModelReply:
        return _bad(self._model, reason, hint)


def check_finish(model: str, finish: object) -> None:
    """Raises BadModelReply or ModelUnavailable where a reply stopped for another reason than that all is said."""
    if finish in FULL:
        raise _bad(model, "的回复没有写完：到了长度的上限", "请调大 max_tokens，或减少放进问题的资料")
    if finish in INTERRUPTED:
        raise ModelUnavailable(f"对话服务 {model} 的回复没有写完：服务方中断（{finish}）", hint="请稍后再试")
    if finish in FILTERED:
        raise _bad(model, "的回复没有写完：被服务方的内容审查截断", "请换一种问法，或换一个模型")


def _bad(model: str, reason: str, hint: str) -> BadModelReply:
    return BadModelReply(f"对话服务 {model} {reason}", hint=hint)


def _parsed(data: str, model: str) -> Mapping[str, Any]:
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadModelReply(f"对话服务 {model} 的回复里有一段不是 JSON", hint=_FORM_HINT) from error
    if not isinstance(told, dict):
        raise BadModelReply(f"对话服务 {model} 的回复不是 OpenAI 格式", hint=_FORM_HINT)
    return told


def _words(error: Any) -> str:
    said = error.get("message") if isinstance(error, dict) else error
    return str(said or error)[:200]
