"""A question read against one table: which work on its rows would answer it, and how sure that reading is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from qianxun.answer.quantity import han_number
from qianxun.answer.table_conditions import (
    Named,
    Unclear,
    contained_conditions,
    numeric_conditions,
    worded_conditions,
)
from qianxun.answer.table_lookup import look_up, look_up_pair
from qianxun.answer.table_match import Asked, places, size, span
from qianxun.answer.table_scene import Scene, scene_of
from qianxun.answer.table_shapes import Condition, Operation, Plan, Understood, Unsure
from qianxun.answer.table_sheet import Sheet, runs
from qianxun.answer.table_words import (
    ABOUT,
    ASKING,
    AVERAGE,
    CHANGED_BY,
    DECISIVE,
    DECISIVE_ALONE,
    DIFFERENCE,
    DOWNWARD,
    EITHER,
    HOW_MANY,
    IDENTIFYING,
    JOINED,
    MORE_THAN,
    NEGATION,
    NEXT_ASK,
    ORDINAL,
    PER_GROUP,
    POLITE,
    SEVERAL,
    SUM,
    SUPERLATIVE,
    TIMES,
    TOP,
    UNCLEAR,
    UNCOUNTED,
)
from qianxun.chinese import words

_LISTING: Final = re.compile("都有哪些|有哪些|是哪些|哪些|哪几|都有什么|有什么|列出|列举|都有|名单|介绍")
_ORDERED: Final = re.compile("升序|降序|倒序|正序|排序|排列|从[^,]{1,3}到[^,]{1,3}|由[^,]{1,3}到[^,]{1,3}")
_WHERE: Final = (re.compile("哪里|在哪|哪儿|何处|什么地方"), re.compile("地址|位置|地点|所在|address", re.IGNORECASE))
_WHEN: Final = (
    re.compile("什么时候|何时|哪天|哪一天|哪年|哪一年"),
    re.compile("时间|日期|年份|date|time", re.IGNORECASE),
)
_HOW_MANY_COLUMN: Final = re.compile("(?:数量|个数|人数|数目|件数|台数|户数)(?:[（(].*)?$")
_KIND_OF_VALUE: Final = re.compile("日期|时间|年份|年|数|数量|人数|金额|额")  # 2023年签约的: the number says so already
_ASKS_VALUE: Final = re.compile("多少|几")
_TAIL_OF_NUMBER: Final = re.compile("[一二三四五六七八九十\\d]+$")


def read_question(asked: Asked, sheet: Sheet) -> Understood | Unsure:
    """The best reading of a question against a table."""
    scene = scene_of(asked, sheet)
    try:
        worked = _work(scene)
    except Unclear as unclear:
        return Unsure(str(unclear), _near(scene))
    if worked is not None:
        return worked
    crossed = _whole(asked, look_up(asked, sheet))
    paired = _whole(asked, look_up_pair(asked, sheet))
    if isinstance(paired, Understood) and _is_better(asked, paired, crossed):
        return paired
    return crossed


def _whole(asked: Asked, read: Understood | Unsure) -> Understood | Unsure:
    """A lookup that finds as many cells as are asked for; fewer would be half an answer."""
    if isinstance(read, Unsure):
        return read
    plan = read.plan
    cells = len(plan.against) or len(plan.rows or ()) * len(plan.outputs)
    joined = [hit for hit in JOINED.finditer(asked.text) if not span(*hit.span()) & read.explained]
    if cells < max(asks(asked.text), 1 + len(joined), 2 if SEVERAL.search(asked.text) else 1):
        return Unsure("问题里不止一问", tuple(plan.rows or ())[:10])
    return read


def _is_better(asked: Asked, one: Understood, other: Understood | Unsure) -> bool:
    if isinstance(other, Unsure):
        return True
    return size(one.explained & asked.telling) > size(other.explained & asked.telling)


def _near(scene: Scene) -> tuple[int, ...]:
    best = max(scene.said, key=lambda each: size(each.mask), default=None)
    return best.rows[:10] if best else ()


# ── what is asked ────────────────────────────────────────────────────────────────────────────────


def _work(scene: Scene) -> Understood | None:
    """Anything but a plain lookup; None where the question is one. Raises Unclear."""
    text = scene.asked.text
    _refuse_beyond(scene)
    if (compared := _comparison(scene)) is not None:
        return compared
    closed = scene.names_mask | scene.said_mask
    taken_by_cues = _cue_numbers(text)
    numeric = numeric_conditions(text, scene.sheet, scene.named, closed | taken_by_cues | scene.about)
    superlative, top = scene.free(SUPERLATIVE), scene.free(TOP)
    if scene.sheet.is_form and (numeric or superlative or top):
        raise Unclear("表格不是一行一条的样子")
    if superlative is not None or top is not None:
        return _superlative(scene, numeric, superlative, top)
    if scene.sheet.is_form:
        return None
    if (average := scene.free(AVERAGE)) is not None:
        return _aggregate(scene, numeric, "average", average)
    if (how_many := _counting(scene, numeric)) is not None:
        return _stated(scene, how_many) or _count(scene, numeric, how_many)
    if (total := scene.free(SUM)) is not None and _free_measure(scene, numeric) is not None:
        return _aggregate(scene, numeric, "sum", total)
    is_list = scene.free(_LISTING) is not None
    if numeric or (is_list and (scene.said or scene.columns)):
        return _filter(scene, numeric)
    return _ordinal(scene)


def _refuse_beyond(scene: Scene) -> None:
    """What these readings cannot say is refused, not left out."""
    text = scene.asked.text.rstrip("?")
    if text.endswith("吗") and not ASKING.search(text) and not POLITE.search(text):
        raise Unclear("问的是对不对，不是查什么")
    if (found := scene.free(_ORDERED)) is not None:
        raise Unclear(f"问题要求排序（{found.group()}），这里只查不排")
    if scene.free(PER_GROUP) and (scene.free(SUPERLATIVE) or scene.free(AVERAGE) or scene.free(SUM)):
        raise Unclear("问题要求分组统计")


def asks(text: str) -> int:
    """How many things a question asks for, clause by clause."""
    return sum(bool(ASKING.search(clause)) for clause in NEXT_ASK.split(text)) or 1


def _refuse_more(scene: Scene, shown: int) -> None:
    """A question that asks for more than is shown would be half answered."""
    if asks(scene.asked.text) > shown:
        raise Unclear("问题里不止一问")


def _cue_numbers(text: str) -> int:
    """Numbers that belong to 前三名, 最高的3个, 第二所."""
    mask = 0
    for cue in (TOP, ORDINAL):
        for hit in cue.finditer(text):
            mask |= span(*hit.span())
    for hit in re.finditer(
        "最.{1,2}的(?P<n>\\d{1,3}|[一二两三四五六七八九十]{1,3})(?=[个家名位种款所部条项座本])", text
    ):
        mask |= span(*hit.span("n"))
    return mask


def _worded(scene: Scene, without: Sequence[int] = ()) -> list[Condition]:
    return worded_conditions(scene.asked.text, [s for s in scene.said if s.column not in without], scene.named)


def _finish(scene: Scene, plan: Plan, cues: int, used: Sequence[int]) -> Understood:
    """The reading with everything it explains; a denial or an alternative that it does not is a misreading."""
    text = scene.asked.text
    explained = cues
    for condition in plan.conditions:
        explained |= condition.mask
    bounding = [*(condition.column for condition in plan.conditions), plan.measure]
    shares = [
        1.0 if c in bounding and _KIND_OF_VALUE.fullmatch(met.rest) else met.share
        for c, met in scene.columns
        if c in used
    ]
    for c, met in scene.columns:
        if c in used:
            explained |= met.mask
    _refuse_unread(scene, plan, explained, text)
    return Understood(plan, explained, min(shares, default=1.0) ** 0.5)


def _refuse_unread(scene: Scene, plan: Plan, explained: int, text: str) -> None:
    for hit in NEGATION.finditer(text):
        if not span(*hit.span()) & (explained | scene.names_mask | scene.said_mask | scene.about):
            raise Unclear(f"没有读懂否定（{hit.group()}）")
    for either in EITHER.finditer(text):
        if not span(*either.span()) & (explained | scene.names_mask | scene.said_mask) and not _joins(scene, either):
            raise Unclear("没有读懂“或”")


def _joins(scene: Scene, either: re.Match[str]) -> bool:
    """Whether it stands between two cells of one column."""
    ends = {each.column for each in scene.said if any(either.start() - end in (0, 1) for _, end in runs(each.mask))}
    begins = {each.column for each in scene.said if any(start - either.end() in (0, 1) for start, _ in runs(each.mask))}
    return bool(ends & begins)


def _with_contained(scene: Scene, conditions: list[Condition], used: int) -> list[Condition]:
    explained = used | scene.names_mask | scene.said_mask | scene.about
    for condition in conditions:
        explained |= condition.mask
    open_ = scene.asked.unexplained(explained)
    return [*conditions, *contained_conditions(scene.asked.text, scene.sheet, open_, scene.sheet.label)]


def _outputs(scene: Scene, conditions: Sequence[Condition], taken: Sequence[int] = ()) -> list[int]:
    """Columns that are named and not used up by a condition, in the order in which they are named. A column may bound
    the rows in one place and be asked for in another."""
    spent = [place for condition in conditions if (place := _place_of(scene, condition)) is not None]
    free = [each for each in scene.named if each.column not in taken and not any(_meets(each, one) for one in spent)]
    known = [
        condition.column for condition in conditions if condition.comparison == "in" and len(condition.values) == 1
    ]
    order = {each.column: each.start for each in reversed(free) if each.column not in known}
    for each in free:
        if any(other.column != each.column and (other.start, other.end) == (each.start, each.end) for other in free):
            raise Unclear(f"“{scene.asked.text[each.start : each.end]}”指向不止一列")
    return sorted(order, key=lambda column: order[column])


def _meets(named: Named, place: Named) -> bool:
    return named.start < place.end and place.start < named.end


def _place_of(scene: Scene, condition: Condition) -> Named | None:
    """Where the column of a condition is named: right before what it must be, or the nearest place before."""
    start = runs(condition.mask)[0][0]
    before = [each for each in scene.named if each.column == condition.column and each.end <= start]
    if condition.comparison in ("in", "not in", "contains", "not contains"):
        before = [each for each in before if start - each.end <= 2]
    if not before:  # 2023年以后生产的
        end = runs(condition.mask)[-1][1]
        before = [each for each in scene.named if each.column == condition.column and 0 <= each.start - end <= 1]
    return max(before, key=lambda each: each.end, default=None)


def _asked_for(scene: Scene, conditions: Sequence[Condition], taken: Sequence[int] = ()) -> list[int]:
    """What is to be shown: columns named; 在哪里 and 什么时候 ask for one without naming it, 哪些 for labels."""
    outputs = _after_entity(scene, _outputs(scene, conditions, taken))
    for cue, wanted in (_WHERE, _WHEN):
        if scene.free(cue) is None or any(wanted.search(scene.sheet.columns[c].name) for c in outputs):
            continue
        fits = [c for c, column in enumerate(scene.sheet.columns) if wanted.search(column.name)]
        if len(fits) != 1:
            raise Unclear("不知道要列出哪一列")
        outputs = fits
    listing = scene.free(_LISTING)
    label = scene.sheet.label
    known = any(condition.column == label and condition.comparison in ("in", "=") for condition in conditions)
    if listing is None or label is None or label in outputs or (known and outputs):
        return outputs
    beside = [each for each in scene.named if each.column in outputs and _is_beside(each, listing)]
    return outputs if beside else [label, *outputs]


def _is_beside(named: Named, cue: re.Match[str]) -> bool:
    return 0 <= named.start - cue.end() <= 1 or named.end == cue.start()


# ── counts, sums, averages ───────────────────────────────────────────────────────────────────────


def _counting(scene: Scene, numeric: Sequence[Condition]) -> re.Match[str] | None:
    """多少家, 几个: a count, unless a column says how many there are."""
    hit = scene.free(HOW_MANY)
    if hit is None or not hit["of"] or scene.free(UNCOUNTED):
        return None
    return None if _free_measure(scene, numeric) is not None else hit


def _free_measure(scene: Scene, numeric: Sequence[Condition]) -> int | None:
    free = [c for c in _outputs(scene, numeric) if scene.sheet.is_measure(c)]
    return free[-1] if free else None


def _stated(scene: Scene, cue: re.Match[str]) -> Understood | None:
    """多少顶大檐帽: the number is stated where the row is one, and one column says how many."""
    rows = {each.rows for each in scene.said}
    numbers = [c for c, column in enumerate(scene.sheet.columns) if _HOW_MANY_COLUMN.search(column.name)]
    if len(rows) != 1 or len(next(iter(rows))) != 1 or len(numbers) != 1 or not scene.sheet.is_measure(numbers[0]):
        return None
    _refuse_more(scene, 1)
    plan = Plan("lookup", rows=next(iter(rows)), outputs=tuple(numbers))
    return _finish(scene, plan, span(*cue.span()) | scene.said_mask, [c for c, _ in scene.columns])


def _count(scene: Scene, numeric: list[Condition], cue: re.Match[str]) -> Understood:
    conditions = _with_contained(scene, [*numeric, *_worded(scene)], span(*cue.span()))
    taken = [condition.column for condition in conditions]
    outputs = [c for c in _outputs(scene, conditions) if not scene.sheet.is_numeric(c)]
    if len(outputs) > 1:
        raise Unclear("不知道要数的是哪一列")
    if any(_picks_one(scene, condition) for condition in conditions):
        raise Unclear("一行已是一项统计，不能再数行数")
    label = scene.sheet.label
    distinct = bool(outputs) and (outputs[0] != label or cue["of"] in "种类款")
    _refuse_more(scene, 1)
    plan = Plan("count", tuple(conditions), tuple(outputs), distinct=distinct)
    return _finish(scene, plan, span(*cue.span()), [*taken, *outputs])


def _picks_one(scene: Scene, condition: Condition) -> bool:
    """Whether it names single rows of a table that holds numbers: 甲级单位 of a table of grades and their numbers."""
    if condition.comparison != "in" or not any(map(scene.sheet.is_measure, range(len(scene.sheet.columns)))):
        return False
    return scene.sheet.variety(condition.column) == 1.0


def _aggregate(scene: Scene, numeric: list[Condition], operation: Operation, cue: re.Match[str]) -> Understood:
    measures = [c for c in _outputs(scene, numeric) if scene.sheet.is_measure(c)]
    if len(measures) != 1:
        raise Unclear("不知道要算的是哪一列" if not measures else "要算的列不止一列")
    conditions = _with_contained(scene, [*numeric, *_worded(scene)], span(*cue.span()))
    if any(PER_GROUP.match(scene.asked.text, each.end) for each in scene.named):
        raise Unclear("问题要求分组统计")
    taken = [condition.column for condition in conditions]
    _refuse_more(scene, 1)
    plan = Plan(operation, tuple(conditions), (), measures[0])
    extra = [c for c in _outputs(scene, conditions, measures) if c == scene.sheet.label]
    return _finish(scene, plan, span(*cue.span()), [*taken, *measures, *extra])


# ── superlatives ─────────────────────────────────────────────────────────────────────────────────


def _superlative(
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
    conditions = _with_contained(scene, [*numeric, *_worded(scene)], cues)
    taken = [*(condition.column for condition in conditions), measure]
    outputs = _asked_for(scene, conditions, [measure])
    asks_value = bool(_ASKS_VALUE.search(text)) and not outputs
    if not asks_value and not outputs and scene.sheet.label is not None:
        outputs = [scene.sheet.label]
    _refuse_more(scene, max(len(outputs), 1))
    operation: Operation = "top" if limit > 1 else "min" if word in DOWNWARD else "max"
    nth = _nth(superlative)
    plan = Plan(operation, tuple(conditions), tuple(outputs), measure, limit, nth, distinct=word in DOWNWARD)
    return _finish(scene, plan, cues, [*taken, *outputs, *_entities(scene, outputs)])


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
        if len(same) > 1:
            raise Unclear("不知道要比的是哪一列")
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
        return _count_word(top["n"]), cues
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
    return _count_word(found["n"]), cues | span(*found.span())


def _count_word(word: str) -> int:
    number = int(word) if word.isdigit() else han_number(word)
    if not number:
        raise Unclear(f"没有读懂“{word}”")
    return number


def _nth(superlative: re.Match[str] | None) -> int:
    return _count_word(superlative["nth"]) if superlative and superlative["nth"] else 1


def _after_entity(scene: Scene, outputs: list[int]) -> list[int]:
    """票价最高的电影的票房: the film is meant, its takings are asked for."""
    if len(outputs) != 2:
        return outputs
    first, second = ([each for each in scene.named if each.column == c] for c in outputs)
    if any(scene.asked.text[one.end : other.start] == "的" for one in first for other in second):
        return outputs[1:]
    return outputs


def _entities(scene: Scene, outputs: Sequence[int]) -> list[int]:
    return [c for c, _ in scene.columns if c not in outputs and not scene.sheet.is_numeric(c)]


# ── filters and lists ────────────────────────────────────────────────────────────────────────────


def _filter(scene: Scene, numeric: list[Condition]) -> Understood:
    conditions = _with_contained(scene, [*numeric, *_worded(scene)], 0)
    taken = [condition.column for condition in conditions]
    outputs = _asked_for(scene, conditions)
    label = scene.sheet.label
    known = any(condition.column == label and condition.comparison in ("in", "=") for condition in conditions)
    if not outputs and label is not None and not known:
        outputs = [label]
    if not outputs:
        raise Unclear("不知道要列出哪一列")
    _refuse_more(scene, len(outputs))
    if not conditions:
        _refuse_labels(scene)
    denied = any(condition.comparison in ("not in", "not contains", "!=") for condition in conditions)
    if denied and label not in outputs and any(scene.sheet.variety(column) < 1.0 for column in outputs):
        raise Unclear("否定的是行还是整组，分不清")
    listing = scene.free(_LISTING)
    cues = span(*listing.span()) if listing else 0
    plan = Plan("filter" if conditions else "list", tuple(conditions), tuple(outputs))
    return _finish(scene, plan, cues, [*taken, *outputs, *_entities(scene, outputs)])


def _refuse_labels(scene: Scene) -> None:
    """A whole column is listed only where no label of a row is closer to what was asked for."""
    found = look_up(scene.asked, scene.sheet)
    rows = found.plan.rows if isinstance(found, Understood) else found.rows
    if rows:
        raise Unclear("不知道要列的是一列还是一行")


def _ordinal(scene: Scene) -> Understood | None:
    """第三名 of a list: by its running number, or by its place where the list has no other order."""
    hit = scene.free(ORDINAL)
    if hit is None or scene.said:
        return None
    wanted = _count_word(hit["n"])
    sheet = scene.sheet
    running = [c for c, column in enumerate(sheet.columns) if re.search("序号|排名|名次|编号", column.name)]
    if running:
        rows = [r for r, value in enumerate(sheet.values(running[0])) if value == wanted or str(value) == str(wanted)]
    else:
        rows = [wanted - 1] if wanted <= len(sheet) else []
    outputs = _outputs(scene, (), running) or ([sheet.label] if sheet.label is not None else [])
    useful = [c for c, column in enumerate(sheet.columns) if not IDENTIFYING.search(column.name.strip())]
    if len(rows) != 1 or not outputs or (not running and len(useful) > 1):
        raise Unclear(f"没有读懂“{hit.group()}”说的是哪一行")
    return _finish(scene, Plan("lookup", rows=tuple(rows), outputs=tuple(outputs)), span(*hit.span()), outputs)


# ── differences and ratios ───────────────────────────────────────────────────────────────────────


def _comparison(scene: Scene) -> Understood | None:
    """A和B的X差多少, A的X比B多多少, A的X是B的多少倍: two cells, one number."""
    difference, more, times = scene.free(DIFFERENCE), scene.free(MORE_THAN), scene.free(TIMES)
    cue = times or difference or (more if "比" in scene.asked.text else None)
    if cue is None:
        return None
    measures = [c for c in _outputs(scene, ()) if scene.sheet.is_measure(c)]
    cells = _two_cells(scene, measures)
    if cells is None:
        raise Unclear("要比较的不是两个单元格")
    cues = span(*cue.span()) | scene.said_mask
    at = scene.asked.text.find("比")
    if at >= 0:
        cues |= span(at, at + 1)
    if more is not None and cue is more and more["word"] in DOWNWARD:
        cells = cells[::-1]
    plan = Plan("ratio" if times else "difference", against=cells, distinct=cue is difference)
    return _finish(scene, plan, cues, measures)


def _two_cells(scene: Scene, measures: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    singles = [each for each in scene.said if len(each.rows) == 1]
    if len(singles) != len(scene.said):
        return None
    if len(measures) == 1 and len(singles) == 2 and singles[0].column == singles[1].column:
        ordered = sorted(singles, key=lambda each: each.mask & -each.mask)
        return tuple((each.rows[0], measures[0]) for each in ordered)
    if len(measures) == 2 and (len(singles) == 1 or len(scene.sheet) == 1):
        row = singles[0].rows[0] if singles else 0
        return (row, measures[0]), (row, measures[1])
    return None


def decisive(text: str, mask: int) -> str:
    """The first word among unexplained characters that tells one table's number from another's; empty without any."""
    for hit in DECISIVE.finditer(text):
        if span(*hit.span()) & ~mask == 0:
            return hit.group()
    for word in words(text):
        if word in DECISIVE_ALONE and places(word, text) & mask:
            return word
    for start, end in runs(mask):  # 净利润率 is not 净利润
        if start and text[start] in CHANGED_BY["after"] and text[start - 1].isalnum():
            return text[start]
        if text[end - 1] in CHANGED_BY["before"] and text[end : end + 1].isalnum():
            return text[end - 1]
    return ""
