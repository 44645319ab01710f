"""Relations and aliases in Chinese text, by the words between names: 位于, 由…创立, X的P是Y, 又称.

The patterns work on a skeleton, in which every name is one character of its type, and match clear statements only:
co-occurrence is recorded per sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from qianxun.graph.extract.lexicon import listed, mapped
from qianxun.graph.extract.names import GENERIC, NAME, ORGANIZATION, PERSON, PLACE, ROLES, TERM, WORK, Name

_MARKS: Final = {
    PERSON: "\ue000",
    PLACE: "\ue001",
    ORGANIZATION: "\ue002",
    WORK: "\ue003",
    TERM: "\ue004",
    NAME: "\ue005",
}
_M: Final = "[\ue000-\ue005]"
_NO_MARKS: Final = dict.fromkeys(range(0xE000, 0xE006), "\ufffd")
_LIST: Final = f"({_M}{{1,4}}[》”」』]?(?:(?:[、和与及]|以及)[《“「『]?{_M}{{1,4}}[》”」』]?){{0,9}})"
_OPEN, _SHUT = "[《“「『]?", "[》”」』]?"
_ROLE: Final = "|".join(sorted(ROLES, key=len, reverse=True))
_ENDS: Final = r"(?=[，。；、！？,;\n]|之一|$)"

# Verb → type of the relation; the type of any other relation is its verb.
_MADE_BY_VERBS: Final = mapped("made_by")
_SAME_AS: Final = mapped("same_as")
_ALIAS_WORDS: Final = listed("aliases", "stated")
_ALIAS_WORDS_OF_PEOPLE: Final = listed("aliases", "of_people")
_WITHOUT_RELATION: Final = listed("verbs", "without_relation")
_OF_THINGS: Final = listed("relations", "of_things")
_OF_PEOPLE: Final = listed("relations", "of_people")
_OF_TERMS: Final = listed("verbs", "of_terms")
_TRAILING: Final = listed("verbs", "trailing") | {""}
_ADVERBS: Final = re.compile(
    "(?:[也还曾已又再将均都仍并则才]|曾经|已经|正式|成功|共同|首次|主要|目前|现|一直|分别|随后|后来|同时|能够|能|可以|可|会|用于)*"
)

_IS_OF: Final = re.compile(f"({_M}){_SHUT}的([一-鿿]{{2,8}}?|{_M})(?:是|为|就是|即|叫){_OPEN}{_LIST}(?:等)?{_ENDS}")
_OF_IS: Final = re.compile(
    f"({_M}){_SHUT}(?:其实|原来|正|就|便|乃)?(?:是|为|作为){_OPEN}({_M}(?:{_SHUT}[、和与及]{_OPEN}{_M}){{0,3}}){_SHUT}的"
    f"([一-鿿]{{1,6}}?|{_M}){_ENDS}"
)
_ROLE_OF: Final = re.compile(f"({_M}){_SHUT}(?:的|前|现任|原|时任|首任)?({_ROLE})(?:是|为|：|:)?{_OPEN}{_LIST}")
_MADE_BY: Final = re.compile(
    f"由{_OPEN}{_LIST}(?:等(?:人|机构)?|共同|联合|于[\\d年月日]{{4,11}}|在[\\d年月日]{{4,11}}){{0,2}}({'|'.join(_MADE_BY_VERBS)})"
)
_DOES: Final = re.compile(f"({'|'.join(sorted(_SAME_AS, key=len, reverse=True))})(?:了|过)?{_OPEN}{_LIST}")
_WORK_OF: Final = re.compile(
    f"({_MARKS[PERSON]})(?:的|所著的?|所写的?|著的?|执导的?|主演的?|创作的?|演唱的?)(?:[一-鿿]{{0,4}})《?({_MARKS[WORK]})"
)
_KIND_OF: Final = re.compile(
    f"({_M}){_SHUT}(?:是|为)(?:一[种个名位座家部款项类支所本首]|我国|中国)?({_M})(?=[，。；\n]|$)"
)
_ALSO: Final = "|".join(sorted(_ALIAS_WORDS | _ALIAS_WORDS_OF_PEOPLE, key=len, reverse=True))
_ALIAS: Final = re.compile(
    f'({_M})[》”」』]?(?:[（(]|，|,)?(?:以下|下称)?({_ALSO})(?:作|为|叫)?[：: ]{{0,2}}[《“「『"]?'
    '([^\\s\\d_，。；、：（）()《》“”「」"][^，。；、：（）()《》“”「」"\n]{0,39})'
)
_ALIAS_END: Final = re.compile("[的是为在由等于与和及或]")  # where the alias ends
_IN_BRACKETS: Final = re.compile(f"({_M})[》”」』]?[（(]({_M}|[^（）()，。；：:、\n]{{2,40}})[）)]")
_LATIN: Final = re.compile(r"[A-Za-z][A-Za-z .&'’-]*[A-Za-z.]")
_SUBJECT: Final = re.compile(  # a term is the subject of its own clause only
    f"(?:({_M})[》”」』]?|([\ue000-\ue003])[》”」』]?(?:[（(][^（）()\n]{{0,40}}[）)])?[，,])"
    "(?:(?:是|为)?一[家个座所名位]|现|目前|主要|也|则|均|曾)?$"
)
_TOPIC: Final = re.compile(
    "(?:^|[，。；！？\n])(?:[他她它其]|该[一-鿿]{1,3}|本?公司|本片|该片|影片|全片|本书|该书)?(?:主要|目前|现|曾|也|还|后|并)*$"
)
_STOP: Final = re.compile("[，。；！？\n]")
_TOPIC_PRONOUN: Final = re.compile(
    r"(?:^|[，。；！？\n])(?:在[\d年月日]{4,11}，)?(?:本公司|该公司|公司|该集团|集团|[他她它其])(?:于[\d年月日]{4,11})?(?=[一-鿿])"
)
_OPENING: Final = re.compile(f"[ \u3000《“「『]{{0,3}}({_M})")
_NO_ALIAS: Final = re.compile(r"\d|\w\.\w\w|[,;，；]")
_SUBJECT_DISTANCE: Final = 60  # characters before a verb
_WIDEST_GAP: Final = 10
_LONGEST_SENTENCE: Final = 300


class StatedRelation(NamedTuple):
    """A relation between two names, by their numbers; -1 is the topic of the text."""

    source: int
    target: int
    type: str
    start: int
    end: int


class FoundAlias(NamedTuple):
    """A name by its number, and the span of its alias."""

    name: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A text in which every name is one character."""

    text: str
    places: Sequence[int]  # name → its place in the skeleton
    names: Sequence[Name]

    def name_at(self, place: int) -> int:
        """The number of the name at a place of the skeleton."""
        return bisect_right(self.places, place) - 1

    def origin(self, place: int) -> int:
        """The position in the text of a place of the skeleton."""
        at = bisect_right(self.places, place) - 1
        if at < 0:
            return place
        name = self.names[at]
        return name.start if place == self.places[at] else name.end + place - self.places[at] - 1


