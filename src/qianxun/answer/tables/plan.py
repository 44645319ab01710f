"""A question read against one table: the plan on its rows that would answer it, and how sure that reading is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from qianxun.answer.tables.conditions import (
    Unclear,
    compared_conditions,
    had_conditions,
    numeric_conditions,
    period_conditions,
    reached_conditions,
)
from qianxun.answer.tables.lookup import look_up, look_up_pair
from qianxun.answer.tables.match import match_column, places
from qianxun.answer.tables.scene import (
    Scene,
    all_conditions,
    entities,
    finish,
    outputs_of,
    questions_in,
    refuse_more,
    row_name,
    scene_of,
    shown_columns,
)
from qianxun.answer.tables.sheet import WORDS, Sheet
from qianxun.core.layered_types import Condition, Operation, Plan, Understood, Unsure
from qianxun.question.table_query import TableQuery, hits, plain, runs, span, union
from qianxun.question.words import cue, entries, listed
from qianxun.text.chinese import words
from qianxun.text.quantities import han_number

_CATEGORIES: Final = 0.6  # cells that repeat this often name kinds of rows, not rows
_PIECES: Final = "件台支只本张辆册套枚顶双户"
_KINDS: Final = "种类款"
_COUNT: Final = r"\d{1,3}|[一二两三四五六七八九十]{1,3}"
_NOTHING: Final = re.compile("")
_SEVERAL: Final = 2
_YEAR: Final = len("2024")
_COUNTED: Final = "[个家名位种款所部条项座本]"


def read_question(query: TableQuery, sheet: Sheet) -> Understood | Unsure:
    """The best reading of a question against a table."""
    scene = scene_of(query, sheet)
    try:
        worked = _work(scene)
    except Unclear as unclear:
        nearest = max(scene.cells, key=lambda cell: cell.mask.bit_count(), default=None)
        return Unsure(_unsolved(scene) or str(unclear), nearest.rows[:10] if nearest else ())
    if worked is not None:
        return worked
    crossed = _whole(query, look_up(query, sheet))
    paired = _whole(query, look_up_pair(query, sheet))
    is_better = isinstance(paired, Understood) and (
        isinstance(crossed, Unsure) or _explained(query, paired) > _explained(query, crossed)
    )
    return paired if is_better else crossed


def _whole(query: TableQuery, read: Understood | Unsure) -> Understood | Unsure:
    """A lookup that finds as many cells as are asked for; fewer would be half an answer."""
    if isinstance(read, Unsure):
        return read
    plan = read.plan
    cells = len(plan.against) or len(plan.rows or ()) * len(plan.outputs)
    joined, distributive = (
        [hit for hit in hits(name, query.text) if not span(*hit.span()) & read.explained]
        for name in ("several.joined", "several.each")  # 每 of a column called 每小时费用 asks for one cell
    )
    if cells < max(questions_in(query.text), 1 + len(joined), 2 if distributive else 1):
        return Unsure("问题里不止一问", tuple(plan.rows or ())[:10])
    return read


def _explained(query: TableQuery, read: Understood) -> int:
    return (read.explained & query.informative).bit_count()


def _unsolved(scene: Scene) -> str:
    """The reason of a column that is named and cannot be computed with: formulas saved without their results."""
    for column, _ in scene.columns:
        texts = (value for value in scene.sheet.values(column) if isinstance(value, str))
        if any(map(cue("table.unsolved").fullmatch, texts)):
            name = scene.sheet.columns[column].name
            return f"“{name}”列的公式没有保存计算结果；用 Excel 打开并保存一次，再添加"
    return ""


# ── operations ───────────────────────────────────────────────────────────────────────────────────


def _work(scene: Scene) -> Understood | None:
    """Anything but a plain lookup; None where the question is one. Raises Unclear."""
    text = scene.query.text
    _refuse_beyond(scene)
    if (compared := _comparison(scene)) is not None:
        return compared
    reached = reached_conditions(text, scene.sheet) or compared_conditions(text, scene.sheet, scene.mentions)
    closed = scene.names_mask | scene.cells_mask | union(condition.mask for condition in reached)
    numbered = numeric_conditions(text, scene.sheet, scene.mentions, closed | _cue_numbers(text), scene.about)
    dated = closed | scene.about | union(condition.mask for condition in numbered)
    periods = period_conditions(text, scene.sheet, scene.mentions, dated)
    if {one.column for one in periods} & {one.column for one in numbered if len(str(one.values[0])) > _YEAR}:
        raise Unclear("问的不止一个月份或季度")
    numeric = [*reached, *numbered, *periods]
    superlative, top = scene.free("superlative.cue"), scene.free("superlative.top")
    if scene.sheet.is_form and (numeric or superlative or top):
        raise Unclear("表格不是一行一条的样子")
    if superlative is not None or top is not None:
        return _superlative(scene, numeric, superlative, top)
    if scene.sheet.is_form:
        return None
    if (average := scene.free("aggregate.average")) is not None:
        return _aggregate(scene, numeric, "average", average)
    how_many = scene.free("number.how_many")
    if how_many is not None and (measure := _measured_in(scene, numeric, how_many)) is not None:
        return _aggregate(scene, numeric, "sum", how_many, measure)
    is_count = how_many is not None and _counted(scene, how_many) and not scene.free("whether.uncounted")
    if how_many is not None and is_count and not _has_measure(scene, numeric):  # 多少家, and no column has the number
        return _stated(scene, how_many) or _count(scene, numeric, how_many)
    if (total := scene.free("aggregate.sum")) is not None and _has_measure(scene, numeric):
        return _aggregate(scene, numeric, "sum", total)
    if scene.free("aggregate.added") is not None:
        raise Unclear("不知道要相加的是哪一列")
    is_list = scene.free("several.listing") is not None
    amount = how_many or _ends_in_measure(scene)
    if numeric and amount is not None and not is_list and _is_added(scene, numeric):
        return _aggregate(scene, numeric, "sum", amount)
    if numeric or (is_list and (scene.cells or scene.columns)) or _asks_which_has(scene) or _asks_who(scene):
        return _filter(scene, numeric)
    return _ordinal(scene)


def _refuse_beyond(scene: Scene) -> None:
    """What no plan can express is refused, not left out."""
    text = scene.query.text.rstrip("?")
    if text.endswith("吗") and not cue("which.table").search(text) and not cue("small_talk.polite").search(text):
        raise Unclear("问的是对不对，不是查什么")
    if (found := scene.free("aggregate.ordered")) is not None:
        raise Unclear(f"问题要求排序（{found.group()}），这里只查不排")
    computed = ("superlative.cue", "aggregate.average", "aggregate.sum")
    if scene.free("aggregate.per_group") and any(map(scene.free, computed)) and not _per_row(scene):
        raise Unclear("问题要求分组统计")


@lru_cache(maxsize=64)
def _cue_numbers(text: str) -> int:
    """Numbers that belong to 前三名, 最高的3个, 第二所."""
    ranks = (hit.span() for name in ("top", "ordinal") for hit in cue(f"superlative.{name}").finditer(text))
    counts = (hit.span("n") for hit in re.finditer(f"最.{{1,2}}的(?P<n>{_COUNT})(?={_COUNTED})", text))
    return union(span(*place) for place in (*ranks, *counts))


# ── counts, sums, averages ───────────────────────────────────────────────────────────────────────


def _counted(scene: Scene, hit: re.Match[str]) -> str:
    """What one is counted by: 家 of 多少家; 人 of 多少员工, where a row is one of the staff; "" if nothing is."""
    is_staff = any(cue("table.staff_column").search(column.name) for column in scene.sheet.columns)
    if hit["of"] or (is_staff and cue("table.staff").match(hit.string, hit.end())):
        return hit["of"] or "人"
    return "条" if "有" in hit.group() and _is_after_rows(scene, hit) else ""


def _is_after_rows(scene: Scene, hit: re.Match[str]) -> bool:
    """Returns True for 订单有多少, where each row is an order: its number or its name is a column."""
    before = scene.query.text[: hit.start()]
    columns = [(c, column.name) for c, column in enumerate(scene.sheet.columns)]
    numbered = [scene.sheet.bare_name(c) for c, name in columns if cue("table.number_of_row").search(name)]
    label = [] if scene.sheet.label is None else [scene.sheet.bare_name(scene.sheet.label)]
    nouns = (cue("table.of_row").sub("", name) for name in (*numbered, *label))
    return any(len(noun) > 1 and before.endswith(noun) for noun in nouns)


def _has_measure(scene: Scene, numeric: Sequence[Condition]) -> bool:
    return any(map(scene.sheet.is_measure, outputs_of(scene, numeric)))


def _ends_in_measure(scene: Scene) -> re.Match[str] | None:
    """The end of 11月的入库金额, which asks for a number without a question word."""
    text = scene.query.text.rstrip("?")
    ends = any(one.end == len(text) and scene.sheet.is_measure(one.column) for one in scene.mentions)
    return _NOTHING.match(text, len(text)) if ends and not cue("which.table").search(text) else None


def _is_added(scene: Scene, numeric: Sequence[Condition]) -> bool:
    """Returns True if 多少 asks for what several rows come to: 3月卖了多少, of a list of sales. A price, a rate or what
    is left at the end of a day does not add up."""
    outputs = outputs_of(scene, numeric)
    measures = [column for column in outputs if scene.sheet.is_measure(column)]
    if len(outputs) != 1 or outputs != measures:
        return False
    return _is_additive(scene.sheet, measures[0])


def _stated(scene: Scene, hit: re.Match[str]) -> Understood | None:
    """多少顶大檐帽: the number is stated where the row is one, and one column has numbers of them."""
    rows = {cell.rows for cell in scene.cells}
    numbers = [c for c, column in enumerate(scene.sheet.columns) if _has_number(scene, hit, column.name)]
    if len(rows) != 1 or len(next(iter(rows))) != 1 or len(numbers) != 1 or not scene.sheet.is_measure(numbers[0]):
        return None
    refuse_more(scene, 1)
    plan = Plan("lookup", rows=next(iter(rows)), outputs=tuple(numbers))
    return finish(scene, plan, span(*hit.span()) | scene.cells_mask, [c for c, _ in scene.columns])


def _has_number(scene: Scene, hit: re.Match[str], column: str) -> bool:
    """Returns True if a column may have what is asked for: 人数 is the number of people, 几名, 几个人 or 几个会计
    where the row is 会计, and not 几家; 数量 is that of pieces, and not 几种."""
    counted = _counted(scene, hit)
    if counted in _KINDS and counted not in column:
        return False
    if cue("table.people_column").search(column):
        labels = (cell for cell in scene.cells if cell.column == scene.sheet.label)
        is_person = hit.string.startswith("人", hit.end()) or any(cell.mask >> hit.end() & 1 for cell in labels)
        return counted in "人名位" or (counted == "个" and is_person)
    return cue("table.number_column").search(column) is not None


def _count(scene: Scene, numeric: list[Condition], hit: re.Match[str]) -> Understood:
    if scene.free("aggregate.per_group"):  # 各部门有多少人: not how many departments there are
        raise Unclear("问题要求分组统计")
    conditions = all_conditions(scene, numeric, span(*hit.span()))
    outputs = [c for c in outputs_of(scene, conditions) if not scene.sheet.is_numeric(c)]
    if len(outputs) > 1:
        raise Unclear("不知道要数的是哪一列")
    counted = _counted(scene, hit)
    if any(_adds_up(counted, column.name) for column in scene.sheet.columns):
        raise Unclear("有一列写着数量，分不清数行还是把它相加")
    stated = any(cue("table.number_column").search(scene.sheet.columns[c].name) for c in outputs)
    if stated or any(_picks_one(scene, condition) for condition in conditions):
        raise Unclear("一行已是一项统计，不能再数行数")
    begun = [] if outputs else _column_starting(scene, hit)
    if hit.string.startswith("人", hit.end()):
        counted, outputs = "人", outputs or _people_named(scene)
    outputs = [] if _are_rows(scene, outputs or begun, counted) else outputs or begun
    label = scene.sheet.label
    kinds = counted in _KINDS or (label is not None and scene.sheet.variety(label) <= _CATEGORIES)
    distinct = bool(outputs) and (outputs[0] != label or kinds)
    refuse_more(scene, 1)
    cues = span(hit.start(), hit.end() + len(begun))
    return finish(scene, Plan("count", tuple(conditions), tuple(outputs), distinct=distinct), cues)


def _are_rows(scene: Scene, outputs: Sequence[int], counted: str) -> bool:
    """Returns True if what is counted are the rows themselves, however many have one name: pieces (台, 辆) of a table
    that gives each a number of its own. Raises Unclear where 几个 may be either."""
    if not outputs or counted not in _PIECES + "个" or scene.sheet.number_column is None:
        return False
    (column,) = outputs
    if _is_person_half_named(scene, column):
        return True  # 几个报修 counts no 报修人
    named = cue("table.naming").search(scene.sheet.columns[column].name)
    if not named or scene.sheet.variety(column) == 1.0:
        return False
    if counted == "个":
        raise Unclear("名称有重复，分不清要数行还是数名称")
    return True


def _people_named(scene: Scene) -> list[int]:
    """The column of the people of 几个人报修, of a table of what they had repaired: 报修人. Raises Unclear where it may
    be several."""
    columns = scene.sheet.columns
    people = [c for c, column in enumerate(columns) if cue("table.person_column").search(column.name)]
    if not people or scene.sheet.label in people:
        return []
    named = [c for c in people if match_column(scene.sheet.names[c], scene.query.text).mask]
    if len(named or people) != 1:
        raise Unclear("不知道要数的是哪一列")
    return named or people


def _is_person_half_named(scene: Scene, column: int) -> bool:
    name = scene.sheet.bare_name(column)
    return name.endswith(("人", "员")) and name not in scene.query.text


def _adds_up(counted: str, column: str) -> bool:
    """几台 of a table whose rows have numbers of them: 数量 or 台数, 人数 of 几人."""
    if counted in "人名位":
        return cue("table.people_column").search(column) is not None
    return counted in _PIECES and re.search(f"(?:数量|数目|{counted}数)(?:[（(]|$)", column) is not None


def _column_starting(scene: Scene, hit: re.Match[str]) -> list[int]:
    """几个省: the column whose name begins so, 省份."""
    after = scene.query.text[hit.end() : hit.end() + 1]
    texts = [c for c, column in enumerate(scene.sheet.columns) if column.kind in WORDS and column.path]
    begun = [c for c in texts if after and plain(scene.sheet.columns[c].path[-1]).startswith(after)]
    return begun if len(begun) == 1 and after.isalpha() else []


def _picks_one(scene: Scene, condition: Condition) -> bool:
    """Returns True if it names single rows of a table with numbers: 甲级单位 of a table of grades and their numbers."""
    if condition.comparison != "in" or not any(map(scene.sheet.is_measure, range(len(scene.sheet.columns)))):
        return False
    label = scene.sheet.label
    if label is not None and label != condition.column and any(c == label for c, _ in scene.columns):
        return False  # the rows are what is counted, and this column only happens to have a different word in each
    return scene.sheet.variety(condition.column) == 1.0


def _measured_in(scene: Scene, numeric: Sequence[Condition], hit: re.Match[str]) -> int | None:
    """The one measure that is in the unit of 多少公斤, where several rows are meant and none of their measures is
    named."""
    sheet, text = scene.sheet, scene.query.text
    rows = [len(cell.rows) for cell in scene.cells]
    if not (numeric or rows) or min(rows, default=_SEVERAL) < _SEVERAL:
        return None
    after = text[hit.start("of") if hit["of"] else hit.end() :]
    fits = [
        c
        for c in range(len(sheet.columns))
        if sheet.is_measure(c) and _is_additive(sheet, c) and any(map(after.startswith, _units(sheet, c)))
    ]
    return fits[0] if len(fits) == 1 and not _has_measure(scene, numeric) else None


def _units(sheet: Sheet, column: int) -> list[str]:
    """What its numbers are counted in: its unit, or what its brackets have, 盒 of 数量(盒)."""
    return [unit for unit in (plain(sheet.unit(column)), *sheet.names[column].extras) if unit]


def _is_additive(sheet: Sheet, column: int) -> bool:
    """Returns True if its numbers may be added up over rows: no price, no rate, nothing that is left at a day's end."""
    name, kind = sheet.columns[column].name, sheet.columns[column].kind
    return kind != "percent" and not any(cue(why).search(name) for why in ("superlative.per_unit", "aggregate.never"))


