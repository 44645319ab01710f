"""Whether a sentence's figures are in what it cites: every number, date, share, dose and amount, in equal value, and of
the same thing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Final

from qianxun.answer.verify.contradiction import DENIES_CODE
from qianxun.answer.verify.counting import is_counted
from qianxun.answer.verify.derivation import (
    clause_of,
    derived,
    does_not_add_up,
    is_computing,
    is_miscalculated,
    is_of_rows,
)
from qianxun.answer.verify.lapses import Derivation
from qianxun.answer.verify.misplaced import (
    FEWEST,
    ITEM,
    Occurrence,
    is_of_another,
    is_rival,
    is_same,
    misplaced,
    occurrences,
    words_of,
)
from qianxun.answer.verify.rounding import Hedge, hedge_of, is_rounded
from qianxun.answer.verify.table_rows import tables, with_units, without_tables
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import (
    Clock,
    Code,
    Day,
    Figure,
    Number,
    Share,
    amount,
    figures,
    measured,
    same_amount,
    without_formulas,
    without_gaps,
)

_HEADED_BY: Final = re.compile(
    r"(?<![\d.])[（(:：/\s|]([十百千]?[万亿])"
)  # 营业收入（万元）: the cells below have no scale


_SENTENCES: Final = re.compile(r"[。！？!?\n]")
_SUPPOSES: Final = re.compile(
    "如果|如[^何此同下]|若|假[如设使]|要是|的话|比如|例如|譬如|倘|即使|哪怕|(?:以|按)[^，。]{1,12}(?:为例|计算|算)"
)
_SECTIONS: Final = frozenset(["章", "节", "条", "款", "项", "点", "页"])
COPIED: Final = 0.9  # of all that is around it: a sentence of the source with another figure
MOST_FIGURES: Final = 40  # of a sentence that are each compared with all of the evidence: more take seconds
MOST_RESULTS: Final = 12  # figures of a sentence that are tried as results: what has more works nothing out
MOST_EXAMPLES: Final = 3  # figures of a made-up case, its result among them
ALIKE: Final = 0.75  # of the pairs of characters around a figure are around another in the source
FOREIGN: Final = 0.25  # … and so many at most around it: the source has it for something else


@dataclass(frozen=True)
class Evidence:
    """The texts that a sentence cites, read once; ``names``: of their documents, which are evidence as well."""

    texts: tuple[str, ...]
    names: tuple[str, ...] = ()

    @staticmethod
    def of(texts: Iterable[str], names: Iterable[str] = ()) -> Evidence:
        return Evidence(tuple(map(without_gaps, texts)), tuple(map(without_gaps, names)))

    @cached_property
    def text(self) -> str:
        return "\n".join((*self.names, *self.texts))

    @cached_property
    def plain(self) -> str:
        return re.sub(r"[\s,，]", "", fold(without_formulas(self.text)).replace("％", "%"))

    @cached_property
    def with_units(self) -> tuple[str, ...]:
        return tuple(map(with_units, self.texts))

    @cached_property
    def figures(self) -> Sequence[Figure]:
        return figures("\n".join((*self.names, *self.with_units)))

    @cached_property
    def occurrences(self) -> tuple[Sequence[Occurrence], ...]:
        """Of each text by itself: two documents may tell the same of two subjects."""
        return tuple(occurrences(text) for text in self.with_units)

    @cached_property
    def prose(self) -> tuple[Sequence[Occurrence], ...]:
        """Without those of tables."""
        return tuple(
            occurrences(without_tables(text)) if "|" in text else found
            for text, found in zip(self.texts, self.occurrences, strict=True)
        )

    @cached_property
    def days(self) -> tuple[Day, ...]:
        """A day without its month is of that of the date before it: 2023年10月12日被抓获，同月13日被拘留."""
        found: list[Day] = []
        for day in self.figures:
            if isinstance(day, Day):
                found.append(day)
                if day.month is None and day.day is not None and (before := _with_month(found)) is not None:
                    found.append(replace(day, year=before.year, month=before.month))
        return tuple(found)

    @cached_property
    def years(self) -> frozenset[int]:
        named = {day.year for day in self.days if day.year is not None}
        return frozenset(named | {int(value) for value in self.bare if value == int(value)})

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(figure for figure in self.figures if isinstance(figure, Number))

    @cached_property
    def bare(self) -> frozenset[Decimal]:
        """Numbers without a unit."""
        return frozenset(value for number in self.numbers if not number.unit for value in number.values)

    @cached_property
    def shares(self) -> frozenset[Decimal]:
        return frozenset(value for figure in self.figures if isinstance(figure, Share) for value in figure.values)

    @cached_property
    def scales(self) -> frozenset[str]:
        return frozenset(_HEADED_BY.findall(fold(self.text)))


def _with_month(days: Sequence[Day]) -> Day | None:
    return next((day for day in reversed(days) if day.month is not None), None)


@dataclass(frozen=True, slots=True)
class Ungrounded:
    """Figures that the evidence does not bear out: ``wrong`` ones it has otherwise in the same words, or nothing of it
    leads to them; ``derived`` ones may be worked out from it; ``displaced`` ones it seems to have of something else,
    ``elsewhere`` are those that only passages have which are not cited, ``mismatched`` totals that are not those of
    what the sentence shows."""

    wrong: tuple[Figure, ...] = ()
    derived: tuple[Figure, ...] = ()
    displaced: tuple[Figure, ...] = ()
    elsewhere: tuple[Figure, ...] = ()
    mismatched: tuple[Figure, ...] = ()


def unsupported(
    sentence: str, evidence: Evidence, query: str = "", of_rows: Sequence[Sequence[Figure]] = ()
) -> tuple[Figure, ...]:
    """The figures of a sentence that are surely wrong."""
    return ungrounded(sentence, evidence, query, of_rows).wrong


def ungrounded(
    sentence: str,
    evidence: Evidence,
    query: str = "",
    of_rows: Sequence[Sequence[Figure]] = (),
    uncited: Evidence | None = None,
) -> Ungrounded:
    """``of_rows``: the figures of the rows and columns of tables that a sentence names, from which others may be worked
    out. ``uncited``: other passages, which the sentence may have meant. A sentence of very many figures must have them
    all as they are written."""
    stated = list(dict.fromkeys(figures(sentence)))
    if len(stated) > MOST_FIGURES:
        return Ungrounded(tuple(one for one in stated if not _verbatim(one.written, evidence.plain)))
    if wrong := [one for one in stated if is_miscalculated(one, sentence, evidence.figures, evidence.text)]:
        return Ungrounded(tuple(wrong))
    known = [figure for figure in stated if is_in(figure, sentence, evidence)]
    missing = [one for one in stated if one not in known and not _is_rounded(one, sentence, evidence)]
    elsewhere = [one for one in missing if uncited is not None and _is_elsewhere(one, sentence, evidence, uncited)]
    missing = [one for one in missing if one not in elsewhere]
    found = _not_worked_out(missing, sentence, evidence, of_rows)
    if found.wrong:
        return found
    displaced = [
        one for one in _misplaced(sentence, evidence, query) if not _is_result(one, sentence, evidence, of_rows)
    ]
    copied = [
        one
        for one in displaced
        if is_instead(one, sentence, evidence)
        and not _may_be_result(one, sentence, evidence)
        and not _is_stated_in_such_words(one, sentence, evidence)
    ]
    copied += [one for one in known if one not in copied and _is_replaced(one, sentence, evidence)]
    displaced = [one for one in displaced if one not in copied]
    mismatched = tuple(one for one in stated if does_not_add_up(one, sentence))
    return Ungrounded(tuple(copied), found.derived, tuple(displaced), tuple(elsewhere), mismatched)


def _is_same_thing(figure: Figure, known: Figure) -> bool:
    is_ordinal = isinstance(known, Number) and isinstance(figure, Number) and _is_ordinal_of_other(known, figure)
    return is_same(figure, known) and not is_ordinal


def _is_stated_in_such_words(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    """Returns True if a source has the figure in words that are as near to those of the sentence as any around another
    of its kind, as in 租赁期限自2022年7月1日起至2027年6月30日止: which of them is meant cannot be told."""
    places = [place for of_text in evidence.occurrences for place in of_text]
    own = [place.clause for place in places if _is_same_thing(figure, place.figure)]
    rivals = [place.clause for place in places if is_rival(figure, place.figure)]
    clauses = [one.clause for one in occurrences(sentence) if one.figure == figure]
    return any(
        max(len(clause & other) for other in own) >= max((len(clause & other) for other in rivals), default=0)
        for clause in clauses
        if own
    )


def _is_replaced(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    """Returns True if a source has another figure in the words of the sentence, and this one where none of them is:
    到货后9个工作日内, where it has 5个 so, and 9 for something else."""
    if isinstance(figure, Code) or (isinstance(figure, Number) and figure.is_count):
        return False
    if is_computing(figure, sentence) or not is_instead(figure, sentence, evidence):
        return False
    places = [place for places in evidence.occurrences for place in places if _is_same_thing(figure, place.figure)]
    clauses = [one.clause for one in occurrences(sentence) if one.figure == figure]
    if not places and isinstance(figure, Number) and any(_is_cut(figure, number) for number in evidence.numbers):
        return False
    return all(_is_foreign(own, place.clause) for own in clauses for place in places)


def _is_foreign(clause: frozenset[str], other: frozenset[str]) -> bool:
    return bool(clause and other) and len(clause & other) <= FOREIGN * min(len(clause), len(other))


def _is_elsewhere(figure: Figure, sentence: str, cited: Evidence, uncited: Evidence) -> bool:
    """Returns True if a passage has a figure that is not cited, where what is cited has no other in the same words, or
    that has it in the same words as well."""
    if not is_in(figure, sentence, uncited):
        return False
    own = [one.clause for one in occurrences(sentence) if one.figure == figure]
    there = [place.clause for places in uncited.prose for place in places if is_same(figure, place.figure)]
    is_in_same_words = any(len(clause & other) >= ALIKE * len(clause) > 0 for clause in own for other in there)
    return is_in_same_words or not is_instead(figure, sentence, cited)


def _not_worked_out(
    missing: Sequence[Figure], sentence: str, evidence: Evidence, of_rows: Sequence[Sequence[Figure]]
) -> Ungrounded:
    """What follows neither from the sources nor from what was worked out before it: 合计3730万元，比目标少70万元."""
    left = list(missing)
    wrong: list[Figure] = list(missing[MOST_RESULTS:])
    copied: list[Figure] = []
    doubtful: list[Figure] = []
    for figure in missing[:MOST_RESULTS]:
        given = [one for one in figures(sentence) if one not in left]
        if is_instead(figure, sentence, evidence):
            result: Derivation = "no"
            copied.append(figure)
        else:
            result = _derived(figure, sentence, evidence, of_rows, given)
        if _is_rate(figure) and is_computing(figure, sentence) and figure not in copied:  # 平均每月9120元
            result = "surely"
        is_open = is_undated(figure, evidence) or _is_supposed(figure, sentence, copied) or _is_rate(figure)
        if result == "no" and is_open:
            result = "possibly"
        if result != "no" or _is_row_count(figure, of_rows):
            left.remove(figure)
        if result == "possibly":
            doubtful.append(figure)
        elif result == "no" and figure in left:
            wrong.append(figure)
    if not copied and _is_worked_example(wrong, sentence, evidence):
        return Ungrounded(derived=(*doubtful, *wrong))
    return Ungrounded(tuple(wrong), tuple(doubtful))


def _is_supposed(figure: Figure, sentence: str, copied: Sequence[Figure]) -> bool:
    """如果10月15日退出: what a clause supposes is no claim, unless the source has another figure in its words."""
    return figure not in copied and _SUPPOSES.search(clause_of(figure, fold(sentence))) is not None


def _is_worked_example(wrong: Sequence[Figure], sentence: str, evidence: Evidence) -> bool:
    """Returns True if a sentence makes up a case, and one of its figures follows from the others: 花了1200元能赔700元,
    where 70% are paid above 200元."""
    if not 2 <= len(wrong) <= MOST_EXAMPLES:
        return False
    stated = figures(sentence)
    return any(
        _derived(one, sentence, evidence, (), [other for other in stated if other != one]) != "no" for one in wrong
    )


def _is_row_count(figure: Figure, of_rows: Sequence[Sequence[Figure]]) -> bool:
    counts = (one for group in of_rows for one in group if isinstance(one, Number) and one.is_count)
    if not isinstance(figure, Number) or not figure.unit or measured(figure.unit):
        return False
    return any(figure.values == one.values for one in counts)


def _is_result(figure: Figure, sentence: str, evidence: Evidence, of_rows: Sequence[Sequence[Figure]]) -> bool:
    """Returns True if a figure that a source has of something else is one that the sentence works out from what it
    shows, or from the rows that it names."""
    given = [one for one in figures(sentence) if one != figure and is_in(one, sentence, evidence)]
    return is_computing(figure, sentence) and derived(figure, sentence, [(), *of_rows], given) == "surely"


def _may_be_result(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    """… or, as it says that it computes, from any figures of the sources."""
    return is_computing(figure, sentence) and _derived(figure, sentence, evidence, (), ()) == "surely"


def _derived(
    figure: Figure,
    sentence: str,
    evidence: Evidence,
    of_rows: Sequence[Sequence[Figure]],
    given: Sequence[Figure],
) -> Derivation:
    """From the figures that a sentence shows, then those of the rows, the sentence and the clauses that it speaks of,
    then all."""
    if is_computing(figure, sentence) and any(len(group) > 1 for group in of_rows[:1]):
        # 硕士和本科的人数合计35: it names what it worked with; what follows from other cells may be a coincidence.
        found = derived(figure, sentence, [(), *of_rows], given, hedge_of(figure, sentence))
        rest = derived(figure, sentence, [evidence.figures], given, hedge_of(figure, sentence), evidence.text)
        is_shown = derived(figure, sentence, [()], given, hedge_of(figure, sentence)) == "surely"
        is_sure = found == "surely" and (is_shown or is_of_rows(figure, sentence, of_rows))
        return found if is_sure or rest == "no" else "possibly"
    own = set(grams(sentence))
    companions = {word for one in given for word in words_of(one)}
    pools: list[Sequence[Figure]] = [(), *of_rows]
    pools += [
        figures(max(_SENTENCES.split(text), key=lambda part: len(own & set(grams(part))))) for text in evidence.texts
    ]
    for places in evidence.occurrences:
        pools.append(
            [one.figure for one in places if not own.isdisjoint(one.clause) or not companions.isdisjoint(one.words)]
        )
    pools.append(evidence.figures)
    return derived(figure, sentence, pools, given, hedge_of(figure, sentence), evidence.text)


def is_instead(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    """Returns True if a source has another figure in the same words: it is not worked out, but wrong."""
    places = [place for places in evidence.prose for place in places if is_rival(figure, place.figure)]
    computes = is_computing(figure, sentence)
    for one in (found for found in occurrences(sentence) if found.figure == figure):
        near = {word for word, level in one.words.items() if level == ITEM}
        for place in places:
            if len(one.clause) >= FEWEST and len(one.clause & place.clause) >= ALIKE * len(one.clause):
                return True
            if one.clause and not computes and one.clause == one.words.keys() and one.clause <= place.clause:
                return True  # 急诊：75%, a name and its figure
            shared = len(one.words.keys() & place.words.keys())
            is_copied = len(one.words) >= 2 * FEWEST and shared >= COPIED * len(one.words)
            name = {word for word, level in place.words.items() if level == ITEM}
            is_named = len(name) >= FEWEST - 1 and name <= near  # 首付款
            if (one.clause and one.clause == place.clause) or ((is_named or is_copied) and not computes):
                return True
    return False


def _misplaced(sentence: str, evidence: Evidence, query: str) -> list[Figure]:
    """Those that every text which has them has for something else."""
    wrong: list[Figure] = []
    right: set[Figure] = set()
    for text, places in zip(evidence.texts, evidence.prose, strict=True):
        misled = list(misplaced(sentence, places, query, " ".join(evidence.names)))
        alone = Evidence((text,), evidence.names)
        cells = Evidence.of("\n".join(lines) for lines in tables(text))
        right.update(
            figure for figure in figures(sentence) if is_in(figure, sentence, cells if figure in misled else alone)
        )
        wrong += misled
    found = [figure for figure in dict.fromkeys(wrong) if figure not in right]
    everywhere = [place for places in evidence.prose for place in places]
    return found or (list(misplaced(sentence, everywhere, query)) if len(evidence.texts) > 1 else [])


def _is_rounded(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    """约1400万人 for 1361万人, where no other figure of the source is nearer to what the sentence speaks of."""
    hedge = hedge_of(figure, sentence)
    if hedge is None:
        return False
    one = next((one for one in occurrences(sentence) if one.figure == figure), None)
    return one is not None and any(_rounds_here(one, hedge, places, evidence.plain) for places in evidence.occurrences)


def _rounds_here(one: Occurrence, hedge: Hedge, places: Sequence[Occurrence], plain: str) -> bool:
    """Nobody rounds what a source gives as a limit: 60℃以上."""
    own = [
        place
        for place in places
        if is_rounded(one.figure, hedge, place.figure)
        and not re.search(rf"(?<![\d.]){re.escape(place.figure.written)}以[上下内]", plain)
    ]
    rivals = [place for place in places if is_rival(one.figure, place.figure) and place not in own]
    return bool(own) and not is_of_another(one, own, rivals)


def is_in(figure: Figure, sentence: str, evidence: Evidence) -> bool:
    if not isinstance(figure, Clock) and _verbatim(figure.written, evidence.plain):
        return True
    if isinstance(figure, Day):
        return has_day(figure, evidence)
    if isinstance(figure, Clock):
        return any(is_same(figure, one) for one in evidence.figures)
    if isinstance(figure, Share):
        return any(value in evidence.shares or value in evidence.bare for value in figure.values)
    if isinstance(figure, Number) and not figure.unit and evidence.shares.intersection(_as_shares(figure)):
        return True
    if isinstance(figure, Code):
        return _has_code(figure, sentence, evidence)
    if figure.digits.startswith("0") and figure.digits.isdigit() and len(figure.digits) > 1:  # 007 is no 7
        return False
    if any(_is_amount(figure, number) or _is_cut(figure, number) for number in evidence.numbers):
        return True
    if figure.unit in _SECTIONS and _verbatim(figure.digits, evidence.plain):  # 见3.5节: the number of a heading
        return True
    if not figure.unit and figure.digits and any(figure.digits == number.digits for number in evidence.numbers):
        return True  # the unit is in the head of the column
    is_rate = _is_rate(figure) or (figure.values[0] == 1 and _is_per(figure, sentence))
    if is_rate and re.search(f"(?:[/／每按]|每个|一个)(?:{figure.unit})", evidence.plain):
        return True  # 免费停车（小时/月） is what may be had 每月
    if _is_decade(figure, sentence, evidence):
        return True
    if any(_is_part_of_date(figure.unit, value, evidence) for value in figure.values):
        return True
    if figure.digits and Decimal(figure.digits) in evidence.bare and figure.values[-1] != Decimal(figure.digits):
        return any(scale in figure.written for scale in evidence.scales)
    return is_counted(figure, sentence, evidence.text, evidence.numbers)


def _has_code(code: Code, sentence: str, evidence: Evidence) -> bool:
    """A0 is not in 300A05."""
    if re.search(rf"{DENIES_CODE}\s?{re.escape(code.written)}", fold(sentence)):  # the list has no E5
        return True
    written = r"[\s/-]?".join(map(re.escape, code.plain))
    return re.search(rf"(?<![a-z0-9]){written}(?![a-z0-9])", fold(evidence.text)) is not None


def _is_rate(figure: Figure) -> bool:
    """每小时 says how another figure is counted."""
    return isinstance(figure, Number) and figure.written.startswith("每")


def _is_per(figure: Number, sentence: str) -> bool:
    """一吨35元, 一年缴费12000元: it tells how the figure after it is counted."""
    clause = clause_of(figure, fold(sentence))
    before, _, after = clause.partition(figure.written)
    is_there = bool(measured(figure.unit)) and not before.endswith("第") and not re.match("[以之]?[内后前]", after)
    return is_there and bool(figures(after))


def _as_shares(figure: Number) -> tuple[Decimal, ...]:
    """0.1 or 10, below a head that says %."""
    return (*figure.values, *(value / 100 for value in figure.values))


def _is_amount(figure: Number, known: Number) -> bool:
    """Equal in value; 第八条 is no 8个月, and no 8个."""
    return not _is_ordinal_of_other(known, figure) and same_amount(figure, known)


def _is_ordinal_of_other(known: Number, figure: Number) -> bool:
    is_ordinal = known.written.startswith("第") and not figure.written.startswith("第")
    return is_ordinal and bool(figure.unit) and not known.written.endswith(figure.unit)


def _is_cut(figure: Number, known: Number) -> bool:
    """178.03万元 for 1,780,263.24: rounded to the decimals that are written, without a word."""
    written = re.match(r"\d+\.(\d+)", figure.digits)
    if written is None or measured(known.unit) not in ("", measured(figure.unit)):
        return False
    scale = figure.values[-1] / Decimal(figure.digits) if Decimal(figure.digits) else Decimal(1)
    step = amount(scale.scaleb(-len(written[1])), figure.unit)
    wanted = amount(figure.values[-1], figure.unit)
    return any(2 * abs(amount(value, known.unit) - wanted) <= step for value in known.values)


def _verbatim(written: str, plain: str) -> bool:
    """Returns True if it is there as it is written, and not within a longer number."""
    bare = re.sub(r"[\s,，]", "", written)
    if not bare:
        return False
    ahead = r"(?![\d.％%‰万亿])" if bare[-1].isdigit() else ""
    return re.search(rf"(?<![\d.]){re.escape(bare)}{ahead}", plain) is not None


def has_day(day: Day, evidence: Evidence) -> bool:
    if day.month is None and day.day is None:
        return day.year in evidence.years
    if day.month is None and day.year is None and _lasts(day, evidence):
        return True
    return any(_covers(known, day, evidence.years) for known in evidence.days)


def is_undated(figure: Figure, evidence: Evidence) -> bool:
    """Returns True if a year may be that of a source which names none, and has the month and the day."""
    if not isinstance(figure, Day) or figure.year is None:
        return False
    for text in evidence.texts:
        alone = Evidence.of((text,))
        has_rest = figure.month is None or has_day(replace(figure, year=None), alone)
        if has_rest and not any(day.year for day in alone.days):
            return True
    return False


def _lasts(day: Day, evidence: Evidence) -> bool:
    """十五日 may be a date or a time of fifteen days."""
    return any(number.unit in ("日", "天") and day.day in number.values for number in evidence.numbers)


def _covers(known: Day, day: Day, years: frozenset[int]) -> bool:
    """2018-01-15 holds 2018年1月 and 1月15日; 1月15日 holds 2018年1月15日 where 2018 is named beside it."""
    if day.month is not None and known.month != day.month:
        return False
    if day.day is not None and known.day != day.day:
        return False
    return day.year is None or known.year == day.year or (known.year is None and day.year in years)


def _is_decade(figure: Number, sentence: str, evidence: Evidence) -> bool:
    """九十年代, where the text has 1993年."""
    value = figure.values[0]
    is_decade = figure.unit == "年" and value < 100 and f"{figure.written}代" in fold(sentence)
    return is_decade and any(year // 10 % 10 == value / 10 for year in evidence.years)


def _is_part_of_date(unit: str, value: Decimal, evidence: Evidence) -> bool:
    """2018 of 2018年, where it is alone; 15 of 15天, where the text has 15日."""
    if unit == "":
        return any(value in (day.year, day.month, day.day) for day in evidence.days)
    if unit == "年":
        return any(value == day.year for day in evidence.days)
    return unit in ("日", "天") and any(value == day.day for day in evidence.days if day.month is None)
