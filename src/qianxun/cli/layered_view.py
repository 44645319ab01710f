"""Layered recalls, drawn for people: the answer with its cells, tables as tables, what each layer did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, get_args

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from qianxun.cli.drawing import INDENT, bar, excerpt, highlighted, labelled, milliseconds, named, padded, place_of
from qianxun.cli.voice import print_folded, say

if TYPE_CHECKING:
    from qianxun.pipelines.layered import Cited, LayeredRecall, LayeredResult, LayerRun, TableShown
    from qianxun.types import Column

BAR = 10
CITED = 6  # rows of which cells are told
WIDEST = 28  # cells of a terminal that one cell of a table may take
ROWS = 8
GAP = 3  # between two columns
STRATEGIES = {
    "vector": ("向量", "vector"),
    "keyword": ("关键词", "keyword"),
    "expansion": ("扩展", "expansion"),
    "structure": ("结构", "structure"),
    "semantic": ("语义", "semantic"),
}
COLOURS = {
    "structure": "green",
    "vector": "cyan",
    "semantic": "cyan",
    "keyword": "yellow",
    "expansion": "magenta",
}


def show(console: Console, recall: LayeredRecall, *, explain: bool = False) -> None:
    """The answer, then the results, best first."""
    titles = {each.table.id: each.table.title or each.document_name for each in recall.results if each.table}
    show_answer(console, recall, titles)
    cited = {(each.table, each.row, each.column) for each in recall.cited}
    for rank, result in enumerate(recall.results, 1):
        print_folded(console, _title(rank, result), 10, hanging=10)
        if result.table is not None:
            _show_table(console, result.table, recall.query, cited)
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
    strategy = named(STRATEGIES, result.strategy)
    title.append(say(f"第 {result.layer} 层 {strategy}  ", f"layer {result.layer} {strategy}  "), style="dim")
    return title.append_text(place_of(result.doc))


# ── the answer ───────────────────────────────────────────────────────────────────────────────────


def show_answer(console: Console, recall: LayeredRecall, titles: Mapping[str, str]) -> None:
    """What the cells say, which cells they are, and how the question was understood; or why there is no answer."""
    answer = recall.answer
    if answer is None:
        return
    if not answer.sure:
        if recall.results:
            told = say(f"不直接回答：{answer.reason}", f"No exact answer: {answer.reason}")
            print_folded(console, Text(f"? {told}", style="yellow"), 2, hanging=2)
            console.print()
        return
    print_folded(console, Text.assemble(("✓ ", "green"), (answer.text, "bold")), 2, hanging=2)
    labelled(console, say("理解", "read as"), answer.reading)
    lines = [_cited_row(list(cells), titles) for _, cells in groupby(recall.cited, lambda one: (one.table, one.row))]
    for line in lines[:CITED]:
        labelled(console, say("依据", "from"), line)
    if recall.cells_total > len(recall.cited) or len(lines) > CITED:
        total = recall.cells_total
        labelled(console, say("……", "…"), say(f"共引用 {total} 格", f"{total} cells in all"))
    console.print()


def _cited_row(cells: Sequence[Cited], titles: Mapping[str, str]) -> Text:
    first = cells[0]
    place = f"《{titles.get(first.table, first.table)}》"
    place += say("表头", "header") if first.row < 0 else say(f"第 {first.row + 1} 行", f"row {first.row + 1}")
    line = Text(place + "  ", style="cyan")
    for at, cell in enumerate(cells):
        line.append(say("，", ", ") if at else "", style="default")
        line.append(f"{cell.name}{say('：', ': ')}" if cell.row >= 0 else "", style="dim")
        line.append(cell.text, style="bold default")
    return line


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _show_table(console: Console, table: TableShown, query: str, cited: set[tuple[str, int, int]]) -> None:
    from qianxun.answer.matching import telling_words

    print_folded(console, _about(table), INDENT)
    words = telling_words(query)
    wanted = {column for name, _, column in cited if name == table.id}
    kept, left_out = _columns(table, words, wanted, console.width - INDENT)
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold")
    drawn.add_column(say("行", "row"), style="dim", justify="right", no_wrap=True)
    for at in kept:
        column = table.columns[at]
        right = column.kind in ("number", "percent", "money")
        drawn.add_column(_header(column, words), justify="right" if right else "left", no_wrap=True)
    for number, row in list(zip(table.shown, table.cells, strict=True))[:ROWS]:
        cells = (_cell(_at(row, at), words, (table.id, number, at) in cited) for at in kept)
        drawn.add_row(str(number + 1), *cells)
    console.print(Padding(drawn, (0, 0, 0, INDENT), expand=False), crop=False, overflow="ignore")
    for line in _below(table, left_out):
        print_folded(console, Text(line, style="dim"), INDENT)


def _about(table: TableShown) -> Text:
    about = Text(
        f"《{table.title}》" if table.title else say("（无标题的表格）", "(a table without a title)"), style="bold"
    )
    size = say(f"{table.rows} 行 × {len(table.columns)} 列", f"{table.rows} rows × {len(table.columns)} columns")
    kind = say(_type_name(table.type), table.type.replace("_", " "))
    source = table.source if table.source != table.title else ""
    about.append("  " + " · ".join(part for part in (kind, size, source) if part), style="not bold dim")
    return about


def _type_name(name: str) -> str:
    from qianxun.table_types import TableType, label

    return {each: label(each) for each in get_args(TableType)}.get(name, name)


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
    line = " ".join(text.split())
    if cell_len(line) > WIDEST:
        line = set_cell_size(line, WIDEST - 1).rstrip() + "…"
    return highlighted(line, words)


def _columns(table: TableShown, words: Sequence[str], cited: set[int], width: int) -> tuple[list[int], int]:
    """The columns that fit: those an answer cites, the first, those the question speaks of most, then from the left."""
    from qianxun.answer.matching import spans

    def spoken_of(at: int) -> int:
        texts = [table.columns[at].name, *(_at(row, at) for row in table.cells[:ROWS])]
        return max(sum(end - start for start, end in spans(text, words)) for text in texts)

    room = width - max(cell_len(say("行", "row")), len(str(max(table.shown, default=0) + 1)))
    order = sorted(range(len(table.columns)), key=lambda at: (at not in cited, at != 0, -spoken_of(at), at))
    kept: list[int] = []
    for at in order:
        texts = [_header(table.columns[at], ()).plain, *(_fitted(_at(row, at), ()).plain for row in table.cells[:ROWS])]
        needs = max(map(cell_len, texts)) + GAP
        if kept and needs > room:
            continue
        kept.append(at)
        room -= needs
    return sorted(kept), len(table.columns) - len(kept)


def _at(row: Sequence[str], column: int) -> str:
    """A row that is longer than a chunk may be cut."""
    return row[column] if column < len(row) else ""


def _below(table: TableShown, left_out: int) -> list[str]:
    told = []
    shown = min(len(table.cells), ROWS)
    if shown < table.rows:
        told.append(say(f"另有 {table.rows - shown} 行", f"{table.rows - shown} more rows"))
    if left_out:
        told.append(say(f"另有 {left_out} 列没有画出", f"{left_out} more columns"))
    lines = [say("，", ", ").join(told)] if told else []
    return [*lines, *(line for line in table.notes.splitlines() if line.strip())]


# ── why ──────────────────────────────────────────────────────────────────────────────────────────


def show_layers(console: Console, layers: Sequence[LayerRun]) -> None:
    """What each layer did: ran, or why not; how many it let in, the best score, the time."""
    console.print(Text(say("各层", "Layers"), style="bold"))
    width = max((cell_len(named(STRATEGIES, run.strategy)) for run in layers), default=0)
    for run in layers:
        line = Text(f"{run.layer} {padded(named(STRATEGIES, run.strategy), width)}  ")
        line.append_text(_outcome(run))
        print_folded(console, line, 2 + width + 4, hanging=width + 4)


def _outcome(run: LayerRun) -> Text:
    time = say(f"{milliseconds(run.seconds)} 毫秒", f"{milliseconds(run.seconds)} ms")
    if not run.ran:
        return Text(say(f"没有运行：{run.reason}", f"did not run: {run.reason}"), style="dim")
    if run.reason:
        return Text(say(f"✗ {run.reason}", f"✗ {run.reason}"), style="yellow").append(f"  {time}", style="dim")
    told = Text("✓ ", style="green")
    best = say(f"，最高 {run.best:.2f}", f", best {run.best:.2f}") if run.count else ""
    told.append(say(f"收进 {run.count} 个{best}", f"let in {run.count}{best}"), style="default")
    return told.append(f"  {time}", style="dim")


def _show_details(console: Console, result: LayeredResult) -> None:
    labelled(console, say("编号", "id"), result.doc.chunk_id)
    for name, value in result.match_details.items():
        if value not in (None, "", [], {}):
            labelled(console, name, told(value))


def told(value: Any) -> str:
    """A value of ``match_details`` in one line."""
    if isinstance(value, bool):
        return say("是" if value else "否", "yes" if value else "no")
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, Mapping):
        return say("，", ", ").join(f"{name} {told(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return say("、", ", ").join(told(inner) for inner in value)
    return str(value)
