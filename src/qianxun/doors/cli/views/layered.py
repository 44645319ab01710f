"""Layered recalls, drawn for people: the answer with its cells, tables as tables, what each layer did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from qianxun.doors.cli.i18n import print_folded, tr
from qianxun.doors.cli.views.drawing import (
    INDENT,
    bar,
    bars,
    excerpt,
    highlighted,
    label,
    labelled,
    labels,
    milliseconds,
    padded,
    place_of,
    visible,
)

if TYPE_CHECKING:
    from qianxun.core.layered_types import Cited, LayeredRecall, LayeredResult, LayerRun, TableShown
    from qianxun.core.types import Column

BAR = 10
CITED = 6  # rows of which cells are told
WIDEST = 28  # cells of a terminal that one cell of a table may take
FIRST = 3  # results of which so many rows are drawn; of the others a few
ROWS = 8
FEW = 3
LEAST = 0.01  # share of a question that is worth telling: words that every row has are next to nothing
GAP = 3  # between two columns
SCORES = ("similarity", "keyword", "relevance", "keyword_match")
COLOURS = {
    "similarity": "cyan",
    "relevance": "yellow",
    "keyword_match": "yellow",
    "structure": "green",
    "vector": "cyan",
    "semantic": "cyan",
    "keyword": "yellow",
    "expansion": "magenta",
}


Row: TypeAlias = tuple[int, tuple[str, ...]]  # its number, its cells


def show(console: Console, recall: LayeredRecall, *, explain: bool = False) -> None:
    """The answer, then the results, best first."""
    titles = {each.table.id: each.table.title or each.document_name for each in recall.results if each.table}
    show_answer(console, recall, titles)
    cited = {(each.table, each.row, each.column) for each in recall.cited}
    for rank, result in enumerate(recall.results, 1):
        print_folded(console, _title(rank, result), 10, hanging=10)
        if result.table is not None:
            near = recall.answer.rows if recall.answer is not None and recall.answer.table == result.table.id else ()
            rows = ROWS if rank <= FIRST else FEW
            _show_table(console, result.table, recall.query, cited, near, rows)
        else:
            print_folded(console, excerpt(result.doc, recall.query), INDENT)
        if explain:
            _show_details(console, result)
        console.print()
    if explain:
        show_layers(console, recall.layers)


def _title(rank: int, result: LayeredResult) -> Text:
    title = Text(f"{rank:>2}  ")
    title.append(f"{result.score:.2f} ", style="bold green")
    title.append(bar(result.score, BAR) + " ", style=COLOURS.get(result.strategy, "white"))
    strategy = label("strategies", result.strategy)
    title.append(tr(f"第 {result.layer} 层 {strategy}  ", f"layer {result.layer} {strategy}  "), style="dim")
    return title.append_text(place_of(result.doc))


# ── the answer ───────────────────────────────────────────────────────────────────────────────────


def show_answer(console: Console, recall: LayeredRecall, titles: Mapping[str, str]) -> None:
    """What the cells say, which cells they are, and how the question was understood; or why there is no answer."""
    answer = recall.answer
    if answer is None:
        return
    if not answer.sure:
        if recall.results:
            reason = visible(answer.reason)
            told = tr(f"不直接回答：{reason}", f"No exact answer: {reason}")
            print_folded(console, Text(f"? {told}", style="yellow"), 2, hanging=2)
            console.print()
        return
    print_folded(console, Text.assemble(("✓ ", "green"), (visible(answer.text), "bold")), 2, hanging=2)
    labelled(console, tr("理解", "read as"), visible(answer.reading))
    lines = [_cited_row(list(cells), titles) for _, cells in groupby(recall.cited, lambda one: (one.table, one.row))]
    for line in lines[:CITED]:
        labelled(console, tr("依据", "from"), line)
    if recall.cells_total > len(recall.cited) or len(lines) > CITED:
        total = recall.cells_total
        labelled(console, tr("……", "…"), tr(f"共引用 {total} 格", f"{total} cells in all"))
    console.print()


def _cited_row(cells: Sequence[Cited], titles: Mapping[str, str]) -> Text:
    first = cells[0]
    place = f"《{visible(titles.get(first.table, first.table))}》"
    place += tr("表头", " header") if first.row < 0 else tr(f"第 {first.row + 1} 行", f" row {first.row + 1}")
    line = Text(place + "  ", style="cyan")
    for at, cell in enumerate(cells):
        line.append(tr("，", ", ") if at else "", style="default")
        line.append(f"{visible(cell.name)}{tr('：', ': ')}" if cell.row >= 0 else "", style="dim")
        line.append(visible(cell.text), style="bold default")
    return line


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _show_table(
    console: Console,
    table: TableShown,
    query: str,
    cited: set[tuple[str, int, int]],
    near: Sequence[int],
    most: int,
) -> None:
    from qianxun.engine.display import query_words

    print_folded(console, _about(table), INDENT)
    words = query_words(query)
    wanted = {(row, column) for id_, row, column in cited if id_ == table.id}
    rows = _rows(table, words, {row for row, _ in wanted} | set(near), most)
    kept = _columns(table, rows, words, {column for _, column in wanted}, console.width - INDENT)
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold")
    drawn.add_column(tr("行", "row"), style="dim", justify="right", no_wrap=True)
    for at in kept:
        column = table.columns[at]
        right = column.kind in ("number", "percent", "money")
        drawn.add_column(_header(column, words), justify="right" if right else "left", no_wrap=True)
    for number, row in rows:
        is_near = number in near and not wanted  # there is no answer, and this comes closest
        drawn.add_row(
            f"› {number + 1}" if is_near else str(number + 1),
            *(_cell(_at(row, at), words, (number, at) in wanted) for at in kept),
        )
    console.print(Padding(drawn, (0, 0, 0, INDENT), expand=False), crop=False, overflow="ignore")
    for line in _below(table, len(rows), len(kept)):
        print_folded(console, Text(line, style="dim"), INDENT)


def _rows(table: TableShown, words: Sequence[str], wanted: set[int], most: int) -> list[Row]:
    """All rows of a small table; of others those an answer rests on and those the question speaks of most."""
    held = list(zip(table.shown, table.cells, strict=True))
    if len(held) <= most:
        return held
    spoken = {number: max((_spoken(cell, words) for cell in cells), default=0) for number, cells in held}
    order = sorted(held, key=lambda row: (row[0] not in wanted, -spoken[row[0]], row[0]))[:most]
    enough = max(spoken.values()) / 2  # 商品 alone is in every row where 商品12345 is asked for
    telling = [row for row in order if row[0] in wanted or spoken[row[0]] > enough]
    return sorted(telling or order[:FEW])


def _spoken(text: str, words: Sequence[str]) -> int:
    """How many characters of a text the question says, too."""
    from qianxun.engine.display import spans

    return sum(end - start for start, end in spans(text, words))


def _about(table: TableShown) -> Text:
    from qianxun.engine.display import table_type_label

    about = Text(
        f"《{visible(table.title)}》" if table.title else tr("（无标题的表格）", "(a table without a title)"),
        style="bold",
    )
    size = tr(f"{table.rows} 行 × {len(table.columns)} 列", f"{table.rows} rows × {len(table.columns)} columns")
    kind = visible(tr(table_type_label(table.type), table.type.replace("_", " ")))
    source = visible(table.source) if table.source != table.title else ""
    about.append("  " + " · ".join(part for part in (kind, size, source) if part), style="not bold dim")
    return about


def _header(column: Column, words: Sequence[str]) -> Text:
    is_said = column.unit in column.name or column.kind == "percent"  # each cell says it
    unit = "" if is_said else f"（{column.unit}）"
    return _fitted(column.name + unit, words)


def _cell(text: str, words: Sequence[str], is_cited: bool) -> Text:
    drawn = _fitted(text, words)
    if is_cited:
        drawn.stylize("bold reverse")
    return drawn


def _fitted(text: str, words: Sequence[str]) -> Text:
    line = visible(text)
    if cell_len(line) > WIDEST:
        line = set_cell_size(line, WIDEST - 1).rstrip() + "…"
    return highlighted(line, words)


def _columns(table: TableShown, rows: Sequence[Row], words: Sequence[str], cited: set[int], width: int) -> list[int]:
    """The columns that fit: those an answer cites, the first, those the question speaks of most, then from the left."""

    def spoken_of(at: int) -> int:
        return max(_spoken(text, words) for text in (table.columns[at].name, *(_at(row, at) for _, row in rows)))

    room = width - max(cell_len(tr("行", "row")), len(f"› {max(table.shown, default=0) + 1}"))
    order = sorted(range(len(table.columns)), key=lambda at: (at not in cited, at != 0, -spoken_of(at), at))
    kept: list[int] = []
    for at in order:
        texts = [_header(table.columns[at], ()), *(_fitted(_at(row, at), ()) for _, row in rows)]
        needs = max(cell_len(text.plain) for text in texts) + GAP
        repeats = any([_at(row, at) for _, row in rows] == [_at(row, other) for _, row in rows] for other in kept)
        if kept and (needs > room or (repeats and at not in cited)):  # an id that is the name again tells nothing
            continue
        kept.append(at)
        room -= needs
    return sorted(kept)


def _at(row: Sequence[str], column: int) -> str:
    """A row that is longer than a chunk may be cut."""
    return row[column] if column < len(row) else ""


def _below(table: TableShown, rows: int, columns: int) -> list[str]:
    told = []
    if more := table.rows - rows:
        told.append(tr(f"另有 {more} 行", f"{more} more rows"))
    if more := len(table.columns) - columns:
        told.append(tr(f"另有 {more} 列没有画出", f"{more} more columns"))
    lines = [tr("，", ", ").join(told)] if told else []
    return [*lines, *(visible(line) for line in table.notes.splitlines() if line.strip())]


# ── why ──────────────────────────────────────────────────────────────────────────────────────────


def show_layers(console: Console, layers: Sequence[LayerRun]) -> None:
    """What each layer did: ran, or why not; how many it let in, the best score, the time."""
    console.print(Text(tr("各层", "Layers"), style="bold"))
    width = max((cell_len(label("strategies", run.strategy)) for run in layers), default=0)
    for run in layers:
        line = Text(f"{run.layer} {padded(label('strategies', run.strategy), width)}  ")
        line.append_text(_outcome(run))
        print_folded(console, line, 2 + width + 4, hanging=width + 4)


def _outcome(run: LayerRun) -> Text:
    time = tr(f"{milliseconds(run.seconds)} 毫秒", f"{milliseconds(run.seconds)} ms")
    if not run.ran:
        return Text(tr(f"没有运行：{run.reason}", f"did not run: {run.reason}"), style="dim")
    if run.reason:
        return Text(tr(f"✗ {run.reason}", f"✗ {run.reason}"), style="yellow").append(f"  {time}", style="dim")
    told = Text("✓ ", style="green")
    best = tr(f"，最高 {run.best:.2f}", f", best {run.best:.2f}") if run.count else ""
    told.append(tr(f"收进 {run.count} 个{best}", f"let in {run.count}{best}"), style="default")
    return told.append(f"  {time}", style="dim")


def _show_details(console: Console, result: LayeredResult) -> None:
    details = dict(result.match_details)
    labelled(console, tr("编号", "id"), result.doc.chunk_id)
    structure = details.pop("structure", None) or {}
    scores = {name: details.pop(name, None) for name in SCORES} | {"structure": structure.get("score")}
    parts = tr("，", ", ").join(
        f"{label('table_parts', part)} {score:.2f}"
        for part, score in structure.items()
        if part in labels("table_parts") and score is not None
    )
    bars(
        console,
        [
            (label("layer_scores", name), score, parts if name == "structure" else "", COLOURS.get(name, "white"))
            for name, score in scores.items()
            if score is not None
        ],
    )
    if words := _whole_words(details.pop("words", ())):
        share = details.pop("coverage", 0.0)
        matched = tr("、", ", ").join(words)
        told = tr(f"（占问题的 {share:.0%}）", f" ({share:.0%} of the query)") if share >= LEAST else ""
        labelled(console, tr("命中", "matched"), matched + told)
    expansions = details.pop("expansion", ())
    if result.strategy == "expansion" and not expansions:
        labelled(
            console,
            tr("扩展", "expanded"),
            tr("没有换词；与问题并非无关，由最后一层收下", "no other words; not unrelated"),
        )
    for each in expansions:
        origin = label("expansions", each["origin"])
        labelled(
            console, tr("扩展", "expanded"), f"{each['word']} → {each['by']}{tr('（', ' (')}{origin}{tr('）', ')')}"
        )
    for name, value in details.items():
        if name != "coverage" and value not in (None, "", [], {}):
            labelled(console, name, _plain(value))


def _whole_words(words: Sequence[str]) -> list[str]:
    """Without those that stand in a longer one: 用品 in 办公用品."""
    return [word for word in words if not any(word != other and word in other for other in words)]


def _plain(value: Any) -> str:
    """A value of ``match_details`` that this version does not know, in one line."""
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, Mapping):
        return tr("，", ", ").join(f"{name} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tr("、", ", ").join(map(_plain, value))
    return str(value)