def _aggregate(
    scene: Scene, numeric: list[Condition], operation: Operation, hit: re.Match[str], measure: int | None = None
) -> Understood:
    """A sum or an average of the ``measure``, or of the one that is named."""
    named = [c for c in outputs_of(scene, numeric) if scene.sheet.is_measure(c)]
    measures = named if measure is None else [measure]
    if len(measures) != 1:
        raise Unclear("不知道要算的是哪一列" if not measures else "要算的列不止一列")
    per_row = _per_row(scene) if operation == "average" else 0
    total = scene.free("aggregate.sum") if operation == "sum" else None
    cues = span(*hit.span()) | per_row | (span(*total.span()) if total else 0)
    if measure is not None:
        cues |= union(places(unit, scene.query.text) for unit in _units(scene.sheet, measure))
    conditions = all_conditions(scene, numeric, cues)
    is_grouped = any(cue("aggregate.per_group").match(scene.query.text, mention.end) for mention in scene.mentions)
    if is_grouped and not per_row:
        raise Unclear("问题要求分组统计")
    refuse_more(scene, 1)
    extra = [c for c in outputs_of(scene, conditions, measures) if c == scene.sheet.label]
    return finish(scene, Plan(operation, tuple(conditions), (), measures[0]), cues, extra)


def _per_row(scene: Scene) -> int:
    """The characters of 平均每个区域, where a row is a region: an average over rows, and not one for each group."""
    sheet, hit = scene.sheet, cue("aggregate.average_of_each").search(scene.query.text)
    if hit is None or sheet.label is None or sheet.variety(sheet.label) < 1.0:
        return 0
    name = sheet.plain_last_name(sheet.label)
    after = scene.query.text[hit.end() :]
    own = max((name[at:] for at in range(len(name)) if after.startswith(name[at:])), key=len, default="")
    return span(hit.start(), hit.end() + len(own)) if own else 0


