"""`qianxun audit`: who changed what, and whether the log is as it was written. Works also beside a running service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape

from qianxun.doors.cli.i18n import done, hint, out, print_json, tr, warn
from qianxun.doors.cli.session import JsonFlag, Session, expect_data, run_offline, session_of, with_client
from qianxun.doors.cli.views.drawing import minutes, new_table, one_line

if TYPE_CHECKING:
    from qianxun.core.governance.audit import AuditEntry, AuditVerdict

T = TypeVar("T")

app = typer.Typer(help="谁改了什么 · who changed what", no_args_is_help=True)


@app.command("list", help="改动，新的在前 · the changes, newest first")
def list_entries(
    context: typer.Context,
    action: Annotated[
        str, typer.Option(metavar="A", help="只看这样的，如 document 或 key.revoke · only such ones")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=500, metavar="N", help="最多几条 · at most so many")] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="N", help="从这一条之前起 · those before this one", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    found: list[AuditEntry] = _with_log(
        session_of(context), lambda log: log.list(action=action, limit=limit, before=before)
    )
    if as_json:
        print_json({"list": found})
        return
    if not found:
        hint("没有这样的改动", "No such change")
        return
    titles = (("序", "no"), ("时间", "time"), ("租户", "tenant"), ("谁", "who"), ("改动", "action"), ("对象", "what"))
    table = new_table(*titles, overflow="fold")
    for entry in found:
        erased = tr("（已清除）", "(erased)") if entry.is_erased else ""
        base = f"[{entry.knowledge_base_id}] " if entry.knowledge_base_id else ""
        cells = (entry.tenant, entry.who or erased, entry.action, f"{base}{entry.subject or _counts(entry)}")
        table.add_row(str(entry.sequence), minutes(entry.created_at.isoformat()), *map(escape, map(one_line, cells)))
    out().print(table)


def _counts(entry: AuditEntry) -> str:
    numbers = {name: value for name, value in entry.details.items() if isinstance(value, int) and value}
    return " ".join(f"{name}={value}" for name, value in numbers.items())


@app.command(help="把哈希链从头重算一遍 · work every hash out again")
def verify(
    context: typer.Context,
    head: Annotated[
        str, typer.Option(metavar="HASH", help="以前抄下的 head，应仍在链上 · a head noted earlier", show_default=False)
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    verdict: AuditVerdict = _with_log(session_of(context), lambda log: log.verify(head))
    if as_json:
        from qianxun.core.codec.wire import to_wire

        print_json({**to_wire(verdict), "is_intact": verdict.is_intact})
    elif verdict.is_intact:
        done(f"{verdict.entries} 条，哈希链完好", f"{verdict.entries} entries, the chain is intact")
        hint(f"head：{verdict.head}（抄到别处，日后用 --head 核对）", f"head: {verdict.head} (note it elsewhere)")
    else:
        for problem in verdict.problems:
            warn(f"! {problem}", f"! {problem}")
    if not verdict.is_intact:
        raise typer.Exit(1)


def _with_log(session: Session, work: Callable[[Any], Awaitable[T]]) -> T:
    if session.url:
        return with_client(session, lambda client: work(client.governance.audit))
    from qianxun.engine.governance.audit import open_audit_log

    settings = session.settings()
    expect_data(settings)
    with open_audit_log(settings) as log:
        return run_offline(work(log))
