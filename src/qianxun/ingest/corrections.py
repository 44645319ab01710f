"""Corrections applied to the pieces of a document. `correct` is the function to read first.

They are applied in the order in which people made them, to the pieces that the splitter cut: the words of a
correction become a piece of their own, whatever the size of chunks is by now, and the pieces around lose what they
share with it. So what was edited or disabled is nowhere left in its old form, no other text is touched, and without
the correction the pieces are what they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from qianxun.core.documents import CorrectedRows, Piece, RowCells, TableSpan, Text
from qianxun.core.governance.corrections import QUESTION_ORIGIN, Corrected, Correction, CorrectionOutcome
from qianxun.core.types import QAPair, Question
from qianxun.ingest.anchors import SearchedText, locate
from qianxun.ingest.tables.corrected_rows import edited_rows

OVERLAPS: Final = "这段文字与更正 {id} 改动的文字只有一部分相同"
EDITED: Final = "这一段已被更正 {id} 改写，不能再拆分或合并"
UNEQUAL: Final = "拆成的各段连起来不是原来的文字"
_HEAD: Final = 40  # characters of an answer by which its piece is known


@dataclass(frozen=True, slots=True)
class CorrectedPieces:
    pieces: tuple[Piece, ...]
    questions: tuple[Question, ...]
    outcomes: tuple[CorrectionOutcome, ...] = ()
    corrected_rows: Mapping[int, CorrectedRows] = field(
        default_factory=dict
    )  # of tables, by their position in the text


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece on its way, with the pieces that it was made of."""

    piece: Piece
    sources: frozenset[int]
    questions: tuple[Question, ...] = ()  # given by corrections
    edited: int = 0  # the correction that rewrote it
    rows: tuple[RowCells, ...] = ()  # of its table, as they were rewritten
    disabled: int = 0  # … or took it out
    is_rest: bool = False  # what was left of a piece beside a correction

    @property
    def span(self) -> tuple[int, int]:
        return self.piece.start, self.piece.end

    @property
    def has_span(self) -> bool:
        return self.piece.end > self.piece.start

    def overlaps(self, start: int, end: int) -> bool:
        return self.has_span and self.piece.start < end and start < self.piece.end


class _SetAside(Exception):
    """A correction cannot be applied, for this reason."""


def correct(
    text: Text, pieces: Sequence[Piece], questions: Sequence[Question], corrections: Sequence[Correction]
) -> CorrectedPieces:
    """The pieces and their questions with the corrections of a document; and what became of each correction."""
    if any(correction.kind == "disable_document" and correction.is_active for correction in corrections):
        hidden: tuple[Piece, ...] = ()
        return CorrectedPieces(hidden, (), tuple(_outcomes(SearchedText(text.content, pieces), corrections)))
    parts = [_Part(piece, frozenset((at,))) for at, piece in enumerate(pieces)]
    work = _Correcting(SearchedText(text.content, pieces), parts, text.tables)
    outcomes = [work.apply(one) for one in sorted(corrections, key=lambda one: one.id) if one.is_active]
    shown, added = work.result(questions)
    return CorrectedPieces(shown, added, tuple(outcomes), _corrected_rows(text, work.parts))


def _outcomes(text: SearchedText, corrections: Sequence[Correction]) -> Iterator[CorrectionOutcome]:
    """Of a disabled document: nothing is applied, but it is still known whose place is gone."""
    for correction in corrections:
        if correction.is_active:
            found = _place(text, text.pieces, correction) if correction.anchor is not None else ()
            yield (
                CorrectionOutcome(correction.id, "needs_a_look", found)
                if isinstance(found, str)
                else CorrectionOutcome(correction.id, "applied")
            )


def _place(text: SearchedText, pieces: Sequence[Piece], one: Correction) -> tuple[int, int] | int | str:
    """Where a correction's words stand: a span of the text, or the number of a piece that stands nowhere in it."""
    assert one.anchor is not None
    found = locate(text, one.anchor)
    if not isinstance(found, str):
        return found
    quote = _solid(one.anchor.quote)
    alike = [at for at, piece in enumerate(pieces) if piece.end == piece.start and _solid(piece.text) == quote]
    return alike[0] if len(alike) == 1 else found


def _solid(text: str) -> str:
    return "".join(text.split())