def skeleton(folded: str, names: Sequence[Name]) -> Skeleton:
    """``names`` in the order of the text, none inside another. Marks in the text itself, as private-use characters of
    some PDFs, are no names."""
    plain = folded.translate(_NO_MARKS)
    parts: list[str] = []
    places: list[int] = []
    at = length = 0
    for name in names:
        parts.append(plain[at : name.start])
        length += name.start - at
        places.append(length)
        parts.append(_MARKS.get(name.type, _MARKS[TERM]))
        length += 1
        at = name.end
    parts.append(plain[at:])
    return Skeleton("".join(parts), places, names)


# ── statements ───────────────────────────────────────────────────────────────────────────────────


def stated_relations(
    bare: Skeleton, folded: str, verbs: Mapping[int, str], nouns: Container[int], is_word: Callable[[str], bool]
) -> Iterator[StatedRelation]:
    """``verbs`` and ``nouns`` are those of the folded text, by position; verbs must pass ``is_word``."""
    text = bare.text
    for found in _IS_OF.finditer(text):
        kind = _written(bare, folded, found.span(2))
        yield from _relations(bare, found, bare.name_at(found.start(1)), found.span(3), kind)
    for found in _OF_IS.finditer(text):
        kind = _written(bare, folded, found.span(3))
        for place in filter(partial(_is_name, text), range(*found.span(2))):  # 甲是乙与丙的女儿: of both
            for relation in _relations(bare, found, bare.name_at(place), found.span(1), kind):
                yield relation._replace(end=_span_in_text(bare, *found.span())[1])
    for found in _ROLE_OF.finditer(text):
        for relation in _relations(bare, found, bare.name_at(found.start(1)), found.span(3), found.group(2)):
            if found.group(2) in _OF_THINGS or bare.names[relation.target].type in (PERSON, NAME):
                yield relation
    for found in _WORK_OF.finditer(text):
        yield from _relations(bare, found, bare.name_at(found.start(1)), found.span(2), "作品")
    for found in _KIND_OF.finditer(text):
        yield from _relations(bare, found, bare.name_at(found.start(1)), found.span(2), "是")
    for found in _MADE_BY.finditer(text):
        for relation in _of_subject(bare, found, found.span(1), _MADE_BY_VERBS[found.group(2)]):
            yield relation._replace(end=_span_in_text(bare, *found.span())[1])  # to the verb
    for found in _DOES.finditer(text):
        yield from _of_subject(bare, found, found.span(2), _SAME_AS[found.group(1)])
    for relation in (*_of_topic(bare, folded, verbs, nouns), *_between(bare.names, folded, verbs, nouns)):
        if is_word(relation.type) or is_word(relation.type[:-1]):  # 转化为
            yield relation