# ── superlatives ─────────────────────────────────────────────────────────────────────────────────


def _superlative(
    scene: Scene, numeric: list[Condition], superlative: re.Match[str] | None, top: re.Match[str] | None
) -> Understood:
    text = scene.query.text
    hit = superlative or top
    assert hit is not None  # the caller found one
    word = (superlative["word"] or superlative["nthword"]) if superlative else "高"
    by_amount = cue("superlative.by_amount").search(text[: hit.start()])
    if by_amount:  # 卖得最好: the most
        word = {"好": "高", "差": "低"}.get(word, word)
    if word in listed("superlative.unclear"):
        raise Unclear(f"“最{word}”说的是大还是小，分不清")
    if len(hits("superlative.cue", text)) > 1:
        raise Unclear("问题里不止一个“最”")
    measure = _measure_of(scene, hit, word, [condition.column for condition in numeric])
    limit, cues = _limit(text, superlative, top)
    cues |= span(*by_amount.span()) if by_amount else 0
    conditions = all_conditions(scene, numeric, cues)
    outputs = shown_columns(scene, conditions, [measure])
    if not outputs and not cue("number.value").search(text) and scene.sheet.label is not None:
        outputs = [row_name(scene, scene.sheet.label)]
    refuse_more(scene, max(len(outputs), 1))
    outputs, which = _with_number(scene, outputs)
    cues |= which
    if not which:
        _refuse_groups(scene, hit, measure, outputs)
    is_least = word in listed("superlative.downward")
    operation: Operation = "top" if limit > 1 else "min" if is_least else "max"
    nth = count_word(superlative["nth"]) if superlative and superlative["nth"] else 1
    plan = Plan(operation, tuple(conditions), tuple(outputs), measure, limit, nth, distinct=is_least)
    return finish(scene, plan, cues, entities(scene, outputs))


