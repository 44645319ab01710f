"""`qianxun corrections`: what people correct, and what waits for somebody to look."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape

from qianxun.core.errors import BadInput
from qianxun.core.governance.corrections import KINDS, LIKE, STATES, read_metadata_lines
from qianxun.doors.cli.i18n import done, hint, out, print_json, print_plain, tr
from qianxun.doors.cli.session import (
    BaseOption,
    JsonFlag,
    Library,
    find_document,
    session_of,
    with_base,
)
from qianxun.doors.cli.views.drawing import minutes, new_table, visible

if TYPE_CHECKING:
    from qianxun.core.governance.corrections import Correction
    from qianxun.core.types import KnowledgeBase

T = TypeVar("T")
SHOWN = 40  # characters of a quote in a list

app = typer.Typer(
    help="更正：改写、停用、拆合片段，文档改名，问题的先给与不给 · what people correct", no_args_is_help=True
)
Number = Annotated[int, typer.Argument(metavar="N", help="更正的编号 · its number")]
By = Annotated[str, typer.Option("--by", metavar="WHO", help="谁；不写则是当前用户 · who", show_default=False)]
STATE_NAMES = {
    "applied": ("已生效", "applied"),
    "needs_a_look": ("要看一看", "needs a look"),
    "proposed": ("提议", "proposed"),
    "undone": ("已撤销", "undone"),
}


def _on_base(context: typer.Context, kb: str, work: Callable[[Any, int], Awaitable[T]]) -> T:
    return with_base(context, kb, lambda library, base: work(library.governance.corrections, base.id))


def _choice(value: str, known: Sequence[str], name: str) -> str:
    if value and value not in known:
        raise BadInput(
            tr(f"{name} 没有“{value}”", f"No {name} “{value}”"), hint=tr("可用：", "One of: ") + "、".join(known)
        )
    return value


@app.command("list", help="更正，按编号 · the corrections of a base")
def list_corrections(
    context: typer.Context,
    kb: BaseOption,
    state: Annotated[str, typer.Option(metavar="S", help="只看：" + "、".join(STATES), show_default=False)] = "",
    kind: Annotated[str, typer.Option(metavar="K", help="只看这一种 · only this kind", show_default=False)] = "",
    doc: Annotated[str, typer.Option(metavar="ID", help="只看这个文档的 · of one document", show_default=False)] = "",
    as_json: JsonFlag = False,
) -> None:
    from qianxun.core.governance.corrections import CorrectionQuery

    query = CorrectionQuery(_choice(state, STATES, "state"), _choice(kind, KINDS, "kind"), doc)
    found: list[Correction] = _on_base(context, kb, lambda corrections, base: corrections.page(base, query))
    if as_json:
        print_json({"list": found})
        return
    if not found:
        hint("没有这样的更正", "No such correction")
        return
    titles = (
        ("编号", "no"),
        ("状态", "state"),
        ("种类", "kind"),
        ("文档", "document"),
        ("内容", "what"),
        ("谁", "who"),
        ("时间", "time"),
    )
    table = new_table(*titles, overflow="fold")
    for one in found:
        cells = (tr(*STATE_NAMES[one.state]), one.kind, one.doc_id, _shown(one), one.author)
        table.add_row(str(one.id), *map(escape, map(visible, cells)), minutes(one.created_at.isoformat()))
    out().print(table)
    if any(one.state == "needs_a_look" for one in found):
        hint(
            "要看一看的：corrections show 看原因，move 指给现在的片段，或 undo",
            "Those that need a look: corrections show says why; move gives one another chunk, undo takes it back",
        )


def _shown(one: Correction) -> str:
    change = one.change
    given = (f"{name}={value}" for name, value in change.metadata.items())
    listed = "、".join((*change.keywords, *change.questions, *given, *change.removed))
    quote = one.anchor.quote if one.anchor is not None else ""
    text = change.text or change.name or change.question or change.note or listed or quote
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


@app.command(help="一条更正的全部 · one correction in full")
def show(context: typer.Context, number: Number, kb: BaseOption, as_json: JsonFlag = False) -> None:
    _print(_on_base(context, kb, lambda corrections, base: corrections.get(base, number)), as_json)


def _print(one: Correction, as_json: bool) -> None:
    if as_json:
        print_json(one)
        return
    print_plain(
        out(), f"{one.id}  {tr(*STATE_NAMES[one.state])}  {one.kind}  {visible(one.doc_id)}  {visible(one.author)}"
    )
    for label, text in (
        (tr("原因", "why"), one.reason),
        (tr("片段", "chunks"), "、".join(one.chunk_ids)),
        (tr("原文", "words"), one.anchor.quote if one.anchor is not None else ""),
        (tr("改为", "change"), _shown(one)),
    ):
        if text:
            print_plain(out(), f"    {label}：{visible(text)}")


@app.command(help="做一条更正，如 add edit c_1001_手册_3 --text 新的话")
def add(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="、".join(KINDS))],
    kb: BaseOption,
    chunks: Annotated[
        list[str] | None, typer.Argument(metavar="[CHUNK]...", help="片段的编号；join 写相邻的几个 · chunk ids")
    ] = None,
    doc: Annotated[str, typer.Option(metavar="DOC", help="文档的编号或名称 · a document", show_default=False)] = "",
    text: Annotated[str, typer.Option(metavar="T", help="edit：改后的全文；@文件 从文件读", show_default=False)] = "",
    part: Annotated[list[str] | None, typer.Option(metavar="T", help="split：拆成的一段，写几次")] = None,
    keyword: Annotated[list[str] | None, typer.Option(metavar="W", help="keywords：写几次")] = None,
    question: Annotated[
        list[str] | None, typer.Option(metavar="Q", help="questions：它能回答的；pin、exclude：管哪个问题")
    ] = None,
    note: Annotated[str, typer.Option(metavar="T", help="note：备注", show_default=False)] = "",
    name: Annotated[str, typer.Option(metavar="T", help="rename：新的名称", show_default=False)] = "",
    meta: Annotated[list[str] | None, typer.Option(metavar="K=V", help="metadata：键=值；只写键为去掉它")] = None,
    like: Annotated[
        float, typer.Option(metavar="X", help="pin、exclude：余弦到多少算同一个问题；1 只认同样的字")
    ] = LIKE,
    by: By = "",
    as_json: JsonFlag = False,
) -> None:
    _choice(kind, KINDS, "KIND")
    change = _change(kind, text, part or (), keyword or (), question or (), note, name, meta or (), like)

    async def work(library: Library, base: KnowledgeBase) -> Correction:
        doc_id = (await find_document(library, base, doc, session_of(context).start)).doc_id if doc else ""
        corrections: Any = library.governance.corrections
        made: Correction = await corrections.add(
            base.id, kind, chunk_id=chunks or (), doc_id=doc_id, author=by, **change
        )
        return made

    _print(with_base(context, kb, work), as_json)


def _change(
    kind: str,
    text: str,
    parts: Sequence[str],
    keywords: Sequence[str],
    questions: Sequence[str],
    note: str,
    name: str,
    metadata: Sequence[str],
    like: float,
) -> dict[str, Any]:
    given: dict[str, Any] = {"text": _from_file(text), "parts": tuple(parts), "keywords": tuple(keywords)}
    given |= {"note": note, "name": name}
    given |= read_metadata_lines(metadata)
    if kind in ("pin", "exclude"):
        given |= {"question": questions[0] if questions else "", "like": like}
    else:
        given["questions"] = tuple(questions)
    return {field: value for field, value in given.items() if value not in ("", (), {})}


def _from_file(text: str) -> str:
    return Path(text[1:]).read_text("utf-8") if text.startswith("@") else text


@app.command(help="撤销，或否决一条提议 · take it back")
def undo(context: typer.Context, number: Number, kb: BaseOption, by: By = "", as_json: JsonFlag = False) -> None:
    _print(_on_base(context, kb, lambda corrections, base: corrections.undo(base, number, author=by)), as_json)


@app.command(help="应用一条提议，或重做撤销的 · apply what was proposed or undone")
def apply(context: typer.Context, number: Number, kb: BaseOption, by: By = "", as_json: JsonFlag = False) -> None:
    _print(_on_base(context, kb, lambda corrections, base: corrections.apply(base, number, author=by)), as_json)


@app.command(help="指给现在的片段，用于要看一看的 · give it the chunk it is about now")
def move(
    context: typer.Context,
    number: Number,
    chunks: Annotated[list[str], typer.Argument(metavar="CHUNK...", help="片段的编号 · chunk ids")],
    kb: BaseOption,
    as_json: JsonFlag = False,
) -> None:
    _print(_on_base(context, kb, lambda corrections, base: corrections.move(base, number, chunks)), as_json)


@app.command("case", help="把提议存为评测集的一题 · keep a proposal as an evaluation case")
def save_as_case(
    context: typer.Context,
    number: Number,
    kb: BaseOption,
    set_name: Annotated[str, typer.Option("--set", metavar="SET", help="评测集的名称，没有则新建")] = "常用问题",
) -> None:
    found, case = _on_base(context, kb, lambda corrections, base: corrections.save_as_case(base, number, set_name))
    done(f"已存入评测集“{found.name}”：{case.question}", f"Kept in “{found.name}”: {case.question}")


@app.command("export", help="把全部更正写进文件，每行一条 · all corrections into a file")
def export_file(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSONL 文件；- 为标准输出 · a file, or -")],
    kb: BaseOption,
) -> None:
    if str(file) != "-" and file.exists():
        raise BadInput(tr(f"{file} 已经存在", f"{file} exists"), hint=tr("换一个文件名", "Choose another name"))
    found = _on_base(context, kb, lambda corrections, base: corrections.export(base))
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found)
    if str(file) == "-":
        print_plain(out(), lines.rstrip("\n"))
        return
    file.write_text(lines, "utf-8")
    done(f"已写出 {len(found)} 条更正：{file}", f"{len(found)} corrections written: {file}")


@app.command("import", help="收进导出的更正；原文不在的等人看 · take corrections that were exported")
def import_file(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="export 写的文件 · what export wrote")],
    kb: BaseOption,
    as_json: JsonFlag = False,
) -> None:
    try:
        written = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        reason = tr(f"读不了 {file}：{error}", f"Cannot read {file}: {error}")
        raise BadInput(reason, hint=tr("要 corrections export 写的文件", "A file of corrections export")) from error
    taken: list[Correction] = _on_base(context, kb, lambda corrections, base: corrections.import_all(base, written))
    if as_json:
        print_json({"list": taken})
        return
    aside = sum(one.state == "needs_a_look" for one in taken)
    done(
        f"收进 {len(taken)} 条，已有 {len(written) - len(taken)} 条，其中 {aside} 条要看一看",
        f"{len(taken)} taken, {len(written) - len(taken)} known already; {aside} need a look",
    )
