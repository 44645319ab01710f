"""What a Chinese text states of its names, by the words between them: 位于, 由…创立, X的P是Y, 又称.

A text is looked at as a skeleton, in which every name is one character of its type; the patterns are then short. Only
what the words say clearly is a statement: that two names share a sentence is told by the sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from qianxun.graph.extract.names import NAME, ORGANIZATION, PERSON, PLACE, TERM, WORK, Name
from qianxun.graph.extract.words import ALSO_CALLED, BY_NAME, GENERIC, ROLES, SAYING_NOTHING

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

# Verb → (type, whether it is the object's relation to the subject). What is not here is typed by the verb itself.
_BY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("创立", "创办", "创建", "成立", "设立"), "创始人"),
    **dict.fromkeys(("执导", "导演"), "导演"),
    **dict.fromkeys(("主演", "出演", "领衔主演"), "主演"),
    **dict.fromkeys(("演唱", "主唱"), "演唱者"),
    **dict.fromkeys(("创作", "撰写", "编写", "所著", "所写", "著"), "作者"),
    **dict.fromkeys(("开发", "研发"), "开发者"),
    **dict.fromkeys(("制作", "出品"), "制作方"),
    **dict.fromkeys(("生产", "制造"), "生产者"),
    **dict.fromkeys(("运营", "经营", "管理"), "运营方"),
    **dict.fromkeys(("主办", "举办"), "主办方"),
    **dict.fromkeys(("作曲", "谱曲"), "作曲"),
    **dict.fromkeys(("作词", "填词"), "作词"),
    **dict.fromkeys(("设计",), "设计者"),
    **dict.fromkeys(("发明",), "发明者"),
    **dict.fromkeys(("发现",), "发现者"),
    **dict.fromkeys(("提出",), "提出者"),
    **dict.fromkeys(("编剧",), "编剧"),
    **dict.fromkeys(("出版",), "出版者"),
    **dict.fromkeys(("发行",), "发行方"),
    **dict.fromkeys(("饰演", "扮演"), "饰演者"),
    **dict.fromkeys(("组成", "构成"), "组成"),
    **dict.fromkeys(("担任",), "担任者"),
}
_SAME: Final[Mapping[str, str]] = {
    **dict.fromkeys(("坐落于", "坐落在", "地处", "座落于", "处于", "坐落", "建于", "设于", "设在"), "位于"),
    **dict.fromkeys(("总部位于", "总部设在", "总部在", "总部设于"), "总部地点"),
    **dict.fromkeys(("出生于", "出生在", "生于", "诞生于"), "出生地"),
    **dict.fromkeys(("毕业于", "就读于", "肄业于"), "毕业院校"),
    **dict.fromkeys(("隶属于", "隶属", "归属", "属于", "归属于"), "属于"),
    **dict.fromkeys(("任职于", "就职于", "供职于", "效力于"), "任职于"),
    **dict.fromkeys(("荣获", "获得", "获", "夺得", "赢得"), "获得"),
    **dict.fromkeys(("包括", "包含", "涵盖", "分为"), "包含"),
    **dict.fromkeys(("师从", "师承"), "师从"),
    **dict.fromkeys(("逝世于", "卒于", "病逝于"), "逝世地"),
}
_ADVERBS: Final = re.compile(
    "(?:[也还曾已又再将均都仍并则才]|曾经|已经|正式|成功|共同|首次|主要|目前|现|一直|分别|随后|后来|同时|能够|能|可以|可|会|用于)*"
)
_TRAILING: Final = frozenset(("", "了", "过", "着", "到", "于", "为", "成", "出", "在", "给", "向", "自", "的"))

_IS_OF: Final = re.compile(f"({_M}){_SHUT}的([一-鿿]{{2,8}}?|{_M})(?:是|为|就是|即|叫){_OPEN}{_LIST}(?:等)?{_ENDS}")
_OF_IS: Final = re.compile(
    f"({_M}){_SHUT}(?:其实|原来|正|就|便|乃)?(?:是|为|作为){_OPEN}({_M}(?:{_SHUT}[、和与及]{_OPEN}{_M}){{0,3}}){_SHUT}的"
    f"([一-鿿]{{1,6}}?|{_M}){_ENDS}"
)
_ROLE_OF: Final = re.compile(f"({_M}){_SHUT}(?:的|前|现任|原|时任|首任)?({_ROLE})(?:是|为|：|:)?{_OPEN}{_LIST}")
_MADE_BY: Final = re.compile(
    f"由{_OPEN}{_LIST}(?:等(?:人|机构)?|共同|联合|于[\\d年月日]{{4,11}}|在[\\d年月日]{{4,11}}){{0,2}}({'|'.join(_BY)})"
)
_DOES: Final = re.compile(f"({'|'.join(sorted(_SAME, key=len, reverse=True))})(?:了|过)?{_OPEN}{_LIST}")
_WORK_OF: Final = re.compile(
    f"({_MARKS[PERSON]})(?:的|所著的?|所写的?|著的?|执导的?|主演的?|创作的?|演唱的?)(?:[一-鿿]{{0,4}})《?({_MARKS[WORK]})"
)
_KIND_OF: Final = re.compile(
    f"({_M}){_SHUT}(?:是|为)(?:一[种个名位座家部款项类支所本首]|我国|中国)?({_M})(?=[，。；\n]|$)"
)
_ALSO: Final = "|".join(sorted(ALSO_CALLED | BY_NAME, key=len, reverse=True))
_ALIAS: Final = re.compile(
    f'({_M})[》”」』]?(?:[（(]|，|,)?(?:以下|下称)?({_ALSO})(?:作|为|叫)?[：: ]{{0,2}}[《“「『"]?'
    '([^\\s\\d_，。；、：（）()《》“”「」"][^，。；、：（）()《》“”「」"\n]{0,39})'
)
_BEYOND: Final = re.compile("[的是为在由等于与和及或]")  # where what is said of a name begins
_IN_BRACKETS: Final = re.compile(f"({_M})[》”」』]?[（(]({_M}|[^（）()，。；：:、\n]{{2,40}})[）)]")
_LATIN: Final = re.compile(r"[A-Za-z][A-Za-z .&'’-]*[A-Za-z.]")
_SUBJECT: Final = re.compile(  # a mere term does not reach beyond its clause
    f"(?:({_M})[》”」』]?|([\ue000-\ue003])[》”」』]?(?:[（(][^（）()\n]{{0,40}}[）)])?[，,])"
    "(?:(?:是|为)?一[家个座所名位]|现|目前|主要|也|则|均|曾)?$"
)
_TOPIC: Final = re.compile(
    "(?:^|[，。；！？\n])(?:[他她它其]|该[一-鿿]{1,3}|本?公司|本片|该片|影片|全片|本书|该书)?(?:主要|目前|现|曾|也|还|后|并)*$"
)


_STOP: Final = re.compile("[，。；！？\n]")
_STANDING_FOR: Final = re.compile(
    r"(?:^|[，。；！？\n])(?:在[\d年月日]{4,11}，)?(?:本公司|该公司|公司|该集团|集团|[他她它其])(?:于[\d年月日]{4,11})?(?=[一-鿿])"
)
_OPENING: Final = re.compile(f"[ \u3000《“「『]{{0,3}}({_M})")
_NO_ALIAS: Final = re.compile(r"\d|\w\.\w\w|[,;，；]")
_FAR: Final = 60  # characters before a verb in which its subject is looked for
_WIDEST_GAP: Final = 10
_LONGEST_SENTENCE: Final = 300
# Roles that not only people have
_OF_THINGS: Final = frozenset(
    (
        "首都",
        "省会",
        "首府",
        "总部",
        "母公司",
        "子公司",
        "全资子公司",
        "分公司",
        "品牌",
        "代表作",
        "代表作品",
        "主题曲",
        "续集",
    )
) | frozenset(("前身", "官方语言", "货币", "股东", "控股股东", "成员"))
_OF_PEOPLE: Final = frozenset(("出生地", "毕业院校", "师从", "任职于", "逝世地"))  # of what no place has
# What one term does to another, other than what verbs say of anything
_OF_TERMS: Final = frozenset(
    ("治疗", "引起", "导致", "预防", "缓解", "抑制", "促进", "诱发", "引发", "造成", "影响", "替代", "取代", "依赖")
) | frozenset(
    ("产生", "生成", "转化为", "转化成", "组成", "构成", "控制", "检测", "诊断", "属于", "来自", "降低", "增加", "提高")
)


class Stated(NamedTuple):
    """A relation between two names, by their places among the names; -1 is what the text is about."""

    source: int
    target: int
    type: str
    start: int
    end: int


class Called(NamedTuple):
    """A name's other name: a name among the names, or words of the text."""

    name: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A text in which every name is one character."""

    text: str
    places: Sequence[int]  # where each name's character stands in the skeleton
    names: Sequence[Name]

    def name_at(self, place: int) -> int:
        """The number of the name whose character stands there."""
        return bisect_right(self.places, place) - 1

    def origin(self, place: int) -> int:
        """Where in the text this place of the skeleton is."""
        at = bisect_right(self.places, place) - 1
        if at < 0:
            return place
        name = self.names[at]
        return name.start if place == self.places[at] else name.end + place - self.places[at] - 1


def skeleton(folded: str, names: Sequence[Name]) -> Skeleton:
    """``names`` in the order of the text, none inside another. A mark that stands in the text itself, as characters for
    private use do in some PDFs, is no name."""
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


def stated(
    bare: Skeleton, folded: str, verbs: Mapping[int, str], nouns: Container[int], is_word: Callable[[str], bool]
) -> Iterator[Stated]:
    """What the text says of its names.

    ``verbs`` and ``nouns`` are those of the folded text, by where they begin; what is merely guessed to be a word is
    no verb.
    """
    text = bare.text
    for found in _IS_OF.finditer(text):
        yield from _told(bare, found, bare.name_at(found.start(1)), found.span(3), _said(bare, folded, found, 2))
    for found in _OF_IS.finditer(text):
        for place in filter(partial(_is_name, text), range(*found.span(2))):  # 甲是乙与丙的女儿: of both
            told = _told(bare, found, bare.name_at(place), found.span(1), _said(bare, folded, found, 3))
            yield from (each._replace(end=_place_in_text(bare, *found.span())[1]) for each in told)
    for found in _ROLE_OF.finditer(text):
        for each in _told(bare, found, bare.name_at(found.start(1)), found.span(3), found.group(2)):
            if found.group(2) in _OF_THINGS or bare.names[each.target].type in (PERSON, NAME):
                yield each
    for found in _WORK_OF.finditer(text):
        yield from _told(bare, found, bare.name_at(found.start(1)), found.span(2), "作品")
    for found in _KIND_OF.finditer(text):
        yield from _told(bare, found, bare.name_at(found.start(1)), found.span(2), "是")
    for found in _MADE_BY.finditer(text):
        for each in _of_subject(bare, found, found.span(1), _BY[found.group(2)]):
            yield each._replace(end=_place_in_text(bare, *found.span())[1])  # to the verb
    for found in _DOES.finditer(text):
        yield from _of_subject(bare, found, found.span(2), _SAME[found.group(1)])
    for each in (*_of_topic(bare, folded, verbs, nouns), *_between(bare.names, folded, verbs, nouns)):
        if is_word(each.type) or is_word(each.type[:-1]):  # 转化为
            yield each


def _said(bare: Skeleton, folded: str, found: re.Match[str], group: int) -> str:
    """A group's words, a name among them spelt out."""
    start, end = found.span(group)
    return folded[slice(*_place_in_text(bare, start, end))]


