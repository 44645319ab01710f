"""Names in Chinese text: people, places, organisations, works, and terms that may be names.

Recognised by part of speech, by marks (《》, quotes, 史蒂夫·乔布斯) and by endings (公司, 大学, 省), in one pass over
the tagged words. Whether a term becomes an entity depends on its frequency over all texts.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from qianxun.graph.extract.lexicon import listed

PERSON, PLACE, ORGANIZATION, WORK, TERM = "PERSON", "PLACE", "ORGANIZATION", "WORK", "TERM"
NAME: Final = "NAME"  # of unknown type

SURNAMES: Final = listed("characters", "surnames")
SYLLABLES: Final = listed("characters", "syllables")  # of transliterated names
DOUBLE_SURNAMES: Final = listed("names", "double_surnames")
PLACES: Final = listed("names", "places")
ORGANISATIONS: Final = listed("names", "organisations")
PEOPLE: Final = listed("names", "people")
DYNASTIES: Final = listed("names", "dynasties")
PLACE_ENDINGS: Final = listed("names", "place_endings")
ROLES: Final = listed("names", "roles")
GENERIC: Final = listed("names", "generic")
NOT_IN_TERMS: Final = listed("names", "not_in_terms") | listed("aliases", "of_people")

_ORGANISATION_ENDINGS: Final = tuple(sorted(listed("names", "organisation_endings")))
_NOUNS: Final = frozenset(("n", "nr", "ns", "nt", "nz", "nrt", "nrfg", "vn", "j", "ng", "b", "an", "s"))
_LISTED: Final = PLACES | PEOPLE | ORGANISATIONS
_PEOPLE: Final = frozenset(("nr", "nrt", "nrfg"))
_WORK: Final = re.compile(r"[《〈]([^《》〈〉\n]{1,60})[》〉]")
_QUOTED: Final = re.compile(r"[“「『]([^“”「」『』《》，。！？；：、,…\s]{2,12})[”」』]")
_SPEECH: Final = re.compile("[的了是在有不我你他她它这那吗呢吧啊就也都很]")
_ADDRESSES: Final = frozenset(("先生", "女士", "小姐", "老师", "同学", "氏", "某", "某某", "夫人", "太太"))
_DOT: Final = re.compile(r"[·•‧・]")
_SYLLABLE: Final = f"[{''.join(sorted(SYLLABLES))}]"
_FOREIGN: Final = re.compile(f"{_SYLLABLE}{{1,8}}(?:[·•‧・](?:{_SYLLABLE}|[A-Za-z]){{1,12}}){{1,4}}")
_FIGURES: Final = re.compile(r"[\d０-９.,%％零〇一二三四五六七八九十百千万亿第年月日号时分秒]+")
_LEGAL_FORMS: Final = ("有限责任公司", "有限公司", "股份公司")
_BREAKS_NAME: Final = re.compile(
    "[的了着和与及或在由向对将被把]|收购|投资|成立|设立|持有|参股|转让|出售|委托|聘请|包括|成为|作为"
)
_INSIDE_NAMES: Final = frozenset(("v", "d", "a", "i", "l", "z", "ad", "eng", "t", "x", "m"))
_LONGEST_TERM: Final = 10
_MOST_WORDS: Final = 4  # of a term
_LONGEST_ORGANISATION: Final = 20
_MOST_BEFORE_COMPANY: Final = 3  # words before a bare 公司 that may be its name

Word: TypeAlias = tuple[str, str, int]  # folded, its tag, its position


class Name(NamedTuple):
    start: int
    end: int
    type: str


def marked_names(text: str) -> list[Name]:
    """Works in 《》 and short quotations."""
    found: list[Name] = []
    if "《" in text or "〈" in text:
        found += [Name(*work.span(1), WORK) for work in _WORK.finditer(text)]
    if "“" in text or "「" in text or "『" in text:
        found += [
            Name(*quoted.span(1), TERM)
            for quoted in _QUOTED.finditer(text)
            if not _SPEECH.search(quoted.group(1)) and is_informative(quoted.group(1))
        ]
    return found


def foreign_names(text: str, tagged: Sequence[tuple[str, str]]) -> list[Name]:
    """Names with a dot, from the beginning of a word to the end of one: 史蒂夫·乔布斯, and 达·芬奇 of 达·芬奇密码."""
    if not _DOT.search(text):
        return []
    bounds = {0, *accumulate(len(word) for word, _ in tagged)}
    return [
        Name(_boundary(name.start(), name.end(), bounds, 1), _boundary(name.end(), name.start(), bounds, -1), PERSON)
        for name in _FOREIGN.finditer(text)
    ]


def _boundary(at: int, limit: int, bounds: Container[int], step: int) -> int:
    """The nearest word boundary between here and a limit; here if there is none."""
    return next((place for place in range(at, limit, step) if place in bounds), at)


# ── by part of speech ────────────────────────────────────────────────────────────────────────────


def tagged_names(tagged: Sequence[tuple[str, str]], own: Container[str] = ()) -> list[Name]:
    """Names by part of speech: runs of nouns are split into names.

    The words of the base's ``own`` dictionary are names, whatever their tags.
    """
    found: list[Name] = []
    certain: list[Name] = []
    run: list[Word] = []
    at = 0
    for place, (word, tag) in enumerate(tagged):
        is_own = len(word) > 1 and (not tag or word in own)
        if not is_own and (tag in _NOUNS or word in _LISTED):
            run.append((word, tag, at))
            if word.endswith(_LEGAL_FORMS) and (begin := _company_start(tagged, place, at)) < run[0][2]:
                certain.append(Name(begin, at + len(word), ORGANIZATION))
        elif run:
            if len(run) > 1 or len(run[0][0]) > 2 or run[0][1] != "n" or run[0][0] in _LISTED:  # 人, 问题: no names
                _split(run, found)
            run = []
        if is_own:
            certain.append(Name(at, at + len(word), _own_type(word, tag)))
        elif tag == "t" and word in DYNASTIES:
            found.append(Name(at, at + len(word), TERM))
        at += len(word)
    if run:
        _split(run, found)
    return certain + found  # certain ones first: words inside them are no names of their own


def _own_type(word: str, tag: str) -> str:
    if (tag in _PEOPLE and is_person(word)) or word in PEOPLE:
        return PERSON
    return {"ns": PLACE, "nt": ORGANIZATION}.get(tag, NAME)


def _company_start(tagged: Sequence[tuple[str, str]], place: int, at: int) -> int:
    """A registered company name may consist of any words: 真实制造有限公司."""
    begin = at
    while place > 0 and at - begin < _LONGEST_ORGANISATION:
        word, tag = tagged[place - 1]
        if tag not in _NOUNS and (tag not in _INSIDE_NAMES or not word.isalnum()):
            break
        if _BREAKS_NAME.search(word) or word in ROLES or word in NOT_IN_TERMS or (tag in _PEOPLE and is_person(word)):
            break
        begin -= len(word)
        place -= 1
    return begin


def _split(run: Sequence[Word], found: list[Name]) -> None:
    """Splits a run of nouns into names: 北京大学教授张伟 → 北京大学, 张伟."""
    start = at = 0
    while at < len(run):
        word, tag, place = run[at]
        taken = _person(run, at) if tag in _PEOPLE or word in PEOPLE else 0
        if taken and not any(part[0].endswith(_ORGANISATION_ENDINGS) for part in run[at + taken : at + taken + 2]):
            _add_places_and_terms(run[start:at], found)
            last = run[at + taken - 1]
            found.append(Name(place, last[2] + len(last[0]), PERSON))
            at = start = at + taken
            continue
        if word in ROLES:
            _add_places_and_terms(run[start:at], found)
            start = at + 1
        elif _ends_organisation(run, start, at):
            begin = _organisation_start(run, start, at)
            _add_places_and_terms(run[start:begin], found)
            found.append(Name(run[begin][2], place + len(word), ORGANIZATION))
            start = at + 1
        at += 1
    _add_places_and_terms(run[start:], found)


def _person(run: Sequence[Word], at: int) -> int:
    """How many words from here are one person's name; 0 if none."""
    word = run[at][0]
    if word in PLACES or word in ORGANISATIONS:
        return 0
    taken = 1
    while at + taken < len(run) and run[at + taken][1] in ("nrt", "nrfg") and _are_syllables(word + run[at + taken][0]):
        word += run[at + taken][0]  # 莫拉 + 维茨基
        taken += 1
    if taken > 1 or is_person(word):
        return taken
    is_surname = len(word) == 1 and word in SURNAMES and (at == 0 or run[at - 1][0] in ROLES)
    return 2 if is_surname and at + 1 < len(run) and _is_given_name(run[at + 1][0]) else 0


