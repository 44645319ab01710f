"""`qianxun kb`: create, list, show, configure, teach, move and delete knowledge bases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from qianxun.core.codec.command_line import quoted
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.unicode import visible_controls
from qianxun.doors.cli.commands.governance.documents import documents
from qianxun.doors.cli.commands.transfer import clone, export_file, import_file
from qianxun.doors.cli.i18n import done, hint, out, print_json, tr, warn
from qianxun.doors.cli.session import (
    JsonFlag,
    Library,
    NameArgument,
    Session,
    find_base,
    has_records,
    other_tenants,
    path_of,
    refuse_url,
    session_of,
    with_engine,
    with_library,
)
from qianxun.doors.cli.views.drawing import label, minutes, new_table, one_line

if TYPE_CHECKING:
    from qianxun.core.types import DocumentState, KnowledgeBase
    from qianxun.engine.engine import Engine

app = typer.Typer(help="知识库 · knowledge bases", no_args_is_help=True)

PAGE = 500
LEARN_SECONDS = 1800.0
STATES = {
    "indexed": "green", "pending": "yellow", "retrying": "yellow", "quarantined": "red", "failed": "red",
    "deleted": "dim",
}  # fmt: skip
REASON_SHOWN = 300  # characters
ID_SHOWN = 20  # characters: as long as the id of a file
CHUNKING = ("chunk_size", "chunk_overlap", "by_meaning")
_ASSIGNMENT = re.compile(r"\s*([\w.]+?)\s*(\+=|-=|=)(.*)", re.S)


Kind = StrEnum("Kind", ["documents", "examples"])


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
    zh, en = "（只按词语检索）", " (words only)"
    if base.embedding_model:
        zh = f"（{base.embedding_model}，{base.dimension} 维）"
        en = f" ({base.embedding_model}, {base.dimension} dimensions)"
    done(f"已创建知识库“{escape(base.name)}”{zh}", f"Created “{escape(base.name)}”{en}")
    if not session.url:
        _warn_without_model(session, base, model)
    start, name = session.start, quoted(base.name)
    hint(f"下一步：{start} add 文件或目录 --kb {name}", f"Next: {start} add PATH --kb {name}")


def _warn_without_model(session: Session, base: KnowledgeBase, model: str | None) -> None:
    missing = model or session.settings().vectorization.model
    if base.embedding_model or missing == "none":
        return
    start = session.start
    commands = f"\n  {start} models pull {missing}\n  {start} rebuild --kb {quoted(base.name)} --model {missing}"
    warn(
        f"! 模型 {missing} 还没有下载，这个知识库只按词语检索。要按意思检索：{commands}",
        f"! The model {missing} is not here: this base is searched by words only. To search by meaning:{commands}",
    )


@app.command("list", help="列出知识库 · list the knowledge bases")
def list_bases(
    context: typer.Context,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="所有租户的，各属于谁 · of all tenants, and whose each is")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    session = session_of(context)
    if all_tenants:
        refuse_url(session, "kb list --all-tenants")
    found, advice = _all_tenants(session) if all_tenants else _own(session)
    if as_json:
        print_json({"knowledge_bases": found})
        return
    if not found:
        start = session.start
        nothing = tr(
            f"{session.place} 里还没有知识库。{advice}新建一个：{start} kb create 手册",
            f"No knowledge base in {session.place} yet. {advice}Create one: {start} kb create handbook",
        )
        out().print(nothing, markup=False)
        return
    table = new_table(("名称", "name"), ("种类", "kind"), ("嵌入模型", "model"))
    if all_tenants:
        table.add_column(tr("编号", "id"), style="dim")
        table.add_column(tr("租户", "tenant"))
    for title in (tr("文档", "documents"), tr("块", "chunks"), tr("表格", "tables")):
        table.add_column(title, justify="right")
    for row in found:
        model = row["embedding_model"] or tr("（无）", "(none)")
        whose = (str(row["id"]), escape(row["tenant"])) if all_tenants else ()
        numbers = (str(row[name]) for name in ("documents", "chunks", "tables"))
        table.add_row(escape(row["name"]), row["kind"], escape(model), *whose, *numbers)
    out().print(table)


def _all_tenants(session: Session) -> tuple[list[dict[str, Any]], str]:
    from qianxun.engine.admin.bases import all_bases

    found = all_bases(session.settings()) if has_records(session.settings()) else []
    return [{**described(base, counts), "tenant": base.tenant} for base, counts in found], ""


def _own(session: Session) -> tuple[list[dict[str, Any]], str]:
    """The bases; where there is none, why that may be."""

    async def work(library: Library) -> tuple[list[dict[str, Any]], str]:
        found = [described(base, await library.statistics(base.id)) for base in await library.knowledge_bases()]
        return found, "" if found else await other_tenants(library)

    return with_library(session, work) if session.url or has_records(session.settings()) else ([], "")


@app.command(help="把知识库移交给另一个租户 · hand a base over to another tenant")
def move(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="名称或编号，不论属于谁 · name or id, of any tenant")],
    to: Annotated[str, typer.Option("--to", metavar="TENANT", help="给哪个租户 · who gets it")],
    as_json: JsonFlag = False,
) -> None:
    session = session_of(context)
    refuse_url(session, "kb move", alone=True)

    async def work(engine: Engine) -> tuple[KnowledgeBase, KnowledgeBase]:
        base = find_among(await engine.admin.knowledge_bases(), name, session.start)
        return base, await engine.of(base.tenant).admin.move(base.id, to)

    before, after = with_engine(session.settings(), work)
    if as_json:
        print_json({**described(after), "tenant": after.tenant, "from": before.tenant})
        return
    done(
        f"“{escape(after.name)}”从租户“{escape(before.tenant)}”移交给了“{escape(after.tenant)}”，现在只有它的密钥看得到",
        f"“{escape(after.name)}” went from tenant “{escape(before.tenant)}” to “{escape(after.tenant)}”",
    )
    hint(
        f"发一把它的密钥：{session.start} keys create --tenant {quoted(after.tenant)}；"
        f"取回：{session.start} kb move {quoted(after.name)} --to {quoted(before.tenant)}",
        f"A key of it: {session.start} keys create --tenant {quoted(after.tenant)}",
    )


def find_among(found: Sequence[KnowledgeBase], name: str, start: str) -> KnowledgeBase:
    """Of the bases of all tenants the one with this number, or else this name. Raises NotFound, or BadInput for a name
    that bases of several tenants have."""
    named = [base for base in found if str(base.id) == name] or [base for base in found if base.name == name]
    if len(named) == 1:
        return named[0]
    if named:
        ids = tr("、", ", ").join(f"{base.id}（{base.tenant}）" for base in named)
        raise BadInput(
            tr(f"几个租户都有叫“{name}”的知识库", f"Several tenants have a base “{name}”"),
            hint=tr(f"改写编号：{ids}", f"Name it by its id: {ids}"),
        )
    see = f"{start} kb list --all-tenants"
    raise NotFound(
        tr(f"没有名称或编号为“{name}”的知识库", f"There is no knowledge base “{name}”"),
        hint=tr(f"查看有哪些、各属于谁：{see}", f"See what there is, and whose: {see}"),
    )


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
    about, documents = with_library(session, lambda library: _contents(library, session.start, name))
    if as_json:
        print_json({**about, "items": [asdict(state) for state in documents]})
        return
    console = out()
    model = about["embedding_model"] or tr("只按词语检索", "words only")
    console.print(f"[bold]{escape(about['name'])}[/]  [dim]{escape(model)} · {minutes(about['created_at'])}[/]")
    counts = tuple(about[name] for name in ("documents", "chunks", "tables"))
    console.print(
        tr("{} 个文档，{} 块，{} 张表格".format(*counts), "{} documents, {} chunks, {} tables".format(*counts))
    )
    lines = _config_lines(about["config"])
    console.print(tr("配置：", "Configuration: ") + "  ".join(lines), markup=False, highlight=False, style="dim")
    if documents:
        console.print(_listing(documents))
    for document in documents:
        if (
            document.reason and document.status != "indexed"
        ):  # below the table: in a column of it nobody could read them
            console.print(f"[{STATES[document.status]}]·[/] {escape(_reason(document))}", soft_wrap=True)
    if failed := about["states"].get("failed", 0):
        start = session.start
        hint(
            f"{failed} 个文件读不了，原因见上：改好后再 {start} add；不要的，{start} delete 编号 --kb {quoted(name)}",
            f"{failed} files could not be read, for the reasons above: mend them and {start} add them again",
        )


async def _contents(library: Library, start: str, name: str) -> tuple[dict[str, Any], list[DocumentState]]:
    base = await find_base(library, name, start)
    found: list[DocumentState] = []
    while page := await library.documents(base.id, limit=PAGE, after=found[-1].doc_id if found else ""):
        found += page
    documents = sorted((one for one in found if one.status != "deleted"), key=_place)
    return described(base, await library.statistics(base.id)), documents


def _place(one: DocumentState) -> tuple[bool, str, str]:
    """By path; files that could not be read come last, next to what is said about them."""
    return one.status == "failed", path_of(one), one.doc_id


def _listing(documents: Sequence[DocumentState]) -> Table:
    table = new_table(("文档", "document"), overflow="fold")
    widest = max(
        min(len(document.doc_id), ID_SHOWN) for document in documents
    )  # to be copied: in one piece, if it is one of ours
    table.add_column(tr("编号", "id"), overflow="fold", style="dim", min_width=widest)
    table.add_column(tr("状态", "state"), no_wrap=True)
    table.add_column(tr("块", "chunks"), justify="right", no_wrap=True)
    table.add_column(tr("更新于", "updated"), style="dim")
    for document in documents:
        state = f"[{STATES[document.status]}]{label('states', document.status)}[/]"
        table.add_row(
            escape(one_line(path_of(document))),
            escape(document.doc_id),
            state,
            str(document.chunks),
            minutes(document.updated_at),
        )
    return table


def _reason(one: DocumentState) -> str:
    """Begins with the file's name, as readers of files write it; the path says which of several it is."""
    reason = one.reason[:REASON_SHOWN].removeprefix(f"{one.name}：")
    earlier = tr("（前一版仍检索得到）", " (an earlier version is still found)") if one.served else ""
    return f"{path_of(one)}：{reason}{earlier if one.status == 'failed' else ''}"


