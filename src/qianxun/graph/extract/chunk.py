"""Extraction of facts from one chunk without a model: names, relations, aliases, and sentences with several names.

A pure function of the chunk's text and kind, and of its document's name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from qianxun.core.graph_types import Facts, Mention, Span, StatedAlias, Statement
from qianxun.core.types import ChunkKind
from qianxun.graph.extract.domain import Domain, load_domain
from qianxun.graph.extract.english import english_names, english_relations
from qianxun.graph.extract.lexicon import listed
from qianxun.graph.extract.names import NAME, TERM, Name, foreign_names, is_informative, marked_names, tagged_names
from qianxun.graph.extract.patterns import skeleton, stated_aliases, stated_relations
from qianxun.graph.extract.triples import (
    Triple,
    card_lines,
    list_items,
    triples_of_lines,
    triples_of_rows,
    triples_of_table,
)
from qianxun.text.chinese import SENTENCE_END, Analyser, fold, places

VERSION: Final = "6"
_MOST: Final = 400  # mentions and statements of one chunk: more make it a list, not a text
_ON_CARDS: Final = listed("aliases", "on_cards") | listed("aliases", "of_people")
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_LATIN_NAME: Final = re.compile(r"[A-Z][A-Za-z]")
_FILE_ENDING: Final = re.compile(r"\.(?:txt|md|markdown|html?|csv|tsv|jsonl?|pdf|docx?|pptx?|xlsx?)$", re.IGNORECASE)
_NO_NAME: Final = re.compile(r"[。！？；!?;\n]|^[\W\d_]*$|^第.{1,4}[章节篇部条]")
_BRACKETS: Final = re.compile(r"(?<!\s)\s*+[（(][^（）()]*+[）)]$")
_PARTS: Final = re.compile(r"[·•‧・]|(?<=[A-Za-z.]) (?=[A-Z])")
_OWN_NAME: Final = frozenset(("姓名", "名字", "角色名", "人物名"))
_NOT_GIVEN: Final = frozenset(("暂无", "没有", "未知", "不详", "待定"))
_LONGEST_TITLE: Final = 60
_LONGEST_LABEL: Final = 6
_MOST_PARTS: Final = 4  # of a person's name


def facts_origin(analyser: Analyser, lexicon: str = "") -> str:
    """The origin of facts of `extract_facts`; changes whenever the same text may give other facts."""
    return f"statistical:{VERSION}/{analyser.version}/{load_domain(lexicon).version}"


@dataclass
class _Draft:
    """The facts found so far."""

    text: str
    domain: Domain
    topic: str = ""
    in_domain: bool | None = None  # whether the text is of the domain; None: not known yet
    mentions: list[Mention] = field(default_factory=list)
    statements: dict[tuple[str, str, str], Statement] = field(default_factory=dict)
    aliases: dict[tuple[str, str], StatedAlias] = field(default_factory=dict)

    def mention(self, start: int, end: int, type: str = TERM) -> None:
        self.mentions.append(Mention(self.text[start:end], type, start, end))

    def state(self, source: str, target: str, kind: str, start: int, end: int) -> None:
        if source != target and kind and len(self.statements) < _MOST:
            self.statements.setdefault((source, target, kind), Statement(source, target, kind, start, end))

    def alias(self, name: str, alias: str, start: int, end: int) -> None:
        self.aliases.setdefault((name, alias), StatedAlias(name, alias, start, end))

    def facts(self, structured: Sequence[Span] = ()) -> Facts:
        text = self.text if self.in_domain is None else ""
        in_domain = self.in_domain or self.domain.is_in(text, [mention.name for mention in self.mentions])
        found = self.domain.typed(self.mentions) if in_domain else self.mentions
        mentions = sorted(set(found), key=_mention_order)[:_MOST]
        names = {mention.name for mention in mentions}
        if in_domain:
            self._relate(mentions, structured)
        return Facts(
            tuple(mentions),
            tuple(row for row in self.statements.values() if row.source in names and row.target in names),
            tuple(self.aliases.values()),
            tuple(_shared_sentences(self.text, structured, mentions)),
        )

    def _relate(self, mentions: Sequence[Mention], structured: Sequence[Span]) -> None:
        """Adds the relations of the domain, in place of the verbs that state them."""
        lines = set(structured)
        sentences = (span for span in _sentences(self.text) if span not in lines)
        known = {(source, target, kind[-2:]) for source, target, kind in self.statements}
        for stated, cue in self.domain.relations(self.text, mentions, sentences, self.topic):
            if (stated.source, stated.target, stated.type[-2:]) in known:  # 治疗 as it is, 主要症状 for 症状
                continue
            self.statements.pop((stated.source, stated.target, cue), None)
            self.statements.pop((stated.target, stated.source, cue), None)
            self.state(stated.source, stated.target, stated.type, stated.start, stated.end)


def _mention_order(mention: Mention) -> tuple[int, int, str, str]:
    return mention.start, mention.end, mention.name, mention.type


def extract_facts(
    text: str, *, kind: ChunkKind = "text", doc_name: str = "", analyser: Analyser, lexicon: str = ""
) -> Facts:
    """The names of a text, its relations and aliases, and the sentences with two or more names.

    A document title that is a name is mentioned, too: with an empty span if the text does not have it.
    ``lexicon`` is the file of a domain's words, "" for the shipped one.
    """
    title = title_of(doc_name)
    draft = _Draft(text, load_domain(lexicon))
    is_table = kind == "table"
    triples = (triples_of_table(text) or triples_of_rows(text)) if is_table else triples_of_lines(text, doc_name)
    for triple in triples:
        _add_triple(draft, triple)
    structured = [triple.line for triple in triples]
    if not is_table:
        _add_prose(draft, title, structured, analyser)
    return draft.facts(structured)


def title_of(doc_name: str) -> str:
    """A document's name as the topic of its text; "" for a number, a sentence or a chapter."""
    title = _FILE_ENDING.sub("", doc_name.strip()).strip()
    return title if 2 <= len(title) <= _LONGEST_TITLE and not _NO_NAME.search(title) else ""


