"""A question as the sentences of documents are scored by it: its terms, the figure it asks for, the times it names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from qianxun.question.colloquial import parted, situation, standard, without_question_words, word_edges
from qianxun.question.table_query import FILLER
from qianxun.question.words import cue, entries, joined, lay_words, listed
from qianxun.text.chinese import STOP_WORDS, fold, plain_analyser
from qianxun.text.figures import Clock, Code, Day, Figure, Number, Share, figures, without_gaps
from qianxun.text.synonyms import shipped

AnswerKind: TypeAlias = Literal["fact", "explain", "comparison", "summary"]
FigureKind: TypeAlias = Literal["time", "number"]
Measure: TypeAlias = Literal["share", "money", "date", "time", "people", "age", "size"]

_MEASURES: Final[Mapping[Measure, str]] = entries("label.words")
_BY_QUESTION_WORD: Final[tuple[Measure, ...]] = ("share", "money", "age", "time", "size", "people")
_LABEL_AT_END: Final = re.compile(  # the label that is asked for, not one that is only spoken of: 费用 of 费用由谁承担
    f"(?:{'|'.join(f'(?P<{measure}>{words})' for measure, words in _MEASURES.items())})"
    "(?:大概|大约|一般|通常|最高|最低)?(?:会?是|为|达到?|有|在|要)?"
    "(?:多少|几|什么时[候间]|何时|哪一?[天年月日]|多[大高长久重远]|多长时间)?[元钱岁人天]?[呢啊]?[\\s?？。]*$"
)
_SHORT_FORM: Final = re.compile("(?:能|可以?|要|会|得|该|需)?(.)")
_ANSWER_NAME: Final = re.compile("[^,，。；;？?!！、:：的了在于是为和与及]{1,6}")
_ENTRY: Final = "lay"  # beside the parts of speech: an entry of `lay_words`
_LABEL_SHARE: Final = 0.3
_VERB_SHARE: Final = 0.6  # a text often says what is done in another word: 丢了 and 遗失
_SLIGHT_SHARE: Final = 0.3  # of words that are seldom repeated: 最多, 每个, 打
_PHRASE_SHARE: Final = 0.5  # of words side by side: 总 and 负债 are not yet 总负债
_LONGEST_PHRASE: Final = 4  # words
_VERBAL: Final = frozenset(["v", "vd", "vi", "p", "d"])  # parts of speech
_SLIGHT: Final = frozenset(["a", "ad", "c", "d", "df", "f", "m", "mq", "p", "q", "r", "u", "uj", "ul", "y", "z", "zg"])
_OF_SIDES: Final = ("comparison", "summary")
_QUALITIES: Final = frozenset(["a", "ad", "d"])
_PROPER: Final = ("nr", "ns", "nt", "nz")  # parts of speech
_CODE: Final = re.compile(r"(?=.*[a-z])(?=.*\d)[a-z\d][a-z\d_./\-]*")  # ht-009
_CUT_CODE: Final = re.compile(r"[a-z\d][a-z\d_./\-]{0,40}$")
_IN_CODE: Final = re.compile(r"(?<=[a-z\d][-_./])[a-z\d]{1,40}|(?<![a-z\d])[a-z\d]{1,40}(?=[-_./]\d)")
_CODE_GOES_ON: Final = r"[-_./]?[a-z\d]"
_FOR_ONE: Final = re.compile("一(?:[晚夜场趟张件台套份位天日周年人]|个人|小时)")  # a document has 每晚
_WITHIN: Final = re.compile("[^\\W\\d公海英千万百哪那这邻乡故村城家心手眼]里")  # 卡里, 室里: a guess, or no name
_MEASURING: Final = re.compile("(?:总?[量额数率值]|罪)$")
_SHORTEST_NAME: Final = 3
_QUESTIONS: Final = 64  # whose words are remembered
_PARTS: Final = re.compile(r"[\s()（）《》〈〉【】\[\]_\-—:：,，、·|/]+")
_PLACE: Final = re.compile("^[^\\W\\d_]{2,5}?[省市州](?=[^\\W\\d_]{2,8}[区县市])")
_RUNS_ON: Final = re.compile("[^\\W_的和与及在对于据合较比从由被把向为是]")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question. ``share``: its worth where it is found; a label is named in a text, not stated.
    ``alike``: how else a text may write it; ``formal``: how a document writes what is said in everyday words.
    ``measure``: of the figure whose label it is, or ends in; ``bare`` is the word without that label."""

    text: str
    share: float = 1.0
    alike: tuple[str, ...] = ()
    measure: Measure | None = None
    bare: str = ""
    formal: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # of a phrase, its words

    @property
    def is_slight(self) -> bool:
        return self.share <= _SLIGHT_SHARE

    @property
    def is_main(self) -> bool:
        """A thing that the question is about, or what is done with it."""
        return self.share >= _VERB_SHARE

    @property
    def is_verb(self) -> bool:
        return self.share == _VERB_SHARE

    @property
    def is_lay(self) -> bool:
        """Documents write it in other words, and not in this one."""
        return bool(self.formal) and self.text not in self.formal


