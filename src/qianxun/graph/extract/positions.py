"""Where names stand in a text, and in which of its sentences: what a model says of a text is held against it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeVar

from qianxun.core.graph_types import Span
from qianxun.text.chinese import SENTENCE_END, fold, places

Found = TypeVar("Found")
OFTEN: Final = 20  # places of one name that are looked at
NAME_LIMIT: Final = 100  # characters
_BREAK: Final = re.compile(r"(?<=[^\x00-\x7f])\s+(?=[^\x00-\x7f])")
_NOWHERE: Final = re.compile(r"(?!)")
IN_TITLE: Final[Span] = (0, 0)  # the span of a name that stands in the title alone


class Standing:
    """One text, in which names are looked for as they are written, then in another written form (發票 for 发票)."""

    def __init__(self, text: str) -> None:
        self.text = text

    def spans(self, name: str) -> tuple[Span, ...]:
        """Where the name stands, in order; none where it does not. 12 does not stand in 2012."""
        if not name or len(name) > NAME_LIMIT:
            return ()
        found = _first(places(name, self.text))
        if found:
            return tuple((at, at + len(name)) for at in found)
        form = fold(name)
        folded, offsets = self._folded
        ends = [(at, at + len(form)) for at in _first(places(form, folded))] if form else []
        ends = ends or [found.span() for found in _first(_broken(form).finditer(folded))]
        within = ((offsets[start], offsets[end]) for start, end in ends)
        # A character may fold into several, and a phrase otherwise than its characters.
        return tuple(span for span in within if _bare(fold(self.text[slice(*span)])) == _bare(form))

    def called(self, span: Span) -> str:
        """What stands there, as a name: in one line, and without the breaks inside Chinese words."""
        return " ".join(_BREAK.sub("", self.text[slice(*span)]).split())

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """The sentences of the text, blank ones left out; a line's end ends a sentence."""
        found: list[Span] = []
        start = 0
        for line in self.text.splitlines(keepends=True):
            ends = [each.end() for each in SENTENCE_END.finditer(line)]
            for end in (*ends, len(line)):
                found.append((start, start + end))
            start += len(line)
        return tuple(_strip(self.text, found))

    @cached_property
    def _folded(self) -> tuple[str, Sequence[int]]:
        """The text in the form in which texts are compared, and for each of its places the place in the text."""
        whole = fold(self.text)
        if len(whole) == len(self.text):
            return whole, range(len(whole) + 1)
        each = [fold(character) for character in self.text]
        offsets = [at for at, form in enumerate(each) for _ in form]
        return "".join(each), [*offsets, len(self.text)]


def _first(found: Iterable[Found]) -> list[Found]:
    return [each for each, _ in zip(found, range(OFTEN), strict=False)]


def _broken(form: str) -> re.Pattern[str]:
    """The name with blanks, or the end of a line, between its characters: as pages and tables break it."""
    signs = [re.escape(sign) for sign in _bare(form)]
    if not signs:
        return _NOWHERE
    before = r"(?<![a-z0-9])" if signs[0].isalnum() and signs[0].isascii() else ""
    after = r"(?![a-z0-9])" if signs[-1].isalnum() and signs[-1].isascii() else ""
    # Possessive: blanks are taken one way only, or a name that almost stands there would be tried in endless ways.
    return re.compile(before + r"[^\S\n]{0,4}+(?:\n[^\S\n]{0,4}+)?+".join(signs) + after)


def _bare(text: str) -> str:
    return "".join(text.split())


def _strip(text: str, ends: Iterable[Span]) -> Iterable[Span]:
    after = 0
    for start, end in ends:
        start = max(start, after)
        after = max(after, end)
        part = text[start:end]
        if part.strip():
            yield start + len(part) - len(part.lstrip()), end - (len(part) - len(part.rstrip()))


def mentioned(standing: Standing, names: Iterable[str], title: Standing) -> dict[str, tuple[Span, ...]]:
    """Name → where it is meant: where it stands by itself, not as a part of a longer one of the names.

    One that stands nowhere by itself is meant where it first stands; one that stands in the title alone has the span
    `IN_TITLE`. One that stands in neither is left out.
    """
    found: dict[str, tuple[Span, ...]] = {}
    taken: list[Span] = []
    for name in sorted(dict.fromkeys(names), key=lambda each: (-len(each), each)):
        spans = standing.spans(name)
        free = tuple(span for span in spans if not any(_within(span, other) for other in taken))
        if spans:
            found[name] = free or spans[:1]
            taken.extend(free)
        elif title.spans(name):
            found[name] = (IN_TITLE,)
    return found


def _within(span: Span, other: Span) -> bool:
    return other[0] <= span[0] and span[1] <= other[1]


def shared(sentences: Sequence[Span], spans: Mapping[str, Sequence[Span]]) -> tuple[Span, ...]:
    """The sentences in which two or more of the names stand."""
    return tuple(
        sentence
        for sentence in sentences
        if sum(any(_within(span, sentence) for span in own) for own in spans.values()) > 1
    )


def stated(standing: Standing, source: Sequence[Span], target: Sequence[Span], words: str = "") -> Span:
    """The characters that can state something of both: the sentence in which they stand, best one with the words too;
    otherwise all from the one to the other, where they are nearest. What stands in the title stands everywhere."""
    both = [sentence for sentence in standing.sentences if _stands(source, sentence) and _stands(target, sentence)]
    if both:
        return next((span for span in both if words and words in standing.text[slice(*span)]), both[0])
    pairs = ((min(a[0], b[0]), max(a[1], b[1])) for a in source for b in target)
    return min(pairs, key=lambda span: (span[1] - span[0], span))


def _stands(spans: Sequence[Span], sentence: Span) -> bool:
    return any(span == IN_TITLE or _within(span, sentence) for span in spans)
