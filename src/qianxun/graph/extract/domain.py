"""Types and relations of a domain, by a lexicon: ``medicine.toml``, or a file of one's own in its place.

A word of the lexicon has its type anywhere; an ending (…炎, …胶囊) counts only in a text of the domain, and never for
listed exceptions (毛病, 照片). Two typed names with a cue between them are related as the lexicon says.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, NamedTuple

from qianxun.core.errors import BadSettings
from qianxun.core.graph_types import Mention, Span, Statement
from qianxun.graph.extract.names import GENERIC, NAME, NOT_IN_TERMS, PERSON, PLACE, TERM, Name, is_person
from qianxun.text.chinese import fold

SHIPPED: Final = Path(__file__).with_name("medicine.toml")
_LONGEST_NAME: Final = 20
_MOST_WORDS: Final = 6  # of a name
_AFTER: Final = 12  # characters behind a name in which the second part of a cue may stand
_FARTHEST: Final = 40  # characters between two related names
_KNOWN: Final = 20_000  # types of names that are remembered
_NOUNS: Final = frozenset("nbjlg")  # first letters of tags
_LIST: Final = re.compile(r"\s*(?:[、/]|[和与及或]|以及|等)\s*")
_STOP: Final = re.compile("[，。；、！？：\n]")
_NEGATED: Final = re.compile(r"(?:不|无|未|非|没有|勿|别|缺乏|缺少)[^，,。；;：]{0,3}$")
_CLAUSE_END: Final = re.compile("[，,。；;]")
_BRACKETS: Final = re.compile(r"[（(][^（）()]*[）)]$")


class Cue(NamedTuple):
    before: str  # between the two names
    after: str  # behind the second


@dataclass(frozen=True, slots=True)
class Rule:
    """A relation between typed names, and its cues in the order of the text: source first, or target first."""

    name: str
    sources: frozenset[str]
    targets: frozenset[str]
    cues: tuple[Cue, ...]
    reversed_cues: tuple[Cue, ...]


class _Group(NamedTuple):
    """Names of one type in a list: 多饮、多尿和多食."""

    type: str
    names: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Domain:
    """A lexicon, read. ``version`` changes with it."""

    version: str
    context: frozenset[str]
    words: Mapping[str, str]  # → type, anywhere
    words_in_context: Mapping[str, str]
    endings: Mapping[str, str]
    exceptions: frozenset[str]
    breaks: frozenset[str]  # words that are no part of a name
    inside: frozenset[str]
    stems: re.Pattern[str] | None
    rules: tuple[Rule, ...]
    related_types: frozenset[str]  # that have rules
    lengths: Mapping[str, tuple[int, ...]]  # the first two characters of words → their lengths, longest first
    _known: dict[str, str] = field(default_factory=dict)  # name → its type in context

    def is_in(self, text: str, words: Iterable[str]) -> bool:
        """Whether a text is of the domain, by what it has in it or by one of its words or names."""
        return not self.words.keys().isdisjoint(words) or any(word in text for word in self.context)

    def type_of(self, name: str, in_context: bool) -> str:
        """The type of a name; "" if the lexicon has none for it."""
        folded = fold(name)
        if found := self.words.get(folded):
            return found
        if not in_context:
            return ""
        found = self._known.get(folded)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[folded] = self._type_in_context(_BRACKETS.sub("", folded).strip())
        return found

    def _type_in_context(self, name: str) -> str:
        if found := self.words.get(name) or self.words_in_context.get(name):
            return found
        if not 2 <= len(name) <= _LONGEST_NAME or _STOP.search(name) or "的" in name:
            return ""
        tails = [name[-size:] for size in range(len(name), 0, -1)]
        if not self.exceptions.isdisjoint(tails):
            return ""
        found_by = (self.words.get(tail) or self.endings.get(tail) for tail in tails[1:])
        return next(filter(None, found_by), "")

    # ── names ────────────────────────────────────────────────────────────────────────────────────

    def names(self, folded: str, tagged: Sequence[tuple[str, str]]) -> list[Name]:
        """The names in a tagged text of the domain; of two that overlap the first counts."""
        bounds = [0]
        for word, _ in tagged:
            bounds.append(bounds[-1] + len(word))
        found: list[Name] = []
        starts = dict(self._listed(folded, bounds))
        at = 0
        while at < len(tagged):
            stop = self._name_end(folded, tagged, bounds, at, starts.get(bounds[at], 0))
            if stop > at:
                found.append(Name(bounds[at], bounds[stop], TERM))
            at = max(stop, at + 1)
        if self.stems is not None:
            found += [Name(*stem.span(), TERM) for stem in self.stems.finditer(folded)]
        return found

    def _listed(self, folded: str, bounds: Sequence[int]) -> list[Span]:
        """Words of the lexicon, from the beginning of a word of the text to the end of one."""
        found: list[Span] = []
        ends: frozenset[int] | None = None
        lengths = self.lengths
        for start in bounds:
            for size in lengths.get(folded[start : start + 2], ()):
                word = folded[start : start + size]
                if word in self.words or word in self.words_in_context:
                    ends = ends if ends is not None else frozenset(bounds)
                    if start + size in ends:
                        found.append((start, start + size))
                        break
        return found

    def _name_end(
        self, folded: str, tagged: Sequence[tuple[str, str]], bounds: Sequence[int], at: int, listed_end: int
    ) -> int:
        """The word behind the longest name that begins here; ``at`` if there is none."""
        word, tag = tagged[at]
        is_other = word in self.breaks or tag[:1] not in _NOUNS or (tag[:2] == "nr" and is_person(word))
        if is_other and not listed_end:
            return at
        best = at
        for stop in range(at + 1, min(at + _MOST_WORDS, len(tagged)) + 1):
            end = bounds[stop]
            if end == listed_end or (end > listed_end and self.type_of(folded[bounds[at] : end], True)):
                best = stop
            if stop == len(tagged) or (end >= listed_end and not self._goes_on(*tagged[stop])):
                break
        return best

    def _goes_on(self, word: str, tag: str) -> bool:
        """Whether a word may be part of a name that began before it."""
        if word in self.endings or word in self.inside:
            return True
        return tag[:1] in _NOUNS and word not in self.breaks

    # ── what is added to the facts of a chunk ────────────────────────────────────────────────────

    def typed(self, mentions: Iterable[Mention]) -> list[Mention]:
        """The mentions of a text of the domain, with its types in place of general ones."""
        typed: list[Mention] = []
        for mention in mentions:
            kind = ""
            if mention.type in (TERM, NAME, PLACE, PERSON):  # people and places by listed words alone
                kind = self.type_of(mention.name, mention.type in (TERM, NAME))
            typed.append(Mention(mention.name, kind, mention.start, mention.end) if kind else mention)
        return typed

    def relations(
        self, text: str, mentions: Sequence[Mention], sentences: Iterable[Span], topic: str
    ) -> Iterator[tuple[Statement, str]]:
        """Statements between typed names of one sentence, or about the text's topic, each with its cue."""
        types = self.related_types
        own = [mention for mention in mentions if mention.type in types and mention.start < mention.end]
        about = next((mention for mention in mentions if mention.name == topic and mention.type in types), None)
        at = 0
        for start, end in sentences if own else ():
            inside: list[Mention] = []
            while at < len(own) and own[at].start < end:
                if own[at].start >= start:
                    inside.append(own[at])
                at += 1
            if inside:
                head = _Group(about.type, (about.name,), start, start) if about is not None else None
                yield from self._related(text, _groups(text, inside), head, (start, end))

    def _related(
        self, text: str, groups: Sequence[_Group], topic: _Group | None, sentence: Span
    ) -> Iterator[tuple[Statement, str]]:
        for at, group in enumerate(groups):
            gap = text[groups[at - 1].end if at else sentence[0] : group.start]
            behind = _STOP.split(text[group.end : min(group.end + _AFTER, sentence[1])], maxsplit=1)[0]
            before = [*groups[:at][::-1], *([topic] if topic is not None else [])]
            heads = (head for head in before if group.start - head.end <= _FARTHEST)
            found = next(filter(None, (self._match(head, group, gap, behind) for head in heads)), None)
            if found is None:
                continue
            head, rule, cue, is_reversed = found
            span = min(head.start, group.start), max(head.end, group.end)
            sources, targets = (group, head) if is_reversed else (head, group)
            for source, target in product(sources.names, targets.names):
                if source != target:
                    yield Statement(source, target, rule.name, *span), cue

    def _match(self, head: _Group, group: _Group, gap: str, behind: str) -> tuple[_Group, Rule, str, bool] | None:
        """The first rule that relates two groups, with its cue, and whether the source is the second."""
        for rule in self.rules:
            for cues, own, other in (
                (rule.cues, rule.targets, rule.sources),
                (rule.reversed_cues, rule.sources, rule.targets),
            ):
                if group.type in own and head.type in other:
                    cue = next((cue for cue in cues if _is_cued(cue, gap, behind)), None)
                    if cue is not None:
                        return head, rule, cue.before or cue.after, cues is rule.reversed_cues
        return None