@dataclass(frozen=True, slots=True)
class EvidenceQuery:
    """``terms`` are the words beside names of documents and times."""

    text: str
    folded: str
    kind: AnswerKind
    needs: frozenset[FigureKind]
    terms: tuple[Term, ...]
    runs: tuple[tuple[str, ...], ...]  # the same, neighbours together, 的 among them
    proper: frozenset[str]  # names of people, places, firms, or like HT-009
    days: tuple[Day, ...]
    figures: frozenset[str]
    names: tuple[str, ...] = ()  # of documents
    others: Mapping[str, str] = field(default_factory=dict)  # documents about something else (`other_documents`)
    is_why: bool = False
    is_list: bool = False  # it asks for every member: 有哪些
    is_computed: bool = False  # it asks for a sum or a difference: 一共, 相差
    unit: str = ""  # 天 of 多少天
    label: tuple[str, Measure] | None = None  # of the figure that it asks for: 比例
    attribute: str = ""  # 牌子 of 是什么牌子的


def evidence_query(text: str, doc_names: Iterable[str] = (), people: Sequence[str] = ()) -> EvidenceQuery:
    """``people``: names in it that are words whatever a segmenter makes of them."""
    folded = without_gaps(fold(text))
    doc_names, people = tuple(doc_names), tuple(people)
    names = named_documents(folded, doc_names)
    others = {} if names else other_documents(folded, doc_names)
    folded = standard(folded)
    stated = figures(text)
    kind = answer_kind(folded)
    days = tuple(figure for figure in stated if isinstance(figure, Day))
    rest = compared_apart(folded)
    for part in (*names, *(day.written for day in days)):
        rest = re.sub(f"{re.escape(part)}(?!{_CODE_GOES_ON})" if part[-1:].isascii() else re.escape(part), "，", rest)
    proper = _proper(rest) | {name for name in people if name in rest}
    return EvidenceQuery(
        text,
        folded,
        kind,
        figure_kinds(folded),
        _terms(rest, people) if kind in _OF_SIDES else _in_situation(_terms(rest, people), folded, proper),
        _runs(rest, people),
        proper,
        days,
        frozenset(figure.written for figure in stated),
        names,
        others,
        kind == "explain" and bool(cue("explain.why").search(folded)),
        kind == "fact" and bool(cue("kind.list").search(folded)),
        bool(cue("aggregate.operation").search(folded)),
        unit.group(1) if (unit := cue("number.unit").search(folded)) else "",
        figure_label(folded),
        attribute.group("of") if (attribute := cue("which.attribute").search(folded)) else "",
    )


def compared_apart(folded: str) -> str:
    """The question with how it compares set apart, that a segmenter joins with what is compared: 肠镜 and 贵多少."""
    return cue("number.more_than").sub(r"，\g<0>", folded) if "比" in folded else folded