def _place_in_text(bare: Skeleton, start: int, end: int) -> tuple[int, int]:
    """Where in the text these places of the skeleton are."""
    last = end - 1
    stop = bare.names[bare.name_at(last)].end if _is_name(bare.text, last) else bare.origin(last) + 1
    return bare.origin(start), stop


def _told(bare: Skeleton, found: re.Match[str], source: int, targets: tuple[int, int], kind: str) -> Iterator[Stated]:
    for place in range(*targets):
        if not _is_name(bare.text, place) or _is_name(bare.text, place + 1):  # 美国俄亥俄州: the last is meant
            continue
        target = bare.name_at(place)
        if target == source:
            continue
        ends = (bare.names[source], bare.names[target]) if source >= 0 else (bare.names[target],)
        start = min(bare.origin(found.start()), *(each.start for each in ends))
        yield Stated(source, target, kind, start, max(each.end for each in ends))


def _is_name(text: str, place: int) -> bool:
    return "\ue000" <= text[place : place + 1] <= "\ue005"


def _of_subject(bare: Skeleton, found: re.Match[str], targets: tuple[int, int], kind: str) -> Iterator[Stated]:
    subject = _subject(bare, found.start(), but=PLACE if kind in _OF_PEOPLE else "")
    if subject == -1 and kind == "包含":  # …的措施，包括培训: of the measures, not of what the text is about
        return
    if subject is not None:
        yield from _told(bare, found, subject, targets, kind)


