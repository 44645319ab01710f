"""Help pages in Chinese: typer draws them, and cuts off a line of Chinese that is a little too long."""

from __future__ import annotations

from collections.abc import Sequence

import typer


def is_asked_for(arguments: Sequence[str], app: typer.Typer) -> bool:
    """Whether these arguments may end in a help page: a group of commands without one of them shows its own."""
    groups = {group.name for group in app.registered_groups}
    return not arguments or not {"-h", "--help"}.isdisjoint(arguments) or arguments[-1] in groups


def suit_chinese() -> None:
    """Changes typer's style, which it keeps in a module that takes a while to load."""
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