@dataclass
class _Correcting:
    """One document whose corrections are being applied."""

    text: SearchedText
    parts: list[_Part] = field(default_factory=list)
    tables: Sequence[TableSpan] = ()

    def apply(self, one: Correction) -> CorrectionOutcome:
        if one.anchor is None:
            return CorrectionOutcome(one.id, "applied")
        try:
            at = self._part_of(one)
        except _SetAside as reason:
            return CorrectionOutcome(one.id, "needs_a_look", str(reason))
        part = self.parts[at]
        if one.kind == "split":
            self.parts[at : at + 1] = list(self._split(part, one))
        elif one.kind == "edit":
            self.parts[at] = self._edited(part, one)
        else:
            self.parts[at] = _changed(part, one)
        return CorrectionOutcome(one.id, "applied")

    def _part_of(self, one: Correction) -> int:
        """The part that a correction is about, carved out where it is none yet. Raises _SetAside."""
        assert one.anchor is not None
        found = _place(self.text, self.text.pieces, one)
        if isinstance(found, str):
            raise _SetAside(found)
        if isinstance(found, int):
            return next(at for at, part in enumerate(self.parts) if found in part.sources and not part.has_span)
        start, end = found
        self._check(one, start, end)
        own = next((at for at, part in enumerate(self.parts) if part.has_span and part.span == found), None)
        if one.kind in ("pin", "exclude", "keywords", "questions", "note") and own is not None:
            return own
        return self._carve(start, end, own)

    def _check(self, one: Correction, start: int, end: int) -> None:
        """What others rewrote or took out is theirs; only the very same words can be corrected again."""
        if one.kind == "split" and _solid("".join(one.change.parts)) != _solid(self.text.content[start:end]):
            raise _SetAside(UNEQUAL)
        for part in self.parts:
            if not part.overlaps(start, end) or not (part.edited or part.disabled):
                continue
            if part.span != (start, end):
                raise _SetAside(OVERLAPS.format(id=part.edited or part.disabled))
            if part.edited and one.kind in ("split", "join"):
                raise _SetAside(EDITED.format(id=part.edited))

    def _carve(self, start: int, end: int, own: int | None) -> int:
        """Makes a span a part of its own; what overlaps it loses what they share. Returns its place."""
        inside = [part for part in self.parts if part.overlaps(start, end)]
        carved = self.parts[own] if own is not None else self._cut_out(start, end, inside)
        rest = [part for part in self.parts if not part.overlaps(start, end)]
        for part in inside:
            if part is not carved:
                rest += self._rests(part, start, end)
        self.parts = sorted(_uncovered([*rest, carved]), key=_order)
        return next(at for at, part in enumerate(self.parts) if part is carved)

    def _cut_out(self, start: int, end: int, inside: Sequence[_Part]) -> _Part:
        """A part of this span, under the headings of where it begins, with the marks of what it is made of."""
        model = min(inside, key=lambda part: (part.piece.start > start, -part.piece.start)).piece
        whole = [part for part in inside if start <= part.piece.start and part.piece.end <= end]
        around = [part for part in inside if part.piece.start <= start and end <= part.piece.end]
        is_table = all(part.piece.table == model.table for part in inside)
        piece = replace(
            model,
            start=start,
            end=end,
            body=self.text.content[start:end],
            lead=model.lead if is_table and model.start <= start else "",
            kind=model.kind if is_table else "text",
            table=model.table if is_table else None,
            corrected=_joined_marks([part.piece.corrected for part in whole or around]),
        )
        questions = tuple(dict.fromkeys(question for part in whole or around for question in part.questions))
        return _Part(piece, frozenset().union(*(part.sources for part in whole or inside)), questions)

    def _rests(self, part: _Part, start: int, end: int) -> Iterator[_Part]:
        piece = part.piece
        for first, last in ((piece.start, min(start, piece.end)), (max(end, piece.start), piece.end)):
            body = self.text.content[first:last] if first < last else ""
            if any(sign.isalnum() for sign in body):
                first += len(body) - len(body.lstrip())
                body = body.strip()
                rest = replace(piece, start=first, end=first + len(body), body=body)
                yield replace(part, piece=rest, is_rest=True)

    def _split(self, part: _Part, one: Correction) -> Iterator[_Part]:
        first = len(_solid(self.text.content[: part.piece.start]))
        for written in one.change.parts:
            length = len(_solid(written))
            start, end = self.text.span(first, length)
            first += length
            piece = replace(part.piece, start=start, end=end, body=self.text.content[start:end])
            yield _marked(replace(part, piece=piece), one)

    def _edited(self, part: _Part, one: Correction) -> _Part:
        """With other words; with rows of its table, where they still are such."""
        piece, known = part.piece, part.piece.corrected
        original = known.original if known is not None and known.original is not None else piece.text
        table = None if piece.table is None else self.tables[piece.table]
        most = 0 if table is None else _rows_that_fit(self.text.content, table, piece)
        rows = edited_rows(table.table, original, one.change.text) if table is not None and most else None
        rows = rows if rows is not None and len(rows) <= most else None
        edited = replace(piece, body=one.change.text, lead="", table=piece.table if rows else None)
        part = replace(part, piece=edited, edited=one.id, rows=rows or ())
        return _marked(part, one, original=original)

    def result(self, questions: Sequence[Question]) -> tuple[tuple[Piece, ...], tuple[Question, ...]]:
        """What is left to be served, and the questions of it: those of a piece go with the words that answer them."""
        shown = [part for part in self.parts if not part.disabled]
        places = {id(part): at for at, part in enumerate(shown)}
        found = []
        for question in questions:
            home = _home(question, self.parts)
            if home is not None and not home.disabled:
                found.append(replace(question, piece=places[id(home)]))
        for at, part in enumerate(shown):
            found += [replace(question, piece=at) for question in part.questions]
        return tuple(part.piece for part in shown), tuple(found)


