"""`qianxun keys`: keys to the service. Works also while a service has the data folder open."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from qianxun.core.codec.command_line import quoted
from qianxun.doors.cli.i18n import done, hint, out, print_json, tr, warn
from qianxun.doors.cli.session import NAMED, JsonFlag, expect_data, has_records, program, session_of
from qianxun.doors.cli.views.drawing import minutes, new_table

if TYPE_CHECKING:
    from qianxun.engine.settings import Settings

app = typer.Typer(help="服务的密钥 · keys to the service", no_args_is_help=True)


class Sees(StrEnum):
    everything = "everything"
    unlabelled = "unlabelled"


class Scope(StrEnum):
    read = "read"
    write = "write"


@app.command(help="发一把密钥，只显示这一次 · issue a key; it is shown this once")
def create(
    context: typer.Context,
    tenant: Annotated[str, typer.Option(metavar="T", help="哪个租户的 · whose it is")] = "local",
    scope: Annotated[Scope, typer.Option(help="只读，还是也能写 · what it may do")] = Scope.write,
    name: Annotated[str, typer.Option(metavar="N", help="给谁、做什么用 · what it is for")] = "",
    vouch: Annotated[
        bool,
        typer.Option("--vouch", help="可用 X-Principal 代表别人检索 · may say on whose behalf it asks (X-Principal)"),
    ] = False,
    principal: Annotated[
        list[str] | None,
        typer.Option(metavar="L", help="总以这些访问标签检索，可多次 · always asks as one with these labels"),
    ] = None,
    sees: Annotated[
        Sees | None,
        typer.Option(
            help="没有主体时看得到什么；写密钥默认全部，其余默认没有标签的 · what it shows without a principal",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    from qianxun.engine.admin.keys import issue_key

    settings = session_of(context).settings()
    shown: Any = sees.value if sees is not None else None
    row, plaintext = issue_key(
        settings, tenant, scope.value, name, sees=shown, vouches=vouch, principal=principal or ()
    )
    if as_json:
        print_json({**asdict(row), "key": plaintext})
        return
    out().print(plaintext, markup=False, soft_wrap=True)
    rights = tr("读写", "read and write") if row.scope == "write" else tr("只读", "read only")
    hint(
        f"✓ 密钥 {row.id}（租户 {row.tenant}，{rights}）。它不会再显示：现在就收好。",
        f"✓ Key {row.id} (tenant {row.tenant}, {rights}). It is not shown again: keep it now.",
    )
    revoke_it = f"{program(settings)} keys revoke {row.id}"
    hint(f"用法：请求头 Authorization: Bearer 密钥；收回：{revoke_it}", f"Revoke it with: {revoke_it}")
    _warn_of_nothing(settings, row.tenant)


def _warn_of_nothing(settings: Settings, tenant: str) -> None:
    """A key to a tenant without a base, where others have some, is mostly a mistake: it opens nothing."""
    from qianxun.engine.admin.bases import all_bases

    bases = [base for base, _ in all_bases(settings)]
    if not bases or any(base.tenant == tenant for base in bases):
        return
    whose = tr("、", ", ").join(f"{base.name}（{base.tenant}）" for base in bases[:NAMED])
    move = f"{program(settings)} kb move {quoted(bases[0].name)} --to {quoted(tenant)}"
    issue = f"{program(settings)} keys create --tenant {quoted(bases[0].tenant)}"
    warn(
        f"! 租户“{tenant}”还没有知识库，这把密钥看不到别的租户的：{whose}。"
        f"移交一个：{move}；或改发那个租户的密钥：{issue}",
        f"! Tenant “{tenant}” has no base; this key does not see those of others: {whose}. {move}, or {issue}",
    )


@app.command("list", help="列出发出的密钥（不含密钥本身） · the keys issued, without the keys themselves")
def list_keys(context: typer.Context, as_json: JsonFlag = False) -> None:
    settings = session_of(context).settings()
    rows = []
    if has_records(settings):
        from qianxun.engine.admin import keys

        rows = keys.list_keys(settings)
    if as_json:
        print_json({"keys": [asdict(row) for row in rows]})
        return
    if not rows:
        first = f"{program(settings)} keys create"
        hint(f"还没有密钥。发一把：{first}", f"There is no key yet. Issue one: {first}")
        return
    titles = (("编号", "id"), ("租户", "tenant"), ("权限", "scope"), ("名称", "name"), ("发于", "issued"))
    table = new_table(*titles, overflow="fold")
    table.add_column(tr("状态", "state"))
    for row in rows:
        state = "[green]" + tr("有效", "live") + "[/]"
        if row.revoked_at is not None:
            state = "[red]" + tr("已收回", "revoked") + f"[/] {minutes(row.revoked_at)}"
        cells = (str(row.id), escape(row.tenant), row.scope, escape(row.name), minutes(row.created_at), state)
        table.add_row(*cells)
    out().print(table)


@app.command(help="收回一把密钥，立刻生效 · revoke a key, at once")
def revoke(
    context: typer.Context,
    key: Annotated[int, typer.Argument(metavar="ID", help="编号，见 keys list · see keys list")],
    as_json: JsonFlag = False,
) -> None:
    from qianxun.engine.admin.keys import revoke_key

    settings = session_of(context).settings()
    expect_data(settings)
    row = revoke_key(settings, key)
    if as_json:
        print_json(asdict(row))
        return
    done(f"密钥 {row.id} 已收回", f"Key {row.id} is revoked")
