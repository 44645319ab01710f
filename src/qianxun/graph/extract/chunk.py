"""What one chunk tells the graph, without a model: names, what is stated of them, which of them share a sentence.

A pure function of the chunk: of its text, what kind of text it is, the headings above it and its document's name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from qianxun.core.graph_types import Facts, Mention, Span, StatedAlias, Statement
from qianxun.core.types import ChunkKind
from qianxun.graph.extract.english import english_names, english_statements
from qianxun.graph.extract.names import NAME, TERM, Name, foreign_names, is_telling, marked_names, spoken_names
from qianxun.graph.extract.patterns import called, skeleton, stated
from qianxun.graph.extract.triples import Triple, listed_values, of_lines, of_rows, of_table, parts_of
from qianxun.graph.extract.words import ON_CARDS
from qianxun.text.chinese import SENTENCE_END, Analyser, fold, places

VERSION: Final = "5"
_MOST: Final = 400  # mentions and statements of one chunk: what comes after them is a list, not a text
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_LATIN_NAME: Final = re.compile(r"[A-Z][A-Za-z]")
_FILE_ENDING: Final = re.compile(r"\.(?:txt|md|markdown|html?|csv|tsv|jsonl?|pdf|docx?|pptx?|xlsx?)$", re.IGNORECASE)
_NO_NAME: Final = re.compile(r"[。！？；!?;\n]|^[\W\d_]*$|^第.{1,4}[章节篇部条]")
_BRACKETS: Final = re.compile(r"\s*[（(][^（）()]*[）)]$")
_PARTS: Final = re.compile(r"[·•‧・]|(?<=[A-Za-z.]) (?=[A-Z])")
_OWN_NAME: Final = frozenset(("姓名", "名字", "角色名", "人物名"))
_NOT_GIVEN: Final = frozenset(("暂无", "没有", "未知", "不详", "待定"))
_LONGEST_TITLE: Final = 60
_LONGEST_LABEL: Final = 6
_MOST_PARTS: Final = 4  # of a person's name


def reader(analyser: Analyser) -> str:
    """The origin of facts that `read_facts` finds: another one, where the same text may give other facts."""
    return f"statistical:{VERSION}/{analyser.version}"


@dataclass
class _Found:
    """What has been found so far."""

    text: str
    mentions: list[Mention] = field(default_factory=list)
    statements: dict[tuple[str, str, str], Statement] = field(default_factory=dict)
    aliases: dict[tuple[str, str], StatedAlias] = field(default_factory=dict)

    def mention(self, name: Name) -> None:
        self.mentions.append(Mention(self.text[name.start : name.end], name.type, name.start, name.end))

    def state(self, source: str, target: str, kind: str, start: int, end: int) -> None:
        if source != target and kind and len(self.statements) < _MOST:
            self.statements.setdefault((source, target, kind), Statement(source, target, kind, start, end))

    def facts(self, breaks: Sequence[Span] = ()) -> Facts:
        mentions = sorted(set(self.mentions), key=lambda each: (each.start, each.end, each.name))[:_MOST]
        there = {each.name for each in mentions}
        return Facts(
            tuple(mentions),
            tuple(each for each in self.statements.values() if each.source in there and each.target in there),
            tuple(self.aliases.values()),
            tuple(_shared(self.text, breaks, mentions)),
        )


def read_facts(
    text: str, *, kind: ChunkKind = "text", headings: Sequence[str] = (), doc_name: str = "", analyser: Analyser
) -> Facts:
    """The names of a text, what it states of them, and the sentences in which two or more of them stand.

    The title of its document is among the names where it is one: with an empty span where the text does not hold it.
    """
    title = title_of(doc_name)
    found = _Found(text)
    triples = (of_table(text) or of_rows(text)) if kind == "table" else of_lines(text, doc_name)
    for triple in triples:
        _take_triple(found, triple)
    given = [triple.line for triple in triples]
    if kind != "table":
        _read_prose(found, title, given, analyser)
    return found.facts(given)


def title_of(doc_name: str) -> str:
    """A document's name as a name that its text is about; "" where it is a number, a sentence or a chapter."""
    title = _FILE_ENDING.sub("", doc_name.strip()).strip()
    return title if 2 <= len(title) <= _LONGEST_TITLE and not _NO_NAME.search(title) else ""


