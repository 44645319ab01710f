"""Superlatives: the highest, the second lowest, the first three."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from qianxun.answer.tables.conditions import (
    Unclear,
)
from qianxun.answer.tables.match import span
from qianxun.answer.tables.mentions import Scene
from qianxun.answer.tables.reading import asked_for, entities, finish, refuse_more, with_contained, worded
from qianxun.answer.tables.words import (
    ABOUT,
    DOWNWARD,
    HOW_MANY,
    SUPERLATIVE,
    UNCLEAR,
)
from qianxun.core.table_answer_types import Condition, Operation, Plan, Understood
from qianxun.text.quantities import han_number

_HOW_MANY_OF: Final = re.compile("的?(?:前?[\\d一二两三四五六七八九十]+[个家名位种款所部条项座本]的?)?")
_PER_UNIT: Final = re.compile("价|率|比|均|龄|分|评|费|薪|温|高|重|长")  # not added up over rows
_ASKS_VALUE: Final = re.compile("多少|几")


def superlative_work(
    scene: Scene, numeric: list[Condition], superlative: re.Match[str] | None, top: re.Match[str] | None
) -> Understood:
    text = scene.asked.text
    used = [condition.column for condition in numeric]
    cue = superlative or top
    assert cue is not None  # the caller found one
    word = (superlative["word"] or superlative["nthword"]) if superlative else "高"
    if word in UNCLEAR:
        raise Unclear(f"“最{word}”说的是大还是小，分不清")
    if len(list(SUPERLATIVE.finditer(text))) > 1:
        raise Unclear("问题里不止一个“最”")
    measure = _measure_of(scene, cue, word, used)
    limit, cues = _limit(text, superlative, top)
    conditions = with_contained(scene, [*numeric, *worded(scene)], cues)
    taken = [*(condition.column for condition in conditions), measure]
    outputs = asked_for(scene, conditions, [measure])
    asks_value = bool(_ASKS_VALUE.search(text)) and not outputs
    if not asks_value and not outputs and scene.sheet.label is not None:
        outputs = [scene.sheet.label]
    refuse_more(scene, max(len(outputs), 1))
    _refuse_groups(scene, cue, measure, outputs)
    operation: Operation = "top" if limit > 1 else "min" if word in DOWNWARD else "max"
    nth = _nth(superlative)
    plan = Plan(operation, tuple(conditions), tuple(outputs), measure, limit, nth, distinct=word in DOWNWARD)
    return finish(scene, plan, cues, [*taken, *outputs, *entities(scene, outputs)])


def _refuse_groups(scene: Scene, cue: re.Match[str], measure: int, outputs: Sequence[int]) -> None:
    """计划数最多的专业, where a subject has several rows: one row's number or their sum, nobody knows."""
    sheet = scene.sheet
    if sheet.columns[measure].kind in ("percent", "date") or _PER_UNIT.search(sheet.columns[measure].name):
        return
    for each in scene.named:
        compared = each.end <= cue.start() or _HOW_MANY_OF.fullmatch(scene.asked.text[cue.end() : each.start])
        if compared and each.column in outputs and sheet.variety(each.column) < 1.0:
            raise Unclear("同一名称有多行，分不清比一行还是比合计")


def _measure_of(scene: Scene, cue: re.Match[str], word: str, used: Sequence[int]) -> int:
    sheet = scene.sheet
    ranked = [
        each for each in scene.named if sheet.is_measure(each.column) or sheet.columns[each.column].kind == "date"
    ]
    ranked = [each for each in ranked if each.column not in used or scene.free(HOW_MANY)]
    about = ABOUT.get(word)
    if about is not None:
        ranked = [each for each in ranked if re.search(about, sheet.columns[each.column].name)]
    behind = [each for each in ranked if 0 <= each.start - cue.end() <= 1]
    before = [
        each for each in ranked if each.end <= cue.start() and "," not in scene.asked.text[each.end : cue.start()]
    ]
    best = behind or sorted(before, key=lambda each: -each.end) or ranked
    if best:
        same = {each.column for each in ranked if (each.start, each.end) == (best[0].start, best[0].end)}
        if len(same) > 1 or any(each.end == best[0].start and each.column != best[0].column for each in ranked):
            raise Unclear("不知道要比的是哪一列")  # 已用预算 of a table with 预算 and 已用
        return best[0].column
    measures = [c for c in range(len(sheet.columns)) if sheet.is_measure(c) or sheet.columns[c].kind == "date"]
    fits = [c for c in measures if about is not None and re.search(about, sheet.columns[c].name)]
    if len(fits) == 1:
        return fits[0]
    raise Unclear("不知道要比的是哪一列")


def _limit(text: str, superlative: re.Match[str] | None, top: re.Match[str] | None) -> tuple[int, int]:
    """How many are asked for, and the characters that say it."""
    cues = 0
    for cue in (superlative, top):
        cues |= span(*cue.span()) if cue else 0
    if top is not None:
        return count_word(top["n"]), cues
    assert superlative is not None  # one of the two was found
    after = re.compile("的?(?P<n>\\d{1,3}|[一二两三四五六七八九十]{1,3})[个家名位种款所部条项座本]").match(
        text, superlative.end()
    )
    before = re.search(
        "哪(?P<n>\\d{1,3}|[二两三四五六七八九十]{1,3})[个家名位种款所部条项座本]", text[: superlative.start()]
    )
    found = after or before
    if found is None:
        return 1, cues
    return count_word(found["n"]), cues | span(*found.span())


def count_word(word: str) -> int:
    number = int(word) if word.isdigit() else han_number(word)
    if not number:
        raise Unclear(f"没有读懂“{word}”")
    return number


def _nth(superlative: re.Match[str] | None) -> int:
    return count_word(superlative["nth"]) if superlative and superlative["nth"] else 1
