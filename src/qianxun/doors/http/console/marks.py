"""Texts of documents as HTML: the words that match marked, a stretch of them lit up. What is given is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from qianxun.engine.display import matching_part, matching_table, query_words, spans

Span = tuple[int, int]


def marked(text: str, places: Iterable[Span], name: str = "") -> Markup:
    """The text with ``<mark>`` around these places; ``name`` is the class of the marks."""
    opened = Markup('<mark class="{}">').format(name) if name else Markup("<mark>")
    parts: list[Markup] = []
    at = 0
    for start, end in _merged(places, len(text)):
        parts += [escape(text[at:start]), opened, escape(text[start:end]), Markup("</mark>")]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


def matched(text: str, query: str) -> Markup:
    """The text with the words of a query marked."""
    return marked(text, spans(text, query_words(query)))


def excerpt(text: str, query: str, width: int = 220) -> Markup:
    """The part of a text that matches a query best, its words marked."""
    words = query_words(query)
    flat = " ".join(text.split())
    before, part, after = matching_part(flat, spans(flat, words), width)
    return Markup("{}{}{}").format(before, marked(part, spans(part, words)), after)


def table_excerpt(text: str, query: str) -> Markup:
    """The rows of a table that match a query best, below the names of its columns, the words marked."""
    words, part = query_words(query), matching_table(text, query)
    if not part.rows:
        return excerpt(text, query)

    def line(name: str, cells: Sequence[str]) -> Markup:
        cell = Markup("<{0}>{1}</{0}>")
        return Markup("<tr>{}</tr>").format(
            Markup("").join(cell.format(name, marked(one, spans(one, words))) for one in cells)
        )

    def prose(lines: str) -> Markup:
        return Markup("<p>{}</p>").format(marked(lines, spans(lines, words))) if lines else Markup("")

    head, *rows = part.rows
    table = Markup(
        '{}<div class="scroll" tabindex="0" role="region" aria-label="{}">'
        "<table><thead>{}</thead><tbody>{}</tbody></table></div>{}"
    )
    body = Markup("").join(line("td", row) for row in rows)
    return table.format(prose(part.above), part.above or " ".join(head), line("th", head), body, prose(part.below))


def _merged(places: Iterable[Span], length: int) -> Sequence[Span]:
    """In order, within the text, none over another."""
    merged: list[Span] = []
    for start, end in sorted((max(start, 0), min(end, length)) for start, end in places):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
