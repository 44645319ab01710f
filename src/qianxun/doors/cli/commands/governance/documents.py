"""`qianxun kb documents`: the documents of a base by name, state, metadata, folder, validity and time."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from qianxun.core.errors import BadInput
from qianxun.doors.cli.i18n import hint, out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, Library, NameArgument, with_base
from qianxun.doors.cli.views.drawing import label, minutes, new_table, one_line

if TYPE_CHECKING:
    from qianxun.core.ingest_types import DocumentListing
    from qianxun.core.types import KnowledgeBase


class Order(StrEnum):
    id = "id"
    name = "name"
    newest = "newest"
    oldest = "oldest"


def documents(
    context: typer.Context,
    kb: NameArgument,
    name: Annotated[str, typer.Option(metavar="TEXT", help="名称或编号里有这几个字 · within name or id")] = "",
    status: Annotated[str, typer.Option(metavar="S", help="indexed、pending、retrying、quarantined、failed")] = "",
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="F=V", help="与 search 的 --where 一样，可写几次 · as of search, repeatable"),
    ] = None,
    folder: Annotated[str, typer.Option(metavar="DIR", help="在这个文件夹或其下 · in this folder or below")] = "",
    label: Annotated[str, typer.Option(metavar="L", help="有这个访问标签的 · with this access label")] = "",
    valid_on: Annotated[str, typer.Option(metavar="DAY", help="这一天有效的 · in force on this day")] = "",
    since: Annotated[str, typer.Option(metavar="T", help="这时或以后改过的 · changed then or later")] = "",
    until: Annotated[str, typer.Option(metavar="T", help="这时以前改的 · changed before then")] = "",
    order: Annotated[Order, typer.Option(help="怎样排 · in which order")] = Order.id,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="一页几个 · a page")] = 100,
    after: Annotated[str, typer.Option(metavar="PLACE", help="上一页的 next · where the last page ended")] = "",
    as_json: JsonFlag = False,
) -> None:
    """列出文档：按名称、状态、元数据、文件夹、标签、有效期、时间 · documents by name, state, metadata, label, time"""
    from qianxun.core.filters import all_of
    from qianxun.core.governance.access import checked_label
    from qianxun.core.ingest_types import DocumentQuery
    from qianxun.doors.cli.option_flags import parse_where

    query = DocumentQuery(
        name=name,
        status=status,
        order=order.value,
        where=all_of(*(parse_where(condition) for condition in where or ())),
        folder=folder,
        access=checked_label(label) if label else "",
        valid_on=valid_on,
        since=_moment("--since", since),
        until=_moment("--until", until),
    )

    async def work(library: Library, base: KnowledgeBase) -> DocumentListing:
        return await library.contents.page(base.id, query, limit=limit, after=after, counted=True)

    found = with_base(context, kb, work)
    if as_json:
        print_json({"total": found.total, "documents": found.documents, "next": found.next or None})
        return
    _show(found)


def _moment(flag: str, text: str) -> datetime | None:
    """In the zone of this machine unless it names another."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise BadInput(
            tr(f"{flag} 不是时间：{text}", f"{flag}: {text} is no time"),
            hint=tr("例如 2026-05-01 或 2026-05-01T08:00", "For example 2026-05-01T08:00"),
        ) from None


def _show(found: DocumentListing) -> None:
    titles: tuple[tuple[str, str], ...] = (("编号", "id"), ("名称", "name"), ("状态", "state"), ("块", "chunks"))
    table = new_table(*titles, ("改于", "changed"), overflow="fold")
    for document in found.documents:
        cells: tuple[Any, ...] = (document.doc_id, document.name)
        state = label("states", document.status)
        table.add_row(*map(escape, map(one_line, cells)), state, str(document.chunks), minutes(document.updated_at))
    if found.documents:
        out().print(table)
    hint(f"共 {found.total} 个", f"{found.total} in all")
    if found.next:
        hint(f"下一页：--after '{found.next}'", f"The next page: --after '{found.next}'")
