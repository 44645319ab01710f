"""`qianxun quotas`: what tenants may have and do at most. Works also while a service has the data folder open."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from qianxun.core.errors import BadInput
from qianxun.doors.cli.i18n import done, hint, out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, expect_data, has_records, session_of
from qianxun.doors.cli.views.drawing import new_table

if TYPE_CHECKING:
    from qianxun.core.governance.quotas import QuotaUse

app = typer.Typer(help="租户的配额 · quotas of tenants", no_args_is_help=True)

TITLES = {
    "documents": ("文档", "documents"),
    "chunks": ("块", "chunks"),
    "bytes": ("字节", "bytes"),
    "searches_per_minute": ("每分钟检索", "searches a minute"),
}


@app.command("list", help="有配额的租户与用量 · tenants with a quota, and their use")
def list_quotas(context: typer.Context, as_json: JsonFlag = False) -> None:
    settings = session_of(context).settings()
    found: list[QuotaUse] = []
    if has_records(settings):
        from qianxun.engine.governance import quotas

        found = quotas.list_quotas(settings)
    if as_json:
        print_json({"quotas": [asdict(one) for one in found]})
        return
    if not found:
        hint("没有设过配额", "No quota is set")
        return
    table = new_table(("租户", "tenant"), *TITLES.values())
    for one in found:
        table.add_row(escape(one.tenant), *(_use(one, kind) for kind in TITLES))
    out().print(table)


def _use(one: QuotaUse, kind: str) -> str:
    limit, used = getattr(one.quota, kind), getattr(one.used, kind)
    return f"{used}" if limit is None else f"[{'red' if used >= limit else 'green'}]{used} / {limit}[/]"


Limit = Annotated[
    str | None, typer.Option(metavar="N", help="上限；none 不设 · the limit, or none", show_default=False)
]


@app.command("set", help="设置一个租户的配额；没写的不变 · set a tenant's quota; what is left out stays")
def set_quota(
    context: typer.Context,
    tenant: Annotated[str, typer.Option(metavar="T", help="哪个租户 · whose")],
    documents: Limit = None,
    chunks: Limit = None,
    size: Annotated[
        str | None, typer.Option("--bytes", metavar="N", help="正文的字节；none 不设 · bytes of text, or none")
    ] = None,
    searches: Annotated[
        str | None, typer.Option("--searches", metavar="N", help="每分钟检索；none 不设 · searches a minute, or none")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    from qianxun.core.governance.quotas import Quota
    from qianxun.engine.governance import quotas

    settings = session_of(context).settings()
    expect_data(settings)
    given = {"documents": documents, "chunks": chunks, "bytes": size, "searches_per_minute": searches}
    before = {quota.tenant: quota.quota for quota in quotas.list_quotas(settings)}.get(tenant, Quota())
    changes = {kind: _number(kind, text) for kind, text in given.items() if text is not None}
    use = quotas.set_quota(settings, tenant, replace(before, **changes))
    if as_json:
        print_json(asdict(use))
        return
    limits = {kind: limit for kind, limit in asdict(use.quota).items() if limit is not None}
    shown = "、".join(f"{tr(*TITLES[kind])} {limit}" for kind, limit in limits.items())
    done(f"租户 {escape(tenant)} 的配额：{shown or '没有上限'}", f"Quota of {escape(tenant)}: {shown or 'none'}")


def _number(kind: str, text: str) -> int | None:
    if text.lower() == "none":
        return None
    if not text.isascii() or not text.isdigit():
        raise BadInput(
            tr(f"{kind} 应为整数或 none，而不是 {text}", f"{kind}: {text} is no number"),
            hint=tr("例如 --documents 1000", "For example --documents 1000"),
        )
    return int(text)
