"""`qianxun kb export`, `import` and `clone`: one knowledge base as a file, and back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from qianxun.core.errors import BadInput
from qianxun.doors.cli.i18n import done, print_json, tr
from qianxun.doors.cli.progress import counting
from qianxun.doors.cli.session import JsonFlag, NameArgument, find_base, refuse_url, session_of, with_engine

if TYPE_CHECKING:
    from qianxun.engine.admin.transfer import Transferred, Watch
    from qianxun.engine.engine import Engine

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="文件 · the file")]


def export_file(
    context: typer.Context,
    name: NameArgument,
    file: FileArgument,
    with_logs: Annotated[bool, typer.Option("--logs", help="连检索日志与评价一起 · the log of searches, too")] = False,
    as_json: JsonFlag = False,
) -> None:
    """把一个知识库写成一个文件：文档、向量、设置、更正、权限、评测集、模型读出的图谱 · one base as a file"""
    from qianxun.engine.admin.transfer import export_base

    async def work(engine: Engine, watch: Watch) -> Transferred:
        base = await find_base(engine, name, session_of(context).start)
        return await export_base(engine, base.id, file, watch, with_logs=with_logs)

    written = _transferred(context, "kb export", work)
    if as_json:
        print_json({**_described(written), "file": str(file), "bytes": file.stat().st_size})
        return
    size = f"{file.stat().st_size / 1_000_000:.1f} MB"
    done(
        f"“{escape(name)}”的 {written.documents} 个文档写进了 {escape(str(file))}（{size}）",
        f"{written.documents} documents of “{escape(name)}” are in {escape(str(file))} ({size})",
    )


def import_file(
    context: typer.Context,
    file: FileArgument,
    name: Annotated[str, typer.Option(metavar="NAME", help="另起的名称 · another name")] = "",
    model: Annotated[
        str | None,
        typer.Option(metavar="M", help="换用的嵌入模型；none 只按词语。不写则用原来的向量 · another model, or none"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """由 export 的文件新建一个知识库 · a new base from such a file"""
    from qianxun.engine.admin.transfer import import_base

    if not file.is_file():  # before a folder is made for it
        raise BadInput(f"没有文件 {file}", hint="检查路径")

    async def work(engine: Engine, watch: Watch) -> Transferred:
        return await import_base(engine, file, name=name, model=model, watch=watch)

    _show_made(_transferred(context, "kb import", work, may_create=True), as_json)


def clone(
    context: typer.Context,
    name: NameArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="新的名称 · the name of the new one")],
    as_json: JsonFlag = False,
) -> None:
    """再做一个同样的知识库 · a second base with the same content"""
    from qianxun.engine.admin.transfer import clone_base

    async def work(engine: Engine, watch: Watch) -> Transferred:
        base = await find_base(engine, name, session_of(context).start)
        return await clone_base(engine, base.id, new, watch)

    _show_made(_transferred(context, "kb clone", work), as_json)


def _transferred(
    context: typer.Context,
    command: str,
    work: Callable[[Engine, Watch], Awaitable[Transferred]],
    *,
    may_create: bool = False,
) -> Transferred:
    session = session_of(context)
    refuse_url(session, command)

    async def counted(engine: Engine) -> Transferred:
        with counting(tr("文档", "documents"), 0, "") as watch:
            return await work(engine, watch)

    return with_engine(session.settings(), counted, may_create=may_create)


def _show_made(made: Transferred, as_json: bool) -> None:
    if as_json:
        print_json(_described(made))
        return
    name = escape(made.knowledge_base.name)
    done(
        f"新建了“{name}”：{made.documents} 个文档，{made.chunks} 块",
        f"“{name}” has {made.documents} documents, {made.chunks} chunks",
    )


def _described(one: Transferred) -> dict[str, Any]:
    base = one.knowledge_base
    return {"id": base.id, "name": base.name, "documents": one.documents, "chunks": one.chunks}