def _with_number(scene: Scene, outputs: list[int]) -> tuple[list[int], int]:
    """哪台 of a table that gives each row a number of its own: that number before the name, which others may have, too;
    and the characters that ask for it."""
    hit = re.search(f"哪一?[{_PIECES}]", scene.query.text)
    number = scene.sheet.number_column
    names = [c for c in outputs if cue("table.naming").search(scene.sheet.columns[c].name)]
    if hit is None or number is None or outputs not in (names, [number]):
        return outputs, 0
    return [number, *names], span(*hit.span())


def _refuse_groups(scene: Scene, hit: re.Match[str], measure: int, outputs: Sequence[int]) -> None:
    """计划数最多的专业, where a subject has several rows: one row's number or their sum, it is not known."""
    sheet = scene.sheet
    column = sheet.columns[measure]
    if column.kind in ("percent", "date") or cue("superlative.per_unit").search(column.name):
        return
    for mention in scene.mentions:
        between = scene.query.text[hit.end() : mention.start]
        compared = mention.end <= hit.start() or cue("superlative.count_of").fullmatch(between)
        if compared and mention.column in outputs and sheet.variety(mention.column) < 1.0:
            raise Unclear("同一名称有多行，分不清比一行还是比合计")


def _measure_of(scene: Scene, hit: re.Match[str], word: str, used: Sequence[int]) -> int:
    sheet, text = scene.sheet, scene.query.text
    about = entries("superlative.about").get(word)
    fits = [
        c
        for c, column in enumerate(sheet.columns)
        if (sheet.is_measure(c) or column.kind == "date") and (about is None or re.search(about, column.name))
    ]
    ranked = [one for one in scene.mentions if one.column in fits]
    ranked = [one for one in ranked if one.column not in used or scene.free("number.how_many")]
    after = [one for one in ranked if 0 <= one.start - hit.end() <= 1]
    before = [one for one in ranked if one.end <= hit.start() and "," not in text[one.end : hit.start()]]
    best = next(iter(after or sorted(before, key=lambda one: -one.end) or ranked), None)
    if best is None and about is not None and len(fits) == 1:
        return fits[0]
    if best is None or any(
        one.column != best.column and ((one.start, one.end) == (best.start, best.end) or one.end == best.start)
        for one in ranked
    ):
        raise Unclear("不知道要比的是哪一列")  # 已用预算 of a table with 预算 and 已用
    return best.column


