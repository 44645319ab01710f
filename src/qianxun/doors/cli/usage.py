"""Help pages and usage errors in Chinese: typer writes both in English, and cuts off a long line of Chinese help."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import typer


def may_show_help(arguments: Sequence[str], app: typer.Typer) -> bool:
    """Whether the arguments may end in a help page: a group without a subcommand shows its own."""
    groups = {group.name for group in app.registered_groups}
    return not arguments or not {"-h", "--help"}.isdisjoint(arguments) or arguments[-1] in groups


def adapt_help() -> None:
    """Changes the style of typer's help pages. Their module takes a while to load: call it only before one is shown."""
    from rich.text import Text
    from typer import rich_utils

    class Folding(rich_utils.OptionHighlighter):
        def highlight(self, text: Text) -> None:
            super().highlight(text)
            text.overflow = "fold"  # into the next line. Chinese has no spaces at which a line could be broken

    rich_utils.highlighter = Folding()
    rich_utils.ARGUMENTS_PANEL_TITLE = "参数 · Arguments"
    rich_utils.OPTIONS_PANEL_TITLE = "选项 · Options"
    rich_utils.COMMANDS_PANEL_TITLE = "命令 · Commands"


def _suggestion(near: str | None) -> str:
    return f"；是不是 {near.replace(', ', '、')}？" if near else ""


_OF = r"Invalid value for (.+?): (?:Value error, )?"
_PATTERNS: Final[tuple[tuple[str, Callable[..., str]], ...]] = (
    (
        r"No such command (\S+?)\.(?: Did you mean (.+)\?)?",
        lambda word, near: f"没有“{word}”这个命令{_suggestion(near)}",
    ),
    (
        r"No such option: (\S+)(?: (?:\(Possible options: (.+)\)|Did you mean (.+)\?))?",
        lambda word, near, nearest: f"没有 {word} 这个选项{_suggestion(near or nearest)}",
    ),
    (r"Missing command\.", lambda: "缺少命令"),
    (r"Missing (?:argument|option|parameter) (.+?)\.(?: .*)?", lambda word: f"缺少 {word}"),
    (r"Option (\S+) requires an argument\.", lambda word: f"{word} 后面缺少它的值"),
    (r"Option (\S+) does not take a value\.", lambda word: f"{word} 不带值"),
    (r"Got unexpected extra arguments?(?:\(s\))? \((.+)\)", lambda words: f"多出了 {words}；有空格的话要加引号"),
    (_OF + r"(.*) is not one of (.+)\.", lambda name, given, known: f"{name} 没有“{given}”这个值，可用的有 {known}"),
    (_OF + r"(?:Input should be a valid integer|.* is not a valid int(?:eger)?\b).*", lambda n: f"{n} 要一个整数"),
    (_OF + r"(?:Input should be a valid number|.* is not a valid float\b).*", lambda name: f"{name} 要一个数"),
    (
        _OF + r"Input should be (less than or equal to|greater than or equal to) (\S+)",
        lambda name, kind, bound: f"{name} 应不{'大' if kind.startswith('less') else '小'}于 {bound}",
    ),
    (_OF + r"(?:Path|File|Directory) (.+) does not exist\.", lambda name, path: f"{name}：{path} 不存在"),
)


def in_chinese(message: str) -> str:
    """Translates a usage error of typer; an unknown message stays as it is."""
    plain = message.strip()
    for pattern, translation in _PATTERNS:
        if found := re.fullmatch(pattern, plain, re.DOTALL):
            return translation(*found.groups()).replace("'", "")
    return plain
