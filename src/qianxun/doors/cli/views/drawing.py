"""What several commands draw alike: tables, bars, places, excerpts, what could not take part; and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from qianxun.core.codec.labels import label_pair
from qianxun.core.codec.passage import below_headings, chunk_place, chunk_title
from qianxun.doors.cli.i18n import note, print_folded, tr, warn

if TYPE_CHECKING:
    from qianxun.core.types import Chunk, Degraded

INDENT = 4
WIDEST = 32  # cells of a full bar
SNIPPET = 120  # characters shown of prose
EIGHTHS = " ▏▎▍▌▋▊▉█"


def label(table: str, key: str) -> str:
    """What a key of the engine is called on screen; the key itself where it has no label."""
    return tr(*label_pair(table, key))


def arm_label(name: str, attribute: str = "label") -> str:
    """What an arm is called on screen, or with ``unit`` its raw scores; the name itself where there is no such arm."""
    from qianxun.engine.display import find_arm

    arm = find_arm(name)
    return name if arm is None else tr(*getattr(arm, attribute))


def new_table(*titles: tuple[str, str], **column: Any) -> Table:
    """A table without lines, with a column for every pair of titles (Chinese, English); ``column``: their options."""
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(tr(*title), **column)
    return table


def minutes(moment: str) -> str:
    """A moment in ISO 8601, as people read it: to the minute."""
    return moment[:16].replace("T", " ")


def location_of(chunk: Chunk) -> Text:
    """The document, the headings that are not its name, the page."""
    title, place = chunk_title(chunk), chunk_place(chunk)
    drawn = Text(title, style="bold cyan").append(place.removeprefix(title), style="not bold")
    if chunk.page is not None:
        drawn.append(tr(f"  第 {chunk.page} 页", f"  p. {chunk.page}"), style="dim")
    return drawn


def printable(text: str) -> str:
    """Without control characters other than the end of a line."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text)


def one_line(name: str) -> str:
    """A name with its line ends as ``\\n``: it takes one line of a listing. What else is no text the console shows."""
    return name.replace("\r", "\\r").replace("\n", "\\n")


def visible(text: str) -> str:
    """In one line, without control characters."""
    return " ".join(printable(text).split())


def bar(score: float, width: int) -> str:
    """So many cells for a score of 1; anything above zero is seen."""
    eighths = round(min(max(score, 0.0), 1.0) * width * 8)
    eighths = max(eighths, 1) if score > 0.0 else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width, " ")


def bars(console: Console, rows: Sequence[tuple[str, float, str, str]]) -> None:
    """A bar to a line: its name, its score, what else is known of it, its colour."""
    longest = max((cell_len(name) for name, *_ in rows), default=0)
    rest = max((cell_len(place) for _, _, place, _ in rows), default=0)
    width = max(5, min(WIDEST, console.width - INDENT - longest - 1 - 6 - 2 - rest))
    for name, score, place, colour in rows:
        line = Text(" " * INDENT + padded(name, longest) + " ")
        line.append(bar(score, width), style=colour)
        line.append(f" {score:.2f}", style="bold")
        line.append(f"  {place}".rstrip(), style="dim")
        console.print(line, no_wrap=True, overflow="ellipsis")


def padded(name: str, cells: int) -> str:
    return name + " " * (cells - cell_len(name))


def labelled(console: Console, title: str, text: str | Text) -> None:
    """``title text``, indented, its further lines below the first."""
    hanging = cell_len(title) + 1
    print_folded(console, Text.assemble((title + " ", "dim"), text), INDENT + hanging, hanging=hanging)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}" if seconds >= 0.01 else f"{seconds * 1000:.1f}"


def show_degraded(degraded: Sequence[Degraded]) -> None:
    """Warns of what could not take part in a search; of parts with one reason, the first."""
    from qianxun.engine.display import find_arm

    reasons = {part.reason: part for part in reversed(degraded)}
    for part in (part for part in degraded if reasons[part.reason] is part):
        if find_arm(part.part) is not None:
            arm = arm_label(part.part)
            warn(f"! {arm}检索没能参加：{part.reason}", f"! The {arm} arm did not take part: {part.reason}")
        else:
            note(f"! {label('parts', part.part)}{tr('：', ': ')}{part.reason}", "yellow")


# ── texts ────────────────────────────────────────────────────────────────────────────────────────


def excerpt(chunk: Chunk, query: str) -> Text:
    """The part of a chunk that matches best, without its headings; of a table, the header and the best rows."""
    from qianxun.engine.display import matching_part, matching_rows, query_words, spans

    words, below = query_words(query), below_headings(chunk.text, chunk.headings)  # the title line shows those already
    if chunk.kind == "table":
        return highlighted(matching_rows(below, query), words)
    shown = " ".join(below.split())
    before, part, after = matching_part(shown, spans(shown, words), SNIPPET)
    return Text(before) + highlighted(part, words) + Text(after)


def highlighted(text: str, words: Sequence[str]) -> Text:
    from qianxun.engine.display import spans

    drawn = Text(text)
    for start, end in spans(text, words):
        drawn.stylize("bold yellow", start, end)
    return drawn


def plain_value(value: Any) -> str:
    """A value of a trace or of match details, in one line."""
    if isinstance(value, bool):
        return tr("是", "yes") if value else tr("否", "no")
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return tr("、", ", ").join(map(plain_value, value))
    if isinstance(value, Mapping):
        return tr("，", ", ").join(f"{name} {plain_value(inner)}" for name, inner in value.items())
    return printable(str(value))
