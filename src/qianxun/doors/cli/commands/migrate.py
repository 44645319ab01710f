"""`qianxun migrate`: the schema of the records, looked at or brought up to date."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from qianxun.core.errors import NotFound
from qianxun.doors.cli.i18n import note, out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, has_records, program, session_of

if TYPE_CHECKING:
    from qianxun.engine.settings import Settings


def migrate(
    context: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="只看缺什么，不改动；缺时以 1 退出 · only look")] = False,
    as_json: JsonFlag = False,
) -> int:
    """把数据库的结构升到最新；打开数据时也会自动做 · bring the schema of the database up to date"""
    settings = session_of(context).settings()
    if not has_records(settings):
        raise NotFound(
            tr(f"数据目录 {settings.folder} 里还没有数据", f"There is nothing in {settings.folder} yet"),
            hint=tr(
                "数据若在别处，用 --data DIR 或 records.url 指明", "Say where it is with --data DIR or records.url"
            ),
        )
    missing = _missing(settings) if check else _migrated(settings)
    if as_json:
        print_json({"missing" if check else "applied": missing})
    else:
        _show(settings, missing, check)
    return 1 if check and missing else 0


def _missing(settings: Settings) -> list[str]:
    from qianxun.engine.storage import database_url, reach
    from qianxun.records.database.open import connect, missing_revisions

    engine = connect(database_url(settings), reach(settings))
    try:
        return missing_revisions(engine)
    finally:
        engine.dispose()


def _migrated(settings: Settings) -> list[str]:
    from qianxun.engine.folder_lock import owned
    from qianxun.engine.storage import database_url, reach
    from qianxun.records.database.open import open_database

    with nullcontext() if settings.records.url else owned(settings.folder):
        missing = _missing(settings)
        open_database(database_url(settings), reach(settings)).dispose()
    return missing


def _show(settings: Settings, revisions: list[str], check: bool) -> None:
    told = "、".join(revisions)
    if not revisions:
        out().print(tr("[green]✓[/] 数据库的结构是最新的", "[green]✓[/] The schema is up to date"))
    elif check:
        out().print(tr(f"[yellow]![/] 数据库还缺：{told}", f"[yellow]![/] The database lacks: {told}"))
        note(tr(f"  运行 {program(settings)} migrate 补上", f"  Run: {program(settings)} migrate"))
    else:
        out().print(tr(f"[green]✓[/] 已升级：{told}", f"[green]✓[/] Brought up to date: {told}"))
