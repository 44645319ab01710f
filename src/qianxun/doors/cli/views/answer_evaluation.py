"""`qianxun eval --answers`, drawn for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from qianxun.doors.cli.i18n import out, print_plain, tr

if TYPE_CHECKING:
    from qianxun.engine.admin.evaluate_answers import AnswerResult

SHOWN = 5  # questions that went wrong
MEASURES = {
    "questions": ("问题", "questions"),
    "answerable_declined": ("有答案而拒答", "answerable, declined"),
    "unanswerable_declined": ("没有答案而拒答", "unanswerable, declined"),
    "probable": ("只说可能在哪里", "only probable"),
    "right": ("答对", "right"),
    "wrong": ("答错", "wrong"),
    "figures": ("参考答案的数字", "figures of the reference"),
    "supported": ("模型的句子有据", "a model's sentences supported"),
    "citations_right": ("引对了文档", "cites the right document"),
}


def described_answers(
    file: Path, summaries: Mapping[str, Any], found: Sequence[tuple[str, Sequence[AnswerResult]]]
) -> dict[str, Any]:
    results = {label or file.stem: [asdict(result) for result in results] for label, results in found}
    return {"file": str(file), "summary": dict(summaries), "results": results}


def show_answers(
    summaries: Mapping[str, Mapping[str, Any]], found: Sequence[tuple[str, Sequence[AnswerResult]]]
) -> None:
    table = Table(tr("指标", "measure"), *(escape(label) for label in summaries))
    for name, words in MEASURES.items():
        table.add_row(tr(*words), *(_written(summary[name]) for summary in summaries.values()))
    console = out()
    console.print(table)
    for label, results in found:
        missed = [result for result in results if result.is_right is False]
        if missed:
            title = tr(f"没有答对的 {len(missed)} 问", f"{len(missed)} not right")
            print_plain(console, f"{title}（{label}）" if label else title)
        for one in missed[:SHOWN]:
            print_plain(
                console, f"  · {one.case.question} → {one.form}；{tr('参考', 'reference')}：{one.case.reference[:60]}"
            )


def _written(value: float | None) -> str:
    return "–" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"
