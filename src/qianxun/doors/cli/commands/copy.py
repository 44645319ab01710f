"""`qianxun copy`: everything of a data folder into a PostgreSQL database, or back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qianxun.core.errors import AlreadyThere, NotFound
from qianxun.doors.cli.i18n import note, out, print_json, tr
from qianxun.doors.cli.progress import counting
from qianxun.doors.cli.session import JsonFlag, has_records, quoted, session_of

if TYPE_CHECKING:
    from qianxun.engine.settings import Settings
    from qianxun.records import Records

SCHEMES = ("postgresql://", "postgresql+psycopg://", "postgres://")


def copy(
    context: typer.Context,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="URL|DIR",
            envvar="QIANXUN_COPY_TO",
            help="空的 PostgreSQL 数据库或空的目录；地址里有密码时写在环境变量里 · an empty database or folder",
        ),
    ],
    schema: Annotated[str, typer.Option(metavar="NAME", help="目标数据库里的 schema · in the target")] = "",
    as_json: JsonFlag = False,
) -> None:
    """把全部内容复制到另一个数据库或目录，编号不变 · copy everything to another database or folder"""
    from qianxun.engine.copy import copy_records, count_rows

    settings = session_of(context).settings()
    if not has_records(settings):
        raise NotFound(
            tr(f"数据目录 {settings.folder} 里还没有数据", f"There is nothing in {settings.folder} yet"),
            hint=tr("用 --data DIR 指明要复制的目录", "Say which folder to copy with --data DIR"),
        )
    target = _target(settings, to, schema)
    started = time.perf_counter()
    with _opened(settings) as source, _opened(target) as opened:
        total = count_rows(source, settings.records.schema)
        with counting(tr("复制", "copying"), total, tr("行", "rows")) as follow:
            schemas = {"source_schema": settings.records.schema, "target_schema": schema}
            copied = copy_records(source, opened, follow, **schemas)
    _take_secret_along(settings, target)
    _show(settings, target, copied, time.perf_counter() - started, as_json)


def _target(settings: Settings, to: str, schema: str) -> Settings:
    if to.startswith(SCHEMES):
        return replace(settings, records=replace(settings.records, url=to, schema=schema))
    folder = Path(to).expanduser()
    if folder.resolve() == settings.folder.resolve() and not settings.records.url:
        raise AlreadyThere(
            tr("目标就是正要复制的目录", "The target is the folder to be copied"),
            hint=tr("换一个目录或数据库", "Name another folder or database"),
        )
    return replace(settings, data=str(folder), records=replace(settings.records, url="", schema=""))


@contextmanager
def _opened(settings: Settings) -> Iterator[Records]:
    """The records alone, as the one who works on them."""
    from qianxun.engine.folder_lock import owned
    from qianxun.engine.storage import database_url, reach
    from qianxun.records import Records

    if settings.records.url:
        records = Records.open(database_url(settings), reach(settings), alone=True)
        try:
            yield records
        finally:
            records.close()
        return
    with owned(settings.folder):
        records = Records.open(database_url(settings))
        try:
            yield records
        finally:
            records.close()


def _take_secret_along(source: Settings, target: Settings) -> None:
    """The file that opens sealed keys of registered models lies in the data folder."""
    from qianxun.records.sealing import FILE_NAME

    here, there = source.folder / FILE_NAME, target.folder / FILE_NAME
    if here.is_file() and here.resolve() != there.resolve() and not there.exists():
        shutil.copy2(here, there)


def _show(source: Settings, target: Settings, copied: dict[str, int], seconds: float, as_json: bool) -> None:
    rows = sum(copied.values())
    if as_json:
        print_json({"tables": copied, "rows": rows, "seconds": round(seconds, 3)})
        return
    shown = "、".join(f"{name} {count}" for name, count in copied.items() if count)
    out().print(
        tr(
            f"[green]✓[/] 已复制 {rows} 行，逐表核对行数一致：{shown or '（空）'}",
            f"[green]✓[/] Copied {rows} rows; the count of every table agrees: {shown or '(empty)'}",
        )
    )
    note(tr("  索引不复制：第一次打开时从记录重建", "  The index is built anew on first use"))
    if target.records.url:
        data = "" if source.data == type(source)().data else f"（--data {quoted(source.data)}）"
        note(
            tr(
                f"  从现在起使用它：设置 records.url（环境变量 QIANXUN_RECORDS_URL），数据目录不变{data}",
                f"  To use it from now on: set records.url (QIANXUN_RECORDS_URL), with the same data folder{data}",
            )
        )
