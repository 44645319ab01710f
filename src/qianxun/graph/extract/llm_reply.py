"""Checks a model's reply about several texts: facts remain whose names occur in their texts.

{"chunks": [{"n": 1,
             "entities": [{"name": "二甲双胍", "type": "MEDICINE"}, …],
             "relations": [{"source": "二甲双胍", "type": "治疗", "target": "糖尿病"}, …],
             "aliases": [{"name": "世界卫生组织", "alias": "世卫组织"}, …]}, …]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Final, TypeAlias

from qianxun.core.graph_types import CO_OCCURRENCE, Facts, Mention, Span, StatedAlias, Statement
from qianxun.graph.extract.lexicon import mapped
from qianxun.text.chinese import SENTENCE_END, fold, places
from qianxun.text.llm_json import Malformed, read_json, text_of

ENTITIES: Final = 80  # of one text; more are dropped
RELATIONS: Final = 120
ALIASES: Final = 40
TYPE_LIMIT: Final = 30  # characters
NAME_LIMIT: Final = 100  # characters
MOST_POSITIONS: Final = 20  # of one name
IN_TITLE: Final[Span] = (0, 0)  # the span of a name that occurs in the title only
CONCEPT: Final = "CONCEPT"  # not TERM, which may be a common word: a model knows what it names
_TYPE_OF: Final = mapped("entity_types")
_TYPE: Final = re.compile(r"[^\W\d_][\w· -]*")  # words only: no address, no markup
_EMPTY_TYPES: Final = frozenset(("", CO_OCCURRENCE, "有关", "关联", "关系", "related", "related_to", "related to"))
_BREAK: Final = re.compile(r"(?<=[^\x00-\x7f])\s+(?=[^\x00-\x7f])")
_NO_MATCH: Final = re.compile(r"(?!)")

_Fields: TypeAlias = Mapping[str, str | None]  # name → default; None: required
_ENTITY: Final[_Fields] = {"name": None, "type": CONCEPT}
_RELATION: Final[_Fields] = {"source": None, "type": None, "target": None}
_ALIAS: Final[_Fields] = {"name": None, "alias": None}
_Spans: TypeAlias = Mapping[str, Sequence[Span]]


@dataclass(frozen=True, slots=True)
class Extracted:
    """The facts of one text; ``dropped`` counts what the reply claims and the text does not support."""

    facts: Facts
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class CheckedReply:
    """The place of a text → its facts; ``fault`` says why others are missing."""

    extracted: Mapping[int, Extracted]
    fault: str = ""


def check_reply(
    reply: object, texts: Sequence[str], titles: Sequence[str] = (), *, strict: bool = True
) -> CheckedReply:
    """Checks a reply against the texts and the title above each. Never raises: unusable parts are missing.

    If strict, a text with any malformed item is missing; otherwise only the malformed items are dropped and counted.
    """
    try:
        items = _by_number(read_json(reply), len(texts))
    except Malformed as error:
        return CheckedReply({}, str(error))
    extracted: dict[int, Extracted] = {}
    faults: list[str] = []
    for at, text in enumerate(texts):
        try:
            if at not in items:
                raise Malformed("缺少这一段")
            claims = _claims(items[at], strict)
            found = supported_facts(claims, text, titles[at] if titles else "")
            if len(claims.types) > 1 and not found.facts.mentions:  # of another text, or in another language
                raise Malformed("列出的名称没有一个在这一段里，请照抄原文，段号从 1 开始")
            extracted[at] = found
        except Malformed as error:
            faults.append(f"第 {at + 1} 段：{error}")
    return CheckedReply(extracted, "；".join(faults)[:500])


def _by_number(reply: dict[str, Any] | list[Any], count: int) -> dict[int, dict[str, Any]]:
    """The place of a text → its item. A single text may lack its number."""
    items = reply.get("chunks", [reply] if "entities" in reply else None) if isinstance(reply, dict) else reply
    if not isinstance(items, list):
        raise Malformed("应有数组 chunks")
    found: dict[int, dict[str, Any]] = {}
    for item in items[: 2 * count]:
        if not isinstance(item, dict):
            raise Malformed("chunks 中有不是对象的项")
        number = _number(item.get("n", 1 if count == 1 else None))
        if number < 1:
            raise Malformed("段号 n 从 1 开始")
        if number <= count:
            found.setdefault(number - 1, item)
    return found


def _number(value: object) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 6:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Malformed(f"段号 n 应为整数，却是 {str(value)[:40]!r}")
    return value


# ── the lists of one text ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Claims:
    """What a reply claims of one text."""

    types: dict[str, str] = field(default_factory=dict)  # name → type
    relations: tuple[tuple[str, ...], ...] = ()  # source, type, target
    aliases: tuple[tuple[str, ...], ...] = ()  # name, alias
    dropped: int = 0


def _claims(item: Mapping[str, Any], strict: bool) -> Claims:
    entities, dropped = _rows(item, "entities", _ENTITY, ENTITIES, strict)
    relations, more = _rows(item, "relations", _RELATION, RELATIONS, strict)
    aliases, most = _rows(item, "aliases", _ALIAS, ALIASES, strict)
    return Claims(
        {row[0]: row[1] for row in reversed(entities)},  # the first of several counts
        tuple(dict.fromkeys(relations)),
        tuple(dict.fromkeys(aliases)),
        dropped + more + most,
    )


def _rows(
    item: Mapping[str, Any], name: str, fields: _Fields, limit: int, strict: bool
) -> tuple[list[tuple[str, ...]], int]:
    """The rows of a list, and how many were dropped."""
    values = item.get(name)
    if values is None:
        values = []
    if not isinstance(values, list):
        raise Malformed(f"{name} 应为数组")
    rows: list[tuple[str, ...]] = []
    dropped = max(0, len(values) - limit)
    for value in values[:limit]:
        try:
            rows.append(_row(value, name, fields))
        except Malformed:
            if strict:
                raise
            dropped += 1
    return rows, dropped


def _row(value: object, name: str, fields: _Fields) -> tuple[str, ...]:
    if not isinstance(value, dict):
        raise Malformed(f"{name} 中有不是对象的项")
    try:
        return tuple(text_of(value.get(one) or other, 3 * NAME_LIMIT) for one, other in fields.items())
    except Malformed as error:
        raise Malformed(f"{name} 的 {'、'.join(fields)} 中，{error}") from error


# ── supported by the text ────────────────────────────────────────────────────────────────────────


def supported_facts(claims: Claims, text: str, title: str = "") -> Extracted:
    """Drops names that occur neither in the text nor in its title, with all their relations and aliases, and relations
    between names of the title alone."""
    positions, in_title = Positions(text), Positions(title)
    related = (name for source, _, target in claims.relations for name in (source, target))
    names = (*claims.types, *related, *(name for pair in claims.aliases for name in pair))
    spans = mention_spans(positions, filter(_is_name, names), in_title)
    called = {
        name: in_title.written(in_title.spans(name)[0]) if own == (IN_TITLE,) else positions.written(own[0])
        for name, own in spans.items()
    }
    statements = tuple(_statements(claims, positions, spans, called))
    aliases = tuple(_aliases(claims, positions, spans, called))
    mentions = {
        Mention(called[name], entity_type(claims.types.get(name, "")), *span)
        for name, own in spans.items()
        for span in own
    }
    facts = Facts(
        tuple(sorted(mentions, key=lambda mention: (mention.start, mention.end, mention.name, mention.type))),
        statements,
        aliases,
        _shared_sentences(positions.sentences, spans),
    )
    supported = len(spans.keys() & claims.types.keys()) + len(statements) + len(aliases)
    claimed = len(claims.types) + len(claims.relations) + len(claims.aliases)
    return Extracted(facts, claims.dropped + claimed - supported)


def _is_name(name: str) -> bool:
    """Not a number, nor a sign."""
    return len(name) <= NAME_LIMIT and any(character.isalpha() for character in name)


def entity_type(claimed: str) -> str:
    """The normalised type of an entity; a well-formed unknown type is kept, any other is a CONCEPT."""
    claimed = claimed.strip().upper()
    if claimed in _TYPE_OF:
        return _TYPE_OF[claimed]
    return claimed if len(claimed) <= TYPE_LIMIT and _TYPE.fullmatch(claimed) else CONCEPT


def _statements(claims: Claims, positions: Positions, spans: _Spans, called: Mapping[str, str]) -> Iterator[Statement]:
    for source, kind, target in claims.relations:
        if source not in spans or target not in spans or fold(called[source]) == fold(called[target]):
            continue
        if spans[source] == spans[target] == (IN_TITLE,):
            continue
        if kind.lower() in _EMPTY_TYPES or len(kind) > TYPE_LIMIT or not _TYPE.fullmatch(kind):
            continue  # co-occurrence is known without it
        span = stating_span(positions, spans[source], spans[target], kind)
        yield Statement(called[source], called[target], kind, *span)


def _aliases(claims: Claims, positions: Positions, spans: _Spans, called: Mapping[str, str]) -> Iterator[StatedAlias]:
    """A text that states an alias has both names in one sentence."""
    for name, alias in claims.aliases:
        if name not in spans or alias not in spans or fold(called[name]) == fold(called[alias]):
            continue
        span = stating_span(positions, spans[name], spans[alias])
        if span in positions.sentences and spans[alias] != (IN_TITLE,):
            yield StatedAlias(called[name], called[alias], *span)


# ── positions ────────────────────────────────────────────────────────────────────────────────────


class Positions:
    """Finds names in one text, as written or in another written form (發票 for 发票)."""

    def __init__(self, text: str) -> None:
        self.text = text

    def spans(self, name: str) -> tuple[Span, ...]:
        """Where the name occurs, in order. 12 does not occur in 2012."""
        if not name or len(name) > NAME_LIMIT:
            return ()
        exact = tuple((at, at + len(name)) for at in islice(places(name, self.text), MOST_POSITIONS))
        if exact:
            return exact
        form = fold(name)
        folded, offsets = self._folded
        ends = [(at, at + len(form)) for at in islice(places(form, folded), MOST_POSITIONS)] if form else []
        ends = ends or [found.span() for found in islice(_with_breaks(form).finditer(folded), MOST_POSITIONS)]
        spans = ((offsets[start], offsets[end]) for start, end in ends)
        # A character may fold into several, and a phrase otherwise than its characters.
        return tuple(span for span in spans if _compact(fold(self.text[slice(*span)])) == _compact(form))

    def written(self, span: Span) -> str:
        """The name at a span, in one line and without the breaks inside Chinese words."""
        return " ".join(_BREAK.sub("", self.text[slice(*span)]).split())

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """The sentences of the text without blank ones; the end of a line ends a sentence."""
        found: list[Span] = []
        line_start = after = 0
        for line in self.text.splitlines(keepends=True):
            for end in (*(match.end() for match in SENTENCE_END.finditer(line)), len(line)):
                start, stop = max(line_start, after), line_start + end
                after = max(after, stop)
                part = self.text[start:stop]
                if part.strip():
                    indent, tail = len(part) - len(part.lstrip()), len(part) - len(part.rstrip())
                    found.append((start + indent, stop - tail))
            line_start += len(line)
        return tuple(found)

    @cached_property
    def _folded(self) -> tuple[str, Sequence[int]]:
        """The folded text, and for each of its positions the position in the text."""
        whole = fold(self.text)
        if len(whole) == len(self.text):
            return whole, range(len(whole) + 1)
        forms = [fold(character) for character in self.text]
        offsets = [at for at, form in enumerate(forms) for _ in form]
        return "".join(forms), [*offsets, len(self.text)]


def _with_breaks(form: str) -> re.Pattern[str]:
    """The name with blanks or the end of a line between its characters, as pages and tables break it."""
    signs = [re.escape(sign) for sign in _compact(form)]
    if not signs:
        return _NO_MATCH
    before = r"(?<![a-z0-9])" if signs[0].isalnum() and signs[0].isascii() else ""
    after = r"(?![a-z0-9])" if signs[-1].isalnum() and signs[-1].isascii() else ""
    # Possessive: blanks match one way only, or an almost matching name would be tried in endless ways.
    return re.compile(before + r"[^\S\n]{0,4}+(?:\n[^\S\n]{0,4}+)?+".join(signs) + after)


def _compact(text: str) -> str:
    return "".join(text.split())


def mention_spans(positions: Positions, names: Iterable[str], title: Positions) -> dict[str, tuple[Span, ...]]:
    """Name → its spans outside longer names; without any its first span; `IN_TITLE` if only the title has it.

    Names that neither has are left out.
    """
    found: dict[str, tuple[Span, ...]] = {}
    taken: list[Span] = []
    for name in sorted(dict.fromkeys(names), key=lambda name: (-len(name), name)):
        spans = positions.spans(name)
        free = tuple(span for span in spans if not any(_is_within(span, other) for other in taken))
        if spans:
            found[name] = free or spans[:1]
            taken.extend(free)
        elif title.spans(name):
            found[name] = (IN_TITLE,)
    return found


def _is_within(span: Span, other: Span) -> bool:
    return other[0] <= span[0] and span[1] <= other[1]


def _shared_sentences(sentences: Sequence[Span], spans: _Spans) -> tuple[Span, ...]:
    """The sentences with two or more of the names."""
    return tuple(
        sentence
        for sentence in sentences
        if sum(any(_is_within(span, sentence) for span in own) for own in spans.values()) > 1
    )


def stating_span(positions: Positions, source: Sequence[Span], target: Sequence[Span], words: str = "") -> Span:
    """The sentence with both names, preferably with the words, too; without one the shortest span of both."""
    both = [sentence for sentence in positions.sentences if _occurs(source, sentence) and _occurs(target, sentence)]
    if both:
        return next((span for span in both if words and words in positions.text[slice(*span)]), both[0])
    pairs = ((min(a[0], b[0]), max(a[1], b[1])) for a in source for b in target)
    return min(pairs, key=lambda span: (span[1] - span[0], span))


def _occurs(spans: Sequence[Span], sentence: Span) -> bool:
    """A name of the title occurs in every sentence."""
    return any(span == IN_TITLE or _is_within(span, sentence) for span in spans)
