"""`qianxun graph`, drawn for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from qianxun.doors.cli.i18n import print_folded, print_plain, tr

if TYPE_CHECKING:
    from rich.progress import TaskID

    from qianxun.core.graph_types import (
        Alias,
        Community,
        EntityDetails,
        ExtractionProgress,
        GraphCost,
        GraphStatus,
        LlmCost,
        LlmExtraction,
        LlmExtractionProgress,
        Quote,
        Relation,
        SummariesProgress,
        SummariesResult,
    )
    from qianxun.doors.cli.progress import Bars
    from qianxun.engine.admin.graph import WholeBuild


# ── while it is built ────────────────────────────────────────────────────────────────────────────


class BuildProgress:
    """Follows a build: shows what a model will cost before it is called, then how far every step has come."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        titles = (("统计", "statistics"), ("模型", "model"), ("摘要", "summaries"))
        self._statistics, self._model, self._summaries = (bars.task(tr(*title), visible=False) for title in titles)

    def counted(self, reading: ExtractionProgress) -> None:
        self._move(self._statistics, reading.done, reading.total)

    def read(self, progress: LlmExtractionProgress) -> None:
        cost = progress.expected.cost
        if cost.calls and not progress.calls and not progress.done:
            self._bars.print(_will_cost(progress.expected.model, cost, tr("读", "reads")), markup=False)
        self._move(self._model, progress.done + progress.failed, cost.chunks + progress.expected.known)

    def summarised(self, progress: SummariesProgress) -> None:
        if progress.cost.calls and not progress.done:
            self._bars.print(_will_cost(progress.model, progress.cost, tr("写社区摘要", "summarises")), markup=False)
        self._move(self._summaries, progress.done, progress.cost.calls)

    def _move(self, task: TaskID, done: int, total: int) -> None:
        self._bars.update(task, completed=done, total=total, visible=total > 0)


def _will_cost(model: str, cost: LlmCost, verb: str) -> str:
    return tr(
        f"模型 {model} {verb}：约 {cost.calls} 次调用，输入约 {cost.prompt_tokens}、输出约 {cost.reply_tokens} 词元",
        f"The model {model} {verb}: about {cost.calls} calls, {cost.prompt_tokens} tokens in, {cost.reply_tokens} out",
    )


def show_built(console: Console, built: WholeBuild) -> None:
    chunks, entities, relations = built.statistics.chunks, built.statistics.entities, built.statistics.relations
    summary = tr(
        f"✓ {chunks} 块，{entities} 个实体，{relations} 条关系",
        f"✓ {chunks} chunks, {entities} entities, {relations} relations",
    )
    console.print(summary, style="green")
    if (read := built.read) is not None:
        print_plain(console, _read(read), "yellow" if not read.is_whole else "dim")
    if (summaries := built.summaries) is not None and (summaries.written or summaries.failed):
        print_plain(console, _summarised(summaries), "yellow" if summaries.failed else "dim")


def _read(read: LlmExtraction) -> str:
    done = tr(
        f"模型 {read.expected.model} 读了 {read.read} 块（{read.known} 块以前读过），{read.calls} 次调用；"
        f"文中没有的说法去掉 {read.dropped} 条",
        f"{read.expected.model} read {read.read} chunks ({read.known} were known) in {read.calls} calls; "
        f"{read.dropped} claims that no text bears out were dropped",
    )
    return done if read.is_whole else f"{done}\n! {read.warning}"


def _summarised(summaries: SummariesResult) -> str:
    written, failed, reason = summaries.written, summaries.failed, summaries.reason
    done = tr(f"写了 {written} 个社区摘要", f"{written} communities summarised")
    return done + (tr(f"；{failed} 个仍用摘句：{reason}", f"; {failed} stay quoted: {reason}") if failed else "")


# ── what there is ────────────────────────────────────────────────────────────────────────────────


def show_status(console: Console, status: GraphStatus) -> None:
    print_plain(
        console,
        tr(
            f"{status.chunks} 块：{status.entities} 个实体，{status.relations} 条关系，{status.communities} 个社区",
            f"{status.entities} entities, {status.relations} relations, {status.communities} communities "
            f"of {status.chunks} chunks",
        ),
    )
    for origin, count in status.readers.items():
        kind, _, name = origin.partition(":")
        who = tr("统计", "statistics") if kind == "statistical" else tr(f"模型 {name}", f"model {name}")
        print_plain(console, tr(f"  读者 {who}：{count} 块", f"  read by {who}: {count} chunks"), "dim")
    if status.aliases:
        print_plain(console, tr(f"  合并、分开过的名称：{status.aliases}", f"  names decided: {status.aliases}"), "dim")
    if status.trouble:
        print_plain(console, f"! {status.trouble}", "yellow")
    if status.model and status.unread:
        unread = tr(
            f"模型 {status.model} 还有 {status.unread} 块没有读：graph estimate 看要多少，graph build 接着读",
            f"{status.model} has {status.unread} chunks left: see graph estimate, then graph build",
        )
        print_plain(console, unread, "yellow")


