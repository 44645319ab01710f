"""Answers, drawn for people: the text with its citation marks, the sources, and the steps that led to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from qianxun.core.codec.passage import ARROW, below_headings, heading_path, title_of
from qianxun.doors.cli.i18n import print_folded, tr, warn
from qianxun.doors.cli.views.drawing import highlighted, label, milliseconds, padded, plain_value, printable

if TYPE_CHECKING:
    from qianxun.core.answer_types import Answer, Flag, Source, TraceStep
    from qianxun.core.graph_types import GraphContext

QUOTED: Final = 160  # characters shown of a source
NAMED: Final = 8  # entities and relationships of the graph
MARK: Final = re.compile(r"\[\d+\]")
MARK_STYLE: Final = "bold green"
CHOICES: Final = frozenset(("kind", "complexity", "to", "chosen_by", "by", "form"))
EMPTY: Final[tuple[Any, ...]] = (None, "", (), [], {})
UNPROVED: Final = ("unsupported_number", "contradicted", "uncited", "dropped")


def shown_text(text: str) -> Text:
    """A text of a model or a document without control characters, its citation marks highlighted."""
    drawn = Text(printable(text))
    for mark in MARK.finditer(drawn.plain):
        drawn.stylize(MARK_STYLE, mark.start(), mark.end())
    return drawn


def show_answer(console: Console, answer: Answer) -> None:
    print_folded(console, shown_text(answer.answer), 0)


def show_reason(console: Console, answer: Answer) -> None:
    """Why there is no answer, unless the text says so."""
    if answer.reason and "：" + answer.reason not in answer.answer:
        reason = tr(f"原因：{answer.reason}", f"Reason: {answer.reason}")
        print_folded(console, Text(printable(reason), style="dim"), 0)


def show_notes(console: Console, answer: Answer) -> None:
    """As of when it holds, and which of its sources are outdated."""
    for note in answer.notes:
        print_folded(console, Text(printable(note), style="yellow"), 0)


def show_sources(console: Console, answer: Answer) -> None:
    """The numbered sources: the document, the place in it, and the words that bear the answer out."""
    if not answer.sources:
        return
    console.print()
    console.print(Text(tr("出处", "Sources"), style="bold"))
    indent = len(f"[{answer.sources[-1].number}] ")
    for source in answer.sources:
        print_folded(console, headed(source, indent), indent, hanging=indent)
        print_folded(console, _quotation(source, _cited(answer, source.number)), indent)


def headed(source: Source, indent: int = 4) -> Text:
    """A source's mark and place."""
    head = Text(padded(f"[{source.number}]", indent), style=MARK_STYLE) + _place(source)
    return head.append(tr("  已更正", "  edited"), style="yellow") if source.is_edited else head


def show_end(console: Console, answer: Answer) -> None:
    """Who wrote it, in which mode, how long it took; and what was taken out of it."""
    show_flags(answer.flags)
    who = label("forms", answer.form)
    if answer.form == "model":
        model = next((step.form.removeprefix("model:") for step in answer.trace if step.node == "generate_answer"), "")
        who = tr(f"由 {model or '模型'} 写成", f"written by {model or 'the model'}")
    time = tr(f"{milliseconds(answer.seconds)} 毫秒", f"{milliseconds(answer.seconds)} ms")
    console.print()
    console.print(Text(" · ".join((who, answer.mode, time)), style="dim"), soft_wrap=True)


def show_flags(flags: Sequence[Flag]) -> None:
    """What the model wrote and no source supports: every sentence once, with its best reason; removed or not."""
    dropped = {_sentence(flag) for flag in flags if flag.kind == "dropped"}
    unproved: dict[str, str] = {}
    for flag in flags:
        if flag.kind in UNPROVED and (flag.kind != "dropped" or _sentence(flag) not in unproved):
            unproved[_sentence(flag)] = flag.reason
    for sentence, reason in unproved.items():
        if sentence in dropped:
            warn(f"! 不可信，已去掉：“{sentence}”（{reason}）", f"! Taken out: “{sentence}” ({reason})")
        else:
            warn(f"! 请自行核对：“{sentence}”（{reason}）", f"! Check this yourself: “{sentence}” ({reason})")
    if links := sum(flag.kind == "link_removed" for flag in flags):
        warn(f"! 去掉了 {links} 处链接、图片或 HTML", f"! {links} links, images or tags taken out")