def _subject(bare: Skeleton, at: int, but: str) -> int | None:
    """Whom a verb speaks of: the name before it, or what the sentence or the text is about; None: not clear.

    A name of the type ``but`` cannot be meant.
    """
    before = bare.text[max(at - _FAR, 0) : at]
    near = _SUBJECT.search(before)
    if near is not None:
        name = bare.name_at(at - len(before) + near.start(near.lastindex or 1))
        if bare.names[name].type != but:
            return name
    if _TOPIC.search(before) is None or (len(before) == _FAR and not _STOP.search(before)):
        return None
    far = max(at - _LONGEST_SENTENCE, 0)
    begin = max(far - 1, *(bare.text.rfind(mark, far, at) for mark in "。！？；\n")) + 1
    opening = _OPENING.match(bare.text, begin, at)
    if opening is None:
        return -1
    name = bare.name_at(opening.start(1))
    return name if bare.names[name].type != but else None


def _between(names: Sequence[Name], folded: str, verbs: Mapping[int, str], nouns: Container[int]) -> Iterator[Stated]:
    """Two names with nothing but a verb between them: 阿司匹林可以治疗偏头痛; or the passive, 推特被马斯克收购."""
    for at, (left, right) in enumerate(pairwise(names)):
        size = right.start - left.end
        if size == 1 and folded[left.end] == "被":
            verb = verbs.get(right.end, "")
            if len(verb) > 1 and verb not in SAYING_NOTHING:
                yield Stated(at + 1, at, verb, left.start, right.end + len(verb))
        elif 2 <= size <= _WIDEST_GAP:
            kind = _verb(folded[left.end : right.start], left.end, verbs)
            if not kind:
                continue
            target = _last_of_chain(names, at + 1)
            if _is_where(names, at, folded) or folded[names[target].end : names[target].end + 1] == "的":
                continue
            is_vague = left.type == names[target].type == TERM and kind not in _OF_TERMS
            if not is_vague and names[target].end not in nouns:
                yield Stated(at, target, kind, left.start, names[target].end)


