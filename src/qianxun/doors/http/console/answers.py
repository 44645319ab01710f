"""An answer as HTML: marks that open the source at the sentence, figures that its sources have, what was taken out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from qianxun.core.answer_types import Answer, Citation, Flag, Source
from qianxun.core.codec.passage import heading_path, title_of
from qianxun.doors.http.console.marks import marked
from qianxun.doors.http.console.page import Text
from qianxun.engine.display import supporting_sentence

MARK: Final = re.compile(r"\[(\d+)\]")
FIGURE: Final = re.compile(r"\d+(?:[.,]\d+)*(?:\s?%|％|‰)?")
QUOTED: Final = 700  # characters shown of a source
FLAGS: Final[Mapping[str, Text]] = {
    "unsupported_number": Text("数字在出处里没有", "a figure that its source does not have"),
    "contradicted": Text("与出处相反", "its source says the opposite"),
    "unknown_citation": Text("引用了不存在的出处", "cites a source that is not there"),
    "uncited": Text("没有出处", "no source"),
    "link_removed": Text("去掉了链接、图片或 HTML", "a link, picture or tag was taken out"),
    "dropped": Text("整句去掉了", "the sentence was dropped"),
}

Address = Callable[[Source, int, int], str]  # of a stretch of a source's document


@dataclass(frozen=True, slots=True)
class ShownSource:
    source: Source
    title: str
    headings: tuple[str, ...]
    text: Markup
    address: str  # "" for what came with the question


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    answer: Answer
    text: Markup
    sources: tuple[ShownSource, ...]
    flags: tuple[tuple[Text, Flag], ...]
    figures: int  # that were found in the sources they are cited from


def shown_answer(answer: Answer, question: str, address: Address, checked: str) -> ShownAnswer:
    """``checked`` is what a figure says of itself that its sources have."""
    text, figures = _text(answer, question, address, checked)
    sources = tuple(_source(answer, question, source, address) for source in answer.sources)
    flags = tuple((FLAGS[flag.kind], flag) for flag in answer.flags)
    return ShownAnswer(answer, text, sources, flags, figures)


def _text(answer: Answer, question: str, address: Address, checked: str) -> tuple[Markup, int]:
    """Marks become links; figures that stand in the cited sources are marked as such."""
    by_number = {source.number: source for source in answer.sources}
    parts: list[Markup] = []
    at = figures = 0
    for mark in MARK.finditer(answer.answer):
        cited = _cited_by(answer, mark.start())
        stretch, found = _figures(answer.answer[at : mark.start()], cited, by_number, checked)
        figures += found
        parts += [stretch, _link(answer, question, by_number.get(int(mark[1])), mark[0], cited, address)]
        at = mark.end()
    return Markup("").join([*parts, escape(answer.answer[at:])]), figures


def _cited_by(answer: Answer, at: int) -> Citation | None:
    """The citation whose mark stands at ``at``: the last one that begins before it."""
    return next((one for one in reversed(answer.citations) if one.start <= at), None)


def _figures(text: str, cited: Citation | None, sources: Mapping[int, Source], checked: str) -> tuple[Markup, int]:
    numbers = cited.numbers if cited else ()
    known = {figure for number in numbers if number in sources for figure in FIGURE.findall(sources[number].text)}
    parts: list[Markup] = []
    at = count = 0
    for figure in FIGURE.finditer(text):
        if figure[0] in known:
            count += 1
            parts += [escape(text[at : figure.start()]), _figure(figure[0], checked)]
            at = figure.end()
    return Markup("").join([*parts, escape(text[at:])]), count


def _figure(figure: str, checked: str) -> Markup:
    return Markup('<span class="figure" title="{}">{}</span>').format(checked, figure)


def _link(
    answer: Answer, question: str, source: Source | None, mark: str, cited: Citation | None, address: Address
) -> Markup:
    if source is None:
        return escape(mark)
    sentence = MARK.sub("", answer.answer[cited.start : cited.end]) if cited else answer.answer
    start, end = supporting_sentence(source.text, sentence, question)
    to = address(source, start, end)
    title = source.text[start:end][:200]
    if not to:
        return Markup('<span class="cite" title="{}">{}</span>').format(title, mark)
    return Markup('<a class="cite" href="{}" title="{}">{}</a>').format(to, title, mark)


def _source(answer: Answer, question: str, source: Source, address: Address) -> ShownSource:
    cited = " ".join(
        MARK.sub("", answer.answer[one.start : one.end]) for one in answer.citations if source.number in one.numbers
    )
    start, end = supporting_sentence(source.text, cited or answer.answer, question)
    about = source.metadata
    headings = [str(heading) for heading in about.get("headings") or ()]
    first = max(0, min(start - QUOTED // 4, len(source.text) - QUOTED))
    part = source.text[first : first + QUOTED]
    return ShownSource(
        source,
        title_of(source.doc_name, source.doc_id, about.get("document") or {}),
        tuple(heading_path(source.doc_name, headings)),
        marked(part, [(start - first, end - first)]),
        address(source, start, end),
    )