def _sentence(flag: Flag) -> str:
    return MARK.sub("", printable(flag.text)).strip()


# ── sources ──────────────────────────────────────────────────────────────────────────────────────


def _place(source: Source) -> Text:
    """The document, the headings that are not its name, the page, the characters."""
    about = source.metadata
    title = title_of(source.doc_name, source.doc_id, about.get("document") or {})
    place = Text(printable(title), style="bold cyan")
    if about.get("source") == "question":
        return place.append("  " + label("attachments", str(about.get("type"))), style="not bold dim")
    for heading in heading_path(source.doc_name, [str(one) for one in about.get("headings") or ()]):
        place.append(ARROW + printable(heading), style="not bold")
    if about.get("page") is not None:
        place.append(tr(f"  第 {about['page']} 页", f"  p. {about['page']}"), style="not bold dim")
    if source.end > source.start:
        characters = f"{source.start + 1}–{source.end}"
        place.append(tr(f"  第 {characters} 字", f"  characters {characters}"), style="not bold dim")
    return place


def _cited(answer: Answer, number: int) -> str:
    """The parts of the answer that cite a source; all of it where none does."""
    parts = [
        answer.answer[citation.start : citation.end] for citation in answer.citations if number in citation.numbers
    ]
    return " ".join(MARK.sub("", part) for part in parts) or answer.answer


def _quotation(source: Source, cited: str) -> Text:
    """The part of a source that matches what cites it; of a table, the rows."""
    from qianxun.engine.display import matching_part, matching_rows, query_words, spans

    words = query_words(cited)
    below = printable(below_headings(source.text, [str(one) for one in source.metadata.get("headings") or ()]))
    if source.metadata.get("kind") == "table" or source.metadata.get("type") == "table":
        return highlighted(matching_rows(below, cited), words)
    flat = " ".join(below.split())
    exact = [(at, at + len(part)) for part in cited.split() if len(part) > 3 and (at := flat.find(part)) >= 0]
    before, part, after = matching_part(flat, exact or spans(flat, words), QUOTED)
    return Text(tr("“", '"') + before) + highlighted(part, words) + Text(after + tr("”", '"'))


# ── steps ────────────────────────────────────────────────────────────────────────────────────────


def show_trace(console: Console, answer: Answer) -> None:
    """Every step, whether rules or a model took it, what it decided; and what was found in the graph."""
    console.print()
    console.print(Text(tr("过程", "Steps"), style="bold"))
    width = max((cell_len(label("parts", step.node)) for step in answer.trace), default=0)
    for step in answer.trace:
        line = Text(f"  {padded(label('parts', step.node), width)}  ")
        line.append(_by(step), style="cyan" if step.form.startswith("model:") else "dim")
        line.append(tr(f"  {milliseconds(step.seconds)} 毫秒", f"  {milliseconds(step.seconds)} ms"), style="dim")
        print_folded(console, line + Text(_decisions(step.said)), width + 6, hanging=width + 6)
    _show_graph(console, answer.context)


def _by(step: TraceStep) -> str:
    return step.form.removeprefix("model:") if step.form.startswith("model:") else tr("规则", "rules")


def _decisions(decided: Mapping[str, Any]) -> str:
    parts = [
        f"{label('decisions', name)} {label('choices', value) if name in CHOICES else plain_value(value)}"
        for name, value in decided.items()
        if value not in EMPTY
    ]
    return "  " + " · ".join(parts) if parts else ""


def _show_graph(console: Console, context: GraphContext) -> None:
    if not context.entities and not context.communities:
        return
    console.print()
    console.print(Text(tr("图谱", "Graph"), style="bold"))
    names = {entity.id: printable(entity.name) for entity in context.entities}
    if names:
        print_folded(console, Text(tr("、", ", ").join(list(names.values())[:NAMED])), 2)
    known = [one for one in context.relations if one.source in names and one.target in names]
    for relation in known[:NAMED]:
        line = f"{names[relation.source]} —{printable(relation.type)}→ {names[relation.target]}"
        print_folded(console, Text(line, style="dim"), 4, hanging=2)
    for community in context.communities[:NAMED]:
        print_folded(console, Text(f"◌ {printable(community.title)}", style="dim"), 4, hanging=2)
