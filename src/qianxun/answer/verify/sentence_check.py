"""What becomes of a model's sentence: kept with its sources, kept with a flag, or dropped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.answer.verify.citations import Ended
from qianxun.answer.verify.grounding import Evidence, stands, unsupported
from qianxun.core.answer_types import Flag, Passage
from qianxun.text.chinese import grams
from qianxun.text.figures import Day, Figure, figures

HELD: Final = 0.6  # of a sentence's pairs of characters stand in a passage: it is taken from there
_DECLINES: Final = re.compile(
    "(?:资料|材料|文档|文中|上下文|提供的|给出的|信息)[^。]{0,30}(?:没有|未|并未|无法|不足|不包含|未能|找不到|不能)"
    "|无法(?:根据|从|依据)?[^。]{0,20}(?:回答|得知|确定|判断)|没有找到|不知道"
    "|cannot (?:be )?(?:answer|determin|find|found)"
    "|(?:not|n't) (?:mention|contain|provide|include|specif|enough)|no (?:relevant )?information",
    re.IGNORECASE,
)
_EMERGENCY_CALL: Final = re.compile(
    r"((?:拨打|拨|(?<![次天日早晚各])打|呼叫|致电|\bcall|\bdial)\s*(?:急救|报警|火警)?(?:电话|热线)?\s*[“\"]?)"
    r"(?:120|110|119|122|999|911|112)(?=\s*(?:[，。、；！？!?;”）)]|[.,](?!\d)|急救|求[助救]|电话|热线|[或并送和及]|at\b|now\b|\Z))",
    re.IGNORECASE,
)
"""Whom everybody knows to call: no figure that a source has to have, and “请立即拨打120” is not to be lost."""
_LEADS_ON: Final = re.compile(r"[：:][\s*_]*\Z")
_HEADS: Final = re.compile(r"\s*#{1,6}\s")


@dataclass(frozen=True, slots=True)
class Judged:
    """``passages``: what the sentence rests on; ``is_kept``: whether it may stand in an answer."""

    passages: tuple[Passage, ...]
    flags: tuple[Flag, ...]
    is_kept: bool = True


def declines(text: str) -> bool:
    """Whether a sentence says that the sources do not tell."""
    return _DECLINES.search(text) is not None


def judge(
    sentence: Ended,
    passages: Sequence[Passage],
    asked: str = "",
    *,
    shared: Sequence[int] = (),
    read_as: str | None = None,
) -> Judged:
    """Every figure must stand in what is cited. A sentence that cites nothing is given what bears it out of all that
    its table or list cites (``shared``), else the passage it was taken from, where there is one; without, it is
    flagged, and dropped where it has figures. ``read_as``: what a row of a table says by itself."""
    text = sentence.text.strip()
    if not any(mark.isalnum() for mark in text):
        return Judged((), sentence.flags)
    checked = _EMERGENCY_CALL.sub(r"\1", text if read_as is None else read_as)
    asked_of = asked if read_as is None else ""
    cited = tuple(each for each in passages if each.number in sentence.numbers)
    around = tuple(each for each in passages if each.number in shared)
    if not cited and around:
        cited = _bearing(checked, around, asked_of)
    if not cited and not declines(text):
        holder = _holder(checked, passages)
        cited = (holder,) if holder is not None else ()
    cited_here = cited or around
    evidence = _evidence(cited_here)
    wrong = unsupported(checked, evidence, asked_of)
    if wrong:
        told = "、".join(dict.fromkeys(each.written for each in wrong))
        if cited_here and all(_is_asked(each, asked, evidence) for each in wrong):
            flag = Flag("unsupported_number", text, f"问题里的 {told} 在所引资料中没有写明")
            return Judged(cited_here, (*sentence.flags, flag))
        reason = f"所引资料中没有 {told}" if cited_here else f"没有引用资料，无从核对 {told}"
        return Judged((), (*sentence.flags, Flag("unsupported_number", text, reason)), is_kept=False)
    if cited or declines(text) or _LEADS_ON.search(text) or _HEADS.match(text):
        return Judged(cited, sentence.flags)
    points_elsewhere = any(each.kind == "link_removed" for each in sentence.flags)
    flags = (*sentence.flags, Flag("uncited", text, "没有标明所依据的资料"))
    return Judged((), flags, is_kept=not points_elsewhere)


def _is_asked(figure: Figure, asked: str, evidence: Evidence) -> bool:
    """A year that the question says, repeated in the answer, where the sources name no other year."""
    is_year = isinstance(figure, Day) and figure.month is None and figure.day is None
    return is_year and not evidence.years and stands(figure, "", Evidence.of((asked,)))


def _evidence(cited: Sequence[Passage]) -> Evidence:
    return Evidence.of(_by_document(cited), dict.fromkeys(each.doc_name for each in cited))


def _bearing(text: str, shared: Sequence[Passage], asked: str) -> tuple[Passage, ...]:
    """Of the passages that a table or list cites, the one that bears a row of it out; all, where only all do; none."""
    own = set(grams(text))
    alone = [each for each in shared if not unsupported(text, _evidence([each]), asked)]
    if alone:
        return (max(alone, key=lambda each: len(own.intersection(grams(_whole(each))))),)
    return tuple(shared) if shared and not unsupported(text, _evidence(shared), asked) else ()


def _by_document(passages: Sequence[Passage]) -> list[str]:
    """What each document says, its passages together: another may say the same of another subject."""
    texts: dict[str, str] = {}
    for each in passages:
        name = each.doc_name or each.doc_id
        texts[name] = f"{texts[name]}\n{each.text}" if name in texts else each.text
    return list(texts.values())


def _whole(passage: Passage) -> str:
    return f"{passage.doc_name}\n{passage.text}"


def _holder(text: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage that a sentence without a mark was taken from: most of its words and all its figures are there."""
    own = {gram for gram in grams(text) if len(gram) > 1}
    if len(own) < 4:
        return None
    best: tuple[float, Passage] | None = None
    for passage in passages:
        share = len(own.intersection(grams(_whole(passage)))) / len(own)
        if share >= HELD and (best is None or share > best[0]):
            best = (share, passage)
    if best is None or (figures(text) and unsupported(text, Evidence.of([_whole(best[1])]))):
        return None
    return best[1]