def _is_given_name(word: str) -> bool:
    """家政 after 杨, which jieba has split."""
    return len(word) <= 2 and word not in ROLES and word not in GENERIC and word not in _ADDRESSES


def _are_syllables(word: str) -> bool:
    return all(character in SYLLABLES for character in word)


def is_person(word: str) -> bool:
    """Whether a word tagged as a person's name can be one: the dictionary tags 慈善 so, too."""
    if word in PEOPLE or (len(word) >= 3 and _are_syllables(word)):
        return True
    if word[:2] in DOUBLE_SURNAMES:
        return 3 <= len(word) <= 4
    return 2 <= len(word) <= 3 and word[0] in SURNAMES and word not in GENERIC


def _ends_organisation(run: Sequence[Word], start: int, at: int) -> bool:
    word, tag, _ = run[at]
    if not word.endswith(_ORGANISATION_ENDINGS) or (
        at + 1 < len(run) and run[at + 1][0].endswith(_ORGANISATION_ENDINGS)
    ):
        return False
    if at == start:
        return len(word) >= 4 and word not in GENERIC and tag in ("nt", "nz", "n")
    is_short = word != "公司" or at - start <= _MOST_BEFORE_COMPANY
    return is_short and not all(part[0] in GENERIC for part in run[start:at])


