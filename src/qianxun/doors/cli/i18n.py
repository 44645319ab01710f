"""Output of the command line: Chinese by default, English on request; results on stdout, all else on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from qianxun.core.unicode import UNSAFE, escaped_control, visible_controls


class Language(StrEnum):
    zh = "zh"
    en = "en"


NEVER_FIRST = "，。、；：！？）》」』】”’…"

_SURROGATES = re.compile("[\ud800-\udfff]")

_language: ContextVar[Language] = ContextVar("language", default=Language.zh)

# Kinds of errors for readers of English; the details come from the engine, in Chinese.
KINDS = {
    "bad_input": "Bad input",
    "bad_settings": "Bad settings",
    "bad_plugin": "A plug-in does not fit",
    "bad_filter": "Bad filter",
    "bad_query": "Bad query",
    "not_found": "Not found",
    "already_there": "Already there",
    "unauthorized": "The service wants another key",
    "forbidden": "This key may not do that",
    "overloaded": "The service is busy",
    "quota_exceeded": "The quota of the tenant is used up",
    "service_unavailable": "The service does not answer",
    "refused": "File refused",
    "folder_in_use": "The data folder is in use by another process",
    "missing_extra": "An optional dependency is not installed",
    "model_error": "Model error",
    "model_unavailable": "The model is not available",
    "bad_model_reply": "The model gave a bad reply",
    "hash_mismatch": "The weights are not the pinned ones",
    "index_unusable": "The index is unusable; rebuild it",
    "recall_failed": "Every arm of the search failed",
}


class Stopped(Exception):
    """Ctrl-C, with a message about what was done until then."""


def set_language(language: Language) -> None:
    _language.set(language)


def tr(zh: str, en: str) -> str:
    """The message in the language of the command."""
    return en if _language.get() == Language.en else zh


def kind_of_error(word: str) -> str:
    """The prefix of an error message: nothing in Chinese, its kind in English."""
    return tr("", f"{KINDS[word]}: " if word in KINDS else "")


class SafeConsole(Console):
    """Shows control characters of names and texts, ``\\x1b``, instead of sending them to the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not UNSAFE.search(segment.text):
                yield segment
            else:
                yield Segment(visible_controls(segment.text), segment.style)


def out() -> Console:
    return SafeConsole(file=sys.stdout, highlight=False, soft_wrap=False)


def err() -> Console:
    return SafeConsole(file=sys.stderr, highlight=False)


def print_json(document: Any) -> None:
    """The one document that a command with `--json` prints: in UTF-8, whatever the terminal's encoding. A value of
    `core` in it is written as the service writes it.

    Bytes of a file's name that are no text are written as ``\\xff``.
    """
    written = json.dumps(document, ensure_ascii=False, indent=2, default=_wire) + "\n"
    written = _SURROGATES.sub(lambda found: "\\" + escaped_control(found), written)  # JSON doubles the backslash
    sys.stdout.flush()
    if (raw := getattr(sys.stdout, "buffer", None)) is None:
        sys.stdout.write(written)
    else:
        raw.write(written.encode())
    sys.stdout.flush()


def _wire(value: Any) -> Any:
    from qianxun.core.codec.wire import to_wire

    return to_wire(value)


def note(text: str, style: str = "dim") -> None:
    """A line for people on stderr."""
    err().print(text, style=style, markup=False, soft_wrap=True)


def hint(zh: str, en: str) -> None:
    """What to do next, on stderr."""
    note(tr(zh, en))


def warn(zh: str, en: str) -> None:
    note(tr(zh, en), "yellow")


def done(zh: str, en: str, sign: str = "[green]✓[/]") -> None:
    """The result of a command, on stdout; takes markup."""
    out().print(f"{sign} {tr(zh, en)}")


def print_plain(console: Console, text: str, style: str = "") -> None:
    """One line, however long, without markup."""
    console.print(text, style=style, markup=False, soft_wrap=True)


def print_folded(console: Console, text: Text, indent: int, *, hanging: int = 0) -> None:
    """Prints text in lines that fit the console: Chinese breaks anywhere, runs of letters and digits do not.

    Every line is indented by ``indent`` cells, the first one by ``hanging`` less. A space at a line break is dropped.
    """
    parts = [part for line in text.split("\n") for part in _folded(line, console.width - indent)]
    for at, part in enumerate(parts):
        part.rstrip()
        margin = " " * (indent - hanging if at == 0 else indent)
        console.print(Text(margin) + part, no_wrap=True, overflow="ignore", crop=False)


def _folded(line: Text, width: int) -> list[Text]:
    first, *rest = line.divide(_breaks(line.plain, width))
    return [first, *(part[len(part.plain) - len(part.plain.lstrip(" ")) :] for part in rest)]


def _breaks(line: str, width: int) -> list[int]:
    """Where to break so that no part is wider than ``width`` cells."""
    found: list[int] = []
    start = used = 0
    for at, character in enumerate(line):
        used += cell_len(character)
        if used > width:
            cut = _word_start(line, start, at)
            found.append(cut)
            start, used = cut, cell_len(line[cut : at + 1])
    return found


def _word_start(line: str, start: int, at: int) -> int:
    """Where to break at or before ``at``: not inside a run of letters and digits, not before a closing mark; at
    ``at`` all the same where that would leave nothing on the line."""
    cut = at
    while cut > start and (line[cut] in NEVER_FIRST or (_is_latin(line[cut]) and _is_latin(line[cut - 1]))):
        cut -= 1
    return cut if cut > start else at


def _is_latin(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "-_./%:")
