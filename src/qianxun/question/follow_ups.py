"""A question that leans on what was said before it, as it stands by itself: 它呢？ By rules; pure.

Every question of the conversation is read in turn, each in the light of the one before, so that a chain of short
questions stays with its subject.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from qianxun.core.conversation import Turn
from qianxun.core.limits import QUERY_LIMIT
from qianxun.text.chinese import STOP_WORDS, Analyser, fold


@dataclass(frozen=True, slots=True)
class Name:
    """An entity's name where a text says it."""

    text: str
    type: str
    start: int
    end: int


Names: TypeAlias = Callable[[str], Sequence[Name]]

_GENERIC: Final = (
    "公司|企业|集团|机构|组织|单位|医院|学校|大学|银行|人|人物|作者|药物?|药品|疾病|病|症状|电影|影片|作品|书|小说|歌曲?|"
    "城市|地方|国家|地区|项目|产品|政策|制度|方案|方法|技术|模型|系统|合同|文件|标准|概念|事件|案件|案例|比赛|球队|游戏"
)
_MEASURE: Final = "个|种|些|位|家|项|款|部|本|座|所|条|类|支|名|份|起|场|只|张|篇|首"
_PRONOUN: Final = re.compile(
    rf"(?P<noun>(?:这|那|该|此|上述|前述)(?:{_MEASURE})?(?:{_GENERIC}))|"
    rf"(?P<thing>(?<![\w])(?:这|那)(?:{_MEASURE})(?=[的有是在会能和与，]|$)|它们?|(?<!其)他们?(?!人)|她们?|"
    r"(?<![与尤极及])其(?![他它中实余次间后前])|该者|前者|后者|\b(?:it|its|he|him|his|she|her|they|them|their)\b)",
    re.IGNORECASE,
)
# What a word that stands for something says of its type.
_TYPES: Final = (
    ("PERSON", re.compile(r"[他她]|\b(?:he|him|his|she|her)\b|人|作者", re.IGNORECASE)),
    ("ORGANIZATION", re.compile("公司|企业|集团|机构|组织|单位|医院|学校|大学|银行|球队")),
    ("PLACE", re.compile("城市|地方|国家|地区")),
    ("WORK", re.compile("电影|影片|作品|书|小说|歌")),
    ("MEDICINE", re.compile("药")),
    ("DISEASE", re.compile("病")),
)
_KNOWN_TYPES: Final = frozenset(type_ for type_, _ in _TYPES)
_AND_WHAT: Final = re.compile(
    r"^(?:那么?|那|还有|以及|然后|换成|如果是|what about|how about)?\s*(.{1,24}?)\s*(?:呢|又如何|怎么样)?$"
)
_IS_AND_WHAT: Final = re.compile(r"^(?:那么?|换成|如果是|what about|how about)\s*.{1,24}$|^.{1,16}呢$", re.IGNORECASE)
_ASKS_WORD: Final = re.compile(r"什么|怎么|如何|为何|哪|谁|几|多少|吗|是否|when|where|why|how|what|who", re.IGNORECASE)
_ASKS_FOR_NAME: Final = re.compile(
    r"谁|哪(?:一)?(?:位|个|家|座|部|本|所|国|里|款|种|支)|什么(?:公司|城市|电影|书|药|病|地方|名字|人|国家|学校)|叫什么|是什么|"
    r"\bwho\b|\bwhich\b|\bwhat\b",
    re.IGNORECASE,
)
_ASKING: Final = re.compile(r"[吗呢吧嘛]|请问|是否")
_BARE_LENGTH: Final = 8  # characters
_LONGEST_ASKED: Final = 500  # characters of a question that a later one leans on: a pasted page is none
_LONGEST_REPLY: Final = 2000
_QUOTED: Final = re.compile(r"《([^》\n]{1,40})》|“([^”\n]{1,30})”|「([^」\n]{1,30})」|\"([^\"\n]{1,30})\"")
_YEAR: Final = re.compile(r"(?:1[89]|20)\d\d年?|(?:今|去|前|明)年|[一二三四]季度|上半年|下半年")


def standing_alone(query: str, history: Sequence[Turn], names: Names, analyser: Analyser) -> str:
    """The question with what it leaves to be understood said; itself where it leaves nothing."""
    last, reply = "", ""
    for turn in history:
        if turn.role == "assistant":
            reply = turn.content[:_LONGEST_REPLY]
        else:
            last, reply = _resolved(turn.content[:_LONGEST_ASKED], last, reply, names, analyser)[:_LONGEST_ASKED], ""
    alone = _resolved(query, last, reply, names, analyser)
    return alone if len(alone) <= QUERY_LIMIT else query


def _resolved(query: str, last: str, reply: str, names: Names, analyser: Analyser) -> str:
    if not last:
        return query
    said = query.strip().rstrip("?？!！。. ")
    if (pronoun := _leaning(said, names, analyser)) is not None:
        subject = _subject(last, reply, pronoun.group(), names, analyser)
        return _put(said, pronoun, subject) if subject else query
    if _IS_AND_WHAT.fullmatch(said) and (found := _AND_WHAT.fullmatch(said)):
        return _instead(found.group(1).removesuffix("呢"), last, names, analyser)
    if (telling := _bare(said, names, analyser)) is not None:
        subject = _subject(last, reply, "", names, analyser) if telling else _ASKING.sub("", last).strip("?？。 ")
        return f"{subject} {said}" if subject and subject not in said else query
    return query