def answer_kind(folded: str) -> AnswerKind:
    if cue("summary.evidence").search(folded):
        return "summary"
    if cue("comparison.evidence").search(folded):
        return "comparison"
    return "explain" if cue("explain.evidence").search(folded) else "fact"


# ── figures ──────────────────────────────────────────────────────────────────────────────────────


def figure_kinds(folded: str) -> frozenset[FigureKind]:
    """The kinds of figures that are asked for, if any: none where it is asked whether something is so."""
    if cue("whether.evidence").search(folded) and not cue("whether.figure").search(folded):
        return frozenset()
    time = cue("when.evidence")
    found: set[FigureKind] = {"time"} if time.search(folded) else set()
    return frozenset(found | {"number"} if cue("number.evidence").search(time.sub("，", folded)) else found)


def may_answer(figure: Figure, query: EvidenceQuery) -> bool:
    """Returns True if a figure may be the one that is asked for; not if the question has it itself, nor the number of
    an article."""
    if figure.written in query.figures or figure.written.startswith("第"):
        return False
    if isinstance(figure, Clock):
        return "time" in query.needs
    if "time" in query.needs and (isinstance(figure, Day) or (isinstance(figure, Number) and _is_time(figure))):
        return True
    if isinstance(figure, Code):
        return "number" in query.needs and bool(cue("number.code").search(query.folded))
    return "number" in query.needs and isinstance(figure, Number | Share)


def _is_time(figure: Number) -> bool:
    """Three hours, or a year by itself: built in 1889."""
    is_year = not figure.unit and figure.digits.isdigit() and len(figure.digits) == 4
    return is_year or figure.unit in listed("when.units")


def figure_label(folded: str) -> tuple[str, Measure] | None:
    """The label of the figure that a question asks for: 比例 of 住院报销比例是多少; or its question word: 多少钱."""
    found = _LABEL_AT_END.search(folded)
    if found is None:
        named = ((cue(f"label.question.{measure}").search(folded), measure) for measure in _BY_QUESTION_WORD)
        return next(((match.group(), measure) for match, measure in named if match), None)
    return next((words, measure) for measure in _MEASURES if (words := found.group(measure)))


def wanted_measure(query: EvidenceQuery) -> Measure | None:
    """What the figure measures that a question asks for: by its label, or by how the noun before it ends."""
    if query.label is not None:
        return query.label[1]
    if cue("label.ending.money").search(query.folded):
        return "money"
    return "share" if cue("label.ending.share").search(query.folded) else None


def is_of(measure: Measure, figure: Figure) -> bool:
    if measure == "share":
        return isinstance(figure, Share)
    if isinstance(figure, Day | Clock):
        return measure in ("date", "time")
    return isinstance(figure, Number) and bool(re.fullmatch(joined(f"label.units.{measure}"), figure.unit))


def is_change(text: str) -> bool:
    """Returns True if a figure here is how something changed, not how much it is: 同比增长 12% is no 占比."""
    return bool(cue("number.change").search(text))


# ── names of documents ───────────────────────────────────────────────────────────────────────────


def named_documents(folded: str, doc_names: Iterable[str]) -> tuple[str, ...]:
    """The names of documents in a question, as it writes them, in its order: whole, or how they begin, or how a part of
    them does: 王强 of 刑事判决书（王强盗窃案）."""
    whole = dict.fromkeys(map(_bare, doc_names))
    whole |= dict.fromkeys(_PLACE.sub("", name) for name in whole)  # 玉屏区人民法院 of 临川市玉屏区人民法院
    found = {start for name in whole if _is_name(start := _whole_start_in(name, folded), name)}
    parts = [part for name in whole if len(split := _PARTS.split(name)) > 1 for part in split if part]
    in_codes = set(_IN_CODE.findall(folded))  # 2024 of HT-2024-009 is no name of HT-2024-008
    found |= {start for part in parts if _is_part(start := _whole_start_in(part, folded), part)} - in_codes
    ordered = sorted(found, key=lambda name: (-len(name), name))
    own = [one for at, one in enumerate(ordered) if not any(one in other for other in ordered[:at])]
    return tuple(sorted(own, key=folded.index))


