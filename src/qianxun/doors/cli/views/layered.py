"""Layered results, drawn for people: the answer with its cells, tables as tables, what each layer did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from qianxun.core.codec.labels import labels
from qianxun.doors.cli.i18n import print_folded, tr
from qianxun.doors.cli.views.drawing import (
    INDENT,
    bar,
    bars,
    excerpt,
    highlighted,
    label,
    labelled,
    location_of,
    milliseconds,
    padded,
    plain_value,
    visible,
)

if TYPE_CHECKING:
    from qianxun.core.layered_types import Cited, LayeredRecall, LayeredResult, LayerRun, TableShown
    from qianxun.core.types import Column

BAR = 10
CITED = 6  # rows of cells that an answer cites
WIDEST = 28  # cells of a terminal that one cell of a table may take
FIRST = 3  # results of which so many rows are drawn; of the others a few
ROWS = 8
FEW = 3
LEAST = 0.01  # share of a query that is worth showing: words that every row has are next to nothing
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
    titles = {hit.table.id: hit.table.title or hit.document_name for hit in recall.results if hit.table}
    show_answer(console, recall, titles)
    cited = {(cell.table, cell.row, cell.column) for cell in recall.cited}
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
    by = (
        tr(f"第 {result.layer} 层 {strategy}  ", f"layer {result.layer} {strategy}  ")
        if result.layer
        else f"{strategy}  "
    )
    title.append(by, style="dim")
    return title.append_text(location_of(result.doc))


# ── the answer ───────────────────────────────────────────────────────────────────────────────────


def show_answer(console: Console, recall: LayeredRecall, titles: Mapping[str, str]) -> None:
    """The answer, the cells that it cites, and how the question was understood; or why there is no answer."""
    answer = recall.answer
    if answer is None:
        return
    if not answer.sure:
        if recall.results:
            reason = visible(answer.reason)
            refusal = tr(f"不直接回答：{reason}", f"No exact answer: {reason}")
            print_folded(console, Text(f"? {refusal}", style="yellow"), 2, hanging=2)
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
    cells = {(row, column) for id_, row, column in cited if id_ == table.id}
    rows = _rows(table, words, {row for row, _ in cells} | set(near), most)
    columns = _columns(table, rows, words, {column for _, column in cells}, console.width - INDENT)
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold")
    drawn.add_column(tr("行", "row"), style="dim", justify="right", no_wrap=True)
    for column in (table.columns[at] for at in columns):
        right = column.kind in ("number", "percent", "money")
        drawn.add_column(_header(column, words), justify="right" if right else "left", no_wrap=True)
    for number, row in rows:
        is_near = number in near and not cells  # there is no answer, and this comes closest
        shown = (_cell(_at(row, at), words, (number, at) in cells) for at in columns)
        drawn.add_row(f"› {number + 1}" if is_near else str(number + 1), *shown)
    console.print(Padding(drawn, (0, 0, 0, INDENT), expand=False), crop=False, overflow="ignore")
    for line in _below(table, len(rows), len(columns)):
        print_folded(console, Text(line, style="dim"), INDENT)


def _rows(table: TableShown, words: Sequence[str], cited: set[int], most: int) -> list[Row]:
    """All rows of a small table; of others those that an answer cites and those that match the query best."""
    rows = list(zip(table.shown, table.cells, strict=True))
    if len(rows) <= most:
        return rows
    matched = {number: max((_matched(cell, words) for cell in cells), default=0) for number, cells in rows}
    order = sorted(rows, key=lambda row: (row[0] not in cited, -matched[row[0]], row[0]))[:most]
    enough = max(matched.values()) / 2  # a query for 商品12345 matches 商品 in every row
    best = [row for row in order if row[0] in cited or matched[row[0]] > enough]
    return sorted(best or order[:FEW])


def _matched(text: str, words: Sequence[str]) -> int:
    """How many characters of a text the words of the query match."""
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
    has_unit = column.unit in column.name or column.kind == "percent"  # its cells have it
    unit = "" if has_unit else f"（{column.unit}）"
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
    """The columns that fit: those that an answer cites, the first, those that match best, then from the left."""

    def matched(at: int) -> int:
        return max(_matched(text, words) for text in (table.columns[at].name, *(_at(row, at) for _, row in rows)))

    room = width - max(cell_len(tr("行", "row")), len(f"› {max(table.shown, default=0) + 1}"))
    order = sorted(range(len(table.columns)), key=lambda at: (at not in cited, at != 0, -matched(at), at))
    chosen: list[int] = []
    for at in order:
        texts = [_header(table.columns[at], ()), *(_fitted(_at(row, at), ()) for _, row in rows)]
        needs = max(cell_len(text.plain) for text in texts) + GAP
        repeats = any([_at(row, at) for _, row in rows] == [_at(row, other) for _, row in rows] for other in chosen)
        if chosen and (needs > room or (repeats and at not in cited)):  # an id that repeats the name is left out
            continue
        chosen.append(at)
        room -= needs
    return sorted(chosen)


def _at(row: Sequence[str], column: int) -> str:
    """A row that is longer than a chunk may be cut."""
    return row[column] if column < len(row) else ""


def _below(table: TableShown, rows: int, columns: int) -> list[str]:
    hidden = []
    if more := table.rows - rows:
        hidden.append(tr(f"另有 {more} 行", f"{more} more rows"))
    if more := len(table.columns) - columns:
        hidden.append(tr(f"另有 {more} 列没有画出", f"{more} more columns"))
    lines = [tr("，", ", ").join(hidden)] if hidden else []
    return [*lines, *(visible(line) for line in table.notes.splitlines() if line.strip())]


# ── explain ─────────────────────────────────────────────────────────────────────────────────────────


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
        return Text(f"✗ {run.reason}", style="yellow").append(f"  {time}", style="dim")
    outcome = Text("✓ ", style="green")
    best = tr(f"，最高 {run.best:.2f}", f", best {run.best:.2f}") if run.count else ""
    outcome.append(tr(f"收进 {run.count} 个{best}", f"let in {run.count}{best}"), style="default")
    return outcome.append(f"  {time}", style="dim")


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
        covered = tr(f"（占问题的 {share:.0%}）", f" ({share:.0%} of the query)") if share >= LEAST else ""
        labelled(console, tr("命中", "matched"), matched + covered)
    expansions = details.pop("expansion", ())
    if result.strategy == "expansion" and not expansions:
        last = tr("没有换词；与问题并非无关，由最后一层收下", "no other words; not unrelated")
        labelled(console, tr("扩展", "expanded"), last)
    for expansion in expansions:
        origin = label("expansions", expansion["origin"])
        labelled(
            console,
            tr("扩展", "expanded"),
            f"{expansion['word']} → {expansion['by']}{tr(f'（{origin}）', f' ({origin})')}",
        )
    for name, value in details.items():
        if name != "coverage" and value not in (None, "", [], {}):
            labelled(console, name, plain_value(value))


def _whole_words(words: Sequence[str]) -> list[str]:
    """Without those that are part of a longer one: 用品 in 办公用品."""
    return [word for word in words if not any(word != other and word in other for other in words)]
