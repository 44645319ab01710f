"""Whether a sentence says the opposite of what it cites: allowed for forbidden, none for some, less for more, one for
the other.

`contradicted` reads the sentence and its sources as statements: clauses, with what is before them in their sentence;
the items of a list each with the word that forbids or allows them. A statement of a source speaks against a clause if
it is of the same matter and takes the opposite stance. What counts is how much of the clause it covers, rare words more
than frequent ones, and how much more than any statement of the same matter that agrees. Where that is little, or a
condition or an exception may turn it, the clause is not judged: words of the opposite kind are no proof there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.answer.verify.misplaced import FIELD, words_of
from qianxun.answer.verify.stance import Clause, Stance, lexicon, read_clause
from qianxun.answer.verify.table_rows import without_tables
from qianxun.text.chinese import fold
from qianxun.text.figures import Number, placed, prepared
from qianxun.text.figures import figures as read_figures

COVERED: Final = 0.4  # of a clause by the statement that opposes it
LEAD: Final = 0.25  # … of that more than by any that agrees
KNOWN: Final = 0.3  # of its pairs of characters are in the sources at all
SAME_MATTER: Final = 0.4  # of what a source denies or allows is in the clause
BESIDE: Final = 0.5  # … and of what is around a word that takes sides
SAME_SUBJECT: Final = 0.5  # … and of whom: 试用期员工 are not all
VERBATIM: Final = 0.7  # of all that a clause and a statement say is in both
BY_ANOTHER: Final = 0.6  # of what is done by one is done by another
COMMON: Final = 0.15  # of the characters of two names that are of two
LONGEST_NAME: Final = 8  # characters
FEWEST: Final = 2  # pairs that make a clause one that can be compared
CONTEXT: Final = 0.5  # what a word counts that is before a clause in its sentence
BEFORE: Final = 0.6  # what a word of a clause counts that the source has before its own
FIGURE: Final = 2.0  # pairs that an equal figure counts for, and a pair of opposites
MOST_CLAIMS: Final = 40  # clauses of a sentence that are compared
MOST_ITEMS: Final = 40  # of a list, each read with all the figures of its clause
SOURCE_CHARACTERS: Final = 200_000  # of all that a sentence cites; what is beyond is not compared

_CLAUSE: Final = re.compile(r"(?:[^，,：:|]|(?<=\d)[,:：](?=\d))+")  # 14:10 is one, and so is 1,950
_CASE: Final = re.compile("的(?=可以|应当|不得|必须|视为)")  # 仍不同意的可以申诉: what is denied is the case
_ASIDE: Final = re.compile(r"[(（]([^()（）\n]{1,80})[)）]")  # 滤网（选配）不可水洗: a clause of its own
_SENTENCE: Final = re.compile(r"[^。！？!?；;\n]+")
_INTERROGATIVE: Final = re.compile("吗|呢|么|是否|能否|可否|能不能|可不可以|是不是|有没有|会不会|要不要|请问")
_TURNED: Final = re.compile(
    "才|除非|除了|除[^，。]{1,15}外|否则|不然|例外|要么|就[^，。]{0,2}不|不[^，。]{1,12}不"
)  # 只有…才, 除…外
REPORTED: Final = re.compile("请求|主张|诉称|辩称|上诉称|建议|指控|传闻|质疑")  # what somebody wants is no fact
_ORDER: Final = re.compile(
    r"先(?P<first>[^。！？!?；;\n先]{2,40}?)[，,]?(?:再|然后|随后|而?后|之后)(?P<last>[^。！？!?；;，,\n]{2,40})"
)
DENIES_CODE: Final = "(?:没有|无|不含|不包括|未列)(?:列出|故障代码|代码|型号)?"
_DENIED_CODE: Final = re.compile(rf"{DENIES_CODE}\s?([a-z]{{1,3}}-?\d{{1,4}})(?![a-z0-9])")
_TOGETHER: Final = re.compile("[一二两三各双共其]|分别|\\d")  # 由两人分别保管
_TWO_WAY: Final = re.compile("[和与及或同跟、]|之间|互相|相互|彼此|^(?:就?是|即|为|等于|叫)$")


@dataclass(frozen=True, slots=True)
class Opposite:
    """What a source says instead of a sentence; ``is_copied``: in the same words but for what is altered. What is told
    in other words may be meant otherwise, and proves less."""

    clause: str
    is_copied: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    clause: Clause
    words: frozenset[str]  # pairs of characters, figures, and what it takes sides in
    context: frozenset[str]  # with those that are before it in its sentence
    is_reported: bool  # somebody wants or says so
    is_turned: bool  # by a condition or an exception beside it
    denied_after: frozenset[str] = frozenset()  # what the clause after it denies: 关于缓刑的意见，本院不予采纳


@dataclass(frozen=True, slots=True)
class Compared:
    statement: Statement
    cover: float
    is_verbatim: bool


def contradicted(sentence: str, sources: Sequence[str], query: str = "") -> Opposite | None:
    """The clause of a source that says the opposite of the sentence.

    A sentence that is nothing but yes or no is read as the answer to ``query``.
    """
    known = [one for text in sources for one in _statements(without_tables(text[:SOURCE_CHARACTERS]))]
    often = Counter(word for one in known for word in one.words)
    weights = {word: (FIGURE if word[0] in "#~" else 1.0) / count**0.5 for word, count in often.items()}
    opposite = _in_other_order(sentence, sources) or _by_another(sentence, known) or _denied_code(sentence, sources)
    if opposite:
        return Opposite(opposite)
    for claim in _claims(sentence, query)[:MOST_CLAIMS]:
        if found := _opposite(claim, known, weights):
            return found
    return None


def is_denied(clause: str, cell: str, column: str) -> bool:
    """Returns True if a clause about a row of a table says the opposite of its cell: 合同章可以外带, where the cell
    has 不可外带, or 否 below 可否外带."""
    claim, words = read_clause(clause), lexicon()
    if cell in ("是", "否", *words.yes, *words.no):
        matter = read_clause(_INTERROGATIVE.sub("", column))
        stance = Stance(cell == "否" or cell in words.no, matter.stance.sides)
    else:
        matter = read_clause(cell)
        stance = matter.stance
    is_about = not _INTERROGATIVE.search(clause) and bool(matter.pairs) and matter.pairs <= claim.pairs
    # 经批准可以外带: a cell with a condition is not denied by what lacks it.
    return is_about and claim.stance.opposes(stance) and (stance.is_negative or bool(stance.sides))


def _claims(sentence: str, query: str) -> list[Statement]:
    claims = list(_statements(sentence))
    if len(claims) == 1 and query:
        verdict, words = claims[0].clause.text.strip(), lexicon()
        if verdict in words.yes or verdict in words.no:
            matter = read_clause(_INTERROGATIVE.sub("", fold(query)))
            stance = Stance(verdict in words.no, matter.stance.sides)
            clause = replace(matter, stance=stance, denied=matter.pairs if stance.is_negative else frozenset())
            return [Statement(clause, matter.pairs, matter.pairs, is_reported=False, is_turned=False)]
    return claims


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def _statements(text: str) -> Iterator[Statement]:
    folded = _CASE.sub("的，", FIELD.sub("\n", fold(text)))
    asides = [aside for aside in _ASIDE.findall(folded) if len(aside) > FEWEST + 2]
    for sentence in _SENTENCE.findall("\n".join((_ASIDE.sub("", folded), *asides))):
        before: frozenset[str] = frozenset()
        is_reported = REPORTED.search(sentence) is not None
        is_comparison = len({one for one in read_figures(sentence) if isinstance(one, Number)}) > 1
        parts = _CLAUSE.findall(sentence)
        for at, part in enumerate(parts):
            is_turned = _TURNED.search("，".join(parts[max(0, at - 1) : at + 2])) is not None
            figures = frozenset(word for hit in placed(prepared(part)) for word in words_of(hit.figure))
            clause, following = read_clause(part), parts[at + 1] if at + 1 < len(parts) else ""
            after = read_clause(following).denied if following else frozenset[str]()
            for one in (clause, *_items(clause)):
                words = one.pairs | figures | {f"~{pair}" for pair, _ in one.stance.sides}
                # 4.31，远高于1.4的目标值: one figure is compared with another, not with a bound.
                is_compared = is_comparison and any(pair == 0 for pair, _ in one.stance.sides)
                yield Statement(one, words, words | before, is_reported, is_turned or is_compared, after)
            before = before | clause.pairs | figures


def _items(clause: Clause) -> Iterator[Clause]:
    """不得盘腿、跷二郎腿: each of what is forbidden or allowed together."""
    head, rest = clause.text[: clause.reach], clause.text[clause.reach :]
    if "、" in rest and not clause.stance.sides:
        yield from (read_clause(head + item) for item in rest.split("、")[:MOST_ITEMS])


# ── comparing ────────────────────────────────────────────────────────────────────────────────────


def _opposite(claim: Statement, known: Sequence[Statement], weights: Mapping[str, float]) -> Opposite | None:
    for statement in known:
        if _swapped(claim.clause.text, statement.clause.text):
            return Opposite(statement.clause.text.strip(), is_copied=True)
    own = [word for word in claim.words if word in weights]
    if len(own) < FEWEST or len(own) < KNOWN * len(claim.words) or any(_is_quoted(claim, one) for one in known):
        return None
    around = [word for word in claim.context if word in weights and word not in claim.words]
    whole = sum(map(weights.__getitem__, own)) + CONTEXT * sum(map(weights.__getitem__, around))
    compared = [
        Compared(statement, _cover(claim, statement, own, around, weights) / whole, _is_verbatim(claim, statement))
        for statement in known
        if not claim.clause.governed.isdisjoint(statement.words) or _takes_side(claim, statement)
    ]
    against = [one for one in compared if one.cover >= COVERED and _opposes(claim, one)]
    for one in sorted(against, key=lambda found: -found.cover):
        governed = one.statement.clause.governed
        matter = governed & claim.words or governed & claim.context
        agreeing = (
            other.cover
            for other in compared
            if (other.statement.clause.is_mixed or not claim.clause.stance.opposes(other.statement.clause.stance))
            and (other.is_verbatim or 2 * len(matter & other.statement.words) >= len(matter))
        )
        if one.cover - max(agreeing, default=0.0) >= LEAD * one.cover:
            return Opposite(one.statement.clause.text.strip(), one.is_verbatim)
    return None


def _is_quoted(claim: Statement, one: Statement) -> bool:
    """Returns True if a statement says the claim word for word, and denies nothing beside it: 可拨打甲方电话 of
    乙方可拨打甲方电话."""
    before, is_there, after = one.clause.text.partition(claim.clause.text.strip())
    return bool(is_there) and not read_clause(before + after).stance.is_negative


def _takes_side(claim: Statement, one: Statement) -> bool:
    sides = {pair for pair, _ in claim.clause.stance.sides}
    return any(pair in sides for pair, _ in one.clause.stance.sides)


def _is_verbatim(claim: Statement, one: Statement) -> bool:
    return len(claim.words & one.words) >= VERBATIM * len(claim.words | one.words)


def _opposes(claim: Statement, compared: Compared) -> bool:
    """Returns True if a statement of the same matter, and of no narrower subject, takes the opposite stance."""
    one = compared.statement
    if not claim.clause.stance.opposes(one.clause.stance):
        return False
    is_denied_after = not one.clause.stance.is_negative and not one.denied_after.isdisjoint(claim.clause.denied)
    if claim.clause.stance.is_negative and is_denied_after:
        return False
    if compared.is_verbatim:
        return _is_denial_met(claim, one, is_verbatim=True)
    if claim.clause.is_mixed or one.clause.is_mixed:
        return False
    if claim.is_turned or (one.is_reported and not claim.is_reported):
        return False
    governed = one.clause.governed
    subject = one.clause.pairs - governed
    named = len(subject & claim.context)
    if named and named < SAME_SUBJECT * len(subject):
        return False
    beside = one.clause.beside if _takes_side(claim, one) else frozenset()
    if len(beside & claim.words) < BESIDE * len(beside):
        return False
    matter = beside or governed
    return len(matter & claim.context) >= SAME_MATTER * len(matter) and _is_denial_met(claim, one)


def _is_denial_met(claim: Statement, one: Statement, *, is_verbatim: bool = False) -> bool:
    """Returns True if what one of them denies is what the other says: 疼痛4小时 is no opposite of 疼痛4小时不缓解. Of
    two that are otherwise the same, a denial may be of all that they say."""
    if claim.clause.stance.is_negative == one.clause.stance.is_negative:
        return True
    denying, other = (claim, one) if claim.clause.stance.is_negative else (one, claim)
    denied, sides = denying.clause.denied, denying.clause.stance.sides
    return not denied.isdisjoint(other.words) or (
        is_verbatim and not denied and (not sides or _takes_side(other, denying))
    )


def _cover(
    claim: Statement, one: Statement, own: Sequence[str], around: Sequence[str], weights: Mapping[str, float]
) -> float:
    """How much of a clause a statement has, with what is before both; less where it says more than the clause."""
    here = sum(weights[word] * (1.0 if word in one.words else BEFORE) for word in own if word in one.context)
    before = CONTEXT * sum(weights[word] for word in around if word in one.context)
    governed = one.clause.governed
    is_shared = len(governed & claim.context) / len(governed) if governed else 0.0
    return (here + before) * (0.5 + 0.5 * is_shared)


# ── by whom ──────────────────────────────────────────────────────────────────────────────────────


def _by_another(sentence: str, known: Sequence[Statement]) -> str:
    """邮寄费用由派出所承担, where the source has 邮寄费用由申请人承担."""
    if "由" not in sentence:
        return ""
    done = [(read_clause(what).pairs, who, one) for one in known for what, who in [_by_whom(one)] if who]
    for claim in list(_statements(sentence))[:MOST_CLAIMS]:
        what, who = _by_whom(claim)
        if not who or len(matter := read_clause(what).pairs) < FEWEST:
            continue
        for there, other, one in done:
            if len(matter & there) >= BY_ANOTHER * len(matter) and _is_another(who, other):
                return one.clause.text.strip()
    return ""


def _by_whom(statement: Statement) -> tuple[str, str]:
    what, _, who = statement.clause.text.partition("由")
    return what, who


def _is_another(who: str, other: str) -> bool:
    """Returns True if two do the same, and have nothing in common."""
    size = next((at for at in range(min(len(who), len(other))) if who[-1 - at] != other[-1 - at]), 0)
    one, another = who[: len(who) - size], other[: len(other) - size]
    is_named = 0 < len(one) <= LONGEST_NAME and 0 < len(another) <= LONGEST_NAME
    shared = len(set(one) & set(another))  # 业 of 业主委员会 and 物业服务中心
    is_other = shared <= len(set(one + another)) * COMMON and one not in another and another not in one
    return size > 1 and is_named and is_other and not _TOGETHER.search(one + another)


def _denied_code(sentence: str, sources: Sequence[str]) -> str:
    """故障代码表里没有E3, where a source lists it and does not deny it."""
    codes: list[str] = _DENIED_CODE.findall(fold(sentence))
    for code in codes:
        written = re.compile(rf"(?<![a-z0-9]){re.escape(code)}(?![a-z0-9])")
        places: list[str] = [part for text in sources for part in _SENTENCE.findall(fold(text)) if written.search(part)]
        if places and not any(read_clause(part).stance.is_negative for part in places):
            return places[0].strip()
    return ""


# ── first and then ────────────────────────────────────────────────────────────────────────────────


def _in_other_order(sentence: str, sources: Sequence[str]) -> str:
    """先烘干，再消毒, where the source has 先消毒，再烘干."""
    orders = list(_orders(sentence))
    for text in sources if orders else ():
        for first, last, source in _orders(text[:SOURCE_CHARACTERS]):
            for one, other, _ in orders:
                is_turned = len(one & last) > len(one & first) and len(other & first) > len(other & last)
                if is_turned:
                    return source.strip()
    return ""


def _orders(text: str) -> Iterator[tuple[frozenset[str], frozenset[str], str]]:
    for found in _ORDER.finditer(fold(text)):
        yield read_clause(found["first"]).pairs, read_clause(found["last"]).pairs, found.group()


# ── the one for the other ────────────────────────────────────────────────────────────────────────


def _swapped(claim: str, source: str) -> bool:
    """甲公司收购乙公司 for 乙公司收购甲公司: two parts have changed places around what is between them."""
    one, other = claim.strip(), source.strip()
    if one == other or len(one) != len(other) or sorted(one) != sorted(other):
        return False
    start = next(at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right)
    end = next(at for at, (left, right) in enumerate(zip(one[::-1], other[::-1], strict=True)) if left != right)
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    for size in range(1, len(one) - 1):
        first = one[:size]
        if not other.endswith(first):
            continue
        for last in range(1, len(one) - size):
            second, between = one[-last:], one[size:-last]
            if other == second + between + first:
                return not _TWO_WAY.search(between)
    return False
