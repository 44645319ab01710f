"""`qianxun graph`: the knowledge graph of a base: built, shown, and corrected by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from qianxun.core.codec.command_line import quoted
from qianxun.doors.cli.i18n import Stopped, hint, out, print_json, tr
from qianxun.doors.cli.progress import bars
from qianxun.doors.cli.session import BaseOption, JsonFlag, find_base, session_of, with_engine
from qianxun.doors.cli.views.graph import (
    BuildProgress,
    described_entity,
    show_aliases,
    show_built,
    show_communities,
    show_cost,
    show_entity,
    show_status,
)

if TYPE_CHECKING:
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.admin.graph import GraphCurator, WholeBuild
    from qianxun.engine.engine import Engine

T = TypeVar("T")
app = typer.Typer(help="知识图谱：实体、关系、社区 · the knowledge graph", no_args_is_help=True)

EntityArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="ENTITY", help="实体的名称、别名或编号 · its name, alias or id")
]
LimitOption: TypeAlias = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, metavar="N")]


def _with_base(context: typer.Context, kb: str, work: Callable[[Engine, KnowledgeBase], Awaitable[T]]) -> T:
    session = session_of(context)

    async def found(engine: Engine) -> T:
        return await work(engine, await find_base(engine, kb, session.start))

    return with_engine(session.settings(), found)


def _with_curator(context: typer.Context, kb: str, work: Callable[[GraphCurator], Awaitable[T]]) -> T:
    async def opened(engine: Engine, base: KnowledgeBase) -> T:
        return await work(await engine.graph_keeper(base.id))

    return _with_base(context, kb, opened)


# ── build ────────────────────────────────────────────────────────────────────────────────────────


@app.command(help="建图；指定了 graph_model 就由模型来读，先说要多少 · build it, by the model where there is one")
def build(
    context: typer.Context,
    kb: BaseOption,
    no_model: Annotated[
        bool, typer.Option("--no-model", help="只按统计建，不问模型 · by statistics alone, no model is asked")
    ] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="忘掉读过的，从头再读（要重新花费） · read everything again, at full cost")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    from qianxun.engine.admin.graph import build_graph

    async def work(engine: Engine, base: KnowledgeBase) -> WholeBuild:
        with bars(quiet=as_json) as shown:
            return await build_graph(engine, base.id, BuildProgress(shown), use_model=not no_model, anew=anew)

    try:
        built = _with_base(context, kb, work)
    except KeyboardInterrupt:
        again = f"{session_of(context).start} graph build --kb {quoted(kb)}"
        stopped = tr(
            f"已停下。读过的都已保存；再运行就从这里继续：\n  {again}",
            f"Stopped. What was read is kept; this goes on from here:\n  {again}",
        )
        raise Stopped(stopped) from None
    if as_json:
        read, summaries = built.read, built.summaries
        model = None if read is None else {**asdict(read), "whole": read.is_whole}
        written = None if summaries is None else asdict(summaries)
        print_json({**asdict(built.statistics), "model": model, "summaries": written})
    else:
        show_built(out(), built)
    return 0 if built.is_whole else 1


@app.command(help="模型读完还要多少次调用、多少词元 · what reading by the model will cost, before it starts")
def estimate(context: typer.Context, kb: BaseOption, as_json: JsonFlag = False) -> None:
    cost = _with_curator(context, kb, lambda curator: curator.cost())
    if as_json:
        print_json(asdict(cost))
    else:
        show_cost(out(), cost)


@app.command(help="有多少实体与关系，谁读的，还差多少 · what there is, who read it, what is missing")
def status(context: typer.Context, kb: BaseOption, as_json: JsonFlag = False) -> None:
    found = _with_curator(context, kb, lambda curator: curator.status())
    if as_json:
        print_json({**asdict(found), "readers": dict(found.readers)})
    else:
        show_status(out(), found)


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


@app.command(help="一个实体：别名、关系和说出它们的原句 · an entity, its relations and the words that say so")
def show(
    context: typer.Context, entity: EntityArgument, kb: BaseOption, limit: LimitOption = 20, as_json: JsonFlag = False
) -> None:
    found = _with_curator(context, kb, lambda curator: curator.show(entity, limit=limit))
    if as_json:
        print_json(described_entity(found))
    else:
        show_entity(out(), found)


@app.command(help="社区与摘要，最要紧的在前 · communities and what they are about")
def communities(context: typer.Context, kb: BaseOption, limit: LimitOption = 10, as_json: JsonFlag = False) -> None:
    found = _with_curator(context, kb, lambda curator: curator.communities(limit=limit))
    if as_json:
        print_json({"communities": [asdict(community) for community in found]})
    else:
        show_communities(out(), found)


# ── correct ──────────────────────────────────────────────────────────────────────────────────────


@app.command(help="两个名称是一个实体，此后都叫 NAME；split 可撤回 · make two names one entity")
def merge(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="此后的名称 · what it is called from now on")],
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="并入它的 · what is merged into it")],
    kb: BaseOption,
    as_json: JsonFlag = False,
) -> None:
    entity = _with_base(context, kb, lambda engine, base: engine.admin.merge_entities(base.id, name, alias))
    if as_json:
        print_json({"entity": asdict(entity)})
        return
    others = "、".join(dict.fromkeys((*entity.aliases, *(() if alias.startswith("e_") else (alias,)))))
    out().print(tr(f"✓ {entity.name}：又名 {others}", f"✓ {entity.name}: also {others}"), style="green", markup=False)
    hint(f"撤回：{_command(context, kb, 'split', alias)}", f"Undo: {_command(context, kb, 'split', alias)}")


@app.command(help="撤回合并，或把文中所说的别名分开 · undo a merge, or part a name from what texts call it")
def split(context: typer.Context, name: EntityArgument, kb: BaseOption, as_json: JsonFlag = False) -> None:
    parted = _with_base(context, kb, lambda engine, base: engine.admin.split_entities(base.id, name))
    if as_json:
        print_json({"parted": list(parted)})
        return
    out().print(tr(f"✓ 已分开：{'、'.join(parted)}", f"✓ Apart: {', '.join(parted)}"), style="green", markup=False)


@app.command(help="合并过的名称；--suggest 请模型建议 · names that were merged; --suggest asks the model for more")
def aliases(
    context: typer.Context,
    kb: BaseOption,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="请 graph_model 看看还有哪些是一个，不改动什么 · decides nothing")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    found = _with_curator(context, kb, lambda curator: curator.propose() if suggest else curator.aliases())
    if as_json:
        print_json({"proposed" if suggest else "aliases": [asdict(row) for row in found]})
        return
    show_aliases(out(), list(found), is_proposal=suggest)
    if suggest and found:
        example = _command(context, kb, "merge", found[0].name, found[0].alias)
        hint(f"照办：{example}", f"To accept: {example}")


def _command(context: typer.Context, kb: str, *words: str) -> str:
    first, *rest = words
    return " ".join([session_of(context).start, "graph", first, *map(quoted, rest), "--kb", quoted(kb)])