def _written(bare: Skeleton, folded: str, span: tuple[int, int]) -> str:
    """The text of a span of the skeleton."""
    return folded[slice(*_span_in_text(bare, *span))]


def _span_in_text(bare: Skeleton, start: int, end: int) -> tuple[int, int]:
    last = end - 1
    stop = bare.names[bare.name_at(last)].end if _is_name(bare.text, last) else bare.origin(last) + 1
    return bare.origin(start), stop


def _relations(
    bare: Skeleton, found: re.Match[str], source: int, targets: tuple[int, int], kind: str
) -> Iterator[StatedRelation]:
    for place in range(*targets):
        if not _is_name(bare.text, place) or _is_name(bare.text, place + 1):  # 美国俄亥俄州: the last one
            continue
        target = bare.name_at(place)
        if target == source:
            continue
        ends = (bare.names[source], bare.names[target]) if source >= 0 else (bare.names[target],)
        start = min(bare.origin(found.start()), *(name.start for name in ends))
        yield StatedRelation(source, target, kind, start, max(name.end for name in ends))


def _is_name(text: str, place: int) -> bool:
    return "\ue000" <= text[place : place + 1] <= "\ue005"


def _of_subject(bare: Skeleton, found: re.Match[str], targets: tuple[int, int], kind: str) -> Iterator[StatedRelation]:
    subject = _subject(bare, found.start(), but=PLACE if kind in _OF_PEOPLE else "")
    if subject == -1 and kind == "包含":  # …的措施，包括培训: of the measures, not of what the text is about
        return
    if subject is not None:
        yield from _relations(bare, found, subject, targets, kind)


def _subject(bare: Skeleton, at: int, but: str) -> int | None:
    """The subject of a verb: the name before it, that which begins the sentence, or the topic (-1); None if unclear.

    A name of the type ``but`` is no subject.
    """
    before = bare.text[max(at - _SUBJECT_DISTANCE, 0) : at]
    near = _SUBJECT.search(before)
    if near is not None:
        name = bare.name_at(at - len(before) + near.start(near.lastindex or 1))
        if bare.names[name].type != but:
            return name
    if _TOPIC.search(before) is None or (len(before) == _SUBJECT_DISTANCE and not _STOP.search(before)):
        return None
    far = max(at - _LONGEST_SENTENCE, 0)
    begin = max(far - 1, *(bare.text.rfind(mark, far, at) for mark in "。！？；\n")) + 1
    opening = _OPENING.match(bare.text, begin, at)
    if opening is None:
        return -1
    name = bare.name_at(opening.start(1))
    return name if bare.names[name].type != but else None


def _between(
    names: Sequence[Name], folded: str, verbs: Mapping[int, str], nouns: Container[int]
) -> Iterator[StatedRelation]:
    """Two names with nothing but a verb between them: 阿司匹林可以治疗偏头痛; or the passive, 推特被马斯克收购."""
    for at, (left, right) in enumerate(pairwise(names)):
        size = right.start - left.end
        if size == 1 and folded[left.end] == "被":
            verb = verbs.get(right.end, "")
            if len(verb) > 1 and verb not in _WITHOUT_RELATION:
                yield StatedRelation(at + 1, at, verb, left.start, right.end + len(verb))
        elif 2 <= size <= _WIDEST_GAP:
            kind = _verb(folded[left.end : right.start], left.end, verbs)
            if not kind:
                continue
            target = _last_of_chain(names, at + 1)
            if _is_where(names, at, folded) or folded[names[target].end : names[target].end + 1] == "的":
                continue
            is_vague = left.type == names[target].type == TERM and kind not in _OF_TERMS
            if not is_vague and names[target].end not in nouns:
                yield StatedRelation(at, target, kind, left.start, names[target].end)


