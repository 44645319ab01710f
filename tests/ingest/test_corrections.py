"""Corrections find their words again in a changed document, are set aside where those are gone, and touch no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.documents import Mark, Piece, QAPair, Text
from qianxun.core.errors import BadInput
from qianxun.core.governance.corrections import (
    Change,
    Correction,
    CorrectionKind,
    NewCorrection,
    checked_correction,
)
from qianxun.ingest.anchors import GONE, OTHER_COPY, PART, TOO_SHORT, SearchedText, anchor_of, locate
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.corrections import CorrectedPieces, correct
from qianxun.ingest.questions import attach

WORDS = "医保报销比例门诊住院起付线封顶合同违约金部署手册端口备份恢复权限日志审计采购验收付款期限员工年假"
SPLITTER = ChunkSplitter(120, 20)
NUMBERS = count(1)


def solid(text: str) -> str:
    return "".join(text.split())


def at_piece(text: Text, piece: Piece, kind: CorrectionKind, change: Change, number: int = 0) -> Correction:
    pieces = SPLITTER.pieces(text)
    anchor = anchor_of(SearchedText(text.content, pieces), piece.start, piece.end)
    return Correction(number or next(NUMBERS), 1, "d", kind, change, anchor)


def edit(text: Text, piece: Piece, written: str, number: int = 0) -> Correction:
    return at_piece(text, piece, "edit", Change(text=written), number)


def disable(text: Text, piece: Piece, number: int = 0) -> Correction:
    return at_piece(text, piece, "disable", Change(), number)


def corrected(text: Text, *corrections: Correction, splitter: ChunkSplitter = SPLITTER) -> CorrectedPieces:
    return correct(text, splitter.pieces(text), (), corrections)


def paragraph(random: Random, length: int = 0) -> str:
    body = "".join(random.choice(WORDS) for _ in range(length or random.randint(20, 110)))
    return f"{body}{random.randint(10, 99)}。"


def document(seed: int, paragraphs: int = 8) -> Text:
    random = Random(seed)
    return Text("\n\n".join(paragraph(random) for _ in range(paragraphs)))


# ── one correction ───────────────────────────────────────────────────────────────────────────────


def test_an_edited_chunk_says_what_the_document_has() -> None:
    text = document(1)
    piece = SPLITTER.pieces(text)[2]
    found = corrected(text, one := edit(text, piece, "改过的话"))
    (shown,) = [each for each in found.pieces if each.corrected]
    assert (shown.text, shown.corrected.original, shown.corrected.ids) == ("改过的话", piece.text, (one.id,))  # type: ignore[union-attr]
    assert (shown.start, shown.end) == (piece.start, piece.end)


def test_what_is_disabled_is_not_left_in_the_overlap_of_its_neighbours() -> None:
    text = Text("。".join(f"第{number}条住院报销比例为百分之{number}" for number in range(60)))
    pieces = SPLITTER.pieces(text)
    gone = next(one for one, after in pairwise(pieces) if after.start < one.end)
    shared = text.content[gone.end - 10 : gone.end]
    assert sum(shared in one.body for one in pieces) > 1
    assert not any(shared in one.text for one in corrected(text, disable(text, gone)).pieces)


def test_other_sizes_of_chunks_leave_a_correction_its_words() -> None:
    text = document(3)
    piece = SPLITTER.pieces(text)[3]
    one = edit(text, piece, "改过的话")
    for size in (40, 77, 300, 5000):
        found = corrected(text, one, splitter=ChunkSplitter(size, size // 10))
        assert [outcome.state for outcome in found.outcomes] == ["applied"]
        assert [each.corrected.original for each in found.pieces if each.corrected] == [piece.body]
        assert solid(piece.body) not in solid("".join(each.text for each in found.pieces))
        rest = "".join(sorted(solid(text.content.replace(piece.body, "", 1))))
        assert set(rest) <= set("".join(each.text for each in found.pieces))


def test_a_parser_that_breaks_lines_elsewhere_changes_nothing() -> None:
    text = document(4)
    piece = SPLITTER.pieces(text)[2]
    one = edit(text, piece, "改过的话")
    broken = Text("\n".join(text.content[at : at + 13] for at in range(0, len(text.content), 13)))
    assert corrected(broken, one).outcomes[0].state == "applied"


def test_one_changed_figure_sets_a_correction_aside() -> None:
    text = document(5)
    piece = SPLITTER.pieces(text)[2]
    one = edit(text, piece, "改过的话")
    changed = Text(text.content.replace(piece.body[:-3], piece.body[:-4] + "变", 1))
    found = corrected(changed, one)
    assert (found.outcomes[0].state, found.outcomes[0].reason) == ("needs_a_look", GONE)
    assert found.pieces == SPLITTER.pieces(changed)


def test_words_that_go_on_are_other_words() -> None:
    quote = "住院费用在起付线以上的部分按规定的比例报销，全年累计封顶线为人民币 10"
    before = SearchedText(f"总则如下\n\n{quote}\n\n附则另定", ())
    start = before.content.index(quote)
    anchor = anchor_of(before, start, start + len(quote))
    assert locate(SearchedText(f"总则改了\n\n{quote}\n\n附则也改了", ()), anchor) == (6, 6 + len(quote))
    assert locate(SearchedText(f"总则改了\n\n{quote}0 万元\n\n附则也改了", ()), anchor) == PART


def test_a_few_words_are_known_by_what_is_around_them() -> None:
    before = Text("第一章 总则\n\n不予报销。\n\n第二章 附则")
    start = before.content.index("不予")
    anchor = anchor_of(SearchedText(before.content, ()), start, start + 5)
    moved = SearchedText("前言\n\n第一章 总则\n\n不予报销。\n\n第二章 附则", ())
    assert locate(moved, anchor) == (moved.content.index("不予"), moved.content.index("不予") + 5)
    elsewhere = SearchedText("第一章 总则\n\n另有规定的，\n不予报销。\n以上。", ())
    assert locate(elsewhere, anchor) == TOO_SHORT


def test_of_two_copies_the_one_below_the_same_heading_is_meant() -> None:
    line = "申请材料包括身份证明、收入证明、房屋权属证明以及单位出具的意见。"

    def searched(content: str) -> SearchedText:
        marks = tuple(Mark(content.index(title), 1, title) for title in ("公租房", "廉租房") if title in content)
        return SearchedText(content, SPLITTER.pieces(Text(content, marks)))

    before = searched(f"公租房\n{line}\n廉租房\n{line}\n")
    second = before.content.rindex(line)
    anchor = anchor_of(before, second, second + len(line))
    assert (anchor.copies, anchor.headings) == (2, ("廉租房",))
    after = f"公租房\n须先登记。\n{line}\n廉租房\n须先登记。\n{line}\n另附照片。"
    assert locate(searched(after), anchor) == (after.rindex(line), after.rindex(line) + len(line))
    only_first = f"公租房\n须先登记。\n{line}\n另附照片。"
    assert locate(searched(only_first), anchor) == OTHER_COPY


# ── several corrections ──────────────────────────────────────────────────────────────────────────


def test_a_chunk_is_split_and_its_part_edited() -> None:
    text = document(6)
    piece = SPLITTER.pieces(text)[1]
    middle = len(piece.body) // 2
    parts = (piece.body[:middle], piece.body[middle:])
    split = at_piece(text, piece, "split", Change(parts=parts))
    pieces = corrected(text, split).pieces
    assert [one.body for one in pieces if one.corrected] == [part.strip() for part in parts]
    part = next(one for one in pieces if one.corrected)
    found = corrected(text, split, edit(text, part, "前半句改过"))
    assert [one.text for one in found.pieces if one.corrected] == ["前半句改过", parts[1].strip()]


def test_two_chunks_are_joined() -> None:
    text = document(7)
    first, second = SPLITTER.pieces(text)[1:3]
    joined = Correction(
        1,
        1,
        "d",
        "join",
        Change(),
        anchor_of(SearchedText(text.content, SPLITTER.pieces(text)), first.start, second.end),
    )
    pieces = corrected(text, joined).pieces
    assert text.content[first.start : second.end] in [one.body for one in pieces]
    assert len(pieces) == len(SPLITTER.pieces(text)) - 1


def test_the_later_of_two_edits_counts_and_undone_gives_way_to_the_earlier() -> None:
    text = document(8)
    piece = SPLITTER.pieces(text)[0]
    first, second = edit(text, piece, "第一次"), edit(text, piece, "第二次")
    assert corrected(text, first, second).pieces[0].text == "第二次"
    assert corrected(text, first, second).pieces[0].corrected.original == piece.text  # type: ignore[union-attr]
    assert corrected(text, first, replace(second, state="undone")).pieces[0].text == "第一次"


def test_a_correction_of_words_that_another_has_in_part_is_set_aside() -> None:
    text = document(9)
    first, second = SPLITTER.pieces(text)[1:3]
    pieces = SearchedText(text.content, SPLITTER.pieces(text))
    across = Correction(99, 1, "d", "disable", Change(), anchor_of(pieces, first.start + 5, second.end - 5))
    found = corrected(text, edit(text, first, "改过", 98), across)
    assert [one.state for one in found.outcomes] == ["applied", "needs_a_look"]
    assert "98" in found.outcomes[1].reason


def test_keywords_questions_and_notes_leave_the_text_as_it_is() -> None:
    text = document(10)
    plain = SPLITTER.pieces(text)
    found = corrected(
        text,
        at_piece(text, plain[2], "keywords", Change(keywords=("低保", "五保"))),
        at_piece(text, plain[2], "questions", Change(questions=("能报多少",))),
        at_piece(text, plain[2], "note", Change(note="待核")),
    )
    assert [one.text for one in found.pieces] == [one.text for one in plain]
    marks = found.pieces[2].corrected
    assert marks is not None
    assert (marks.keywords, marks.note, marks.original) == (("低保", "五保"), "待核", None)
    assert [(one.pair.question, one.piece) for one in found.questions] == [("能报多少", 2)]


def test_questions_go_with_the_words_that_answer_them() -> None:
    text = document(11)
    plain = SPLITTER.pieces(text)
    pairs = (QAPair("甲", plain[1].body[:30]), QAPair("乙", plain[3].body[:30]), QAPair("丙", "文中没有"))
    pieces, questions = attach(pairs, plain)
    found = correct(text, pieces, questions, [disable(text, plain[1])])
    assert [one.pair.question for one in found.questions] == ["乙", "丙"]
    assert [found.pieces[one.piece].text for one in found.questions] == [plain[3].text, "丙\n文中没有"]
    own = Correction(5, 1, "d", "disable", Change(), anchor_of(SearchedText(text.content, plain), 0, 0))
    own = replace(own, anchor=replace(own.anchor, quote="丙\n文中没有"))  # type: ignore[arg-type]
    assert [one.pair.question for one in correct(text, pieces, questions, [own]).questions] == ["甲", "乙"]


def test_a_disabled_document_has_no_pieces_and_says_whose_place_is_gone() -> None:
    text, other = document(12), document(13)
    whole = Correction(1, 1, "d", "disable_document", Change())
    found = corrected(
        text, whole, edit(text, SPLITTER.pieces(text)[0], "甲", 2), disable(other, SPLITTER.pieces(other)[0], 3)
    )
    assert found.pieces == ()
    assert [one.state for one in found.outcomes] == ["applied", "applied", "needs_a_look"]


@pytest.mark.parametrize(
    "wrong",
    [
        NewCorrection("edit", ("c_1_a_0",)),
        NewCorrection("edit", (), "a", Change(text="甲")),
        NewCorrection("join", ("c_1_a_0",)),
        NewCorrection("split", ("c_1_a_0",), change=Change(parts=("甲",))),
        NewCorrection("keywords", ("c_1_a_0",), change=Change(keywords=(" ",))),
        NewCorrection("keywords", ("c_1_a_0",), change=Change(keywords=("长" * 101,))),
        NewCorrection("rename", (), "a"),
        NewCorrection("rename", ("c_1_a_0",), "a", Change(name="乙")),
        NewCorrection("pin", ("c_1_a_0",)),
        NewCorrection("pin", ("c_1_a_0",), change=Change(question="甲", like=0.0)),
        NewCorrection("erase", ("c_1_a_0",)),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_correction_is_refused(wrong: NewCorrection) -> None:
    with pytest.raises(BadInput):
        checked_correction(wrong)


# ── any document, any change of it, any corrections ──────────────────────────────────────────────


@dataclass(frozen=True)
class Written:
    """A paragraph with a number of its own: another one may have the same words."""

    number: int
    words: str


def made(random: Random) -> list[Written]:
    own = [Written(number, paragraph(random)) for number in range(random.randint(3, 9))]
    for _ in range(random.randint(0, 2)):  # the same words again
        own.insert(random.randrange(len(own)), Written(100 + len(own), random.choice(own).words))
    return own


def changed_by(random: Random, before: Sequence[Written]) -> list[Written]:
    after = list(before)
    for at in range(random.randint(1, 5)):
        number = 1000 + at
        match random.choice(("insert", "copy", "delete", "move", "reword")):
            case "insert":
                after.insert(random.randint(0, len(after)), Written(number, paragraph(random)))
            case "copy" if after:
                after.insert(random.randint(0, len(after)), Written(number, random.choice(after).words))
            case "delete" if after:
                after.pop(random.randrange(len(after)))
            case "move" if after:
                one = after.pop(random.randrange(len(after)))
                after.insert(random.randint(0, len(after)), one)
            case "reword" if after:
                place = random.randrange(len(after))
                at = random.randrange(len(after[place].words) - 2)
                words = after[place].words
                after[place] = Written(number, words[:at] + "变" + words[at + 1 :])
    return after


def as_text(written: Sequence[Written]) -> Text:
    return Text("\n\n".join(one.words for one in written))


def numbers_at(written: Sequence[Written], start: int, end: int) -> list[int]:
    found, at = [], 0
    for one in written:
        if at < end and start < at + len(one.words):
            found.append(one.number)
        at += len(one.words) + 2
    return found


@given(st.integers(0, 2**32))
def test_no_change_of_a_document_applies_a_correction_to_other_text_or_loses_it(seed: int) -> None:
    random = Random(seed)
    written = made(random)
    text = as_text(written)
    pieces = SPLITTER.pieces(text)
    chosen = random.sample(pieces, min(len(pieces), random.randint(1, 4)))
    own = [
        edit(text, piece, f"改为{at}", at + 1) if random.random() < 0.6 else disable(text, piece, at + 1)
        for at, piece in enumerate(chosen)
    ]
    later = changed_by(random, written)
    after = as_text(later)
    splitter = random.choice((SPLITTER, ChunkSplitter(60, 10), ChunkSplitter(400, 0)))
    found = corrected(after, *own, splitter=splitter)
    assert [outcome.id for outcome in found.outcomes] == [one.id for one in own]  # none is lost
    shown = {number: piece for piece in found.pieces if piece.corrected for number in piece.corrected.ids}
    for one, outcome in zip(own, found.outcomes, strict=True):
        assert one.anchor is not None
        quote = solid(one.anchor.quote)
        if outcome.state != "applied":
            assert outcome.reason
            assert one.id not in shown
            continue
        span = locate(SearchedText(after.content, splitter.pieces(after)), one.anchor)
        assert not isinstance(span, str)
        assert solid(after.content[slice(*span)]) == quote
        before = numbers_at(written, chosen[one.id - 1].start, chosen[one.id - 1].end)
        was_once = solid(text.content).count(quote) == 1
        is_once = solid(after.content).count(quote) == 1
        # Where the words stand more than once, only what is around them tells; a copy in the same place is the same.
        around = anchor_of(SearchedText(after.content, ()), *span)
        is_same_place = (around.before, around.after) == (one.anchor.before, one.anchor.after)
        assert (was_once and is_once) or numbers_at(later, *span) == before or is_same_place
        assert (one.id in shown) == (one.kind == "edit")
    covered = "".join(piece.corrected.original if piece.corrected else piece.text for piece in found.pieces)  # type: ignore[misc]
    gone = "".join(one.anchor.quote for one in own if one.kind == "disable" and one.anchor is not None)
    assert set(solid(after.content)) <= set(solid(covered + gone))  # nothing else was taken away
    assert corrected(after, splitter=splitter).pieces == splitter.pieces(after)  # undone, all is as it was


@given(st.integers(0, 2**32))
def test_pieces_without_corrections_stay_what_they_were(seed: int) -> None:
    random = Random(seed)
    text = as_text(made(random))
    pieces = SPLITTER.pieces(text)
    chosen = random.choice(pieces)
    found = corrected(text, edit(text, chosen, "改过")).pieces
    apart = [one for one in pieces if one.end <= chosen.start or chosen.end <= one.start]
    assert [one for one in found if one in apart] == apart