def _add_triple(draft: _Draft, triple: Triple) -> None:
    """With the items of an object that is a list."""
    text = draft.text
    subject, predicate, object_ = (text[start:end] for start, end in triple[:3])
    draft.mention(*triple.subject)
    draft.mention(*triple.object)
    draft.statements.setdefault(
        (subject, object_, predicate), Statement(subject, object_, predicate, *triple.span)
    )  # even of itself: 主客 的 词目 是 主客
    for start, end in list_items(text, triple.object):
        draft.mention(start, end)
        draft.state(subject, text[start:end], predicate, *triple.span)


# ── prose ────────────────────────────────────────────────────────────────────────────────────────


def _add_prose(draft: _Draft, title: str, structured: Sequence[Span], analyser: Analyser) -> None:
    text = draft.text
    if structured and sum(end - start for start, end in structured) >= len(text.strip()):
        return
    words = _tagged_words(text, analyser)
    draft.in_domain = draft.domain.is_in(words.folded, [word for word, _ in words.tagged])
    of_domain = draft.domain.names(words.folded, words.tagged) if draft.in_domain else []
    names = _names(words, text, title, structured, of_domain)
    full = _full_names(text, names, title)
    draft.mentions += [Mention(own, name.type, name.start, name.end) for name, own in zip(names, full, strict=True)]
    topic = draft.topic = _topic(draft, title)
    full.append(topic)  # at -1
    bare = skeleton(words.folded, names)
    for row in stated_relations(bare, words.folded, words.verbs, words.nouns, analyser.has_word):
        draft.state(full[row.source], full[row.target], row.type, row.start, row.end)
    for found in stated_aliases(bare, words.folded):
        draft.alias(full[found.name], text[found.start : found.end].strip(), found.start, found.end)
    if _LATIN_NAME.search(text):
        by_name = {text[name.start : name.end]: own for name, own in zip(names, full, strict=False)}
        for source, target, kind, start, end in english_relations(text, names, topic):
            draft.state(by_name.get(source, source), by_name.get(target, target), kind, start, end)
    if title:
        _add_card(draft, topic)


def _add_card(draft: _Draft, topic: str) -> None:
    """The lines of a card: relations of its topic (妻子：顾清辞) and its aliases (别名：子固)."""
    text, person = draft.text, topic
    for key, value, span in card_lines(text):
        kind, items = text[slice(*key)], list_items(text, value)
        if kind in _ON_CARDS:
            for start, end in items or [value]:
                _add_card_alias(draft, person, start, end)
            continue
        for start, end in [value, *items]:
            draft.mention(start, end)
            draft.state(topic, text[start:end], kind, *span)
        if kind in _OWN_NAME:
            person = text[slice(*value)]
            if not _HAN.search(topic) or not is_informative(topic):  # char-17, 人物: the rest is about this person
                topic = person