# ── triples ──────────────────────────────────────────────────────────────────────────────────────


def _take_triple(found: _Found, triple: Triple) -> None:
    """As it is given; of an object that is a list also each of its parts."""
    text = found.text
    subject, predicate, object_ = (text[start:end] for start, end in triple[:3])
    found.mention(Name(*triple.subject, TERM))
    found.mention(Name(*triple.object, TERM))
    found.statements.setdefault(
        (subject, object_, predicate), Statement(subject, object_, predicate, *triple.span)
    )  # even of itself: 主客 的 词目 是 主客
    for start, end in parts_of(text, triple.object):
        found.mention(Name(start, end, TERM))
        found.state(subject, text[start:end], predicate, *triple.span)


# ── prose ────────────────────────────────────────────────────────────────────────────────────────


def _read_prose(found: _Found, title: str, given: Sequence[Span], analyser: Analyser) -> None:
    text = found.text
    if given and _covers(given, text):
        return
    words = _told_words(text, analyser)
    names = _names(words, text, title, given)
    called_so = _called_so(text, names, title)
    for name, called_name in zip(names, called_so, strict=True):
        found.mentions.append(Mention(called_name, name.type, name.start, name.end))
    topic = _topic(found, title)
    called_so.append(topic)  # -1: what the text is about
    bare = skeleton(words.folded, names)
    for each in stated(bare, words.folded, words.verbs, words.nouns, analyser.has_word):
        found.state(called_so[each.source], called_so[each.target], each.type, each.start, each.end)
    for other in called(bare, words.folded):
        own, alias = called_so[other.name], text[other.start : other.end].strip()
        found.aliases.setdefault((own, alias), StatedAlias(own, alias, other.start, other.end))
    if _LATIN_NAME.search(text):
        full = {text[name.start : name.end]: so for name, so in zip(names, called_so, strict=False)}
        for source, target, kind, start, end in english_statements(text, names, topic):
            found.state(full.get(source, source), full.get(target, target), kind, start, end)
    if title:
        _read_values(found, topic)


def _read_values(found: _Found, topic: str) -> None:
    """What the lines of a card say of what it is about: 妻子：顾清辞; and what that is also called: 别名：子固."""
    text, person = found.text, topic
    for key, value, span in listed_values(text):
        said, parts = text[slice(*key)], parts_of(text, value)
        if said in ON_CARDS:
            for start, end in parts or [value]:
                _call(found, person, start, end)
            continue
        for start, end in [value, *parts]:
            found.mention(Name(start, end, TERM))
            found.state(topic, text[start:end], said, *span)
        if said in _OWN_NAME:
            person = text[slice(*value)]
            if not _HAN.search(topic) or not is_telling(
                topic
            ):  # char-17, 人物: what follows is said of whom this names
                topic = person


def _call(found: _Found, person: str, start: int, end: int) -> None:
    alias = found.text[start:end]
    if alias != person and alias not in _NOT_GIVEN and is_telling(alias) and is_telling(person):
        found.mention(Name(start, end, TERM))
        found.aliases.setdefault((person, alias), StatedAlias(person, alias, start, end))


def _called_so(text: str, names: Sequence[Name], title: str) -> list[str]:
    """What each name calls: 乔布斯 is 史蒂夫·乔布斯 where that stands in the same text, and 龙晶 what the document
    龙晶（游戏） is about."""
    written = [text[name.start : name.end] for name in names]
    full: dict[str, str] = {}
    for name in dict.fromkeys(written):
        if (parts := _PARTS.split(name))[1:] and len(parts) <= _MOST_PARTS and len(parts[-1]) > 1:
            full[parts[-1]] = "" if parts[-1] in full else name  # of two it might be either
    bare = _BRACKETS.sub("", title).strip()
    if len(bare) > 1:
        full |= {bare: title}
    return [full.get(name) or name for name in written]