def _corrected_rows(text: Text, parts: Sequence[_Part]) -> Mapping[int, CorrectedRows]:
    """The rows of tables whose words were edited or taken out, and what is in their place: an edit that is no row of
    the table any more says nothing of cells."""
    found: dict[int, dict[int, tuple[RowCells, ...]]] = {}
    for part in parts:
        start, end = part.span
        for position, table in enumerate(text.tables) if part.edited or part.disabled else ():
            numbers = [at for at, row in enumerate(table.row_starts) if start <= row < end]
            changed = dict.fromkeys(numbers, ()) | dict(zip(numbers, _in_place(part, numbers), strict=False))
            if numbers:
                found.setdefault(position, {}).update(changed)
    return found


def _in_place(part: _Part, numbers: Sequence[int]) -> list[tuple[RowCells, ...]]:
    """The rows of an edit for each of the rows before it; what there is more, beside the last."""
    last = len(numbers) - 1
    return [*((row,) for row in part.rows[:last]), part.rows[last:]] if part.rows else []


def _rows_that_fit(content: str, table: TableSpan, piece: Piece) -> int:
    """How many rows may be in the place of those of a piece: each begins at a place of its own. None where it has a
    part of a row, as long ones are cut."""
    inside = [at for at, row in enumerate(table.row_starts) if piece.start <= row < piece.end]
    if not inside or (inside[0] > 0 and content[piece.start : table.row_starts[inside[0]]].strip()):
        return 0
    end = (*table.row_starts[1:], table.end)[inside[-1]]
    is_cut = bool(content[piece.end : end].strip())
    return 0 if is_cut else len(inside) - 1 + piece.end - table.row_starts[inside[-1]]


def _order(part: _Part) -> tuple[bool, int, int, int]:
    """As they stand in the text; what stands nowhere in it comes last, as it came."""
    return not part.has_span, part.piece.start, part.piece.end, min(part.sources) if not part.has_span else 0


def _uncovered(parts: Sequence[_Part]) -> list[_Part]:
    """Without rests that another part has in it: the overlap of two chunks, one of which was corrected."""

    def is_covered(at: int, part: _Part) -> bool:
        return any(
            other.has_span
            and (other.piece.start <= part.piece.start and part.piece.end <= other.piece.end)
            and (other.span != part.span or place < at)
            for place, other in enumerate(parts)
            if place != at
        )

    return [part for at, part in enumerate(parts) if not part.is_rest or not is_covered(at, part)]


def _home(question: Question, parts: Sequence[_Part]) -> _Part | None:
    """Of the parts of the piece that a question was given to, the one that answers it; if that cannot be told and one
    of them is disabled, that one."""
    own = [part for part in parts if question.piece in part.sources]
    if len(own) < 2:
        return own[0] if own else None
    head = question.pair.answer[:_HEAD].strip()
    texts = [(part.piece.corrected and part.piece.corrected.original) or part.piece.text for part in own]
    answering = [part for part, text in zip(own, texts, strict=True) if head and head in text]
    answering = answering or [part for part, text in zip(own, texts, strict=True) if question.pair.question in text]
    return (answering or [part for part in own if part.disabled] or own)[0]


# ── one part and one correction ──────────────────────────────────────────────────────────────────


def _changed(part: _Part, one: Correction) -> _Part:
    match one.kind:
        case "disable":
            return replace(_marked(part, one), disabled=one.id)
        case "keywords":
            return _marked(part, one, keywords=one.change.keywords)
        case "note":
            return _marked(part, one, note=one.change.note)
        case "questions":
            own = tuple(Question(QAPair(text, ""), 0, f"{QUESTION_ORIGIN}:{one.id}") for text in one.change.questions)
            return replace(_marked(part, one), questions=(*part.questions, *own))
    return _marked(part, one)


def _marked(
    part: _Part, one: Correction, *, original: str | None = None, keywords: tuple[str, ...] = (), note: str = ""
) -> _Part:
    known = part.piece.corrected or Corrected(())
    marks = Corrected(
        (*known.ids, one.id),
        original if original is not None else known.original,
        tuple(dict.fromkeys((*known.keywords, *keywords))),
        note or known.note,
    )
    return replace(part, piece=replace(part.piece, corrected=marks))


def _joined_marks(marks: Sequence[Corrected | None]) -> Corrected | None:
    known = [mark for mark in marks if mark is not None]
    if not known:
        return None
    ids = tuple(sorted({number for one in known for number in one.ids}))
    words = tuple(dict.fromkeys(word for one in known for word in one.keywords))
    return Corrected(ids, None, words, "\n".join(dict.fromkeys(one.note for one in known if one.note)))