def _organisation_start(run: Sequence[Word], start: int, at: int) -> int:
    """Where the name of an organisation that ends at ``at`` begins; a longer one would be a phrase."""
    end = run[at][2] + len(run[at][0])
    while start < at and (run[start][2] < end - _LONGEST_ORGANISATION or run[start][0] in NOT_IN_TERMS):
        start += 1
    return start


def _add_places_and_terms(part: Sequence[Word], found: list[Name]) -> None:
    """The names of nouns without people and organisations of several words."""
    begin = 0
    for at, (word, tag, place) in enumerate(part):
        if at < begin:
            continue
        if word in NOT_IN_TERMS:
            _add_term(part[begin:at], found)
            begin = at + 1
        elif word in ORGANISATIONS:
            _add_term(part[begin:at], found)
            found.append(Name(place, place + len(word), ORGANIZATION))
            begin = at + 1
        elif word in PLACES or (tag == "ns" and len(word) > 1 and word not in GENERIC):
            _add_term(part[begin:at], found)
            begin = _add_place(part, at, found)
    _add_term(part[begin:], found)


def _add_place(part: Sequence[Word], at: int, found: list[Name]) -> int:
    """Adds a place with what belongs to its name (长江 + 大桥); returns where the next name may begin."""
    word, _, place = part[at]
    end = place + len(word)
    at += 1
    while at < len(part) and len(part[at][0]) <= 3 and part[at][1] != "ns" and part[at][0] in PLACE_ENDINGS:
        end = part[at][2] + len(part[at][0])
        at += 1
    found.append(Name(place, end, PLACE))
    return at


def _add_term(part: Sequence[Word], found: list[Name]) -> None:
    """Adds nouns that may be a term; their frequency over all texts decides."""
    first, last = 0, len(part)
    while last - first > 1 and part[first][1] in ("s", "b", "an"):
        first += 1
    while last > first and part[last - 1][1] in ("s", "b"):
        last -= 1
    while last - first > 1 and (last - first > _MOST_WORDS or part[last - 1][2] - part[first][2] > _LONGEST_TERM - 2):
        first += 1
    if first >= last:
        return
    start, end = part[first][2], part[last - 1][2] + len(part[last - 1][0])
    if last - first == 1:
        word, tag, _ = part[first]
        kind = _word_type(word, tag)
        if kind:
            found.append(Name(start, end, kind))
    elif end - start > 3:
        found.append(Name(start, end, TERM))


def _word_type(word: str, tag: str) -> str:
    if len(word) < 2 or not is_informative(word):
        return ""
    if tag == "nt":
        return ORGANIZATION
    return TERM if tag == "nz" or (tag in ("n", "j") and len(word) >= 3) else ""


def is_informative(word: str) -> bool:
    """Whether a single word can be a name: neither generic nor a figure."""
    return word not in GENERIC and not _FIGURES.fullmatch(word)