def _limit(text: str, superlative: re.Match[str] | None, top: re.Match[str] | None) -> tuple[int, int]:
    """How many are asked for, and the characters that say it."""
    cues = union(span(*hit.span()) for hit in (superlative, top) if hit)
    if top is not None:
        return count_word(top["n"]), cues
    assert superlative is not None  # one of the two was found
    after = re.compile(f"的?(?P<n>{_COUNT}){_COUNTED}").match(text, superlative.end())
    found = after or re.search(f"哪(?P<n>{_COUNT.replace('一', '')}){_COUNTED}", text[: superlative.start()])
    if found is None:
        return 1, cues
    return count_word(found["n"]), cues | span(*found.span())


def count_word(word: str) -> int:
    number = int(word) if word.isdigit() else han_number(word)
    if not number:
        raise Unclear(f"没有读懂“{word}”")
    return number


# ── filters and lists ────────────────────────────────────────────────────────────────────────────


def _filter(scene: Scene, numeric: list[Condition]) -> Understood:
    conditions = all_conditions(scene, numeric, 0)
    outputs = shown_columns(scene, conditions)
    label = scene.sheet.label
    known = any(one.column == label and one.comparison in ("in", "=") for one in conditions)
    bounds = [one.column for one in conditions if scene.sheet.columns[one.column].kind == "date"]
    if scene.free("several.listing") is not None and label is not None:
        outputs = [c for c in outputs if c not in bounds]  # 8月有哪些合同到期
    outputs = outputs or _people(scene) or ([row_name(scene, label)] if label is not None and not known else [])
    if not outputs or (outputs == [label] and _asks_what(scene, outputs[0])):
        raise Unclear("不知道要列出哪一列")
    refuse_more(scene, len(outputs))
    if not conditions:
        _refuse_labels(scene)
    is_negated = any(one.comparison in ("not in", "not contains", "!=") for one in conditions)
    if is_negated and label not in outputs and any(scene.sheet.variety(column) < 1.0 for column in outputs):
        raise Unclear("否定的是行还是整组，分不清")
    listing = scene.free("several.listing")
    cues = span(*listing.span()) if listing else 0
    plan = Plan("filter" if conditions else "list", tuple(conditions), tuple(outputs))
    return finish(scene, plan, cues, entities(scene, outputs))