# ── configuration ────────────────────────────────────────────────────────────────────────────────


@app.command("set")
def set_config(
    context: typer.Context,
    name: NameArgument,
    assignments: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...",
            help="例：search.fusion=rrf、dictionary+=词、synonyms+=报销=报账；KEY= 恢复默认 · KEY= is the default",
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """改知识库的配置，立即生效 · configure a base, at once"""
    session = session_of(context)
    chunks: list[int] = []

    async def work(library: Library) -> tuple[KnowledgeBase, KnowledgeBase]:
        before = await find_base(library, name, session.start)
        changes = changes_of(assignments, before.config)
        return before, await library.configure(before.id, changes, watch=chunks.append)

    before, after = with_library(session, work)
    rebuilt = sum(chunks)
    if as_json:
        print_json({"name": after.name, "config": dict(after.config), "rebuilt_chunks": rebuilt})
        return
    done(f"“{escape(after.name)}”的配置：", f"Configuration of “{escape(after.name)}”:")
    for line in _config_lines(after.config):
        out().print(f"  {line}", markup=False, highlight=False)
    if before.config.get("dictionary") != after.config.get("dictionary"):
        consequence = tr(
            f"词典变了，已用它重建索引（{rebuilt} 块）。",
            f"The dictionary changed: the index was made anew with it ({rebuilt} chunks).",
        )
        out().print(consequence, style="dim")
    if any(before.config.get(key) != after.config.get(key) for key in CHUNKING):
        consequence = tr(
            "分块参数对以后放入的文档有效；已有的文件再 add 一次就会重切。",
            "Chunking holds for documents from now on; add files again to cut them anew.",
        )
        out().print(consequence, style="dim")


def _config_lines(config: Mapping[str, Any]) -> list[str]:
    """``key=value``, as `kb set` takes it."""
    from qianxun.engine.configure import flat, write

    return [f"{name}={write(name, value)}" for name, value in sorted(flat(config).items())]


def changes_of(assignments: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """What assignments change of a configuration; ``+=`` and ``-=`` add to one of its lists or take from it."""
    changes: dict[str, Any] = {}
    if not assignments:
        return changes
    from qianxun.engine.configure import LISTS, read

    for written in assignments:
        parts = _ASSIGNMENT.fullmatch(written)
        if parts is None:
            raise BadInput(
                tr(f"看不懂 {written!r}", f"{written!r} is not KEY=VALUE"),
                hint=tr("写成 key=value，如 search.fusion=rrf", "Write KEY=VALUE, as in search.fusion=rrf"),
            )
        key, sign, text = parts.groups()
        if sign == "=":
            changes[key] = read(key, text)
            continue
        if key not in LISTS:
            raise BadInput(
                tr(f"{key} 不是列表，不能用 {sign}", f"{key} is not a list: {sign} does not apply"),
                hint=tr(f"写成 {key}=值", f"Write {key}=VALUE"),
            )
        before = changes.get(key, config.get(key)) or []
        words = read(key, text) or []
        after = [*before, *words] if sign == "+=" else [word for word in before if word not in words]
        changes[key] = after or None
    return changes


@app.command()
def learn(context: typer.Context, name: NameArgument, as_json: JsonFlag = False) -> None:
    """从知识库自己的词里学近义词 · learn related words from what a base says"""
    session = session_of(context)
    refuse_url(session, "kb learn")

    async def work(engine: Engine) -> tuple[KnowledgeBase, Any]:
        base = await find_base(engine, name, session.start)
        return base, await engine.admin.learn_terms(base.id, seconds=LEARN_SECONDS)

    base, learnt = with_engine(session.settings(), work)
    if as_json:
        print_json({"knowledge_base": base.name, "embedding_model": base.embedding_model, **asdict(learnt)})
    elif not base.embedding_model:
        warn(
            f"“{base.name}”没有嵌入模型，学不了近义词；自带的和自己写的同义词照常使用。",
            f"“{base.name}” has no embedding model to learn by; shipped and own synonyms work as ever.",
        )
    else:
        terms, added, removed = learnt.terms, learnt.added, learnt.removed
        done(
            f"“{escape(base.name)}”认得 {terms} 个词：新学 {added} 个，忘掉 {removed} 个",
            f"“{escape(base.name)}” knows {terms} words: {added} new, {removed} forgotten",
        )


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
    name, documents = about["name"], about["documents"]
    if not yes:
        question = tr(
            f"将删除“{name}”和其中 {documents} 个文档，不能恢复。继续吗？",
            f"This deletes “{name}” with its {documents} documents, for good. Go on?",
        )
        typer.confirm(visible_controls(question), abort=True, err=True)
    with_library(session, lambda library: library.delete_knowledge_base(about["id"]))
    if as_json:
        print_json({"deleted": name, "documents": documents})
        return
    done(f"已删除“{escape(name)}”", f"Deleted “{escape(name)}”")


for command_name, command in (
    ("export", export_file),
    ("import", import_file),
    ("clone", clone),
    ("documents", documents),
):
    app.command(command_name)(command)