def show_cost(console: Console, cost: GraphCost) -> None:
    reading = cost.reading
    if not reading.cost.calls and not cost.summaries.calls:
        print_plain(console, tr(f"模型 {reading.model} 都读过了，不用再问", f"{reading.model} has read everything"))
        return
    print_plain(console, _will_cost(reading.model, reading.cost, tr("读", "reads")))
    details = tr(
        f"  {reading.cost.chunks} 块要读，{reading.known} 块以前读过；回复不合格时会多问一两次",
        f"  {reading.cost.chunks} chunks to read, {reading.known} are known; bad replies cost a call or two more",
    )
    print_plain(console, details, "dim")
    if cost.summaries.calls:
        verb = tr("写社区摘要（按现在的图）", "summarises, as of now")
        print_plain(console, _will_cost(reading.model, cost.summaries, verb))


def show_entity(console: Console, found: EntityDetails) -> None:
    from qianxun.core.graph_types import CO_OCCURRENCE

    entity = found.entity
    console.print(Text(f"{entity.name}  ", style="bold") + Text(f"{entity.type} · {entity.id}", style="dim"))
    about = [tr(f"又名 {'、'.join(entity.aliases)}", f"also {', '.join(entity.aliases)}")] if entity.aliases else []
    about.append(
        tr(
            f"{entity.chunks} 块提到，重要度 {entity.importance:.2f}",
            f"in {entity.chunks} chunks, importance {entity.importance:.2f}",
        )
    )
    print_plain(console, "  " + tr("；", "; ").join(about))
    for relation in found.relations:
        source, target = (found.names.get(id_, id_) for id_ in (relation.source, relation.target))
        arrow = "——" if relation.type == CO_OCCURRENCE else "→"
        weight = tr(f"（{relation.weight:g} 处）", f" ({relation.weight:g} ×)")
        print_plain(console, f"  {source} —{relation.type}{arrow} {target}{weight}")
        quote = _quote(found, relation)
        if quote is not None and quote.text.strip():
            words = f"{quote.doc_name}{tr('：', ': ')}{' '.join(quote.text.split())[:200]}"
            print_folded(console, Text(words, style="dim"), 6)


def described_entity(found: EntityDetails) -> dict[str, Any]:
    return {
        "entity": asdict(found.entity),
        "relations": [
            {
                **asdict(relation),
                "source_name": found.names.get(relation.source, ""),
                "target_name": found.names.get(relation.target, ""),
                "quote": asdict(quote) if (quote := _quote(found, relation)) is not None else None,
            }
            for relation in found.relations
        ],
    }


def _quote(found: EntityDetails, relation: Relation) -> Quote | None:
    return found.quotes.get(relation.evidence[0]) if relation.evidence else None


def show_communities(console: Console, found: Sequence[Community]) -> None:
    if not found:
        print_plain(console, tr("还没有社区：先放入文档", "There is no community yet: add documents first"))
    for at, one in enumerate(found, 1):
        who = "" if one.origin == "extractive" else f" · {one.origin.removeprefix('model:')}"
        size = tr(f"{len(one.entities)} 个实体", f"{len(one.entities)} entities")
        console.print(Text(f"{at}. {one.title}  ", style="bold") + Text(f"{size} · {one.id}{who}", style="dim"))
        print_folded(console, Text(one.summary), 3)


def show_aliases(console: Console, found: Sequence[Alias], *, is_proposal: bool) -> None:
    if not found:
        nothing = tr("模型没有建议", "The model proposes nothing") if is_proposal else tr("没有合并过", "None")
        print_plain(console, nothing)
    for one in found:
        if one.name == one.alias:
            line = tr(f"{one.name}：独立，不管文中怎么说", f"{one.name}: by itself, whatever texts say")
        else:
            line = f"{one.alias} → {one.name}"
        print_plain(console, line + (f"　（{one.details['reason']}）" if one.details.get("reason") else ""))