def _asks_what(scene: Scene, label: int) -> bool:
    """小章10月修了什么: not for the numbers of the orders, nor for what else the rows are called by."""
    is_listing = scene.free("several.listing") is not None or scene.free("who.fitness") is not None
    is_named = any(column == label for column, _ in scene.columns)
    return not is_listing and not is_named and re.search("什么(?!时候|地方)$", scene.query.text.rstrip("?")) is not None


def _people(scene: Scene) -> list[int]:
    """The one column of people, where it is asked who: 负责人."""
    columns = scene.sheet.columns
    found = [c for c, column in enumerate(columns) if cue("table.person_column").search(column.name)]
    return found if len(found) == 1 and scene.free("who.fitness") else []


def _asks_which_has(scene: Scene) -> bool:
    """没有投影仪的会议室是哪个, 谁还没转正: the rows that have, or lack, what a column says of every row."""
    label = scene.sheet.label
    has_people = label is not None and cue("table.person_column").search(scene.sheet.columns[label].name)
    if scene.free("several.which_one") is None and not (has_people and scene.free("who.fitness")):
        return False
    return bool(had_conditions(scene.query.text, scene.sheet, scene.mentions))


def _asks_who(scene: Scene) -> bool:
    """周三谁休息: the people in whose rows a column that is named has what is named, too."""
    label = scene.sheet.label
    if label is None or scene.free("who.fitness") is None:
        return False
    is_of_people = cue("table.person_column").search(scene.sheet.columns[label].name)
    named = {column for column, _ in scene.columns}
    return bool(is_of_people) and any(cell.column != label and cell.column in named for cell in scene.cells)