def _is_cued(cue: Cue, gap: str, behind: str) -> bool:
    """Whether a cue stands in the gap before a name and in its clause, and is not negated."""
    at = gap.rfind(cue.before)
    if at < 0 or cue.after not in behind or _NEGATED.search(gap, 0, at):
        return False
    return _CLAUSE_END.search(gap, at + len(cue.before)) is None


def _groups(text: str, mentions: Sequence[Mention]) -> list[_Group]:
    groups = [_Group(mentions[0].type, (mentions[0].name,), mentions[0].start, mentions[0].end)]
    for left, right in pairwise(mentions):
        last = groups[-1]
        if right.type == last.type and _LIST.fullmatch(text, left.end, right.start):
            groups[-1] = _Group(last.type, (*last.names, right.name), last.start, right.end)
        else:
            groups.append(_Group(right.type, (right.name,), right.start, right.end))
    return groups


# ── reading a lexicon ────────────────────────────────────────────────────────────────────────────


@cache
def load_domain(path: str = "") -> Domain:
    """The lexicon in a file, "" for the shipped one. Raises BadSettings."""
    file = Path(path).expanduser() if path else SHIPPED
    try:
        content = file.read_bytes()
        return _domain(tomllib.loads(content.decode("utf-8-sig")), blake2b(content, digest_size=6).hexdigest())
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(
            f"读不了领域词表 {file}：{error}", hint="检查 graph.lexicon 的路径与编码（须为 UTF-8）"
        ) from error
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError) as error:
        raise BadSettings(
            f"领域词表 {file} 不合格式：{error}", hint="照随附的 graph/extract/medicine.toml 改正该处后重试"
        ) from error


