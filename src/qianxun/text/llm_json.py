"""The one reader of a language model's JSON: in a fence, after its thoughts, before a farewell, or by itself.

Kept by hand instead of a repairing parser: a reply that was cut off must be refused, not completed by guessing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from qianxun.text.reasoning import reply_in

REPLY_LIMIT: Final = 200_000  # characters
_FENCES: Final = 20
_FENCED: Final = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_OBJECT, _ARRAY = r"\{\s*[\"}]", r"\[\s*[\"{\[\]]"  # how one begins; “[注意]” is no array
_START: Final[dict[type | None, re.Pattern[str]]] = {
    dict: re.compile(_OBJECT),
    list: re.compile(_ARRAY),
    None: re.compile(f"{_OBJECT}|{_ARRAY}"),
}


class Malformed(ValueError):
    """A reply that cannot be used; the message says why, in words that the model can be sent."""


def read_json(
    reply: object,
    kind: type | None = None,
    *,
    limit: int = REPLY_LIMIT,
    is_last: bool = False,
) -> Any:
    """Returns the first JSON object or array of a reply; only one of ``kind`` where that is given.

    Raises Malformed for what is no text, longer than ``limit`` characters, or has no complete JSON of that kind; with
    ``is_last`` also where anything follows it.
    """
    if not isinstance(reply, str):
        raise Malformed("回复不是文字")
    if len(reply) > limit:
        raise Malformed(f"回复过长（{len(reply)} 个字符）")
    decoder = json.JSONDecoder()
    for text in _candidates(reply_in(reply), _START[kind]):
        try:
            read, end = decoder.raw_decode(text)
        except (ValueError, RecursionError):
            continue
        if not is_last or not text[end:].strip():
            return read
    raise Malformed("回复不是完整的 JSON")


def _candidates(reply: str, start: re.Pattern[str]) -> Iterator[str]:
    """From the start of a value to the end, fenced ones first.

    What is inside a value is no start: a part of one that was cut off must not be taken for the whole.
    """
    for text in (*_FENCED.findall(reply)[:_FENCES], reply):
        if found := start.search(text):
            yield text[found.start() :]


def text_of(value: object, limit: int) -> str:
    """A value as a name or word, its whitespace normalised. Raises Malformed where it is none."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text:
        raise Malformed(f"应为非空的文字，却是 {str(value)[:40]!r}")
    if len(text) > limit:
        raise Malformed(f"文字超过 {limit} 个字符：{text[:40]!r}…")
    if not text.isprintable():  # a NUL, half of a surrogate pair, a sign that turns the direction of writing
        raise Malformed(f"有不可见的字符：{text[:40]!r}")
    return text
