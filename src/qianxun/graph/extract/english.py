"""Names and relations in English text: runs of capitalised words, and the words between two of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from qianxun.graph.extract.lexicon import listed
from qianxun.graph.extract.names import NAME, ORGANIZATION, PLACE, TERM, WORK, Name

_WORD: Final = (
    r"(?:(?:[A-Z]\.){1,4}|(?:St|Dr|Mr|Mrs|Ms|Jr|Sr|Mt|Ft)\.|[A-Z][\w&\-]*(?:['’](?!s\b)[\w\-]+)?)"  # J. R. R. Tolkien
)
_LINK: Final = r"(?:of|de|du|la|le|von|van|der|di|da|del|the)"
_RUN: Final = re.compile(rf"\b{_WORD}(?:[ ](?:{_LINK}[ ]){{0,2}}(?:{_WORD}|\d{{1,4}}\b)){{0,9}}")
_QUOTED: Final = re.compile(r"[\"“]([A-Z0-9][^\"“”\n]{1,60}?)[,.]?[\"”]")
_LEADING: Final = listed("english", "leading")
_MONTHS: Final = listed("english", "months")
_NO_NAMES: Final = listed("english", "not_names") | _MONTHS
_CONJUNCTIONS: Final = listed("english", "conjunctions")
_PREPOSITIONS: Final = listed("english", "prepositions")
_ORGANISATION: Final = re.compile(rf"\b(?:{'|'.join(sorted(listed('english', 'organisation_words')))})\b")
_PLACE: Final = re.compile(rf"\b(?:{'|'.join(sorted(listed('english', 'place_words')))})\b")
_GAP: Final = re.compile(
    r"\s*(?:\([^()]{0,60}\)\s*)?,?\s*(?:(?:who|which|that)\s)?(?:(?:is|was|are|were|has been|had been)\s)?(?:also\s)?"
    r"(?:(?:an?|the)\s)?(?P<words>(?:[a-z\-]+\s){0,2}(?:by|in|of|at|from|to|for|with|on|near))(?:\s(?:the|an?))?\s\"?"
)
_VERB_GAP: Final = re.compile(
    r"\s*(?:also\s)?(?P<words>[a-z]{3,}(?:ed|s|red|ought|ook|rote|on))(?:\s(?:the|an?))?\s\"?"
)
_LOWER_WORD: Final = re.compile(r"\b[a-z]+\b")
_PRONOUN: Final = re.compile(r"(?:^|(?<=[.!?]\s)|(?<=\n))(?:He|She|It|They)(?=\s)")
_PARTICIPLES: Final = (f"[{word[0]}{word[0].lower()}]{word[1:]}" for word in sorted(listed("english", "participles")))
_PARTICIPLE: Final = re.compile(rf"\b(?:{'|'.join(_PARTICIPLES)})\b")
_SENTENCE: Final = re.compile(r"[.!?]\s|\n")
_OPENS: Final = re.compile(r"(?:The |\")?")
_WIDEST_GAP: Final = 60
_LONGEST_SENTENCE: Final = 500

NamedRelation: TypeAlias = tuple[str, str, str, int, int]  # source, target, type, start, end


def english_names(text: str) -> list[Name]:
    """Quoted titles, and runs of capitalised words without the common word that begins a sentence."""
    found = [Name(*quoted.span(1), WORK) for quoted in _QUOTED.finditer(text)]
    lowered: set[str] | None = None
    for run in _RUN.finditer(text):
        start, words = run.start(), run.group().split(" ")
        while words and (words[0] in _LEADING or (words[0] in _MONTHS and words[1:2] and words[1][0].isdigit())):
            start += len(words[0]) + 1
            words = words[1:]
        name = " ".join(words).rstrip(" '’-&" if words and len(words[-1]) == 2 else " .'’-&")
        if not _is_name(name, words):
            continue
        if len(words) == 1 and _begins_sentence(text, start):
            if name.endswith(("ed", "ing")):
                continue
            lowered = set(_LOWER_WORD.findall(text)) if lowered is None else lowered
            if name.lower() in lowered:
                continue
        found.append(Name(start, start + len(name), _type(name, start, text)))
    return found


def _is_name(name: str, words: Sequence[str]) -> bool:
    if len(name) < 2 or not name[0].isupper() or (len(words) == 1 and words[0] in _NO_NAMES):
        return False
    return any(len(word) > 1 and word[0].isupper() for word in words)


def _begins_sentence(text: str, start: int) -> bool:
    before = text[max(start - 3, 0) : start].rstrip(" \"“'(")
    return not before or before[-1] in ".!?:;\n。！？"


def _type(name: str, start: int, text: str) -> str:
    if _ORGANISATION.search(name):
        return ORGANIZATION
    if _PLACE.search(name):
        return PLACE
    if " " not in name and _begins_sentence(text, start):
        return TERM
    return NAME


def english_relations(text: str, names: Sequence[Name], topic: str) -> Iterator[NamedRelation]:
    """Two names of one sentence with only a verb, or a few words that end in a preposition, between them."""
    for left, right in pairwise(names):
        gap = text[left.end : right.start]
        if 3 <= len(gap) <= _WIDEST_GAP and (words := _relation_words(gap)):
            yield text[left.start : left.end], text[right.start : right.end], words, left.start, right.end
    yield from _of_subject(text, names, topic)


def _relation_words(gap: str) -> str:
    found = _GAP.fullmatch(gap) or _VERB_GAP.fullmatch(gap)
    if found is None:
        return ""
    words = str(found.group("words")).strip()
    parts = words.split()
    return "" if parts[0] in _CONJUNCTIONS or all(word in _PREPOSITIONS for word in parts) else words


def _of_subject(text: str, names: Sequence[Name], topic: str) -> Iterator[NamedRelation]:
    """He was born in Paris; Directed by John Ford: relations of the subject of the sentence, or the topic."""
    starts = [name.start for name in names]
    places = [(found.end(), found.start()) for found in _PRONOUN.finditer(text)]
    places += [(found.start() - 1, found.start()) for found in _PARTICIPLE.finditer(text)]
    for at, start in sorted(places):
        following = bisect_right(starts, at)
        if following == len(names) or starts[following] > at + _WIDEST_GAP:
            continue
        name = names[following]
        words = _relation_words(" " + text[at + 1 : at + 2].lower() + text[at + 2 : name.start])
        subject = _subject(text, names, start, topic) if words else ""
        if subject:
            yield subject, text[name.start : name.end], words, start, name.end


def _subject(text: str, names: Sequence[Name], at: int, topic: str) -> str:
    """The name that begins the sentence; without one, the topic of the text."""
    far = max(at - _LONGEST_SENTENCE, 0)
    begin = max((found.end() for found in _SENTENCE.finditer(text, far, at)), default=far)
    opens = _OPENS.match(text, begin)
    first = opens.end() if opens else begin
    place = bisect_right(names, begin - 1, key=lambda name: name.start)
    if place < len(names) and names[place].start <= first < at:
        return text[names[place].start : names[place].end]
    return topic
