"""`qianxun kb`: create, list, show, configure and delete knowledge bases."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from qianxun.core.errors import BadInput
from qianxun.doors.cli.commands.configuration import changes_of, config_lines, set_config
from qianxun.doors.cli.commands.learn import learn
from qianxun.doors.cli.i18n import note, out, print_json, tr
from qianxun.doors.cli.session import (
    JsonFlag,
    Library,
    Session,
    find_base,
    has_records,
    quoted,
    session_of,
    with_library,
)

if TYPE_CHECKING:
    from qianxun.core.types import DocumentState, KnowledgeBase

app = typer.Typer(help="知识库 · knowledge bases", no_args_is_help=True)

PAGE = 500
STATES = {
    "indexed": ("可检索", "searchable", "green"),
    "pending": ("等待索引", "waiting", "yellow"),
    "retrying": ("稍后重试", "will be retried", "yellow"),
    "quarantined": ("已隔离", "quarantined", "red"),
    "deleted": ("已删除", "deleted", "dim"),
}
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="知识库的名称 · its name")]


class Kind(StrEnum):
    documents = "documents"
    examples = "examples"


@app.command(help="新建知识库 · create a knowledge base")
def create(
    context: typer.Context,
    name: NameArgument,
    model: Annotated[
        str | None, typer.Option(metavar="M", help="嵌入模型；none 为只按词语检索 · the embedding model, or none")
    ] = None,
    kind: Annotated[Kind, typer.Option(help="放文档还是放示例 · what it holds")] = Kind.documents,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="它的配置，可重复，如 search.rerank=maxsim · its configuration"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    session = session_of(context)
    changes = changes_of(config or (), {})

    async def work(library: Library) -> KnowledgeBase:
        return await library.create_knowledge_base(name, model=model, kind=kind.value, config=changes)

    base = with_library(session, work, may_create=True)
    if as_json:
        print_json(described(base))
        return
    out().print(tr(f"[green]✓[/] 已创建知识库“{base.name}”", f"[green]✓[/] Created “{base.name}”") + _with_model(base))
    if not session.url:
        _say_what_is_missing(session, base, model)
    start, name = session.start, quoted(base.name)
    note(tr(f"下一步：{start} add 文件或目录 --kb {name}", f"Next: {start} add PATH --kb {name}"))


def _say_what_is_missing(session: Session, base: KnowledgeBase, model: str | None) -> None:
    wanted = model or session.settings().vectorization.model
    if base.embedding_model or wanted == "none":
        return
    start = session.start
    commands = f"\n  {start} models pull {wanted}\n  {start} rebuild --kb {quoted(base.name)} --model {wanted}"
    note(
        tr(
            f"! 模型 {wanted} 还没有下载，这个知识库只按词语检索。要按意思检索：{commands}",
            f"! The model {wanted} is not here: this base is searched by words only. To search by meaning:{commands}",
        ),
        "yellow",
    )


def _with_model(base: KnowledgeBase) -> str:
    if not base.embedding_model:
        return tr("（只按词语检索）", " (words only)")
    return tr(
        f"（{base.embedding_model}，{base.dimension} 维）", f" ({base.embedding_model}, {base.dimension} dimensions)"
    )


@app.command("list", help="列出知识库 · list the knowledge bases")
def list_bases(context: typer.Context, as_json: JsonFlag = False) -> None:
    session = session_of(context)
    found = with_library(session, _counted) if session.url or has_records(session.settings()) else []
    if as_json:
        print_json({"knowledge_bases": found})
        return
    if not found:
        out().print(
            tr(
                f"{session.place} 里还没有知识库。新建一个：{session.start} kb create 手册",
                f"No knowledge base in {session.place} yet. Create one: {session.start} kb create handbook",
            ),
            markup=False,
        )
        return
    table = Table(box=None, pad_edge=False)
    for title in (tr("名称", "name"), tr("种类", "kind"), tr("嵌入模型", "model")):
        table.add_column(title)
    for title in (tr("文档", "documents"), tr("块", "chunks"), tr("表格", "tables")):
        table.add_column(title, justify="right")
    for row in found:
        model = row["embedding_model"] or tr("（无）", "(none)")
        numbers = (str(row[name]) for name in ("documents", "chunks", "tables"))
        table.add_row(row["name"], row["kind"], model, *numbers)
    out().print(table)


async def _counted(library: Library) -> list[dict[str, Any]]:
    return [described(base, await library.statistics(base.id)) for base in await library.knowledge_bases()]


def described(base: KnowledgeBase, counts: dict[str, int] | None = None) -> dict[str, Any]:
    """A base as JSON, with its counts where they are known."""
    about = {
        "id": base.id,
        "name": base.name,
        "kind": base.kind,
        "embedding_model": base.embedding_model,
        "dimension": base.dimension,
        "config": dict(base.config),
        "created_at": base.created_at,
    }
    if counts is None:
        return about
    states = {state: counts[state] for state in STATES if counts.get(state) and state != "deleted"}
    return {
        **about,
        "documents": sum(states.values()),
        "states": states,
        "chunks": counts["chunks"],
        "tables": counts["tables"],
    }


@app.command(help="看一个知识库里有什么 · show what is in one")
def show(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    session = session_of(context)
    about, held = with_library(session, lambda library: _contents(library, session.start, name))
    if as_json:
        print_json({**about, "items": [asdict(state) for state in held]})
        return
    console = out()
    model = about["embedding_model"] or tr("只按词语检索", "words only")
    console.print(f"[bold]{about['name']}[/]  [dim]{model} · {about['created_at']}[/]")
    console.print(
        tr(
            f"{about['documents']} 个文档，{about['chunks']} 块，{about['tables']} 张表格",
            f"{about['documents']} documents, {about['chunks']} chunks, {about['tables']} tables",
        )
    )
    lines = config_lines(about["config"])
    console.print(tr("配置：", "Configuration: ") + "  ".join(lines), markup=False, highlight=False, style="dim")
    if held:
        console.print(_listing(held))


async def _contents(library: Library, start: str, name: str) -> tuple[dict[str, Any], list[DocumentState]]:
    base = await find_base(library, name, start)
    held: list[DocumentState] = []
    while page := await library.documents(base.id, limit=PAGE, after=held[-1].doc_id if held else ""):
        held += page
    return described(base, await library.statistics(base.id)), _shown(held)


def _shown(held: list[DocumentState]) -> list[DocumentState]:
    return sorted((one for one in held if one.status != "deleted"), key=lambda one: (one.name, one.doc_id))


def _listing(held: list[DocumentState]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(tr("文档", "document"), overflow="fold")
    table.add_column(tr("编号", "id"), overflow="fold", style="dim")
    table.add_column(tr("状态", "state"))
    table.add_column(tr("块", "chunks"), justify="right")
    table.add_column(tr("更新于", "updated"), style="dim")
    for one in held:
        zh, en, style = STATES[one.status]
        reason = f"\n{one.reason}" if one.reason and one.status != "indexed" else ""
        state = f"[{style}]{tr(zh, en)}[/]{reason}"
        table.add_row(one.name or one.doc_id, one.doc_id, state, str(one.chunks), one.updated_at[:16].replace("T", " "))
    return table


app.command("set")(set_config)
app.command("learn")(learn)


@app.command("delete", help="删除知识库及其中的一切 · delete a base and everything in it")
def delete_base(
    context: typer.Context,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="不再询问 · do not ask")] = False,
    as_json: JsonFlag = False,
) -> None:
    session = session_of(context)
    about, _ = with_library(session, lambda library: _contents(library, session.start, name))
    if as_json and not yes:
        raise BadInput(
            tr("--json 不会询问，所以不删除", "--json does not ask, so nothing is deleted"),
            hint=tr("确定要删除的话，加上 --yes", "Add --yes if you are sure"),
        )
    if not yes:
        question = tr(
            f"将删除“{about['name']}”和其中 {about['documents']} 个文档，不能恢复。继续吗？",
            f"This deletes “{about['name']}” with its {about['documents']} documents, for good. Go on?",
        )
        typer.confirm(question, abort=True, err=True)
    with_library(session, lambda library: library.delete_knowledge_base(about["id"]))
    if as_json:
        print_json({"deleted": about["name"], "documents": about["documents"]})
        return
    out().print(tr(f"[green]✓[/] 已删除“{about['name']}”", f"[green]✓[/] Deleted “{about['name']}”"))