def _is_name(start: str, name: str) -> bool:
    if len(start) < 2 or start in listed("filler.evidence"):
        return False
    return start == name or len(start) >= max(_SHORTEST_NAME, (len(name) + 2) // 3)


def _is_part(start: str, part: str) -> bool:
    return _is_name(start, part) or (len(start) > 1 and start == plain_analyser().segments(part)[0])


def other_documents(folded: str, doc_names: Iterable[str]) -> dict[str, str]:
    """Documents whose name ends like what the question is about, and begins otherwise, and what they would have to
    mention to be about it: 创新购物中心 is not in a report of 顶级购物中心, unless its text names it."""
    found = {}
    for name in dict.fromkeys(doc_names):
        end = _start_in(_bare(name)[::-1], folded[::-1])[::-1]
        at = folded.find(end) if len(end) >= _SHORTEST_NAME else 0
        if at > 1 and _RUNS_ON.match(folded[at - 1]) and _RUNS_ON.match(folded[at - 2]):
            found[name] = folded[at - 2 : at + len(end)]
    return found


def _bare(name: str) -> str:
    return re.sub(r"\.[a-z]{2,5}$", "", without_gaps(fold(name)).strip())


def _whole_start_in(name: str, text: str) -> str:
    """`_start_in`, without the beginning of a code that goes on otherwise: AX-30 is not named by AX-50."""
    start = _start_in(name, text)
    is_cut = start != name and re.match(_CODE_GOES_ON, name[len(start) :]) is not None
    return _CUT_CODE.sub("", start).strip() if is_cut else start


def _start_in(name: str, text: str) -> str:
    """The longest start of a name that is in a text."""
    end = 0
    while end < len(name) and name[: end + 1] in text:
        end += 1
    return name[:end].strip()


# ── terms ────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=_QUESTIONS)
def _terms(rest: str, people: tuple[str, ...]) -> tuple[Term, ...]:
    """Cached, as what else comes of the question alone: it is read for the passages of each of its wordings."""
    labels = {
        _answer_noun(name.group())
        for found in cue("which.labelled").finditer(rest)
        if (name := _ANSWER_NAME.match(rest, found.end()))
    }
    shares: dict[str, float] = {}
    parts: dict[str, tuple[str, ...]] = {}
    formal: dict[str, tuple[str, ...]] = {}
    run: list[str] = []
    for segment, tag, entry in (*_tagged_by_entry(rest, people), ("", "", "")):
        word = segment.strip()
        share = 0.0
        if tag == _ENTRY or _is_term(word):
            formal[word] = tuple(dict.fromkeys((*formal.get(word, ()), *lay_words().get(entry, ()))))
            is_label = word in listed("filler.seldom_stated") or any(
                label.startswith(word) or label.endswith(word) for label in labels
            )
            share = _LABEL_SHARE if is_label else _share(word, tag)
            shares[word] = share
        if share >= _VERB_SHARE and _is_written(word, tag):
            run.append(word)
            continue
        if 1 < len(run) <= _LONGEST_PHRASE:
            shares["".join(run)] = _PHRASE_SHARE
            parts["".join(run)] = tuple(run)
        run = []
    return tuple(_term(word, share, rest, formal.get(word, ()), parts.get(word, ())) for word, share in shares.items())


def _is_written(word: str, tag: str) -> bool:
    """Returns True if a document may have a word beside the same neighbours: not 看着 of 座椅看着."""
    if tag == _ENTRY:
        return False
    return not (tag.startswith("v") and cue("spoken.complement").fullmatch(word))


def _in_situation(terms: Sequence[Term], folded: str, proper: Collection[str]) -> tuple[Term, ...]:
    """The terms, a step lower where they only say how things stand, and what is asked has a subject of its own: of
    我工作8年了，年假几天 a document may have 满8年, or a table of years."""
    stated, questions = situation(folded)
    if not stated or not any(_is_subject(term) and term.text in questions for term in terms):
        return tuple(terms)
    lower = {1.0: _VERB_SHARE, _VERB_SHARE: _SLIGHT_SHARE}
    return tuple(
        replace(term, share=lower.get(term.share, term.share))
        if term.text in stated and term.text not in questions and term.text not in proper
        else term
        for term in terms
    )


def _is_subject(term: Term) -> bool:
    return term.share == 1.0


def _share(word: str, tag: str) -> float:
    """What a word is worth: names of things most, then what is done with them, then how, when and how much."""
    if tag == _ENTRY:
        share = max(_share(part, own) for part, own in plain_analyser().tagged(without_question_words(word)))
        is_label = share == 1.0 and cue("which.evidence").search(word)  # 哪个部门: stated, not named
        return _LABEL_SHARE if is_label else share
    if word in listed("filler.slight") or _FOR_ONE.fullmatch(word):
        return _SLIGHT_SHARE
    if tag in _QUALITIES and len(word) > 1 and (word in shipped() or word in lay_words()):
        return _VERB_SHARE  # the segmenter has 合同 as an adjective, 到期 as an adverb
    if tag in _SLIGHT or (len(word) == 1 and not tag.startswith("n")):
        return _SLIGHT_SHARE
    return _VERB_SHARE if tag in ("v", "vd", "vi") else 1.0


@lru_cache(maxsize=_QUESTIONS)
def _runs(rest: str, people: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    found: list[list[str]] = [[]]
    for segment, _ in _tagged(rest, people):
        word = segment.strip()
        if _is_term(word) or (word == "的" and found[-1]):
            found[-1].append(word)
        elif found[-1]:
            found.append([])
    return tuple(tuple(run) for run in found if run)


@lru_cache(maxsize=_QUESTIONS)
def _proper(rest: str) -> frozenset[str]:
    tagged = plain_analyser().tagged(without_question_words(rest))
    return frozenset(word for word, tag in tagged if _is_proper(word, tag) or _CODE.fullmatch(word))


def _is_proper(word: str, tag: str) -> bool:
    """The segmenter has many common words as names: 东西, 过敏, 老公. What has synonyms is none."""
    return tag.startswith(_PROPER) and word not in shipped() and word not in lay_words()


def _term(word: str, share: float, rest: str, of_entry: Iterable[str], parts: tuple[str, ...]) -> Term:
    """``of_entry``: how documents write the lay entry that the word is of."""
    alike, label = other_forms(word, rest), figure_label(rest)
    formal = tuple(dict.fromkeys((*lay_words().get(word, ()), *of_entry)))
    if label is None or not word.endswith(label[0]):
        return Term(word, share, alike, formal=formal, parts=parts)
    return Term(word, share, alike, label[1], word.removesuffix(label[0]), formal, parts)


def other_forms(word: str, folded: str) -> tuple[str, ...]:
    """How a text writes what a question abbreviates: 报销 for 能报; and for what may be done, that it may not be."""
    short = _SHORT_FORM.fullmatch(word)
    if short:
        return tuple(entries("label.full").get(short.group(1), "").split())
    return tuple(entries("label.forbidden").get(word, "").split()) if cue("whether.allowed").search(folded) else ()


def _answer_noun(label: str) -> str:
    """What the answer is called, without what is done with it: 部门 of 哪个部门开具."""
    parts = plain_analyser().tagged(label)
    while len(parts) > 1 and parts[-1][1] in _VERBAL:
        parts.pop()
    return "".join(part for part, _ in parts)


def _tagged(text: str, people: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The segments around the names of people, and these."""
    for piece in _around(people, text):
        if piece in people:
            yield piece, _PROPER[0]
        else:
            yield from _tagged_words(without_question_words(piece))


def _tagged_by_entry(text: str, people: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The same, each with the entry of `lay_words` that it is of: 打官司 and 钱 of 打官司的钱. A document may have the
    words after all; where none of them could be in one, the entry is as a word: 谁管."""
    for piece in _around(people, text):
        for part, is_entry in [(piece, False)] if piece in people else parted(piece):
            if not is_entry:
                tagged = [(part, _PROPER[0])] if part in people else _tagged_words(part)
                yield from ((word, tag, "") for word, tag in tagged)
                continue
            words = [(word, tag) for word, tag in _tagged_words(without_question_words(part)) if _is_term(word)]
            yield from ((word, tag, part) for word, tag in words or [(part, _ENTRY)])


def _around(people: Sequence[str], text: str) -> list[str]:
    return re.split(f"({'|'.join(map(re.escape, people))})", text) if people else [text]


@lru_cache(maxsize=_QUESTIONS)
def _tagged_words(text: str) -> tuple[tuple[str, str], ...]:
    """Segments with their parts of speech; 年 and 假 are 年假.

    What the segmenter only guesses to be a word (假能 of 年假能留到) is taken apart, and joined to what is before it
    where that makes a word.
    """
    analyser = plain_analyser()
    found: list[tuple[str, str]] = []
    for segment, tag in _with_figures(text):
        guessed = _guessed_parts(segment, tag)
        is_guess = len(guessed) > 1
        for part in guessed:
            before = found[-1][0] if found else ""
            is_joined = (
                len(part) == 1 and part.isalpha() and part not in STOP_WORDS | listed("filler.evidence") | {"里"}
            )
            if is_joined and (
                before in ("年", "月", "日") or (is_guess and before.isalpha() and analyser.has_word(before + part))
            ):
                found[-1] = (before + part, "n")
            else:
                found.append((part, "v" if is_guess else tag))
    return tuple(found)


def _with_figures(text: str) -> Iterator[tuple[str, str]]:
    """The segments of a text, a figure and its unit as one: 一小时."""
    written = {one.written for one in figures(text) if isinstance(one, Number) and len(one.written) > 1}
    edges, at = word_edges(text), 0
    pattern = "|".join(sorted(map(re.escape, written), key=len, reverse=True))
    for found in re.finditer(pattern, text) if written else ():
        if found.start() >= at and edges.may_be(*found.span()):
            yield from plain_analyser().tagged(text[at : found.start()])
            yield found.group(), "m"
            at = found.end()
    yield from plain_analyser().tagged(text[at:])


def _guessed_parts(segment: str, tag: str) -> Sequence[str]:
    """The parts of what is no word of the dictionary, and is one word with a character of grammar: 药, 吃 and 错."""
    is_word = plain_analyser().has_word(segment) or segment in lay_words()
    if _WITHIN.fullmatch(segment):
        return tuple(segment)
    if segment.isascii() or is_word or not 2 <= len(segment) <= _LONGEST_PHRASE:
        return (segment,)
    if len(segment) == 2:
        is_guess = not tag.startswith(_PROPER) and any(mark in listed("filler.grammar") for mark in segment)
        return tuple(segment) if is_guess else (segment,)
    if segment[:2] in listed("filler.slight"):
        return segment[:2], segment[2:]
    return tuple(part for part in re.split(f"([{joined('filler.modal')}])", segment) if part)


def _is_term(word: str) -> bool:
    if not any(mark.isalnum() for mark in word) or word in STOP_WORDS or word in listed("filler.evidence"):
        return False
    return not any(pattern.fullmatch(word) for pattern in (FILLER, cue("which.evidence"), cue("aggregate.operation")))


def stem(word: str) -> str:
    """消耗 of 消耗量, 投资 of 投资总额, 盗窃 of 盗窃罪: a text has it without what it is measured by or called."""
    bare = _MEASURING.sub("", word)
    return bare if len(bare) >= 2 else word
