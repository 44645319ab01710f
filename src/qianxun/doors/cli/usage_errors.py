"""What is wrong with a command as it was written, in Chinese: typer knows it in English alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final


def _perhaps(told: str | None) -> str:
    return f"；是不是 {told.replace(', ', '、')}？" if told else ""


_OF = r"Invalid value for (.+?): (?:Value error, )?"
_WORDS: Final[tuple[tuple[str, Callable[..., str]], ...]] = (
    (r"No such command (\S+?)\.(?: Did you mean (.+)\?)?", lambda word, near: f"没有“{word}”这个命令{_perhaps(near)}"),
    (
        r"No such option: (\S+)(?: (?:\(Possible options: (.+)\)|Did you mean (.+)\?))?",
        lambda word, near, nearest: f"没有 {word} 这个选项{_perhaps(near or nearest)}",
    ),
    (r"Missing command\.", lambda: "缺少命令"),
    (r"Missing (?:argument|option|parameter) (.+?)\.(?: .*)?", lambda word: f"缺少 {word}"),
    (r"Option (\S+) requires an argument\.", lambda word: f"{word} 后面缺少它的值"),
    (r"Option (\S+) does not take a value\.", lambda word: f"{word} 不带值"),
    (
        r"Got unexpected extra arguments?(?:\(s\))? \((.+)\)",
        lambda words: f"多出了 {words}；有空格的话要加引号",
    ),
    (_OF + r"(.*) is not one of (.+)\.", lambda name, given, known: f"{name} 没有“{given}”这个值，可用的有 {known}"),
    (
        _OF + r"(?:Input should be a valid integer|.* is not a valid int(?:eger)?\b).*",
        lambda name: f"{name} 要一个整数",
    ),
    (_OF + r"(?:Input should be a valid number|.* is not a valid float\b).*", lambda name: f"{name} 要一个数"),
    (_OF + r"(?:Path|File|Directory) (.+) does not exist\.", lambda name, path: f"{name}：{path} 不存在"),
)


def in_chinese(told: str) -> str:
    """The same in Chinese; what typer has not said so far stays as it is."""
    plain = told.strip()
    for pattern, words in _WORDS:
        if found := re.fullmatch(pattern, plain, re.DOTALL):
            return words(*found.groups()).replace("'", "")
    return plain