def _refuse_labels(scene: Scene) -> None:
    """A whole column is listed only where no label of a row is closer to what is asked for."""
    found = look_up(scene.query, scene.sheet)
    rows = found.plan.rows if isinstance(found, Understood) else found.rows
    if rows:
        raise Unclear("不知道要列的是一列还是一行")


def _ordinal(scene: Scene) -> Understood | None:
    """第三名 of a list: by its running number, or by its place where the list has no other order."""
    hit = scene.free("superlative.ordinal")
    if hit is None or scene.cells:
        return None
    place = count_word(hit["n"])
    sheet = scene.sheet
    ranked = [c for c, column in enumerate(sheet.columns) if re.search("排名|名次", column.name)]
    numbered = [c for c, column in enumerate(sheet.columns) if re.search("序号|编号", column.name)]
    if hit["of"] == "名" and numbered and not ranked and any(map(sheet.is_measure, range(len(sheet.columns)))):
        raise Unclear("表里没有名次，只有序号")  # the first of a list of entries need not be the best
    running = ranked or numbered
    if running:
        rows = [r for r, value in enumerate(sheet.values(running[0])) if value == place or str(value) == str(place)]
    else:
        rows = [place - 1] if place <= len(sheet) else []
    outputs = outputs_of(scene, (), running) or ([sheet.label] if sheet.label is not None else [])
    useful = [c for c, column in enumerate(sheet.columns) if not cue("table.identifying").search(column.name.strip())]
    if len(rows) != 1 or not outputs or (not running and len(useful) > 1):
        raise Unclear(f"没有读懂“{hit.group()}”说的是哪一行")
    return finish(scene, Plan("lookup", rows=tuple(rows), outputs=tuple(outputs)), span(*hit.span()))


