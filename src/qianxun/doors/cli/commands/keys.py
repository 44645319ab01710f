"""`qianxun keys`: keys to the service. Opens the records alone, so it works beside a running service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.markup import escape
from rich.table import Table

from qianxun.core.errors import NotFound
from qianxun.doors.cli.i18n import note, out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, has_records, program, session_of
from qianxun.engine.folder_lock import refused

if TYPE_CHECKING:
    from qianxun.engine.settings import Settings
    from qianxun.records import Records

T = TypeVar("T")

app = typer.Typer(help="服务的密钥 · keys to the service", no_args_is_help=True)


class Scope(StrEnum):
    read = "read"
    write = "write"


@app.command(help="发一把密钥，只显示这一次 · issue a key; it is shown this once")
def create(
    context: typer.Context,
    tenant: Annotated[str, typer.Option(metavar="T", help="哪个租户的 · whose it is")] = "local",
    scope: Annotated[Scope, typer.Option(help="只读，还是也能写 · what it may do")] = Scope.write,
    name: Annotated[str, typer.Option(metavar="N", help="给谁、做什么用 · what it is for")] = "",
    as_json: JsonFlag = False,
) -> None:
    from qianxun.records import keys

    def work(records: Records) -> tuple[keys.KeyRow, str]:
        with records.writing() as tx:
            return keys.create(tx, tenant, scope.value, name)

    settings = session_of(context).settings()
    row, plaintext = with_records(settings, work, may_create=True)
    if as_json:
        print_json({**asdict(row), "key": plaintext})
        return
    out().print(plaintext, markup=False, soft_wrap=True)
    told = tr("读写", "read and write") if row.scope == "write" else tr("只读", "read only")
    note(
        tr(
            f"✓ 密钥 {row.id}（租户 {row.tenant}，{told}）。它不会再显示：现在就收好。",
            f"✓ Key {row.id} (tenant {row.tenant}, {told}). It is not shown again: keep it now.",
        )
    )
    revoke_it = f"{program(settings)} keys revoke {row.id}"
    note(tr(f"用法：请求头 Authorization: Bearer 密钥；收回：{revoke_it}", f"Revoke it with: {revoke_it}"))


@app.command("list", help="列出发出的密钥（不含密钥本身） · the keys issued, without the keys themselves")
def list_keys(context: typer.Context, as_json: JsonFlag = False) -> None:
    from qianxun.records import keys

    def work(records: Records) -> list[keys.KeyRow]:
        with records.reading() as tx:
            return keys.listed(tx)

    settings = session_of(context).settings()
    rows = with_records(settings, work) if has_records(settings) else []
    if as_json:
        print_json({"keys": [asdict(row) for row in rows]})
        return
    if not rows:
        first = f"{program(settings)} keys create"
        note(tr(f"还没有密钥。发一把：{first}", f"There is no key yet. Issue one: {first}"))
        return
    table = Table(box=None, pad_edge=False)
    for zh, en in (("编号", "id"), ("租户", "tenant"), ("权限", "scope"), ("名称", "name"), ("发于", "issued")):
        table.add_column(tr(zh, en), overflow="fold")
    table.add_column(tr("状态", "state"))
    for row in rows:
        state = "[green]" + tr("有效", "live") + "[/]"
        if row.revoked_at is not None:
            state = "[red]" + tr("已收回", "revoked") + f"[/] {_day(row.revoked_at)}"
        told = (str(row.id), escape(row.tenant), row.scope, escape(row.name), _day(row.created_at), state)
        table.add_row(*told)
    out().print(table)


@app.command(help="收回一把密钥，立刻生效 · revoke a key, at once")
def revoke(
    context: typer.Context,
    key: Annotated[int, typer.Argument(metavar="ID", help="编号，见 keys list · see keys list")],
    as_json: JsonFlag = False,
) -> None:
    from qianxun.records import keys

    def work(records: Records) -> keys.KeyRow:
        with records.writing() as tx:
            return keys.revoke(tx, key)

    row = with_records(session_of(context).settings(), work)
    if as_json:
        print_json(asdict(row))
        return
    out().print(tr(f"[green]✓[/] 密钥 {row.id} 已收回", f"[green]✓[/] Key {row.id} is revoked"))


def with_records(settings: Settings, work: Callable[[Records], T], *, may_create: bool = False) -> T:
    """Opens the database alone: whoever owns the folder goes on. Only ``may_create`` makes one that is not there."""
    from qianxun.engine.storage import database_url, reach
    from qianxun.records import Records

    folder = settings.folder
    if not may_create and not has_records(settings):
        raise NotFound(
            tr(f"数据目录 {folder} 里还没有数据", f"There is nothing in {folder} yet"),
            hint=tr("数据若在别处，用 --data DIR 指明", "If the data is elsewhere, say so with --data DIR"),
        )
    if not settings.records.url:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refused(folder, error) from error
    records = Records.open(database_url(settings), reach(settings))
    try:
        return work(records)
    finally:
        records.close()


def _day(moment: str) -> str:
    return moment[:16].replace("T", " ")