def _add_card_alias(draft: _Draft, person: str, start: int, end: int) -> None:
    alias = draft.text[start:end]
    if alias != person and alias not in _NOT_GIVEN and is_informative(alias) and is_informative(person):
        draft.mention(start, end)
        draft.alias(person, alias, start, end)


def _full_names(text: str, names: Sequence[Name], title: str) -> list[str]:
    """乔布斯 is 史蒂夫·乔布斯 if that is in the same text, and 龙晶 is the title 龙晶（游戏）."""
    written = [text[name.start : name.end] for name in names]
    full: dict[str, str] = {}
    for name in dict.fromkeys(written):
        if (parts := _PARTS.split(name))[1:] and len(parts) <= _MOST_PARTS and len(parts[-1]) > 1:
            full[parts[-1]] = "" if parts[-1] in full else name  # ambiguous between two
    bare = _BRACKETS.sub("", title).strip()
    if len(bare) > 1:
        full |= {bare: title}
    return [full.get(name) or name for name in written]


@dataclass(frozen=True, slots=True)
class _Words:
    """A folded text of the same length, and its words."""

    folded: str
    tagged: Sequence[tuple[str, str]]
    verbs: Mapping[int, str]  # by position
    nouns: Collection[int]  # positions
    own: Collection[str]  # of the base's dictionary


def _tagged_words(text: str, analyser: Analyser) -> _Words:
    folded = fold(text)
    if len(folded) != len(text):  # some characters fold into several: offsets would be wrong
        plain = {character: fold(character) for character in set(text)}
        folded = text.translate({ord(character): form for character, form in plain.items() if len(form) == 1})
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


def _names(words: _Words, text: str, title: str, structured: Sequence[Span], of_domain: Sequence[Name]) -> list[Name]:
    """The names in the order of the text, none inside another."""
    found = [*_title_names(words.folded, title), *marked_names(text)]
    if words.tagged:
        found += of_domain
        found += foreign_names(words.folded, words.tagged)
        found += tagged_names(words.tagged, words.own)
    if _LATIN_NAME.search(text):
        found += english_names(text)
    return [name for name in _without_overlaps(found, structured) if not _is_label(text, name)]


def _is_label(text: str, name: Name) -> bool:
    """英语 of （英语：…）."""
    after, before = text[name.end : name.end + 1], text[name.start - 1 : name.start] if name.start else "\n"
    return after in ("：", ":") and before in ("（", "(", "，", "；", "\n") and name.end - name.start <= _LONGEST_LABEL


def _title_names(folded: str, title: str) -> Iterator[Name]:
    for form in dict.fromkeys((fold(title), fold(_BRACKETS.sub("", title).strip()))):
        if len(form) > 1:
            yield from (Name(at, at + len(form), NAME) for at in places(form, folded))


def _topic(draft: _Draft, title: str) -> str:
    """The topic of the text: its document's title, without one the name that it begins with."""
    if title:
        folded = fold(title)
        for mention in draft.mentions:
            if fold(mention.name) == folded:
                return mention.name
        draft.mentions.append(Mention(title, NAME, 0, 0))
        return title
    first = draft.mentions[0] if draft.mentions else None
    return first.name if first is not None and first.start <= 1 else ""


def _without_overlaps(names: Iterable[Name], structured: Sequence[Span]) -> list[Name]:
    """In the order of the text; of two that overlap the one found first."""
    names = list(names)
    taken = bytearray(max((name.end for name in names), default=0))
    for start, end in structured:
        taken[start : min(end, len(taken))] = b"\1" * max(min(end, len(taken)) - start, 0)
    free: list[Name] = []
    for name in names:
        start, end, _ = name
        if start < end and not any(taken[start:end]):
            taken[start:end] = b"\1" * (end - start)
            free.append(name)
    return sorted(free)


# ── sentences ────────────────────────────────────────────────────────────────────────────────────


def _shared_sentences(text: str, structured: Sequence[Span], mentions: Sequence[Mention]) -> Iterator[Span]:
    """The sentences with two or more different names, without structured lines."""
    lines = set(structured)
    at = 0
    for start, end in _sentences(text):
        names = set()
        while at < len(mentions) and mentions[at].start < end:
            if mentions[at].start >= start:  # the title may be before the first of them
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
