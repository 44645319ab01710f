"""What becomes of a model's sentence: kept with its sources, kept with a flag, or dropped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.answer.dates import date_of
from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.compounds import torn
from qianxun.answer.verify.contradiction import Opposite, contradicted
from qianxun.answer.verify.derivation import is_computing
from qianxun.answer.verify.grounding import Evidence, Ungrounded, is_in, is_instead, ungrounded, unsupported
from qianxun.answer.verify.near_copies import altered
from qianxun.answer.verify.other_names import of_another_name
from qianxun.answer.verify.overstatement import overstated
from qianxun.answer.verify.parallel_clauses import exchanged
from qianxun.answer.verify.row_cells import contradicted_by_row
from qianxun.answer.verify.row_figures import (
    figures_of_named_rows,
    of_named_cells,
    of_other_cells,
    of_other_columns,
    of_other_rows,
)
from qianxun.core.answer_types import TABLE_HINT, Flag, Passage, Verdict
from qianxun.text.chinese import fold, grams
from qianxun.text.figures import Figure, figures, without_gaps
from qianxun.text.line_breaks import unwrapped

_TAKEN: Final = 0.6  # of a sentence's pairs of characters are in a passage: it is taken from there
_FOUND: Final = 0.5  # of a sentence's characters are in what it cites: that speaks of the same matter
_FUNCTION: Final = frozenset(
    "的了在是和与及或也都就才而但被把将对于为从到由其该此这那他她它们个一有不没无会能可以要应上中下前后时年月日元之所则并还又再很更最因如果按照根据资料来看说需"
)  # characters that say nothing of the matter
_DECLINES: Final = re.compile(
    "(?:资料|材料|文档|文中|上下文|提供的|给出的|信息)[^。]{0,30}(?:没有|未|并未|无法|不足|不包含|未能|找不到|不能)"
    "|无法(?:根据|从|依据)?[^。]{0,20}(?:回答|得知|确定|判断)|没有找到|不知道"
    "|cannot (?:be )?(?:answer|determin|find|found)"
    "|(?:not|n't) (?:mention|contain|provide|include|specif|enough)|no (?:relevant )?information",
    re.IGNORECASE,
)
_EMERGENCY_CALL: Final = re.compile(
    r"((?:拨打|拨|(?<![次天日早晚各])打|呼叫|致电|\bcall|\bdial)\s*+(?:急救|报警|火警)?+(?:电话|热线)?+\s*+[“\"]?+)"
    r"(?:120|110|119|122|999|911|112)(?=\s*+(?:[，。、；！？!?;”）)]|[.,](?!\d)|急救|求[助救]|电话|热线|[或并送和及]|at\b|now\b|\Z))",
    re.IGNORECASE,
)
"""Emergency numbers are no figures that a source has to have: “请立即拨打120” must not be dropped."""
_SENTENCES: Final = re.compile(r"[^。！？!?\n]+[。！？!?]?")
_LONGEST_EVIDENCE: Final = 300
_LEADS_ON: Final = re.compile(r"[：:][\s*_]*\Z")
_HEADS: Final = re.compile(r"\s*#{1,6}\s")


@dataclass(frozen=True, slots=True)
class Checked:
    """``passages``: what the sentence rests on; ``accepted``: whether it may stay in the answer."""

    passages: tuple[Passage, ...]
    flags: tuple[Flag, ...]
    accepted: bool = True
    evidence: str = ""  # the sentence of the passages that says it, or the opposite
    is_found: bool = True  # whether the passages speak of what it says at all

    @property
    def verdict(self) -> Verdict:
        if any(flag.kind == "contradicted" for flag in self.flags):
            return "contradicted"
        is_known = self.is_found and not any(flag.kind == "unsupported_number" for flag in self.flags)
        return "supported" if self.passages and is_known else "not_found"


def declines(text: str) -> bool:
    """Returns True if a sentence says that the sources do not answer."""
    return _DECLINES.search(text) is not None


def check(
    sentence: Sentence,
    passages: Sequence[Passage],
    query: str = "",
    *,
    shared: Sequence[int] = (),
    read_as: str | None = None,
    today: str = "",
) -> Checked:
    """Every figure must be in what is cited, and nothing may be the opposite of it.

    A sentence that cites nothing gets the passage that supports it among those that its table or list cites
    (``shared``), else the passage it was taken from; without any it is flagged, and dropped if it has figures.
    ``read_as``: a row of a table as a text.
    """
    text = sentence.text.strip()
    if not any(mark.isalnum() for mark in text):
        return Checked((), sentence.flags)
    checked = without_gaps(_EMERGENCY_CALL.sub(r"\1", text if read_as is None else read_as))
    row_query = query if read_as is None else ""
    around = tuple(passage for passage in passages if passage.number in shared)
    cited = _cited(sentence, checked, passages, around, row_query)
    all_cited = cited or around
    evidence = _evidence(all_cited, today)
    uncited = _evidence([passage for passage in passages if passage not in all_cited]) if all_cited else None
    found = ungrounded(checked, evidence, row_query, figures_of_named_rows(checked, evidence), uncited)
    wrong = found.wrong or of_other_columns(checked, evidence) or of_other_cells(checked, evidence)
    if read_as is not None:  # a cell is copied, unless its column says that it is worked out
        wrong = wrong or [*found.displaced, *(one for one in found.derived if not is_computing(one, checked))]
    if wrong:
        if all_cited and all(_is_in_query(figure, query, checked, evidence) for figure in wrong):
            flag = Flag("unsupported_number", text, f"问题里的 {_written(wrong)} 在所引资料中没有写明")
            return Checked(all_cited, (*sentence.flags, flag))
        reason = f"所引资料中没有 {_written(wrong)}" if all_cited else f"没有引用资料，无从核对 {_written(wrong)}"
        return Checked((), (*sentence.flags, Flag("unsupported_number", text, reason)), accepted=False)
    if all_cited and read_as is None and not declines(text) and (against := _opposite(checked, evidence, query)):
        flag = Flag("contradicted", text, f"所引资料说的{'' if against.is_copied else '可能'}相反：{against.clause}")
        sources = () if against.is_copied else all_cited
        return Checked(sources, (*sentence.flags, flag), accepted=not against.is_copied, evidence=against.clause)
    if all_cited and (reason := _doubt(found, checked, evidence)):
        flag = Flag("unsupported_number", text, reason)
        return Checked(all_cited, (*sentence.flags, flag), evidence=_evidence_of(checked, all_cited))
    if cited or declines(text) or _LEADS_ON.search(text) or _HEADS.match(text):
        is_found = declines(text) or _is_found(checked, evidence)
        return Checked(cited, sentence.flags, evidence=_evidence_of(checked, cited), is_found=is_found)
    had_link = any(flag.kind == "link_removed" for flag in sentence.flags)
    return Checked((), (*sentence.flags, Flag("uncited", text, "没有标明所依据的资料")), accepted=not had_link)


def _cited(
    sentence: Sentence, checked: str, passages: Sequence[Passage], around: Sequence[Passage], query: str
) -> tuple[Passage, ...]:
    """The passages that a sentence cites; where it cites none, those of ``around`` that support it, or the one that it
    was taken from."""
    cited = tuple(passage for passage in passages if passage.number in sentence.numbers)
    if not cited and around:
        cited = _supporting(checked, around, query)
    if not cited and not declines(sentence.text):
        origin = _origin(checked, passages)
        cited = (origin,) if origin is not None else ()
    return cited


def _is_found(text: str, evidence: Evidence) -> bool:
    """Returns True if the sources have most of the characters of a sentence that mean something: what they do not speak
    of contradicts nothing, and is kept, but is not supported either."""
    own = {mark for mark in fold(text) if mark.isalpha() and not mark.isascii()} - _FUNCTION
    known = fold(evidence.text)
    return sum(mark in known for mark in own) >= _FOUND * len(own)


def _opposite(text: str, evidence: Evidence, query: str) -> Opposite | None:
    """A copied clause with one thing altered, the cell of a row that is named, or what is told in other words."""
    copied = (
        altered(text, evidence.texts) or exchanged(text, evidence.texts) or contradicted_by_row(text, evidence.texts)
    )
    if copied:
        return Opposite(copied, is_copied=True)
    if found := contradicted(text, evidence.texts, query):
        return found
    other = of_another_name(text, evidence.texts) or overstated(text, evidence.texts)
    return Opposite(other) if other else None


def _doubt(found: Ungrounded, text: str, evidence: Evidence) -> str:
    """Why figures are not certain that are not surely wrong."""
    derived = f"所引资料中没有 {_written(found.derived)}，可能是算出来的，没有核实" if found.derived else ""
    others = (*found.displaced, *of_other_rows(text, evidence), *of_named_cells(text, evidence))
    displaced = f"{_written(others)} 在所引资料中像是别的，请核对" if others else ""
    elsewhere = f"{_written(found.elsewhere)} 不在所引的资料中，在另一段资料中" if found.elsewhere else ""
    mismatched = f"{_written(found.mismatched)} 与句中所列的数对不上" if found.mismatched else ""
    apart = torn(text, evidence.texts)
    together = f"所引资料中没有连在一起的 {'、'.join(apart)}" if apart else ""
    return "；".join(filter(None, (derived, displaced, elsewhere, mismatched, together)))


def _written(found: Sequence[Figure]) -> str:
    return "、".join(dict.fromkeys(figure.written for figure in found))


def _evidence_of(text: str, cited: Sequence[Passage]) -> str:
    """The sentence of the passages that has most of a sentence's words."""
    own = {gram for gram in grams(text) if len(gram) > 1}
    sentences = [part for passage in cited for part in _SENTENCES.findall(passage.text)]
    best = max(sentences, key=lambda part: len(own.intersection(grams(part))), default="")
    return best.strip()[:_LONGEST_EVIDENCE]