# ── differences and ratios ───────────────────────────────────────────────────────────────────────


def _comparison(scene: Scene) -> Understood | None:
    """A和B的X差多少, A的X比B多多少, A的X是B的多少倍: two cells, one number."""
    difference, more, times = map(scene.free, ("aggregate.difference", "number.more_than", "number.times"))
    hit = times or difference or (more if "比" in scene.query.text else None)
    if hit is None:
        return None
    measures = [c for c in outputs_of(scene, ()) if scene.sheet.is_measure(c)]
    if not measures and more is not None and (about := entries("superlative.about").get(more["word"])):
        fitting = [c for c, column in enumerate(scene.sheet.columns) if re.search(about, column.name)]
        measures = [c for c in fitting if scene.sheet.is_measure(c)]  # A比B贵多少: by their prices
    cells = _two_cells(scene, measures)
    if cells is None:
        raise Unclear("要比较的不是两个单元格")
    cues = span(*hit.span()) | scene.cells_mask
    at = scene.query.text.find("比")
    cues |= 1 << at if at >= 0 else 0
    if more is not None and hit is more and more["word"] in listed("superlative.downward"):
        cells = cells[::-1]
    plan = Plan("ratio" if times else "difference", against=cells, distinct=hit is difference)
    return finish(scene, plan, cues, measures)


def _two_cells(scene: Scene, measures: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    cells = scene.cells
    if any(len(cell.rows) != 1 for cell in cells):
        return None
    if len(measures) == 1 and len(cells) == 2 and cells[0].column == cells[1].column:
        return tuple((cell.rows[0], measures[0]) for cell in sorted(cells, key=lambda one: one.mask & -one.mask))
    if len(measures) == 2 and (len(cells) == 1 or len(scene.sheet) == 1):
        row = cells[0].rows[0] if cells else 0
        return (row, measures[0]), (row, measures[1])
    return None


def decisive(text: str, mask: int) -> str:
    """The first unexplained word that makes another number of a name: 期末, 净, 上海; empty without any."""
    for hit in hits("decisive.any", text):
        if span(*hit.span()) & ~mask == 0:
            return hit.group()
    for start, end in runs(mask):
        if elsewhere := cue("decisive.elsewhere").search(text, start, end):
            return elsewhere.group()
    for word in words(text):
        if word in listed("decisive.alone") and places(word, text) & mask:
            return word
    for start, end in runs(mask):  # 净利润率 is not 净利润
        if start and text[start] in listed("decisive.after") and text[start - 1].isalnum():
            return text[start]
        if text[end - 1] in listed("decisive.before") and text[end : end + 1].isalnum():
            return text[end - 1]
    return ""
