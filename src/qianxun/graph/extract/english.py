"""Names in English text, and what its words between them state: capitals make names, as far as grammar lets them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from qianxun.graph.extract.names import NAME, ORGANIZATION, PLACE, TERM, WORK, Name

_WORD: Final = (
    r"(?:(?:[A-Z]\.){1,4}|(?:St|Dr|Mr|Mrs|Ms|Jr|Sr|Mt|Ft)\.|[A-Z][\w&\-]*(?:['’](?!s\b)[\w\-]+)?)"  # J. R. R. Tolkien
)
_LINK: Final = r"(?:of|de|du|la|le|von|van|der|di|da|del|the)"
_RUN: Final = re.compile(rf"\b{_WORD}(?:[ ](?:{_LINK}[ ]){{0,2}}(?:{_WORD}|\d{{1,4}}\b)){{0,9}}")
_QUOTED: Final = re.compile(r"[\"“]([A-Z0-9][^\"“”\n]{1,60}?)[,.]?[\"”]")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_LEADING: Final = _listed("""
    The A An In On At By For From With To Of And But Or If As It Its He She They We You I His Her Their Our My This That
    These Those There Here When While Where Who What Which How Why After Before During Since Until Also However Although
    Because Both Each Some Many Most Other Another All Any No Not One Two Three Four Five Six Seven Eight Nine Ten First
    Second Third Was Were Is Are Be Been Has Have Had Do Does Did May Might Can Could Will Would Shall Should Under Over
    Between Among Through Into About Despite Like Such Then Than So Only Once Later Early Today Now Born Based Directed
    Written According Additionally Along Even Every Following Formerly Founded Having Including Initially Instead
    Located Meanwhile Moreover Nevertheless Notable Originally Often Presently Previously Prior Recently Released
    Several Similarly Sometimes Starring Subsequently Therefore Though Thus Together Upon Using Within Without Yet
    Developed Produced Published Created Composed Designed Recorded Situated Known Named Considered Given Besides
""")
_MONTHS: Final = _listed("""
    January February March April May June July August September October November December
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec
""")
_NO_NAMES: Final = _MONTHS | _listed("""
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday Chapter Section Figure Table Part Note
    Introduction Abstract Conclusion American British English French German Italian Spanish Russian Chinese Japanese
    Indian Canadian Australian Irish Scottish Welsh Dutch Swedish Norwegian Danish Finnish Polish Greek Turkish Korean
    Mexican Brazilian Portuguese Jewish Christian Catholic Muslim European African Asian Roman
