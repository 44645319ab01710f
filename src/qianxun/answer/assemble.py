"""What an answer may use: numbered passages with text, source and score, none twice, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from qianxun.core.answer_types import AnswerContext, Passage, StatedTie
from qianxun.core.errors import BadInput
from qianxun.core.graph_types import NO_CONTEXT, AskedTie, GraphContext, Span
from qianxun.core.types import Found
from qianxun.text.chinese import SENTENCE_END
from qianxun.text.tokens import context_tokens, fitted, tokens

BUDGET: Final = 8000  # tokens: ten chunks of the usual size and a graph fit (cmrc2018, mix: 5,300 at the most)
_GRAPH: Final = 0.25  # of the budget, at the most: an answer is cited from passages
_HEAD: Final = 20  # tokens around a passage in a prompt: its number, marks and line ends
Given: TypeAlias = "AnswerContext | Sequence[Found] | Sequence[Mapping[str, Any]] | Sequence[str] | Sequence[Passage]"

_TEXTS = ("text", "content", "chunk_text", "page_content")
_NAMES = ("doc_name", "document_name", "title", "source", "name")


def assemble(
    found: Sequence[Found],
    *,
    budget: int = BUDGET,
    graph: GraphContext = NO_CONTEXT,
    given: Sequence[Passage] = (),
    tie: AskedTie | None = None,
) -> AnswerContext:
    """The passages that a generator may use, best first and numbered from 1, and what the graph says.

    ``given`` came with the question (a table, a picture) and stand first; ``tie`` is what it asks for. What a better
    passage says already is left out: the same text, and the sentences in which chunks of one document overlap.
    ``tokens`` never exceeds ``budget``: what is too large is cut after a whole sentence or line where it is the first,
    else left out and counted.
    """
    if budget < 0:
        raise BadInput("上下文预算不能为负", hint="budget 是词元数")
    told = fitted(graph, int(budget * _GRAPH))
    left = budget - context_tokens(told)
    taken: list[Passage] = []
    left_out = 0
    for each in (*given, *map(passage, found)):
        own = _unsaid(each, taken)
        if own is None:
            continue
        fits = own if _cost(own) <= left else (None if taken else _begun(own, left))
        if fits is None:
            left_out += 1
            continue
        taken.append(replace(fits, number=len(taken) + 1))
        left -= _cost(fits)
    return AnswerContext(tuple(taken), told, budget - left, left_out, _stated(tie, found) if tie else None)


def _stated(tie: AskedTie, found: Sequence[Found]) -> StatedTie:
    """Where the documents of what was found state a tie."""
    chunks = {each.chunk.key: each.chunk for each in found}
    held = [(chunks[place.chunk], place) for place in tie.evidence if place.chunk in chunks]
    leads = [chunk.end - len(chunk.text) for chunk, _ in held]  # where the text would begin, had it no lead
    places = [(chunk.doc_id, lead + at.start, lead + at.end) for (chunk, at), lead in zip(held, leads, strict=True)]
    return StatedTie(tie.names, tuple(places))


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
    return tokens(each.text) + tokens(each.doc_name or each.doc_id) + _HEAD


def _unsaid(each: Passage, taken: Sequence[Passage]) -> Passage | None:
    """What a passage adds to those that were taken; None where that is nothing."""
    said = [(other.start, other.end) for other in taken if other.doc_id == each.doc_id]
    own = each if each.end <= each.start else _beside(each, said)
    if own is None or any(_bare(own.text) == _bare(other.text) for other in taken):
        return None
    return own


def _bare(text: str) -> str:
    return "".join(text.split())


def _beside(each: Passage, said: Sequence[Span]) -> Passage | None:
    """A passage without the spans of its document that were said.

    Prose that overlaps at an end loses it, to whole sentences; a table's rows stay together with their header.
    """
    if any(one <= each.start and each.end <= other for one, other in said):
        return None
    start = max((other for one, other in said if one <= each.start < other), default=each.start)
    end = min((one for one, other in said if one < each.end <= other), default=each.end)
    if (start, end) == (each.start, each.end) or len(each.text) != each.end - each.start:
        return each
    ends = [each.start, *(each.start + at for at in _ends(each.text)), each.end]
    begin = max(at for at in ends if at <= start)
    stop = min((at for at in ends if at >= max(end, begin + 1)), default=begin)
    text = each.text[begin - each.start : stop - each.start]
    return replace(each, text=text, start=begin, end=stop) if start < end and text.strip() else None


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


def _ends(text: str) -> list[int]:
    """Where the sentences and lines of a text end."""
    lines = [at + 1 for at, sign in enumerate(text) if sign == "\n"]
    return sorted({*lines, *(each.end() for each in SENTENCE_END.finditer(text))})


# ── passages in whatever form a caller has them ───────────────────────────────────────────────────


def as_context(given: Given) -> AnswerContext:
    """The passages, numbered from 1 in the order they have. Raises BadInput for what is no passage."""
    if isinstance(given, AnswerContext):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise BadInput("context 须是资料的列表", hint="给出检索结果、字典或字符串的列表，或 assemble 的结果")
    found = [each for each in given if isinstance(each, Found)]
    if found and len(found) == len(given):
        return assemble(found)
    return AnswerContext(tuple(_passage(each, number) for number, each in enumerate(given, start=1)))


def _passage(each: object, number: int) -> Passage:
    if isinstance(each, Passage):
        return each
    if isinstance(each, str):
        return Passage(number, f"资料{number}", "", f"资料{number}", each)
    if isinstance(each, Mapping):
        return _of_mapping(each, number)
    raise BadInput(
        f"第 {number} 份资料的类型是 {type(each).__name__}，不是资料", hint="每份资料是检索结果、字典或字符串"
    )


def _of_mapping(each: Mapping[str, Any], number: int) -> Passage:
    text = next((each[name] for name in _TEXTS if isinstance(each.get(name), str)), None)
    if text is None:
        raise BadInput(f"第 {number} 份资料没有正文", hint=f"字典里要有 {'、'.join(_TEXTS)} 之一")
    held = each.get("metadata")
    metadata: Mapping[str, Any] = held if isinstance(held, Mapping) else {}
    named = next((str(each[name]) for name in _NAMES if each.get(name)), str(metadata.get("source", "")))
    doc_id = str(each.get("doc_id") or each.get("document_id") or named or f"资料{number}")
    score = each.get("score")
    return Passage(
        number,
        doc_id,
        named,
        str(each.get("chunk_id") or each.get("id") or doc_id),
        text,
        _offset(each.get("start")),
        _offset(each.get("end")),
        float(score) if isinstance(score, int | float) else 0.0,
        metadata,
    )


def _offset(told: object) -> int:
    return told if isinstance(told, int) and not isinstance(told, bool) and told >= 0 else 0
