"""`qianxun access`: who may see which documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape

from qianxun.doors.cli.i18n import done, hint, out, print_json, tr
from qianxun.doors.cli.session import BaseOption, JsonFlag, Library, find_document, session_of, with_base
from qianxun.doors.cli.views.drawing import new_table, one_line

if TYPE_CHECKING:
    from qianxun.core.governance.access import AccessRule, DocumentAccess
    from qianxun.core.types import KnowledgeBase

T = TypeVar("T")

app = typer.Typer(help="谁能看见哪些文档 · who may see which documents", no_args_is_help=True)
rules_app = typer.Typer(help="各目录与来源的访问标签 · the labels of folders and sources", no_args_is_help=True)
app.add_typer(rules_app, name="rules")

Documents = Annotated[list[str], typer.Argument(metavar="DOC...", help="文档的编号或名称 · ids or names of documents")]
LabelOptions = Annotated[
    list[str] | None,
    typer.Option("--label", "-l", metavar="L", help="user:、group: 或 role: 开头，可多次 · a label, repeatable"),
]


@app.command("list", help="有访问标签的文档 · the documents that have access labels")
def list_labels(
    context: typer.Context,
    kb: BaseOption,
    label: Annotated[str, typer.Option(metavar="L", help="只看有这个标签的 · only those with this one")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="最多几个 · at most so many")] = 100,
    after: Annotated[str, typer.Option(metavar="ID", help="从这个编号之后 · those after this id")] = "",
    as_json: JsonFlag = False,
) -> None:
    async def work(access: Any, base: int) -> tuple[dict[str, int], tuple[DocumentAccess, ...]]:
        return await access.labels(base), await access.list(base, label=label, limit=limit, after=after)

    labels, found = _run(context, kb, work)
    if as_json:
        print_json({"labels": labels, "documents": found})
        return
    if not found:
        hint("没有带访问标签的文档：人人可见", "No document has access labels: everybody sees all")
        return
    _print(found)
    counts = "　".join(f"{name} {number}" for name, number in labels.items())
    hint(f"各标签的文档数：{counts}", f"documents by label: {counts}")


@app.command("set", help="给文档访问标签；不写 --label 则人人可见 · give documents labels; without any: for everybody")
def set_labels(
    context: typer.Context,
    kb: BaseOption,
    documents: Documents,
    label: LabelOptions = None,
    as_json: JsonFlag = False,
) -> None:
    _changed(context, kb, documents, as_json, lambda access, base, doc_ids: access.set(base, doc_ids, label or ()))


@app.command("clear", help="去掉文档自己的标签，随规则 · take away documents' own labels: rules count again")
def clear(context: typer.Context, kb: BaseOption, documents: Documents, as_json: JsonFlag = False) -> None:
    _changed(context, kb, documents, as_json, lambda access, base, doc_ids: access.clear(base, doc_ids))


@rules_app.command("list", help="列出规则 · the rules")
def list_rules(context: typer.Context, kb: BaseOption, as_json: JsonFlag = False) -> None:
    found: tuple[AccessRule, ...] = _run(context, kb, lambda access, base: access.rules(base))
    if as_json:
        print_json({"rules": found})
        return
    if not found:
        hint("没有规则", "There are no rules")
        return
    table = new_table(("目录或来源", "folder or source"), ("标签", "labels"), overflow="fold")
    for rule in found:
        table.add_row(escape(rule.prefix), escape(" ".join(rule.labels)) or tr("人人可见", "everybody"))
    out().print(table)


@rules_app.command("set", help="给一个目录或来源访问标签 · give a folder or source labels")
def set_rule(
    context: typer.Context,
    kb: BaseOption,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="目录、来源或编号的开头 · how paths begin")],
    label: LabelOptions = None,
    as_json: JsonFlag = False,
) -> None:
    rule: AccessRule = _run(context, kb, lambda access, base: access.set_rule(base, prefix, label or ()))
    if as_json:
        print_json(rule)
        return
    shown = "、".join(rule.labels) or "人人可见"
    done(f"{rule.prefix} 之下：{shown}", f"Under {rule.prefix}: {', '.join(rule.labels) or 'everybody'}")


@rules_app.command("remove", help="去掉一条规则 · remove a rule")
def remove_rule(
    context: typer.Context,
    kb: BaseOption,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="那条规则的目录或来源 · its folder or source")],
    as_json: JsonFlag = False,
) -> None:
    removed: bool = _run(context, kb, lambda access, base: access.remove_rule(base, prefix))
    if as_json:
        print_json({"removed": removed})
    elif removed:
        done("已去掉", "Removed")
    else:
        hint("没有这条规则", "There is no such rule")


def _changed(
    context: typer.Context,
    kb: str,
    documents: Sequence[str],
    as_json: bool,
    change: Callable[[Any, int, list[str]], Awaitable[Sequence[DocumentAccess]]],
) -> None:
    start = session_of(context).start

    async def work(library: Library, base: KnowledgeBase) -> Sequence[DocumentAccess]:
        doc_ids = [(await find_document(library, base, wanted, start)).doc_id for wanted in documents]
        return await change(library.governance.access, base.id, doc_ids)

    found = with_base(context, kb, work)
    if as_json:
        print_json({"documents": found})
        return
    _print(found)


def _print(found: Sequence[DocumentAccess]) -> None:
    titles = (("编号", "id"), ("名称", "name"), ("标签", "labels"), ("来自", "from"))
    table = new_table(*titles, overflow="fold")
    for one in found:
        labels = escape(" ".join(one.labels)) or tr("人人可见", "everybody")
        origin = tr("自己", "its own") if one.is_own else tr("规则", "a rule") if one.labels else ""
        table.add_row(escape(one.doc_id), escape(one_line(one.name)), labels, origin)
    out().print(table)


def _run(context: typer.Context, kb: str, work: Callable[[Any, int], Awaitable[T]]) -> T:
    return with_base(context, kb, lambda library, base: work(library.governance.access, base.id))