def _covers(given: Sequence[Span], text: str) -> bool:
    return sum(end - start for start, end in given) >= len(text.strip())


@dataclass(frozen=True, slots=True)
class _Words:
    """A text as it is compared, as long as it is, and its words."""

    folded: str
    tagged: Sequence[tuple[str, str]]
    verbs: Mapping[int, str]  # by where they begin
    nouns: Collection[int]  # where they begin
    own: Collection[str]  # of the base's dictionary


def _told_words(text: str, analyser: Analyser) -> _Words:
    folded = fold(text)
    if len(folded) != len(text):  # a few characters stand for several: offsets would be those of another text
        plain = {character: fold(character) for character in set(text)}
        folded = text.translate({ord(each): other for each, other in plain.items() if len(other) == 1})
    verbs: dict[int, str] = {}
    nouns: set[int] = set()
    tagged = analyser.tagged(folded) if _HAN.search(folded) else []
    at = 0
    for word, tag in tagged:
        if tag == "v":
            verbs[at] = word
        elif tag[:1] == "n":
            nouns.add(at)
        at += len(word)
    return _Words(folded, tagged, verbs, nouns, analyser.own_words)


def _names(words: _Words, text: str, title: str, given: Sequence[Span]) -> list[Name]:
    """The names in the order of the text, none inside another."""
    found = [*_title_names(words.folded, title), *marked_names(text)]
    if words.tagged:
        found += foreign_names(words.folded, words.tagged)
        found += spoken_names(words.tagged, words.own)
    if _LATIN_NAME.search(text):
        found += english_names(text)
    return [name for name in _apart(found, given) if not _is_label(text, name)]


def _is_label(text: str, name: Name) -> bool:
    """英语 of （英语：…）, which says what follows."""
    follows, before = text[name.end : name.end + 1], text[name.start - 1 : name.start] if name.start else "\n"
    return (
        follows in ("：", ":") and before in ("（", "(", "，", "；", "\n") and name.end - name.start <= _LONGEST_LABEL
    )


def _title_names(folded: str, title: str) -> Iterator[Name]:
    for wanted in dict.fromkeys((fold(title), fold(_BRACKETS.sub("", title).strip()))):
        if len(wanted) > 1:
            yield from (Name(at, at + len(wanted), NAME) for at in places(wanted, folded))


def _topic(found: _Found, title: str) -> str:
    """What the text is about: its document's title or, without one, the name that it begins with."""
    if title:
        wanted = fold(title)
        for mention in found.mentions:
            if fold(mention.name) == wanted:
                return mention.name
        found.mentions.append(Mention(title, NAME, 0, 0))
        return title
    first = found.mentions[0] if found.mentions else None
    return first.name if first is not None and first.start <= 1 else ""


def _apart(names: Iterable[Name], given: Sequence[Span]) -> list[Name]:
    """In the order of the text, none inside another: of two that overlap the earlier given stands."""
    names = list(names)
    held = bytearray(max((name.end for name in names), default=0))
    for start, end in given:
        held[start : min(end, len(held))] = b"\1" * max(min(end, len(held)) - start, 0)
    taken: list[Name] = []
    for name in names:
        start, end, _ = name
        if start < end and not any(held[start:end]):
            held[start:end] = b"\1" * (end - start)
            taken.append(name)
    return sorted(taken)


# ── sentences ────────────────────────────────────────────────────────────────────────────────────


def _shared(text: str, given: Sequence[Span], mentions: Sequence[Mention]) -> Iterator[Span]:
    """The sentences in which two or more different names stand. What is given as a triple is no such sentence."""
    lines = set(given)
    at = 0
    for start, end in _sentences(text):
        names = set()
        while at < len(mentions) and mentions[at].start < end:
            if mentions[at].start >= start:  # the title may stand before the first of them
                names.add(mentions[at].name)
            at += 1
        if len(names) > 1 and (start, end) not in lines:
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