def _of_topic(bare: Skeleton, folded: str, verbs: Mapping[int, str], nouns: Container[int]) -> Iterator[StatedRelation]:
    """公司还开发了环保产品: a relation of the topic."""
    for found in _TOPIC_PRONOUN.finditer(bare.text):
        first = bisect_right(bare.places, found.end())
        begin = bare.origin(found.end())
        if first >= len(bare.names) or not 2 <= bare.names[first].start - begin <= _WIDEST_GAP:
            continue
        kind = _verb(folded[begin : bare.names[first].start], begin, verbs)
        target = _last_of_chain(bare.names, first)
        end = bare.names[target].end
        if kind and end not in nouns and folded[end : end + 1] != "的":
            yield StatedRelation(-1, target, kind, begin, end)


def _is_where(names: Sequence[Name], at: int, folded: str) -> bool:
    """在印尼雅加达举行: a place, not the subject."""
    while at and names[at - 1].end == names[at].start:
        at -= 1
    return folded[names[at].start - 1 : names[at].start] in ("在", "于", "从", "到", "对", "向", "被", "把", "为")


def _last_of_chain(names: Sequence[Name], at: int) -> int:
    """The last of adjacent names, which the text is about: 海南 + 博鳌形象小姐."""
    while at + 1 < len(names) and names[at + 1].start == names[at].end:
        at += 1
    return at


def _verb(gap: str, start: int, verbs: Mapping[int, str]) -> str:
    """The verb that a gap consists of; "" if there is anything else in it."""
    inner = gap.lstrip("》”」』")
    start += len(gap) - len(inner)
    skipped = _ADVERBS.match(inner)
    begin = skipped.end() if skipped else 0
    verb = verbs.get(start + begin, "")
    if len(verb) < 2 or verb[-1] in "是的在了" or verb in _WITHOUT_RELATION or verb in _SAME_AS:
        return ""
    trailing = inner[begin + len(verb) :].rstrip("《“「『")
    if trailing not in _TRAILING:
        return ""
    return verb + trailing if trailing in ("于", "为", "成", "到", "自", "向") else verb


# ── aliases ──────────────────────────────────────────────────────────────────────────────────────


def stated_aliases(bare: Skeleton, folded: str) -> Iterator[FoundAlias]:
    for found in _ALIAS.finditer(bare.text):
        is_person = bare.names[bare.name_at(found.start(1))].type in (PERSON, NAME)
        if is_person or found.group(2) not in _ALIAS_WORDS_OF_PEOPLE:
            yield from _alias(bare, folded, found, 3, is_explicit=True)
    for found in _IN_BRACKETS.finditer(bare.text):
        yield from _alias(bare, folded, found, 2, is_explicit=False)


def _alias(bare: Skeleton, folded: str, found: re.Match[str], group: int, *, is_explicit: bool) -> Iterator[FoundAlias]:
    name = bare.name_at(found.start(1))
    first, last = found.span(group)
    if is_explicit and (end_of_alias := _ALIAS_END.search(bare.text, first + 1, last)):
        last = end_of_alias.start()
    start, end = _span_in_text(bare, first, last)
    own = folded[bare.names[name].start : bare.names[name].end]
    alias = folded[start:end].strip()
    if len(alias) < 2 or alias == own or alias in GENERIC or own in GENERIC or _NO_ALIAS.search(alias):
        return
    is_latin = _LATIN.fullmatch(alias) is not None and not own.isascii() and _is_bounded(bare.names[name], folded)
    if is_explicit or is_latin or _is_short_for(alias, own):
        yield FoundAlias(name, start, end)


def _is_bounded(name: Name, folded: str) -> bool:
    """False for 发展目标 in 可持续发展目标（SDGs）: SDGs is the longer name."""
    before = folded[name.start - 1 : name.start] if name.start else ""
    return name.type in (PERSON, WORK, NAME) or not before.isalnum() or before in "的和与及由在是为于对按"


def _is_short_for(short: str, long: str) -> bool:
    """Whether its characters occur in the other in this order: 世卫组织 of 世界卫生组织."""
    rest = iter(long)
    return len(short) < len(long) and all(character in rest for character in short)