""")
_ORGANISATION: Final = re.compile(
    r"\b(?:University|College|School|Institute|Inc|Corp|Corporation|Company|Co|Ltd|Group|Bank|Club|Party|Church|"
    r"Association|Council|Committee|Department|Ministry|Agency|Orchestra|Band|League|Union|Foundation|Museum|Library|"
    r"Hospital|Records|Studios|Entertainment|Airlines|Army|Navy|Force|Society|Press|Network)\b"
)
_PLACE: Final = re.compile(
    r"\b(?:County|City|River|Lake|Island|Islands|Mountain|Mountains|Mount|Street|Avenue|Road|Park|Bay|Valley|Province|"
    r"District|Township|Village|Beach|Bridge|Airport|Station|State|Peninsula|Ocean|Sea|Creek|Hills|Forest)\b"
)
_GAP: Final = re.compile(
    r"\s*(?:\([^()]{0,60}\)\s*)?,?\s*(?:(?:who|which|that)\s)?(?:(?:is|was|are|were|has been|had been)\s)?(?:also\s)?"
    r"(?:(?:an?|the)\s)?(?P<words>(?:[a-z\-]+\s){0,2}(?:by|in|of|at|from|to|for|with|on|near))(?:\s(?:the|an?))?\s\"?"
)
_VERB_GAP: Final = re.compile(
    r"\s*(?:also\s)?(?P<words>[a-z]{3,}(?:ed|s|red|ought|ook|rote|on))(?:\s(?:the|an?))?\s\"?"
)
_LOWER_WORD: Final = re.compile(r"\b[a-z]+\b")
_PRONOUN: Final = re.compile(r"(?:^|(?<=[.!?]\s)|(?<=\n))(?:He|She|It|They)(?=\s)")
_MADE: Final = re.compile(
    r"\b(?:[Dd]irected|[Ww]ritten|[Pp]roduced|[Cc]reated|[Dd]eveloped|[Pp]ublished|[Ff]ounded|[Cc]omposed|[Bb]orn|"
    r"[Ll]ocated|[Bb]ased|[Ss]ituated|[Hh]eadquartered|[Rr]ecorded|[Rr]eleased|[Oo]wned|[Dd]esigned|[Pp]layed|"
    r"[Pp]erformed|[Ss]tarring|[Hh]osted|[Ww]on|[Mm]arried)\b"
)
_SENTENCE: Final = re.compile(r"[.!?]\s|\n")
_OPENS: Final = re.compile(r"(?:The |\")?")
_JOINING: Final = _listed("and or but one another while where as")
_EMPTY: Final = _listed("in of at from to for with on by as and or but than near")
_WIDEST_GAP: Final = 60
_LONGEST_SENTENCE: Final = 500

Told: TypeAlias = tuple[str, str, str, int, int]


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def english_names(text: str) -> list[Name]:
    """Quoted titles, and the runs of capitalised words that are names, without the word that begins a sentence."""
    found = [Name(each.start(1), each.end(1), WORK) for each in _QUOTED.finditer(text)]
    lowered: set[str] | None = None
    for each in _RUN.finditer(text):
        start, words = each.start(), each.group().split(" ")
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
        found.append(Name(start, start + len(name), _kind(name, start, text)))
    return found


def _is_name(name: str, words: Sequence[str]) -> bool:
    if len(name) < 2 or not name[0].isupper() or (len(words) == 1 and words[0] in _NO_NAMES):
        return False
    return any(len(word) > 1 and word[0].isupper() for word in words)


def _begins_sentence(text: str, start: int) -> bool:
    before = text[max(start - 3, 0) : start].rstrip(" \"“'(")
    return not before or before[-1] in ".!?:;\n。！？"


def _kind(name: str, start: int, text: str) -> str:
    if _ORGANISATION.search(name):
        return ORGANIZATION
    if _PLACE.search(name):
        return PLACE
    if " " not in name and _begins_sentence(text, start):
        return TERM
    return NAME


# ── statements ───────────────────────────────────────────────────────────────────────────────────


def english_statements(text: str, names: Sequence[Name], topic: str) -> Iterator[Told]:
    """Two names with nothing between them but a few words that end in a preposition, or a verb; in one sentence."""
    for left, right in pairwise(names):
        gap = text[left.end : right.start]
        if 3 <= len(gap) <= _WIDEST_GAP and (words := _said(gap)):
            yield text[left.start : left.end], text[right.start : right.end], words, left.start, right.end
    yield from _of_subject(text, names, topic)


def _said(gap: str) -> str:
    found = _GAP.fullmatch(gap) or _VERB_GAP.fullmatch(gap)
    if found is None:
        return ""
    words = str(found.group("words")).strip()
    parts = words.split()
    return "" if parts[0] in _JOINING or all(word in _EMPTY for word in parts) else words


def _of_subject(text: str, names: Sequence[Name], topic: str) -> Iterator[Told]:
    """He was born in Paris; Directed by John Ford: said of what the sentence, or the text, is about."""
    starts = [name.start for name in names]
    places = [(each.end(), each.start()) for each in _PRONOUN.finditer(text)]
    places += [(each.start() - 1, each.start()) for each in _MADE.finditer(text)]
    for at, start in sorted(places):
        following = bisect_right(starts, at)
        if following == len(names) or starts[following] > at + _WIDEST_GAP:
            continue
        name = names[following]
        words = _said(" " + text[at + 1 : at + 2].lower() + text[at + 2 : name.start])
        subject = _subject(text, names, start, topic) if words else ""
        if subject:
            yield subject, text[name.start : name.end], words, start, name.end


def _subject(text: str, names: Sequence[Name], at: int, topic: str) -> str:
    """The name that the sentence begins with; where it begins otherwise, what the text is about."""
    far = max(at - _LONGEST_SENTENCE, 0)
    begin = max((each.end() for each in _SENTENCE.finditer(text, far, at)), default=far)
    opens = _OPENS.match(text, begin)
    first = opens.end() if opens else begin
    place = bisect_right(names, begin - 1, key=lambda name: name.start)
    if place < len(names) and names[place].start <= first < at:
        return text[names[place].start : names[place].end]
    return topic
