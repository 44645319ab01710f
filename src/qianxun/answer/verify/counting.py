"""Numbers by which a sentence counts what it or its source lists: 三名被害人, 四种症状, 第二笔借款, 一年共12000元. They
stand in no source, and are right where as many are listed there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from qianxun.answer.verify.table_rows import is_rule, tables
from qianxun.text.chinese import fold
from qianxun.text.figures import Number, figures, measured

_ITEMS: Final = ("[、和与及]|以及", "[，,]", "[；;]")
_POINTS: Final = frozenset(["点", "项", "种", "类", "条", "个", "大", "步", "方"])  # not things
_MOST: Final = 10
_SENTENCES: Final = re.compile(r"[。！？!?\n]")
_MARK: Final = re.compile(r"^\s*[一二三四五六七八九十\d]{1,3}[、.．)）]")
_ORDINAL: Final = re.compile(r"第[一二三四五六七八九十](?P<of>[^\W\d_条款章节项编版届名号季])")
_BEHIND: Final = re.compile(r"(?:仅次于|排在)(?P<who>[^，,。；;\n]{2,30}?)(?:之后|后面|[，,。；;\n]|的|设|$)")
_SPAN: Final = re.compile("一(?:个?学?年|个月|天|周|季度?)")  # 一年共12000元: for a year, not after one
_IN_ALL: Final = "(?:里|下来)?(?:一共|总共|总计|共计|共|合计)"


def is_counted(figure: Number, sentence: str, source: str, known: Sequence[Number]) -> bool:
    """Returns True if a sentence counts by a small number what is listed."""
    if _is_span(figure, sentence) or _is_ordinal(figure, source) or _is_rank(figure, source):
        return True
    is_small = bool(figure.unit) and not measured(figure.unit) and 1 < figure.values[0] <= _MOST
    if not (is_small or figure.is_count):
        return False
    has_other_count = any(one.unit == figure.unit and not one.written.startswith("第") for one in known)
    may_count_source = figure.unit in _POINTS or not has_other_count
    return (may_count_source and _counts_source(figure, source)) or _counts_itself(figure, sentence)


def _is_span(figure: Number, sentence: str) -> bool:
    return bool(_SPAN.fullmatch(figure.written)) and bool(re.search(figure.written + _IN_ALL, fold(sentence)))


def _is_ordinal(figure: Number, source: str) -> bool:
    """第二笔借款, where the source numbers no loans."""
    found = _ORDINAL.fullmatch(figure.written)
    return found is not None and not re.search(rf"第[一二三四五六七八九十\d]+{found['of']}", source)


def _is_rank(figure: Number, source: str) -> bool:
    """位居第三, where the source has 仅次于纽约和香港."""
    found = _BEHIND.search(fold(source)) if figure.written.startswith("第") else None
    return found is not None and len(re.split(_ITEMS[0], found["who"])) + 1 == figure.values[0]


def _counts_source(figure: Number, source: str) -> bool:
    """三项费用合计1200元: as many figures of one kind, or items of a list, are in a sentence of the source."""
    wanted, is_point = figure.values[0], figure.unit in _POINTS
    if any(len([line for line in lines[1:] if not is_rule(line)]) == wanted for lines in tables(source)):
        return True
    for sentence in _SENTENCES.split(source):
        kinds = Counter(measured(one.unit) or one.unit for one in figures(sentence) if isinstance(one, Number))
        if wanted in kinds.values() or wanted in _listed(sentence, is_point):
            return True
    return False


def _listed(sentence: str, is_point: bool) -> set[int]:
    """How many are listed in a sentence; points may be clauses."""
    items = [part for part in _MARK.sub("", sentence).split("、") if part.strip()]
    is_joined = len(items) > 1 and re.search("[和与及]", items[-1]) is not None
    counts = {len(items), len(items) + is_joined} - {1}
    for mark in _ITEMS[:2] if is_point else ():
        counts.add(len([part for part in re.split(mark, sentence) if part.strip()]))
    return counts - {1}


def _counts_itself(figure: Number, sentence: str) -> bool:
    """主要有三种症状：发热、咳嗽和乏力: the sentence counts what it lists, or what the lines below it list."""
    rest = fold(sentence).partition(figure.written)[2]
    if rest.rstrip().endswith((":", "：")):
        return True
    listed = re.split("[:：]|包括|分别是|分别为|即|有", rest)[-1]
    return any(len([part for part in re.split(mark, listed) if part.strip()]) == figure.values[0] for mark in _ITEMS)
