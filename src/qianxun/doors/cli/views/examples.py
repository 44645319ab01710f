"""`qianxun examples`, drawn for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from qianxun.doors.cli.i18n import hint, note, out, print_folded, print_plain, tr, warn
from qianxun.doors.cli.views.drawing import new_table

if TYPE_CHECKING:
    from qianxun.engine.admin.examples import ExampleRef, ImportReport, LibraryStatistics, NearPair, RetrievedExample

# The library has these names, too; to import it for a page of help would take too long.
LABELS = {"qa_examples": "问答", "record_examples": "记录", "query_examples": "查询", "greeting_examples": "问候"}
GRADES = ("优秀", "良好", "一般")
REJECTED_SHOWN = 50
TAGS_SHOWN = 12
WORDS_SHOWN = 40


def show_import(file: Path, report: ImportReport) -> None:
    added, updated, unchanged = (report.total(what) for what in ("added", "updated", "unchanged"))
    rejected = len(report.rejected)
    if not report.stored:
        failed = tr(
            f"✗ {file.name} 有 {rejected} 处填错，整个文件没有导入",
            f"✗ {file.name} has {rejected} mistakes; nothing was imported",
        )
        print_plain(out(), failed, "red")
    else:
        sign, style = ("!", "yellow") if rejected else ("✓", "green")
        line = tr(
            f"{sign} 新增 {added} 条，更新 {updated} 条，未变 {unchanged} 条，未收 {rejected} 行，"
            f"用时 {report.seconds:.1f} 秒",
            f"{sign} {added} added, {updated} updated, {unchanged} unchanged, {rejected} rejected, "
            f"{report.seconds:.1f} s",
        )
        out().print(line, style=style, markup=False)
        for category, counts in report.inserted.items():
            added, updated, unchanged = counts.added, counts.updated, counts.unchanged
            line = tr(
                f"  {LABELS.get(category, category)}（{category}）：新增 {added}，更新 {updated}，未变 {unchanged}",
                f"  {category}: {added} added, {updated} updated, {unchanged} unchanged",
            )
            out().print(line, markup=False)
    _show_passed_over(report)


def _show_passed_over(report: ImportReport) -> None:
    for rejected in report.rejected[:REJECTED_SHOWN]:
        note(f"  ✗ {_place(rejected.sheet, rejected.row)}：{rejected.reason}", style="red")
    if (more := len(report.rejected) - REJECTED_SHOWN) > 0:
        note(tr(f"  … 还有 {more} 处，用 --json 看全部", f"  … {more} more: see --json"), "red")
    for double in report.doubles[:REJECTED_SHOWN]:
        first = _place(double.first_sheet, double.first_row)
        note(f"  = {_place(double.sheet, double.row)}：" + tr(f"与{first}相同，略过", f"the same as {first}"))
    if report.samples:
        warn(
            f"  ! 模板自带的 {report.samples} 行示例没有改过，没有导入；要用就改成自己的内容，或改掉备注",
            f"  ! {report.samples} sample rows of the template are unchanged and were not imported; edit "
            "them, or their notes, to use them",
        )
    for sheet in report.ignored_sheets:
        warn(f"  ! 工作表“{sheet}”不是示例，略过", f"  ! Sheet “{sheet}” holds no examples")
    for sheet, column in report.ignored_columns:
        warn(f"  ! 工作表“{sheet}”的列“{column}”不认识，略过", f"  ! Column “{column}” of “{sheet}” is unknown")
    if report.rejected and not report.stored:
        hint("改好再导入；或加 --skip-bad，只跳过这些行。", "Mend them, or skip them with --skip-bad.")


def _place(sheet: str, row: int) -> str:
    return tr(f"“{sheet}”第 {row} 行", f"“{sheet}” row {row}") if row else f"“{sheet}”"


def show_found(start: str, found: Sequence[RetrievedExample], seconds: float) -> None:
    console = out()
    for rank, example in enumerate(found, 1):
        known = example["metadata"]
        title = Text(f"{rank:>2}  ")
        title.append(f"{example['similarity']:.2f}  ", style="bold green")
        title.append(f"{LABELS.get(example['source'], example['source'])} #{known.get('id', '?')}  ", style="cyan")
        title.append("  ".join([str(known.get("quality_grade") or ""), *known.get("tags", ())]), style="dim")
        print_folded(console, title, 10, hanging=10)
        print_folded(console, Text(example["content"]), 4)
    if found:
        count = tr(f"{len(found)} 条，{seconds * 1000:.0f} 毫秒", f"{len(found)} examples, {seconds * 1000:.0f} ms")
        console.print(count, style="dim")
        return
    nothing = tr(
        f"没有够像的示例。可以降低 --threshold，或看看库里有什么：{start} examples stats",
        f"No example is alike enough. Lower --threshold, or see what there is: {start} examples stats",
    )
    print_plain(console, nothing)


def described_statistics(found: LibraryStatistics) -> dict[str, Any]:
    return {
        "model": found.stamp.model,
        "dimension": found.stamp.dimension,
        "count": found.count,
        "tables": {
            name: {
                "count": table.count,
                "grades": dict(table.grades),
                "tagged": table.tagged,
                "tag_coverage": round(table.coverage, 4),
                "tags": dict(table.tags),
            }
            for name, table in found.tables.items()
        },
        "near_duplicates": {
            "threshold": found.near,
            "compared": found.compared,
            "count": found.pair_count,
            "pairs": [
                {"similarity": round(pair.similarity, 4), "first": _ref(pair.first), "second": _ref(pair.second)}
                for pair in found.pairs
            ],
        },
    }


def _ref(example: ExampleRef) -> dict[str, Any]:
    return {"source": example.source, "id": example.id, "user_input": example.user_input}


def show_statistics(start: str, found: LibraryStatistics) -> None:
    console = out()
    table = new_table(("类别", "category"))
    for title in (tr("条数", "count"), *GRADES, tr("有标签", "tagged")):
        table.add_column(title, justify="right")
    table.add_column(tr("常用标签", "tags"), overflow="fold")
    for name, one in found.tables.items():
        tags = "  ".join(f"{tag} {count}" for tag, count in list(one.tags.items())[:TAGS_SHOWN])
        grades = [str(one.grades.get(grade, 0)) for grade in GRADES]
        table.add_row(LABELS.get(name, name), str(one.count), *grades, f"{one.coverage:.0%}", Text(tags, style="dim"))
    console.print(table)
    model = f"{found.stamp.model}（{found.stamp.dimension}）"
    console.print(tr(f"共 {found.count} 条，模型 {model}", f"{found.count} in all, model {model}"), style="dim")
    _show_pairs(start, found)


def _show_pairs(start: str, found: LibraryStatistics) -> None:
    console = out()
    if not found.pair_count:
        none = f"没有近似重复（相似度 {found.near:g} 以上）", f"No near-duplicates (at {found.near:g} or more)"
        console.print(tr(*none), style="green")
        return
    head = f"近似重复 {found.pair_count} 对（相似度 {found.near:g} 以上）："
    console.print(tr(head, f"{found.pair_count} near-duplicates (at {found.near:g} or more):"), style="yellow")
    for pair in found.pairs:
        print_folded(console, _pair(pair), 8, hanging=6)
    if found.compared < found.count:
        hint(f"只比较了最新的 {found.compared} 条", f"Only the newest {found.compared} were compared")
    hint(f"删去其一：{start} examples remove 类别 编号", f"Remove one: {start} examples remove TABLE ID")


def _pair(pair: NearPair) -> Text:
    both = [
        f"{LABELS.get(one.source, one.source)} #{one.id} {_short(one.user_input)}" for one in (pair.first, pair.second)
    ]
    return Text(f"{pair.similarity:.3f}  ", style="bold").append("  ≈  ".join(both), style="not bold")


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= WORDS_SHOWN else line[: WORDS_SHOWN - 1] + "…"