def _domain(data: Mapping[str, Any], version: str) -> Domain:
    def words(section: Mapping[str, Any], key: str) -> list[str]:
        return [fold(word) for word in section.get(key, "").split()]

    def by_type(key: str) -> dict[str, str]:
        return {word: kind for kind, section in data.get("types", {}).items() for word in words(section, key)}

    rules = tuple(_rule(row) for row in data.get("relations", ()))
    listed, in_context = by_type("words"), by_type("words_in_context")
    lengths: dict[str, set[int]] = {}
    for word in (*listed, *in_context):
        lengths.setdefault(word[:2], set()).add(len(word))
    cues = {part for rule in rules for cue in (*rule.cues, *rule.reversed_cues) for part in cue if part}
    context = frozenset(words(data, "context"))
    endings = by_type("endings")
    stems = [_stem_pattern(section) for section in data.get("types", {}).values() if section.get("stems")]
    return Domain(
        version=version,
        context=context,
        words=listed,
        words_in_context=in_context,
        endings=endings,
        exceptions=frozenset(by_type("not")).difference(endings),
        breaks=context | cues | GENERIC | NOT_IN_TERMS | frozenset(words(data, "not_in_names")),
        inside=frozenset(words(data, "inside_names")),
        stems=re.compile("|".join(stems)) if stems else None,
        rules=rules,
        related_types=frozenset(kind for rule in rules for kind in (*rule.sources, *rule.targets)),
        lengths={first: tuple(sorted(sizes, reverse=True)) for first, sizes in lengths.items()},
    )


def _stem_pattern(section: Mapping[str, str]) -> str:
    stems = "|".join(map(re.escape, fold(section["stems"]).split()))
    characters = re.escape("".join(sorted(set("".join(fold(section["syllables"]).split())))))
    return f"[{characters}]{{1,6}}(?:{stems})"


def _rule(row: Mapping[str, str]) -> Rule:
    def cues(key: str) -> tuple[Cue, ...]:
        return tuple(Cue(*cue.partition("…")[::2]) for cue in row.get(key, "").split())

    return Rule(
        row["name"],
        frozenset(row["sources"].split()),
        frozenset(row["targets"].split()),
        cues("cues"),
        cues("reversed"),
    )
