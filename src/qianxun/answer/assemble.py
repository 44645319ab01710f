"""What an answer may use: numbered passages with text, source and score, none twice, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from qianxun.answer.dates import date_of
from qianxun.core.answer_types import AnswerContext, Passage, Section, StatedTie
from qianxun.core.errors import BadInput
from qianxun.core.graph_types import NO_CONTEXT, GraphContext, RequestedRelation, Span
from qianxun.core.system.cache import cached_texts
from qianxun.core.types import Chunk, Found
from qianxun.text.chinese import SENTENCE_END
from qianxun.text.tokens import context_tokens, fitted, tokens

BUDGET: Final = 8000  # tokens: ten chunks of the usual size and a graph fit (cmrc2018, mix: 5,300 at the most)
_GRAPH: Final = 0.25  # of the budget, at the most: an answer is cited from passages
_HEAD: Final = 20  # tokens around a passage in a prompt: its number, marks and line ends
_SHORT: Final = 200  # characters
_GAP, _OVERLAP = 4, 400  # characters between neighbours, or in both of them
_DATED: Final = 14  # tokens: （日期：2024年12月31日）
Given: TypeAlias = "AnswerContext | Sequence[Found] | Sequence[Mapping[str, Any]] | Sequence[str] | Sequence[Passage]"

_TEXTS = ("text", "content", "chunk_text", "page_content")
_NAMES = ("doc_name", "document_name", "title", "source", "name")
_FIELDS = (*_TEXTS, *_NAMES, "doc_id", "document_id", "chunk_id", "id", "score", "start", "end", "metadata")


def assemble(
    found: Sequence[Found],
    *,
    budget: int = BUDGET,
    graph: GraphContext = NO_CONTEXT,
    given: Sequence[Passage] = (),
    tie: RequestedRelation | None = None,
    beside: Sequence[Chunk] = (),
) -> AnswerContext:
    """The passages that a generator may use, best first and numbered from 1, and the graph's context.

    ``given`` came with the question (a table, a picture) and stand first; ``tie`` is what it asks for. What a better
    passage has already is left out: the same text, and the sentences in which chunks of one document overlap.
    ``tokens`` never exceeds ``budget``: what is too large is cut after a whole sentence or line where it is the first,
    else left out and counted. Of ``beside``, what stands around a passage is read with it, as far as there is room.
    """
    if budget < 0:
        raise BadInput("上下文预算不能为负", hint="budget 是词元数")
    context = fitted(graph, int(budget * _GRAPH))
    left = budget - context_tokens(context)
    taken: list[Passage] = []
    left_out = 0
    for one in (*given, *map(passage, found)):
        own = _new_part(one, taken)
        if own is None:
            continue
        fits = own if _cost(own) <= left else (None if taken else _begun(own, left))
        if fits is None:
            left_out += 1
            continue
        taken.append(replace(fits, number=len(taken) + 1))
        left -= _cost(fits)
    taken, left = _extended(taken, beside, left)
    return AnswerContext(tuple(taken), context, budget - left, left_out, _stated(tie, found) if tie else None)


# ── what stands around a passage ─────────────────────────────────────────────────────────────────


def is_beside(one: Chunk, other: Chunk) -> bool:
    """Returns True if two chunks of prose follow on each other in one section; one of a few sentences alone (an article
    of a law) goes with the sections beside it, below the same heading."""
    is_near = one.doc_id == other.doc_id and one.generation == other.generation and abs(one.index - other.index) == 1
    is_short = len(one.text) <= _SHORT and len(one.headings) > 1 and one.headings[:-1] == other.headings[:-1]
    is_one = one.headings == other.headings or is_short
    return is_near and is_one and one.kind == other.kind == "text" and not other.is_edited


def _extended(taken: Sequence[Passage], beside: Sequence[Chunk], left: int) -> tuple[list[Passage], int]:
    """The passages, each with its neighbours as far as these fit, and what is left of the budget."""
    found = list(taken)
    for at, one in enumerate(taken):
        own = one
        for other in beside:
            is_free = not any(
                another.doc_id == other.doc_id and _overlaps(another, other) for another in found if another is not own
            )
            longer = _joined(own, other) if is_free else None
            if longer is not None and (more := _cost(longer) - _cost(own)) <= left:
                found[at], own, left = longer, longer, left - more
    return found, left


def _overlaps(one: Passage, other: Chunk) -> bool:
    return one.start < other.end and other.start < one.end


def _joined(one: Passage, other: Chunk) -> Passage | None:
    """A passage and the chunk right before or after it, their text as it stands in the document, each below its own
    headings; None where these are not neighbours. A chunk that repeats what the other ends in gives only the rest."""
    lead = len(other.text) - (other.end - other.start)
    if one.doc_id != other.doc_id or one.end <= one.start or lead < 0:
        return None
    own, own_lead = _sections(one), len(one.text) - (one.end - one.start)
    if one.start < other.start and -_OVERLAP <= (gap := other.start - one.end) <= _GAP:
        before = one.text + "\n" * max(gap, 0)
        sections = [*own, Section(len(before), tuple(other.headings))]
        return replace(_below(one, sections), text=before + other.text[lead + max(-gap, 0) :], end=other.end)
    if other.start < one.start and own_lead == 0 and -_OVERLAP <= (gap := one.start - other.end) <= _GAP:
        before, repeated = other.text[lead:] + "\n" * max(gap, 0), max(-gap, 0)
        starts = (max(len(before) + part.start - repeated, len(before)) for part in own)
        sections = [Section(0, tuple(other.headings)), *map(Section, starts, (part.headings for part in own))]
        return replace(_below(one, sections), text=before + one.text[repeated:], start=other.start)
    return None


def _sections(one: Passage) -> tuple[Section, ...]:
    return one.sections or (Section(0, tuple(one.metadata.get("headings") or ())),)


def _below(one: Passage, sections: Sequence[Section]) -> Passage:
    """The passage with the sections that its text has, where these are several."""
    is_one = len({part.headings for part in sections}) == 1
    return one if is_one else replace(one, sections=tuple(sections))


def _stated(tie: RequestedRelation, found: Sequence[Found]) -> StatedTie:
    """Where the documents of what was found state a tie."""
    chunks = {result.chunk.key: result.chunk for result in found if not result.chunk.is_edited}
    stating = [(chunks[place.chunk], place) for place in tie.evidence if place.chunk in chunks]
    starts = [chunk.end - len(chunk.text) for chunk, _ in stating]  # where the text would begin, had it no lead
    spans = zip(stating, starts, strict=True)
    return StatedTie(tie.names, tuple((chunk.doc_id, start + at.start, start + at.end) for (chunk, at), start in spans))


def passage(found: Found, number: int = 0) -> Passage:
    """One result as a passage. Where its text begins with a table's repeated header, ``metadata["lead"]`` is how many
    characters of it stand before what is at ``start``–``end`` of the document."""
    chunk = found.chunk
    start, end = (0, 0) if chunk.is_edited else (chunk.start, chunk.end)  # an edited text is not in the document
    lead = len(chunk.text) - (end - start) if end else 0
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
    original = chunk.corrected.original if chunk.corrected is not None else None
    place = (chunk.doc_id, chunk.doc_name, chunk.chunk_id)
    return Passage(number, *place, chunk.text, start, end, found.score, about, original)


def _cost(one: Passage) -> int:
    dated = _DATED if date_of(one) is not None else 0
    return _tokens(one.text) + _tokens(one.doc_name or one.doc_id) + _HEAD + dated


@cached_texts(1_024, longest=4_000)
def _tokens(text: str) -> int:
    """Cached: passages are assembled for the grade, after every other wording, and for the answer."""
    return tokens(text)


def _new_part(one: Passage, taken: Sequence[Passage]) -> Passage | None:
    """What a passage adds to those that were taken; None where that is nothing."""
    covered = [(other.start, other.end) for other in taken if other.doc_id == one.doc_id]
    own = one if one.end <= one.start else _uncovered(one, covered)
    if own is None:
        return None
    bare = _bare(own.text)
    return None if any(bare == _bare(other.text) for other in taken) else own


@cached_texts(256, longest=4_000)
def _bare(text: str) -> str:
    return "".join(text.split())


def _uncovered(item: Passage, covered: Sequence[Span]) -> Passage | None:
    """A passage without the spans of its document that others cover.

    Prose that overlaps at an end loses it, to whole sentences; a table's rows stay together with their header.
    """
    if any(one <= item.start and item.end <= other for one, other in covered):
        return None
    start = max((other for one, other in covered if one <= item.start < other), default=item.start)
    end = min((one for one, other in covered if one < item.end <= other), default=item.end)
    if (start, end) == (item.start, item.end) or len(item.text) != item.end - item.start:
        return item
    ends = [item.start, *(item.start + at for at in _ends(item.text)), item.end]
    begin = max(at for at in ends if at <= start)
    stop = min((at for at in ends if at >= max(end, begin + 1)), default=begin)
    text = item.text[begin - item.start : stop - item.start]
    return replace(item, text=text, start=begin, end=stop) if start < end and text.strip() else None


def _begun(one: Passage, budget: int) -> Passage | None:
    """The beginning of a passage up to the last whole sentence or line that fits."""
    lead = len(one.text) - (one.end - one.start) if one.end > one.start else 0
    fitting = [at for at in _ends(one.text) if at > lead and _cost(replace(one, text=one.text[:at])) <= budget]
    if not fitting:
        return None
    at = max(fitting)
    if one.end <= one.start:
        return replace(one, text=one.text[:at])
    return replace(one, text=one.text[:at], end=one.start + at - lead)


def _ends(text: str) -> list[int]:
    """Where the sentences and lines of a text end."""
    lines = [at + 1 for at, sign in enumerate(text) if sign == "\n"]
    return sorted({*lines, *(one.end() for one in SENTENCE_END.finditer(text))})


# ── passages in whatever form a caller has them ───────────────────────────────────────────────────


def as_context(given: Given) -> AnswerContext:
    """The passages, numbered from 1 in the order they have. Raises BadInput for what is no passage."""
    if isinstance(given, AnswerContext):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise BadInput("context 须是资料的列表", hint="给出检索结果、字典或字符串的列表，或 assemble 的结果")
    found = [one for one in given if isinstance(one, Found)]
    if found and len(found) == len(given):
        return assemble(found)
    return AnswerContext(tuple(_passage(one, number) for number, one in enumerate(given, start=1)))


def _passage(one: object, number: int) -> Passage:
    if isinstance(one, Passage):
        return one
    if isinstance(one, str):
        return Passage(number, f"资料{number}", "", f"资料{number}", one)
    if isinstance(one, Mapping):
        return _of_mapping(one, number)
    if any(isinstance(getattr(one, name, None), str) for name in _TEXTS):  # a LangChain document, a search result
        return _of_mapping({name: getattr(one, name, None) for name in _FIELDS}, number)
    raise BadInput(
        f"第 {number} 份资料的类型是 {type(one).__name__}，不是资料", hint="每份资料是检索结果、字典或字符串"
    )


def _of_mapping(one: Mapping[str, Any], number: int) -> Passage:
    text = next((one[name] for name in _TEXTS if isinstance(one.get(name), str)), None)
    if text is None:
        raise BadInput(f"第 {number} 份资料没有正文", hint=f"字典里要有 {'、'.join(_TEXTS)} 之一")
    given = one.get("metadata")
    metadata: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    named = next((str(one[name]) for name in _NAMES if one.get(name)), str(metadata.get("source", "")))
    doc_id = str(one.get("doc_id") or one.get("document_id") or named or f"资料{number}")
    score = one.get("score")
    return Passage(
        number,
        doc_id,
        named,
        str(one.get("chunk_id") or one.get("id") or doc_id),
        text,
        _offset(one.get("start")),
        _offset(one.get("end")),
        float(score) if isinstance(score, int | float) else 0.0,
        metadata,
    )


def _offset(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
