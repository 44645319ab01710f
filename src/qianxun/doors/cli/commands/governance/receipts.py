"""`qianxun receipts` and `qianxun purge`: deletions that can be proved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from qianxun.core.errors import BadInput
from qianxun.doors.cli.i18n import done, hint, out, print_json, tr, warn
from qianxun.doors.cli.session import JsonFlag, Library, session_of, with_library
from qianxun.doors.cli.views.drawing import minutes, new_table

if TYPE_CHECKING:
    from qianxun.core.governance.receipts import Receipt

app = typer.Typer(help="删除凭证 · receipts of deletions", no_args_is_help=True)

ReceiptArgument = Annotated[str, typer.Argument(metavar="ID", help="编号，见 receipts list · see receipts list")]


@app.command("list", help="凭证，新的在前 · the receipts, newest first")
def list_receipts(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=500, metavar="N", help="最多几张 · at most so many")] = 50,
    as_json: JsonFlag = False,
) -> None:
    from qianxun.core.governance.receipts import written_receipt

    async def work(library: Library) -> list[Receipt]:
        return await library.governance.receipts.list(limit=limit)

    found = with_library(session_of(context), work)
    if as_json:
        print_json({"list": [written_receipt(one) for one in found]})
        return
    if not found:
        hint("还没有删除过什么", "Nothing has been deleted yet")
        return
    titles = (("编号", "id"), ("时间", "time"), ("知识库", "base"), ("文档", "documents"), ("谁", "who"))
    table = new_table(*titles, overflow="fold")
    table.columns[0].no_wrap = True  # to be copied, in one piece
    table.add_column(tr("查明", "found"), overflow="fold")
    for one in found:
        base = str(one.knowledge_base_id or "—")
        cells = (one.id, minutes(one.created_at.isoformat()), base, str(one.documents), escape(one.who))
        table.add_row(*cells, _state(one))
    out().print(table)


def _state(receipt: Receipt) -> str:
    if receipt.is_purged and receipt.scan is None:
        return "[red]" + tr("没能查证", "could not be checked") + "[/]"
    if not receipt.is_complete:
        return "[red]" + tr("还有残留", "something is left") + "[/]"
    if receipt.is_purged:
        return "[green]" + tr("字节也已清除", "bytes are gone, too") + "[/]"
    return "[green]" + tr("已删除", "deleted") + "[/]"


@app.command(help="看一张凭证，或存成文件 · show a receipt, or save it")
def show(
    context: typer.Context,
    receipt: ReceiptArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="存成文件 · save it", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    from qianxun.core.governance.receipts import written_receipt

    async def work(library: Library) -> Receipt:
        return await library.governance.receipts.get(receipt)

    found = with_library(session_of(context), work)
    if output is not None:
        _save(found, output)
        return
    if as_json:
        print_json(written_receipt(found))
        return
    show_receipt(found)


def _save(receipt: Receipt, file: Path) -> None:
    from qianxun.core.governance.receipts import written_receipt

    try:
        file.write_text(json.dumps(written_receipt(receipt), ensure_ascii=False, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise BadInput(tr(f"写不了 {file}", f"Cannot write {file}"), hint=str(error.strerror)) from error
    done(f"凭证存到 {escape(str(file))}", f"The receipt is in {escape(str(file))}")


def show_receipt(receipt: Receipt) -> None:
    """What was read where, and what is not known."""
    console = out()
    console.print(f"[bold]{receipt.id}[/]  {minutes(receipt.created_at.isoformat())}  {_state(receipt)}")
    table = new_table(("何处", "where"), ("去除", "removed"), ("剩下", "left"))
    table.add_column(tr("附注", "note"), overflow="fold")
    for removed in receipt.removed:
        left = "?" if removed.left < 0 else str(removed.left)
        table.add_row(removed.store, str(removed.removed), left, escape(removed.note))
    console.print(table)
    if (scan := receipt.scan) is not None:
        size, found = f"{scan.bytes / 1e6:.1f} MB", len(scan.found)
        zh = f"逐字节读了 {scan.files} 个文件共 {size}，找 {scan.passages} 段原文：{found} 个文件里还有"
        en = f"{scan.files} files of {size} were read for {scan.passages} passages: {found} files have some"
        console.print(tr(zh, en), markup=False, soft_wrap=True)
        for file in scan.found:
            warn(f"! {file}", f"! {file}")
    for copy in receipt.copies:
        note = tr("已知的副本，没有动", "a known copy, untouched")
        console.print(f"· {note}：{copy.place} ({minutes(copy.made_at)})", markup=False, soft_wrap=True)
    for note in receipt.notes:
        console.print(f"· {note}", style="dim", markup=False, soft_wrap=True)


@app.command(help="这个数据目录的公钥 · the public key of this data folder")
def key(context: typer.Context) -> None:
    async def work(library: Library) -> str:
        return await library.governance.receipts.key()

    found = with_library(session_of(context), work)
    out().print(found or tr("没有公钥：装上 qianxun[service] 才有", "None: install qianxun[service]"), markup=False)


@app.command(help="核对凭证文件，不用联网 · check a receipt, offline")
def verify(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="receipts show -o 存的文件 · a saved receipt")],
    public_key: Annotated[
        str, typer.Option("--public-key", metavar="HEX", help="应是哪个公钥签的 · the key it should be of")
    ] = "",
    about: Annotated[
        list[str] | None,
        typer.Option("--about", metavar="ID", help="文档或用户：说的是不是它 · is it about this one?"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    from qianxun.core.codec.wire import to_wire
    from qianxun.engine.governance.receipts import read_file, verify_receipt

    settings = None if public_key else session_of(context).settings()
    verdict = verify_receipt(read_file(file), key=public_key, names=about or (), settings=settings)
    is_good = verdict.is_signed and verdict.is_trusted is not False and all(verdict.names.values())
    if as_json:
        print_json(to_wire(verdict))
    else:
        _show_verdict(verdict)
    if not is_good:
        raise typer.Exit(1)


def _show_verdict(verdict: object) -> None:
    from qianxun.core.governance.receipts import ReceiptVerdict

    assert isinstance(verdict, ReceiptVerdict)
    if not verdict.is_signed:
        warn("! 签名不符：凭证被改过，或核对不了", "! The signature does not fit: it was changed, or cannot be checked")
        return
    done(f"凭证 {verdict.id} 的签名无误", f"The signature of {verdict.id} is right")
    if verdict.is_trusted is None:
        hint(
            f"签它的公钥是 {verdict.key}；用 --public-key 说明应是哪个",
            f"It is of the key {verdict.key}; see --public-key",
        )
    elif not verdict.is_trusted:
        warn(f"! 但签它的是另一个公钥：{verdict.key}", f"! But it is of another key: {verdict.key}")
    if not verdict.is_complete:
        warn("! 它说还有残留，或没能查证", "! It says that something is left, or could not be checked")
    for name, is_named in verdict.names.items():
        answer = tr("说的是它", "it is about it") if is_named else tr("说的不是它", "it is not about it")
        out().print(f"{name}：{answer}", markup=False)


def purge(
    context: typer.Context,
    subject: Annotated[str, typer.Option("--subject", metavar="USER_ID", help="哪个用户 · whose")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="不再问 · do not ask")] = False,
    as_json: JsonFlag = False,
) -> None:
    """清除一个用户的一切，并给出凭证；不能撤销 · purge everything of a user; it cannot be undone"""
    from qianxun.core.governance.receipts import written_receipt

    if not yes:
        typer.confirm(
            tr(f"清除用户 {subject} 的一切，不能撤销？", f"Purge everything of {subject} for good?"), abort=True
        )

    async def work(library: Library) -> Receipt:
        return await library.governance.receipts.purge_subject(subject)

    receipt = with_library(session_of(context), work)
    if as_json:
        print_json(written_receipt(receipt))
        return
    show_receipt(receipt)
