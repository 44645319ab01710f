"""JSON out of what a language model says: in a fence, after its thoughts, before a farewell, or by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

REPLY_LIMIT: Final = 200_000  # characters
_FENCES: Final = 20
_THOUGHTS: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED: Final = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_BEGINNING: Final = re.compile(r"\{\s*[\"}]|\[\s*[\"{\[\]]")  # of an object or array; not of “[注意]”


class Malformed(ValueError):
    """A reply that cannot be used; says why, in words that the model can be told."""


def read_json(reply: object) -> dict[str, Any] | list[Any]:
    """The first object or array in the reply. Raises Malformed."""
    if not isinstance(reply, str):
        raise Malformed("回复不是文字")
    if len(reply) > REPLY_LIMIT:
        raise Malformed(f"回复过长（{len(reply)} 个字符）")
    decoder = json.JSONDecoder()
    for text in _candidates(_THOUGHTS.sub("", reply, count=1)):
        try:
            found, _ = decoder.raw_decode(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict | list):
            return found
    raise Malformed("回复不是完整的 JSON")


def _candidates(reply: str) -> Iterator[str]:
    """From where a value begins to the end, fenced ones first.

    What stands inside a value is no beginning: a part of one that was broken off must not be taken for the whole.
    """
    for text in (*_FENCED.findall(reply)[:_FENCES], reply):
        if found := _BEGINNING.search(text):
            yield text[found.start() :]


def text_of(value: object, limit: int) -> str:
    """A value as a name or word: its whitespace evened out. Raises Malformed where it is none."""
    said = " ".join(value.split()) if isinstance(value, str) else ""
    if not said:
        raise Malformed(f"应为非空的文字，却是 {str(value)[:40]!r}")
    if len(said) > limit:
        raise Malformed(f"文字超过 {limit} 个字符：{said[:40]!r}…")
    if not said.isprintable():  # a NUL, half of a surrogate pair, a sign that turns the direction of writing
        raise Malformed(f"有不可见的字符：{said[:40]!r}")
    return said