def _of_topic(bare: Skeleton, folded: str, verbs: Mapping[int, str], nouns: Container[int]) -> Iterator[Stated]:
    """公司还开发了环保产品: said of what the text is about."""
    for each in _STANDING_FOR.finditer(bare.text):
        first = bisect_right(bare.places, each.end())
        begin = bare.origin(each.end())
        if first >= len(bare.names) or not 2 <= bare.names[first].start - begin <= _WIDEST_GAP:
            continue
        kind = _verb(folded[begin : bare.names[first].start], begin, verbs)
        target = _last_of_chain(bare.names, first)
        end = bare.names[target].end
        if kind and end not in nouns and folded[end : end + 1] != "的":
            yield Stated(-1, target, kind, begin, bare.names[target].end)


def _is_where(names: Sequence[Name], at: int, folded: str) -> bool:
    """在印尼雅加达举行: not who, but where."""
    while at and names[at - 1].end == names[at].start:
        at -= 1
    return folded[names[at].start - 1 : names[at].start] in ("在", "于", "从", "到", "对", "向", "被", "把", "为")


def _last_of_chain(names: Sequence[Name], at: int) -> int:
    """Of names that stand without anything between them (海南 + 博鳌形象小姐) the last is what is spoken of."""
    while at + 1 < len(names) and names[at + 1].start == names[at].end:
        at += 1
    return at


def _verb(gap: str, start: int, verbs: Mapping[int, str]) -> str:
    """The verb that a gap consists of; "" where there is something else in it."""
    inner = gap.lstrip("》”」』")
    start += len(gap) - len(inner)
    skipped = _ADVERBS.match(inner)
    begin = skipped.end() if skipped else 0
    verb = verbs.get(start + begin, "")
    if len(verb) < 2 or verb[-1] in "是的在了" or verb in SAYING_NOTHING or verb in _SAME:
        return ""
    trailing = inner[begin + len(verb) :].rstrip("《“「『")
    if trailing not in _TRAILING:
        return ""
    return verb + trailing if trailing in ("于", "为", "成", "到", "自", "向") else verb


# ── other names ──────────────────────────────────────────────────────────────────────────────────


def called(bare: Skeleton, folded: str) -> Iterator[Called]:
    """What the text says that its names are also called."""
    for each in _ALIAS.finditer(bare.text):
        if each.group(2) not in BY_NAME or bare.names[bare.name_at(each.start(1))].type in (PERSON, NAME):
            yield from _other_name(bare, folded, each, 3, is_said=True)
    for each in _IN_BRACKETS.finditer(bare.text):
        yield from _other_name(bare, folded, each, 2, is_said=False)


def _other_name(bare: Skeleton, folded: str, found: re.Match[str], group: int, *, is_said: bool) -> Iterator[Called]:
    name = bare.name_at(found.start(1))
    first, last = found.span(group)
    if is_said and (beyond := _BEYOND.search(bare.text, first + 1, last)):
        last = beyond.start()
    start, end = _place_in_text(bare, first, last)
    own = folded[bare.names[name].start : bare.names[name].end]
    other = folded[start:end].strip()
    if len(other) < 2 or other == own or other in GENERIC or own in GENERIC or _NO_ALIAS.search(other):
        return
    is_latin = _LATIN.fullmatch(other) is not None and not own.isascii() and _is_bounded(bare.names[name], folded)
    if is_said or is_latin or _is_short_for(other, own):
        yield Called(name, start, end)


def _is_bounded(name: Name, folded: str) -> bool:
    """可持续发展目标（SDGs）, of which only 发展目标 was seen to be a name, is not what 发展目标 is called."""
    before = folded[name.start - 1 : name.start] if name.start else ""
    return name.type in (PERSON, WORK, NAME) or not before.isalnum() or before in "的和与及由在是为于对按"


def _is_short_for(short: str, long: str) -> bool:
    """世卫组织 of 世界卫生组织: its characters, in their order, and fewer."""
    rest = iter(long)
    return len(short) < len(long) and all(character in rest for character in short)
