"""What was found, as an answer may use it: numbered passages with text, source and score, none twice, in a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from qianxun.answer_types import AnswerContext, Passage
from qianxun.chinese import SENTENCE_END
from qianxun.errors import BadInput
from qianxun.graph_types import NO_CONTEXT, GraphContext, Span
from qianxun.tokens import context_tokens, fitted, tokens
from qianxun.types import Found

BUDGET: Final = 4000  # tokens
_GRAPH: Final = 0.4  # of the budget, at the most: an answer is cited from passages
_HEAD: Final = 8  # tokens around a passage beside its document's name: its number, brackets, line ends
_SHORTEST: Final = 10  # characters: less than that, left over where passages overlap, says nothing


def assemble(
    found: Sequence[Found],
    *,
    budget: int = BUDGET,
    graph: GraphContext = NO_CONTEXT,
    given: Sequence[Passage] = (),
) -> AnswerContext:
    """The passages that a generator may use, best first and numbered from 1, and what the graph says.

    ``given`` came with the question (a table, a picture) and stand first. What a better passage says already is left
    out: the same text, and the sentences in which chunks of one document overlap. ``tokens`` never exceeds ``budget``:
    what is too large is cut after a whole sentence or line where it is the first, else left out and counted.
    """
    if budget < 0:
        raise BadInput("上下文预算不能为负", hint="budget 是词元数")
    told = fitted(graph, int(budget * _GRAPH))
    left = budget - context_tokens(told)
    taken: list[Passage] = []
    left_out = 0
    for passage in _distinct(given, found):
        fits = passage if _cost(passage) <= left else (None if taken else _begun(passage, left))
        if fits is None:
            left_out += 1
            continue
        taken.append(replace(fits, number=len(taken) + 1))
        left -= _cost(fits)
    return AnswerContext(tuple(taken), told, budget - left, left_out)


def passage(found: Found, number: int = 0) -> Passage:
    """One result as a passage. Where its text begins with a table's repeated header, ``metadata["lead"]`` is how many
    characters of it stand before what is at ``start``–``end`` of the document."""
    chunk = found.chunk
    lead = len(chunk.text) - (chunk.end - chunk.start)
    about: dict[str, Any] = {
        "source": chunk.doc_name or chunk.doc_id,
        "chunk_id": chunk.chunk_id,
        "found_by": found.source,
        "kind": chunk.kind,
        "headings": list(chunk.headings),
        "page": chunk.page,
        "document": {name: list(v) if isinstance(v, tuple) else v for name, v in chunk.attributes.metadata.items()},
        **({"lead": lead} if lead > 0 else {}),
    }
    return Passage(
        number, chunk.doc_id, chunk.doc_name, chunk.chunk_id, chunk.text, chunk.start, chunk.end, found.score, about
    )


def _cost(each: Passage) -> int:
    return tokens(each.text) + tokens(each.doc_name) + _HEAD


def _distinct(given: Sequence[Passage], found: Sequence[Found]) -> Iterator[Passage]:
    """Every passage once, without what a better one of the same document has said."""
    texts: set[str] = set()
    spans: dict[str, list[Span]] = {}
    for each in (*given, *map(passage, found)):
        own = each if each.end <= each.start else _unsaid(each, spans.get(each.doc_id, ()))
        bare = "" if own is None else "".join(own.text.split())
        if own is None or bare in texts:
            continue
        texts.add(bare)
        spans.setdefault(each.doc_id, []).append((own.start, own.end))
        yield own


def _unsaid(each: Passage, said: Sequence[Span]) -> Passage | None:
    """What is left of a passage beside the spans of its document that were said; None where that is nothing.

    Prose that overlaps at one end loses it, to whole sentences; a table's rows stay together with their header.
    """
    start, end = each.start, each.end
    if any(one <= start and end <= other for one, other in said):
        return None
    if len(each.text) != end - start:
        return each
    start = max((other for one, other in said if one <= start < other), default=start)
    end = min((one for one, other in said if one < end <= other), default=end)
    if (start, end) == (each.start, each.end):
        return each
    ends = [each.start, *(each.start + at for at in _ends(each.text)), each.end]
    start = max(at for at in ends if at <= start)
    end = min((at for at in ends if at >= end and at > start), default=each.end)
    return _cut(each, start, end) if start < end and end - start >= _SHORTEST else None


def _begun(each: Passage, budget: int) -> Passage | None:
    """The beginning of a passage up to the last whole sentence or line that fits."""
    lead = len(each.text) - (each.end - each.start) if each.end > each.start else 0
    fitting = [at for at in _ends(each.text) if at > lead and _cost(replace(each, text=each.text[:at])) <= budget]
    if not fitting:
        return None
    at = max(fitting)
    if each.end <= each.start:
        return replace(each, text=each.text[:at])
    return replace(each, text=each.text[:at], end=each.start + at - lead)


def _cut(each: Passage, start: int, end: int) -> Passage:
    return replace(each, text=each.text[start - each.start : end - each.start], start=start, end=end)


def _ends(text: str) -> list[int]:
    """Where the sentences and lines of a text end."""
    lines = [at + 1 for at, sign in enumerate(text) if sign == "\n"]
    return sorted({*lines, *(each.end() for each in SENTENCE_END.finditer(text))})
