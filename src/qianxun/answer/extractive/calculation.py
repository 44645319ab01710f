"""A figure that a question plainly asks to have worked out of two that passages state in prose.

A difference (甲比乙贵多少, 甲和乙相差多少), a sum (甲和乙一共多少), or a rate times the question's own quantity (自驾
200公里补贴多少, of 每公里1.2元). Nothing where a figure lacks its subject or its unit, or where it could be another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from qianxun.answer.extractive.passage_lines import Line
from qianxun.answer.extractive.sentence_scores import SHORT, ScoredLine, coverage
from qianxun.question.evidence_query import EvidenceQuery, Measure, evidence_query, is_of, wanted_measure
from qianxun.question.words import cue, entries, joined, listed
from qianxun.text.chinese import plain_analyser
from qianxun.text.figures import Number, Share, figures, measured

Operation: TypeAlias = Literal["difference", "sum", "product"]
_Amount: TypeAlias = Number | Share

_NAME: Final = r"[^,，。;；?？]"
_COMPARED: Final = re.compile(
    rf"(?P<one>{_NAME}{{2,24}}?)比(?![例率重值赛较])(?P<other>{_NAME}{{2,20}}?)(?:可以|[能可会要还]){{0,2}}(?:{entries('number.more_than')})"
)
_JOINED: Final = rf"(?P<one>{_NAME}{{2,24}}?)[和与跟](?P<other>{_NAME}{{2,16}}?)(?:的(?P<of>{_NAME}{{1,10}}?))?"
_PARTED_BY: Final = re.compile(rf"{_JOINED}(?:{joined('calculation.apart')})")
_ADDED: Final = re.compile(rf"{_JOINED}(?:{joined('calculation.together')})(?P<also>{_NAME}{{0,8}}?)(?:多少|几)")
_WHICH: Final = re.compile(
    rf"{_JOINED}(?:谁|哪一?[个种家款位边者])(?:的)?(?P<also>{_NAME}{{0,8}}?)[,，](?:{entries('number.more_than')})"
)
_FOR_ONE: Final = re.compile("(?:每个?|一个?)[年月天日周晚次人张]$")  # 双人间每月 of 比双人间每月贵多少
_LEAST_OWN: Final = 2  # characters of a name that set it apart from the other
_STOPS: Final = re.compile("[;；。!！?？]")
_PAUSES: Final = re.compile(r"(?<!\d)[,，、]|[,，、](?!\d{3}(?!\d))")
_EVERY: Final = "每"
_DIGITS: Final = re.compile(r"[\d,.]+")
_PERCENT: Final = Decimal(100)
_TIMES: Final = frozenset({measured("年"), measured("天"), measured("小时")})
_NEAR_BEST: Final = 0.85  # of the best line's fit: a rate in such a line is of what is asked for


@dataclass(frozen=True, slots=True)
class Calculation:
    """``text``: the arithmetic, as it is shown; ``lines``: those that state its figures."""

    text: str
    lines: tuple[ScoredLine, ...]


@dataclass(frozen=True, slots=True)
class _Operands:
    """What a question asks to have worked out: of which two, by what, in what kind of figure."""

    operation: Operation
    one: str
    other: str
    attributes: tuple[str, ...] = ()  # 可用率 of 团队版和企业版的可用率差多少
    measures: tuple[Measure, ...] = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class _Stated:
    """A figure that a line states of one of the two. ``rank``: how plainly it does."""

    figure: _Amount
    line: ScoredLine
    rank: int

    @property
    def kind(self) -> str:
        return "%" if isinstance(self.figure, Share) else self.figure.unit


def calculation(query: EvidenceQuery, scored: Sequence[ScoredLine]) -> Calculation | None:
    """What the question asks to have worked out, where lines state both figures."""
    offered = [one for one in scored if one.is_own and one.is_timely and not one.line.is_row]
    operands = _operands(query)
    if operands is not None:
        return _of_two(replace(operands, one=_written(operands.one, offered)), offered)
    return _of_rate(query, offered)


# ── a difference or a sum of what is stated of two ───────────────────────────────────────────────


def _operands(query: EvidenceQuery) -> _Operands | None:
    """Returns None where no operation on two named things is plainly asked for."""
    folded = query.folded
    readings: tuple[tuple[Operation, re.Match[str] | None], ...] = (
        ("difference", _COMPARED.search(folded)),
        ("difference", _WHICH.search(folded)),
        ("difference", _PARTED_BY.search(folded)),
        ("sum", _ADDED.search(folded)),
    )
    for operation, found in readings:
        if found is None:
            continue
        groups = found.groupdict()
        one, of_one = _parted(found["one"])
        other, of_other = _parted(found["other"])
        if of_one and not of_other and of_one[-1] == other[-1:]:  # 展馆的成人票 beside 学生票
            one, of_one = of_one, ""
        tail = " ".join(filter(None, (of_one, of_other, groups.get("of"), groups.get("also"))))
        own = _set_apart(one, other)
        if own is None:
            return None
        measure = wanted_measure(query)
        measures = (measure,) if measure else _measures(groups.get("word") or "")
        return _Operands(operation, *own, _attributes(tail), measures, query.unit)
    return None


def _written(name: str, offered: Sequence[ScoredLine]) -> str:
    """A name as lines have it: 女声 of 合唱团女声, where their document or section is called 合唱团."""
    words = plain_analyser().segments(name)
    for at in range(len(words)):
        context, own = "".join(words[:at]), "".join(words[at:])
        for one in offered if len(own) >= _LEAST_OWN else ():
            line = one.line
            if own in line.folded and context in "\n".join((line.name, line.heading, line.around)):
                return own
    return name


def _parted(name: str) -> tuple[str, str]:
    """Whose, and what of them: 研究生 and 借期 of 研究生的借期."""
    whose, _, what = _FOR_ONE.sub("", name).rpartition("的")
    return (whose, what) if whose else (what, "")


def _set_apart(one: str, other: str) -> tuple[str, str] | None:
    """The names without what they have in common: 无痛 and 普通 of 无痛肠镜 and 普通肠镜."""
    one, other = one.strip(), other.strip()
    while _has_common_end(one, other):
        one, other = one[:-1], other[:-1]
    is_apart = one not in other and other not in one and min(len(one), len(other)) >= _LEAST_OWN
    return (one, other) if is_apart else None


def _has_common_end(one: str, other: str) -> bool:
    shortest = min(len(one), len(other))
    return shortest > _LEAST_OWN and one[-1] == other[-1] and not one[-1].isascii()


def _attributes(text: str) -> tuple[str, ...]:
    terms = evidence_query(text).terms if text else ()
    return tuple(term.text for term in terms if not term.parts and len(term.text) > 1)


def _measures(word: str) -> tuple[Measure, ...]:
    """What the word of a comparison measures: money for 贵; none where it may be anything."""
    if word in listed("calculation.costs"):
        return ("money",)
    return ("time", "size") if word in listed("calculation.extends") else ()


def _of_two(operands: _Operands, offered: Sequence[ScoredLine]) -> Calculation | None:
    by_line = [_stated(operands, one) for one in offered]
    in_line = [found for stated in by_line if (found := _agreeing(operands, *stated)) is not None]
    if in_line:
        return in_line[0] if len({found.text for found in in_line}) == 1 else None
    if not operands.attributes and not operands.measures:
        return None  # figures of two sentences are of one thing only where it is said which
    in_document: dict[str, tuple[list[_Stated], list[_Stated]]] = {}
    for one, (first, second) in zip(offered, by_line, strict=True):
        both = in_document.setdefault(one.line.passage.doc_id, ([], []))
        both[0].extend(first)
        both[1].extend(second)
    results = [found for stated in in_document.values() if (found := _agreeing(operands, *stated)) is not None]
    return results[0] if len({found.text for found in results}) == 1 else None


def _stated(operands: _Operands, scored: ScoredLine) -> tuple[list[_Stated], list[_Stated]]:
    """The figures that a line states of each of the two."""
    both: tuple[list[_Stated], list[_Stated]] = ([], [])
    if not any(own in scored.line.around for own in (operands.one, operands.other)):
        return both
    for side, is_named, clause in _clauses(operands, scored.line):
        rank = _rank(operands, scored.line, clause, is_named)
        if rank:
            both[side].extend(_Stated(figure, scored, rank) for figure in _amounts(clause, operands))
    return both


def _clauses(operands: _Operands, line: Line) -> Iterator[tuple[int, int, str]]:
    """The clauses of a line that speak of one of the two, which one, and how plainly they name it: not at all (0)
    where they go on from one that does, 1 where the name may be the end of another (主任 of 副主任), else 2."""
    for sentence in _STOPS.split(line.folded):
        side = -1
        for clause in _PAUSES.split(sentence):
            named = [at for at, own in enumerate((operands.one, operands.other)) if own in clause]
            if len(named) > 1 or (not named and side < 0):
                side = -1
                continue
            side = named[0] if named else side
            yield side, _plainly(clause, (operands.one, operands.other)[side]) if named else 0, clause


def _plainly(clause: str, own: str) -> int:
    at = clause.find(own)
    return 2 if at == 0 or not clause[at - 1].isalnum() else 1


def _rank(operands: _Operands, line: Line, clause: str, is_named: int) -> int:
    """How plainly a clause states what is asked for of one of the two; 0 where it does not."""
    if not operands.attributes:
        return 1 + is_named if is_named else 0
    if any(coverage(word, clause) >= SHORT for word in operands.attributes):
        return 4 + is_named
    around = "\n".join((line.folded, line.heading))
    is_around = any(coverage(word, around) >= SHORT for word in operands.attributes)
    return 1 + is_named if is_around and is_named else 0


def _amounts(clause: str, operands: _Operands) -> Iterator[_Amount]:
    for figure in figures(clause):
        if not isinstance(figure, Number | Share) or len(figure.values) != 1 or figure.written.startswith(_EVERY):
            continue
        if isinstance(figure, Number) and not figure.unit:
            continue
        is_measure = not operands.measures or any(is_of(measure, figure) for measure in operands.measures)
        if is_measure and (not operands.unit or figure.written.endswith(operands.unit)):
            yield figure


def _agreeing(operands: _Operands, first: Sequence[_Stated], second: Sequence[_Stated]) -> Calculation | None:
    """The result, where there is one figure of each of the two, of one kind."""
    kinds = [kind for kind in dict.fromkeys(one.kind for one in first) if any(one.kind == kind for one in second)]
    found = [(one, other) for kind in kinds if (one := _only(first, kind)) and (other := _only(second, kind))]
    ranks = {one.rank + other.rank for one, other in found}
    plainest = [pair for pair in found if pair[0].rank + pair[1].rank == max(ranks)]
    if len(plainest) != 1:
        return None
    one, other = plainest[0]
    shown = _shown(operands.operation, one.figure, other.figure)
    lines = {stated.line.line.at: stated.line for stated in (one, other)}
    return Calculation(shown, tuple(lines[at] for at in sorted(lines))) if shown else None


def _only(stated: Iterable[_Stated], kind: str) -> _Stated | None:
    """The figure of a kind that is stated most plainly; None where others are stated as plainly."""
    own = [one for one in stated if one.kind == kind]
    best = [one for one in own if one.rank == max(other.rank for other in own)]
    return best[0] if len({one.figure.values for one in best}) == 1 else None


# ── a rate times a quantity ──────────────────────────────────────────────────────────────────────


def _of_rate(query: EvidenceQuery, offered: Sequence[ScoredLine]) -> Calculation | None:
    """So much for each, of the number that the question names: 每公里1.2元, for 200公里."""
    stated = [one for one in figures(query.text) if isinstance(one, Number) and one.unit and len(one.values) == 1]
    if "number" not in query.needs or query.is_computed or len(stated) != 1 or not offered:
        return None
    quantity = stated[0]
    if _is_circumstance(quantity, query.folded):
        return None
    least = _NEAR_BEST * max(one.fit for one in offered)
    names = _counted(quantity, query.folded)
    found = [
        (price, one)
        for one in offered
        if one.fit >= least and one.fit > 0 and (price := _rate(query, names, one.line)) is not None
    ]
    if len({price.written for price, _ in found}) != 1:
        return None
    price, line = found[0]
    return Calculation(f"{price.written} × {_plain(quantity.values[0])} = {_times(price, quantity)}", (line,))


def _is_circumstance(quantity: Number, folded: str) -> bool:
    """Returns True if a question does not ask about so much of something: 8年 of 工作8年, 3 of 3级, 5 of 满5年."""
    if quantity.unit in listed("calculation.ordinal"):
        return True
    number = re.escape(quantity.written)
    return bool(re.search(rf"(?:{joined('calculation.since')}){number}|{number}(?:以?[上下内前后]|之[内前后])", folded))


def _counted(quantity: Number, folded: str) -> tuple[str, ...]:
    """What the question counts, as a rate may write it: 公里; 个部位 and 部位 of 2个部位."""
    after = folded[folded.find(quantity.written) + len(quantity.written) :] if quantity.written in folded else ""
    noun = next(iter(plain_analyser().segments(after)), "") if after[:1].isalpha() else ""
    return (quantity.unit, quantity.unit + noun, noun) if noun else (quantity.unit,)


def _rate(query: EvidenceQuery, names: Sequence[str], line: Line) -> Number | None:
    """The amount for each of what the question counts; None where a line has conditions on it or other amounts."""
    if cue("calculation.tiered").search(line.folded):
        return None
    rates: list[tuple[Number, str]] = []
    others: list[tuple[Number, str]] = []
    for clause in _PAUSES.split(line.folded):
        amounts = [one for one in figures(clause) if isinstance(one, Number) and one.unit and _EVERY not in one.written]
        is_rate = clause.count(_EVERY) == 1 and any(
            name and re.search(f"每一?个?{re.escape(name)}", clause) for name in names
        )
        is_rate = is_rate and len(amounts) == 1 and amounts[0].unit not in names
        (rates if is_rate else others).extend((amount, clause) for amount in amounts)
    if len(rates) + sum(other.unit == rate.unit for other, _ in others for rate, _ in rates[:1]) > 1:
        rates = [(rate, clause) for rate, clause in rates if _names_subject(query, clause)]
    if len(rates) != 1:
        return None
    price = rates[0][0]
    measure = wanted_measure(query)
    if any(measured(name) in _TIMES for name in names) and not is_of("money", price):
        return None  # 每年5天 is how often, not so much for each
    is_wanted = (measure is None or is_of(measure, price)) and (not query.unit or query.unit in price.written)
    return price if is_wanted and len(price.values) == 1 else None


def _names_subject(query: EvidenceQuery, clause: str) -> bool:
    """Returns True if a clause names what the question is about: of several rates, that is the one."""
    things = [term.text for term in query.terms if term.is_main and not term.is_verb and not term.parts]
    return any(len(thing) > 1 and coverage(thing, clause) >= SHORT for thing in things)


# ── how it is shown ──────────────────────────────────────────────────────────────────────────────


def _shown(operation: Operation, one: _Amount, other: _Amount) -> str:
    """The arithmetic with its result; "" where both are alike, and nothing is to be worked out."""
    if operation == "sum":
        return f"{one.written} + {other.written} = {_result(one, other, +1)}"
    more, less = (one, other) if one.values[0] >= other.values[0] else (other, one)
    return f"{more.written} − {less.written} = {_result(more, less, -1)}" if more.values != less.values else ""


def _result(one: _Amount, other: _Amount, sign: int) -> str:
    value = one.values[0] + sign * other.values[0]
    if isinstance(one, Share) or isinstance(other, Share):
        return f"{_plain(value * _PERCENT)}{'%' if sign > 0 else ' 个百分点'}"
    scale = _scale(one) if _scale(one) == _scale(other) else Decimal(1)
    return f"{_plain(value / scale)}{_written_unit(one) if scale != 1 else one.unit}"


def _times(price: Number, quantity: Number) -> str:
    scale = _scale(price)
    value = price.values[0] * quantity.values[0] / scale
    return f"{_plain(value)}{_written_unit(price) if scale != 1 else price.unit}"


def _scale(figure: Number) -> Decimal:
    """10000 of 1350万元: results are written in it, too."""
    digits = figure.digits.replace(",", "")
    return figure.values[0] / Decimal(digits) if digits and Decimal(digits) else Decimal(1)


def _written_unit(figure: Number) -> str:
    """万元 of 1350万元."""
    return _DIGITS.sub("", figure.written).strip()


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
