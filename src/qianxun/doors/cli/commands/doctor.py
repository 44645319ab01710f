"""`qianxun doctor`: what is in force, where it came from, and whether it works. Reads only; owns nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qianxun.doors.cli.commands.doctor_service import doctor_of_service
from qianxun.doors.cli.commands.models import known_models
from qianxun.doors.cli.i18n import out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, session_of

if TYPE_CHECKING:
    from qianxun.doors.cli.commands.doctor_checks import BaseHealth, Extra, Health


def doctor(context: typer.Context, as_json: JsonFlag = False) -> int:
    """检查环境：设置、数据目录、依赖、模型、知识库 · the state of the set-up"""
    from qianxun.doors.cli.commands.doctor_checks import examine

    session = session_of(context)
    if session.url:
        return doctor_of_service(session, as_json)
    settings = session.settings()
    health = examine(settings)
    models = known_models(settings)
    if as_json:
        print_json(_told(health, settings.rows(), models))
    else:
        _show(out(), health, settings.rows(), models)
    return 0 if health.is_sound else 1


def _told(health: Health, rows: Sequence[tuple[str, Any, str]], models: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        **asdict(health),
        "sound": health.is_sound,
        "settings": [{"name": name, "value": value, "from": origin} for name, value, origin in rows],
        "models": list(models),
    }


def _show(
    console: Console, health: Health, rows: Sequence[tuple[str, Any, str]], models: Sequence[dict[str, Any]]
) -> None:
    _title(console, tr("程序", "program"))
    console.print(f"  qianxun {health.version}  Python {health.python}  SQLite {health.sqlite}")
    _title(console, tr("设置", "settings"))
    console.print(_settings(rows))
    _title(console, tr("数据目录", "data folder"))
    _show_folder(console, health)
    _title(console, tr("可选依赖", "extras"))
    for extra in health.extras:
        console.print(f"  {_sign(extra.installed)} {_extra(extra)}", soft_wrap=True)
    _title(console, tr("模型", "models"))
    for model in models:
        where = model["folder"] or tr(f"未下载（qianxun models pull {model['name']}）", "not here")
        chosen = tr("  ← 设置中选用", "  ← the settings' choice") if model["in_use"] else ""
        sign = _sign(bool(model["folder"]), missing="red" if model["in_use"] else "dim")
        console.print(f"  {sign} {model['name']}  {escape(where)}{chosen}", soft_wrap=True)
    _title(console, tr("知识库", "knowledge bases"))
    if health.trouble:
        console.print("  " + tr("看不到，见上面的“数据目录”", "out of sight: see “data folder” above"))
    elif not health.bases:
        console.print(tr("  还没有：qianxun kb create NAME", "  none yet: qianxun kb create NAME"))
    for base in health.bases:
        console.print(f"  {_sign(not base.trouble, missing='red')} {_base(base)}", soft_wrap=True)


def _title(console: Console, text: str) -> None:
    console.print(f"[bold]{text}[/]")


def _sign(good: bool, missing: str = "dim") -> str:
    return "[green]✓[/]" if good else f"[{missing}]✗[/]"


def _settings(rows: Sequence[tuple[str, Any, str]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value, origin in rows:
        shown = ":".join(value) if isinstance(value, tuple) else str(value)
        table.add_row(name, escape(shown), f"[dim]{escape(origin)}[/]" if origin == "默认值" else escape(origin))
    return table


def _show_folder(console: Console, health: Health) -> None:
    where = escape(health.folder)
    if not health.exists:
        console.print("  " + tr(f"{where}（还没有建立）", f"{where} (not there yet)"))
    else:
        console.print(f"  {where}  {health.megabytes:.1f} MB")
    if health.owner:
        told = tr(f"正被使用：{health.owner}", f"in use: {health.owner}")
        console.print(f"  [yellow]![/] {escape(told)}", soft_wrap=True)
    elif health.exists:
        console.print("  " + tr("没有进程占用", "in use by no process"))
    if health.trouble:
        console.print(f"  [red]✗[/] {escape(health.trouble)}", soft_wrap=True)


def _extra(extra: Extra) -> str:
    gives = tr(extra.gives, extra.gives_en)
    if extra.installed:
        return f"{extra.name}  [dim]{gives}[/]"
    return f"{extra.name}  [dim]{gives}；[/]" + escape(f"pip install 'qianxun[{extra.name}]'")


def _base(base: BaseHealth) -> str:
    model = base.embedding_model or tr("只按词语", "words only")
    counts = tr(f"{base.documents} 个文档  {base.chunks} 块", f"{base.documents} documents  {base.chunks} chunks")
    index = tr("索引完好", "index sound") if base.index == "ready" else base.index_told
    waiting = tr(f"  {base.waiting} 项待索引", f"  {base.waiting} waiting") if base.waiting else ""
    troubled = f"  [red]{escape(base.trouble)}[/]" if base.trouble else ""
    return f"{escape(base.name)}  {counts}  [dim]{escape(model)}  {escape(index)}[/]{waiting}{troubled}"