def _is_in_query(figure: Figure, query: str, text: str, evidence: Evidence) -> bool:
    """A figure of the question, repeated in the answer, where no source has another in the same words."""
    is_there = bool(query) and is_in(figure, "", Evidence.of((query,)))
    return is_there and not is_instead(figure, text, evidence)


def _evidence(cited: Sequence[Passage], today: str = "") -> Evidence:
    """The texts of the documents, the passages of one together: another may say the same of another subject.

    The date of ``today`` is known without any.
    """
    texts: dict[str, list[str]] = {}
    for passage in cited:
        texts.setdefault(passage.doc_name or passage.doc_id, []).append(_evident(passage))
    return Evidence.of(map("\n".join, texts.values()), dict.fromkeys((*(one.doc_name for one in cited), today)))


def _supporting(text: str, shared: Sequence[Passage], query: str) -> tuple[Passage, ...]:
    """Of the passages that a table or list cites, the one that supports a row of it; all, where only all do; none."""
    alone = [passage for passage in shared if not unsupported(text, _evidence([passage]), query)]
    if alone:
        own = set(grams(text))
        return (max(alone, key=lambda passage: len(own.intersection(grams(_whole(passage))))),)
    return tuple(shared) if shared and not unsupported(text, _evidence(shared), query) else ()


def _origin(text: str, passages: Sequence[Passage]) -> Passage | None:
    """The passage that a sentence without a mark was taken from: most of its words and all its figures are there."""
    own = {gram for gram in grams(text) if len(gram) > 1}
    if len(own) < 4:
        return None
    shares = [len(own.intersection(grams(_whole(passage)))) / len(own) for passage in passages]
    best = max(shares, default=0.0)
    if best < _TAKEN:
        return None
    passage = passages[shares.index(best)]
    return None if figures(text) and unsupported(text, Evidence.of([_whole(passage)])) else passage


def _whole(passage: Passage) -> str:
    return f"{passage.doc_name}\n{_evident(passage)}"


def _evident(passage: Passage) -> str:
    """The text of a passage, its date, and what was computed from its rows: a sum of them stands in none."""
    hint, day = passage.metadata.get(TABLE_HINT), date_of(passage)
    known = (hint if isinstance(hint, str) else "", day.isoformat() if day is not None else "")
    return "\n".join((unwrapped(passage.text), *filter(None, known)))