def _leaning(said: str, names: Names, analyser: Analyser) -> re.Match[str] | None:
    """The first word that stands for something not named in the question itself before it."""
    found = next((each for each in _PRONOUN.finditer(said) if not _is_inside(each, said, analyser)), None)
    if found is None or any(name.end <= found.start() for name in names(said)):
        return None
    return None if _QUOTED.search(said[: found.start()]) else found


def _put(said: str, pronoun: re.Match[str], subject: str) -> str:
    """其 and its ilk mean 它的: 其代表作 is 李白的代表作."""
    after = said[pronoun.end() :]
    owns = pronoun.group() == "其" or pronoun.group().lower() in ("its", "his", "her", "their")
    is_owned = owns and after and not after.startswith(("的", "是", "在", "有", "于"))
    link = ("的" if not subject.isascii() else "'s") if is_owned else ""
    return f"{said[: pronoun.start()]}{subject}{link}{after}"


def _subject(last: str, reply: str, pronoun: str, names: Names, analyser: Analyser) -> str:
    """What was last spoken of: the name that was asked for and given, else what the question was about."""
    asked = list(names(last))
    given: list[Name] = []
    if reply and _ASKS_FOR_NAME.search(last):
        given = [name for name in names(reply) if fold(name.text) not in fold(last)]
    wanted = next((type_ for type_, said in _TYPES if said.search(pronoun)), "")
    if wanted:
        fitting = [name for name in (*given, *asked) if name.type == wanted]
        given = [*fitting, *(name for name in given if name.type not in _KNOWN_TYPES)]
    named = [name.text for name in (*given, *asked)] or [_inside(found) for found in _QUOTED.finditer(last)]
    return named[0] if named else next((text for text, _ in _runs(last, analyser)), "")


def _instead(other: str, last: str, names: Names, analyser: Analyser) -> str:
    """The last question asked of something else: a year for a year, a name for a name of its type, else for as many
    words of what the question speaks of first as it has itself: 门诊 for 住院 of 住院报销比例."""
    if not other or _ASKS_WORD.search(other):
        return f"{last.rstrip('?？。 ')} {other}".strip()
    if _YEAR.search(other):
        return _YEAR.sub(other, last, count=1) if _YEAR.search(last) else f"{other}{last}"
    held = [name for name in names(last) if name.type in _KNOWN_TYPES]
    kinds = {name.type for name in names(other)}
    same = [name for name in held if name.type in kinds] or held
    start, end = (same[0].start, same[0].end) if same else _as_long(other, last, analyser)
    return f"{last[:start]}{other}{last[end:]}"


def _as_long(other: str, last: str, analyser: Analyser) -> tuple[int, int]:
    """The first words of the first run of telling words, about as long as what takes their place; years stay."""
    years = [found.span() for found in _YEAR.finditer(last)]
    at, start, ends = 0, 0, list[int]()
    for word, is_telling in _segments(last, analyser):
        end = at + len(word)
        if is_telling and not any(at < stop and begin < end for begin, stop in years):
            start = start if ends else at
            ends.append(end)
        elif ends:
            break
        at = end
    best = min(reversed(ends), key=lambda end: abs(end - start - len(other)), default=0)
    return start, best


def _bare(said: str, names: Names, analyser: Analyser) -> int | None:
    """How many telling words a question has that hardly says of what: none in 为什么？, one in 怎么办理？"""
    if len(said) > _BARE_LENGTH or not _ASKS_WORD.search(said) or names(said):
        return None
    telling = sum(is_telling for _, is_telling in _segments(said, analyser))
    return telling if telling <= 1 else None


def _runs(text: str, analyser: Analyser) -> Iterator[tuple[str, int]]:
    """Neighbouring telling words together, and where they begin: 住院报销比例."""
    run, at = "", 0
    for word, is_telling in (*_segments(text, analyser), ("", False)):
        if is_telling:
            run += word
        elif run:
            yield run.strip(), at - len(run)
            run = ""
        at += len(word)


def _segments(text: str, analyser: Analyser) -> Iterator[tuple[str, bool]]:
    """The words of a text as they stand in it, and whether each is more than grammar."""
    folded = fold(text)
    shown = text if len(folded) == len(text) else folded
    at = 0
    for segment in analyser.segments(folded):
        word = shown[at : at + len(segment)]
        at += len(segment)
        yield word, segment not in STOP_WORDS and any(map(str.isalnum, segment)) and not _ASKS_WORD.fullmatch(segment)


def _is_inside(found: re.Match[str], said: str, analyser: Analyser) -> bool:
    """Whether it is a part of a longer word: 吉他 has no 他 in it. What the segmenter merely guesses is none: 他出."""
    at = 0
    for word, _ in _segments(said, analyser):
        end = at + len(word)
        if at < found.end() and found.start() < end and not (found.start() <= at and end <= found.end()):
            return analyser.has_word(word)
        at = end
    return False


def _inside(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group)
