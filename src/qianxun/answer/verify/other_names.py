"""What a source says of somebody else: 李明是组长, where it says so of 王芳, and of 李明 something else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from qianxun.answer.verify.table_rows import without_tables
from qianxun.core.system.cache import cached_texts
from qianxun.text.chinese import fold, grams, plain_analyser
from qianxun.text.figures import Figure, figures, placed, prepared

NEAR: Final = 0.6  # of the pairs of characters of a claim are in what the source says of another
NEAR_BACK: Final = 0.5  # … and of the source's in the claim
CONTAINED: Final = 0.9  # … of a clause of the source, where the claim says more
FEWEST: Final = 2  # pairs that make a claim one that can be compared
FEW: Final = 4  # … and below which all of them must be there
SOURCE_CHARACTERS: Final = 20_000
LINE_CHARACTERS: Final = 500  # before a clause or a sentence, in which its subject is looked for
MOST_CLAUSES: Final = 40  # of a sentence
_CLAUSE: Final = re.compile(r"(?:[^，,；;。！？!?\n]|(?<=\d),(?=\d))+")
_SENTENCE: Final = re.compile(r"[^；;。！？!?\n]+")
_LINE: Final = re.compile(r"[^\n]+")
_FIELD: Final = re.compile(r"[ \t\u3000](?=[^\s：:，,。；;]{2,10}[：:])")  # 姓名：郝建平 性别：男
_PERSON: Final = frozenset(["nr", "nrt", "nrfg"])  # parts of speech
_SURNAMES: Final = frozenset(
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜"
    "范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文"
)
_SENTENCE_END: Final = re.compile(r"[。！？!?\n]")
_SIBLING: Final = 2  # characters
_SIBLINGS: Final = frozenset("nbf")  # parts of speech: nouns, what tells kinds apart, directions
_CODE: Final = re.compile(r"(?<![a-z0-9_])[a-z]{1,4}-?\d{1,6}(?![a-z0-9_])")
_PARTY: Final = re.compile("[\u4e00-\u9fff]某{1,2}[甲乙丙丁\\d]?|[甲乙丙丁]方")
_BODY: Final = re.compile("[\u4e00-\u9fff]{2,10}(?:公司|[部局科处]|中心|委员会|办公室|法院|银行|医院)")
_BODIES: Final = frozenset(["n", "nt", "nz", "ns"])
_LINKS: Final = re.compile("[是为由系的了在于对把被将和与]")  # words between names and what is said of them
_TWO: Final = 2
_PASSIVE: Final = re.compile("[被由受遭和与同跟及、]|之间|双方")  # or two that do it together
_RESPECTIVELY: Final = re.compile("分别[为是达到有]*|依次[为是]*")


@dataclass(frozen=True, slots=True)
class _Statement:
    """A clause or a sentence of a source, and whom it names: itself, or what is before it in its sentence or line."""

    text: str
    pairs: frozenset[str]
    names: frozenset[str]
    is_clause: bool
    is_inferred: bool  # named in its line alone, as one of those that a record is about may be


def of_another_name(sentence: str, sources: tuple[str, ...]) -> str:
    """What the sources say of another than the one that a clause of the sentence names, and not of that one: first of
    people, parties, bodies and codes, then of kinds of things."""
    folded = fold(sentence)
    texts = tuple(fold(without_tables(text[:SOURCE_CHARACTERS])) for text in sources)
    names = names_in(folded).union(*map(names_in, texts))
    kinds = frozenset().union(*map(siblings_in, texts))
    return _otherwise(folded, texts, names, of_whom=True) or _otherwise(folded, texts, kinds, of_whom=False)


def _otherwise(sentence: str, texts: tuple[str, ...], names: frozenset[str], *, of_whom: bool) -> str:
    """``of_whom``: who is named before a clause is meant in it as well."""
    statements = cache(partial(_statements, names))  # of long texts, which nothing else remembers
    subject: frozenset[str] = frozenset()
    for clause in _CLAUSE.findall(sentence)[:MOST_CLAUSES]:
        named, before = _named(clause, names), subject
        subject = frozenset(named) or subject
        if len(named) == _TWO and (other := _reversed(named, clause, map(statements, texts), names)):
            return other
        if len(named) != 1 or not any(named[0] in text for text in texts):
            continue
        for text in texts:
            if other := _misassigned(named[0], clause, text, names):
                return other
        if before and not clause.strip().startswith(named[0]):
            continue  # 丁小海洒下油污，是陶桂英受伤的原因: said of whom the clause before names
        if other := _of_another(named[0], _pairs(clause, names), map(statements, texts), names, of_whom=of_whom):
            return other
    return ""


def _reversed(named: Sequence[str], clause: str, sources: Iterable[Sequence[_Statement]], names: frozenset[str]) -> str:
    """石某击打鲁一鸣, where the source has 鲁一鸣击打石某: who does it comes first, if nothing says otherwise."""
    claim = _pairs(clause, names)
    if len(claim) < FEWEST or _PASSIVE.search(clause):
        return ""
    for statements in sources:
        for statement in statements:
            if not statement.is_clause or _PASSIVE.search(statement.text):
                continue
            there = _named(statement.text, names)
            if there == list(named) and len(claim & statement.pairs) >= NEAR * len(claim):
                return ""
            if there == list(reversed(named)) and len(claim & statement.pairs) >= NEAR * len(claim):
                return statement.text.strip()
    return ""


def _of_another(
    name: str,
    claim: frozenset[str],
    sources: Iterable[Sequence[_Statement]],
    names: frozenset[str],
    *,
    of_whom: bool,
) -> str:
    """Clauses come before the sentence that they are part of: what they say is more exactly of whom they name. In a
    document that speaks of ``name``, what does not say of whom it is may be of that one: a patient's diagnosis, below
    the doctor who made it."""
    rival = ""
    for statements in sources if len(claim) >= FEWEST else ():
        is_mentioned = any(name in statement.text for statement in statements)
        for statement in statements:
            shared = len(claim & statement.pairs)
            near = NEAR if len(claim) >= FEW else 1.0
            is_near = shared >= near * len(claim) and shared >= NEAR_BACK * len(statement.pairs)
            is_part = statement.is_clause and len(statement.pairs) >= FEW and shared >= CONTAINED * len(statement.pairs)
            if not (is_near or is_part or shared >= near * len(claim)):
                continue
            if name in statement.text or name in statement.names:
                if statement.is_clause or not rival:
                    return ""
                continue
            is_of_other = statement.names if of_whom else _has_sibling(name, statement.text, names)
            if (is_near or is_part) and is_of_other and not (of_whom and statement.is_inferred and is_mentioned):
                rival = rival or statement.text.strip()
    return rival


def _has_sibling(name: str, text: str, names: frozenset[str]) -> bool:
    return any(other[-1] == name[-1] and other in text for other in names if other != name)


def _misassigned(name: str, clause: str, source: str, names: frozenset[str]) -> str:
    """甲方、乙方分别出资60万元、40万元: the first figure is not of the second name."""
    stated = figures(clause)
    lines: list[str] = _LINE.findall(source) if stated and name in source else []
    for sentence in lines:
        for found in _RESPECTIVELY.finditer(sentence):
            end = min((at for mark in "。；;" if (at := sentence.find(mark, found.end())) >= 0), default=len(sentence))
            values = figures(sentence[found.end() : end])
            before = _named(sentence[: found.start()], names)[-len(values) :]
            if len(values) < 2 or len(before) != len(values) or name not in before:
                continue
            own = values[before.index(name)]
            if not _has(stated, own) and any(_has(stated, other) for other in values if other != own):
                return sentence.strip()
    return ""


def _has(stated: Sequence[Figure], figure: Figure) -> bool:
    return any(one.written == figure.written or one == figure for one in stated)


@cached_texts(32)
def _statements(names: frozenset[str], text: str) -> tuple[_Statement, ...]:
    """Every clause, then every sentence of several."""
    found = tuple(_read(_FIELD.sub("\n", fold(text)), names))
    return (
        *(statement for statement in found if statement.is_clause),
        *(statement for statement in found if not statement.is_clause),
    )


def _read(text: str, names: frozenset[str]) -> Iterator[_Statement]:
    for line in _LINE.finditer(text):
        for sentence in _SENTENCE.finditer(line.group()):
            whole, line_before = sentence.group(), line.group()[: sentence.end()][-LINE_CHARACTERS:]
            clauses = list(_CLAUSE.finditer(whole))
            if len(clauses) > 1:
                yield _statement(whole, (whole, line_before), names, is_clause=False)
            for clause in clauses:
                around = (clause.group(), whole[: clause.end()][-LINE_CHARACTERS:], line_before)
                yield _statement(clause.group(), around, names, is_clause=True)


def _statement(text: str, around: Sequence[str], names: frozenset[str], *, is_clause: bool) -> _Statement:
    is_inferred = not any(_named(part, names) for part in around[:-1])
    return _Statement(text, _pairs(text, names), _subjects(around, names), is_clause, is_inferred)


def _subjects(around: Sequence[str], names: frozenset[str]) -> frozenset[str]:
    return next((frozenset(found) for part in around if (found := _named(part, names))), frozenset())


def _pairs(text: str, names: frozenset[str]) -> frozenset[str]:
    """Without names and figures."""
    ready = prepared(text)
    for hit in placed(ready):
        ready = ready[: hit.start] + " " * (hit.end - hit.start) + ready[hit.end :]
    for name in _named(ready, names):
        ready = ready.replace(name, " ")
    ready = _LINKS.sub(" ", ready)
    return frozenset(gram for gram in grams(ready) if len(gram) > 1)


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def _named(text: str, names: frozenset[str]) -> list[str]:
    """The names in a text, in its order; none that is within a longer one."""
    found = sorted((name for name in names if name in text), key=len, reverse=True)
    own = [name for at, name in enumerate(found) if not any(name in longer for longer in found[:at])]
    return sorted(own, key=text.index)


@cached_texts(64)
def names_in(text: str) -> frozenset[str]:
    """Of people, of parties and of bodies, and codes: E3."""
    found = {match.group() for match in _PARTY.finditer(text)} | set(_CODE.findall(text))
    before = ""
    for word, tag in plain_analyser().tagged(text):
        is_body = tag in _BODIES and _BODY.fullmatch(word) is not None
        if len(word) > 1 and (tag in _PERSON or is_body):
            found.add(word)
        elif before in _SURNAMES and len(word) <= 2 and word.isalpha() and text.count(before + word) > 1:
            found.add(before + word)  # a given name that is a word of its own: 王建设
        before = word
    return frozenset(found)


@cached_texts(64)
def siblings_in(text: str) -> frozenset[str]:
    """父亲 and 母亲, 前置 and 后置 of one sentence: of the same head, and told apart by what is before it."""
    found: set[str] = set()
    heads: dict[str, set[str]] = {}
    for word, tag in plain_analyser().tagged(text):
        if _SENTENCE_END.search(word):
            heads.clear()
        elif len(word) == _SIBLING and tag[:1] in _SIBLINGS and word.isalpha() and not word.isascii():
            own = heads.setdefault(word[-1], set())
            own.add(word)
            found |= own if len(own) > 1 else set()
    return frozenset(found)
