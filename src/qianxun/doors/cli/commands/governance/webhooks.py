"""`qianxun webhooks`: addresses that are told of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from qianxun.doors.cli.i18n import done, hint, out, print_json, warn
from qianxun.doors.cli.session import JsonFlag, Library, find_base, session_of, with_library
from qianxun.doors.cli.views.drawing import new_table

if TYPE_CHECKING:
    from qianxun.core.governance.webhooks import Webhook

app = typer.Typer(help="事件的通知 · webhooks", no_args_is_help=True)

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="编号，见 webhooks list · see webhooks list")]
ALL = "document.indexed,document.failed,document.deleted,search.zero_results,search.feedback"


@app.command(help="登记一个地址；签名用的密钥只显示这一次 · register an address; its secret is shown once")
def add(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="http(s) 地址 · the address")],
    events: Annotated[
        str,
        typer.Option(metavar="E,E", help="哪些事，用逗号隔开；不写为全部 · which events, else all", show_default=False),
    ] = ALL,
    kb: Annotated[
        str, typer.Option(metavar="NAME", help="只通知这个知识库的 · of this base only", show_default=False)
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    from qianxun.core.codec.wire import to_wire
    from qianxun.engine.governance.webhooks import checked_events

    session = session_of(context)

    async def work(library: Library) -> tuple[Webhook, str]:
        base = (await find_base(library, kb, session.start)).id if kb else 0
        return await library.governance.webhooks.add(url, checked_events(events), knowledge_base=base)

    made, secret = with_library(session, work)
    if as_json:
        print_json({**to_wire(made), "secret": secret})
        return
    out().print(secret, markup=False, soft_wrap=True)
    hint(f"✓ 通知地址 {made.id}。密钥不会再显示：现在就收好。", f"✓ Webhook {made.id}. Keep the secret now.")


@app.command("list", help="登记的地址与送达的情形 · the addresses, and how deliveries go")
def list_webhooks(context: typer.Context, as_json: JsonFlag = False) -> None:
    found: list[Webhook] = with_library(session_of(context), lambda library: library.governance.webhooks.list())
    if as_json:
        print_json({"list": found})
        return
    if not found:
        hint("还没有登记通知地址", "No webhook is registered")
        return
    titles = (("编号", "id"), ("地址", "address"), ("事件", "events"), ("在途", "pending"), ("放弃", "given up"))
    table = new_table(*titles, ("最近的原因", "last failure"), overflow="fold")
    for one in found:
        cells = (escape(one.url), "\n".join(one.events), str(one.pending), str(one.failed), escape(one.reason))
        table.add_row(str(one.id), *cells)
    out().print(table)


@app.command(help="发一个试验的事件 · send a test event")
def test(context: typer.Context, webhook: IdArgument) -> None:
    reason: str = with_library(session_of(context), lambda library: library.governance.webhooks.test(webhook))
    if reason:
        warn(f"! 没有送到：{reason}", f"! It did not arrive: {reason}")
        raise typer.Exit(1)
    done("送到了", "It arrived")


@app.command(help="删去一个地址 · remove an address")
def remove(context: typer.Context, webhook: IdArgument) -> None:
    with_library(session_of(context), lambda library: library.governance.webhooks.remove(webhook))
    done(f"通知地址 {webhook} 已删去", f"Webhook {webhook} is removed")
