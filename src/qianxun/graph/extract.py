"""What one chunk tells the graph, without a model: names, what is stated of them, which of them share a sentence.

A pure function of the chunk: of its text, what kind of text it is, the headings above it and its document's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from qianxun.chinese import SENTENCE_END, Analyser, fold
from qianxun.graph.names import TERM, Name, marked_names, spoken_names
from qianxun.graph.triples import Triple, of_lines, of_table
from qianxun.graph_types import Facts, Mention, Span, Statement
from qianxun.types import ChunkKind

VERSION: Final = "1"
_MOST_MENTIONS: Final = 400  # of one chunk: what comes after them is a list, not a text


def reader(analyser: Analyser) -> str:
    """The origin of facts that `read_facts` finds: another one, where the same text may give other facts."""
    return f"statistical:{VERSION}/{analyser.version}"


def read_facts(
    text: str, *, kind: ChunkKind = "text", headings: Sequence[str] = (), doc_name: str = "", analyser: Analyser
) -> Facts:
    """The names of a text, what it states of them, and the sentences in which two or more of them stand."""
    triples = of_table(text) if kind == "table" else of_lines(text, doc_name)
    given = [triple.span for triple in triples]
    names = _apart([*_triple_names(triples), *marked_names(text), *_spoken(text, analyser)])[:_MOST_MENTIONS]
    mentions = tuple(Mention(text[name.start : name.end], name.type, name.start, name.end) for name in names)
    statements = tuple(_given(text, triple) for triple in triples)
    return Facts(mentions, statements, (), tuple(_shared(text, given, mentions)))


def _spoken(text: str, analyser: Analyser) -> list[Name]:
    folded = fold(text)
    if len(folded) != len(text):  # a few characters stand for several: offsets would be those of another text
        folded = text.lower()
        if len(folded) != len(text):
            return []
    return spoken_names(folded, analyser.tagged(folded))


def _given(text: str, triple: Triple) -> Statement:
    subject, predicate, object_ = (text[start:end] for start, end in triple)
    return Statement(subject, object_, predicate, *triple.span)


def _triple_names(triples: Sequence[Triple]) -> Iterator[Name]:
    for each in triples:
        yield Name(*each.subject, TERM)
        yield Name(*each.object, TERM)


def _apart(names: Iterable[Name]) -> list[Name]:
    """In the order of the text, none inside another: of two that overlap the earlier given stands."""
    taken: list[Name] = []
    held: set[int] = set()
    for name in names:
        places = range(name.start, name.end)
        if name.start < name.end and held.isdisjoint(places):
            held.update(places)
            taken.append(name)
    return sorted(taken)


def _shared(text: str, given: Sequence[Span], mentions: Sequence[Mention]) -> Iterator[Span]:
    """The sentences in which two or more different names stand. A line that is a triple is a sentence."""
    at = 0
    for start, end in _sentences(text):
        names = set()
        while at < len(mentions) and mentions[at].start < end:
            names.add(mentions[at].name)
            at += 1
        if len(names) > 1:
            yield start, end


def _sentences(text: str) -> Iterator[Span]:
    start = 0
    for line in text.split("\n"):
        stop = start + len(line)
        at = start
        for end in SENTENCE_END.finditer(text, start, stop):
            yield at, end.end()
            at = end.end()
        if at < stop:
            yield at, stop
        start = stop + 1
