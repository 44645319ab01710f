"""`qianxun doctor`: what is in force, where it came from, and whether it works, here or in a service. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from qianxun.core.codec.command_line import quoted
from qianxun.core.errors import QianxunError
from qianxun.doors.cli.i18n import out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, Session, session_of, with_client

if TYPE_CHECKING:
    from qianxun.doors.client import Client
    from qianxun.engine.admin.doctor import BaseHealth


def doctor(context: typer.Context, as_json: JsonFlag = False) -> int:
    """检查环境：设置、数据目录、依赖、模型、知识库 · the state of the set-up"""
    session = session_of(context)
    health = (
        with_client(session, lambda client: _examine_service(session, client)) if session.url else _examine(session)
    )
    if as_json:
        print_json(health)
    elif session.url:
        _show_service(out(), health)
    else:
        _show(out(), health)
    return 0 if health["sound"] else 1


# ── the set-up of this machine ───────────────────────────────────────────────────────────────────


def _examine(session: Session) -> dict[str, Any]:
    from qianxun.core.plugins import survey
    from qianxun.engine.admin.doctor import examine
    from qianxun.engine.admin.models import known_models

    settings = session.settings()
    found = examine(settings)
    trouble = tr(f"读不了记录或索引：{found.trouble}", f"The records or an index cannot be read: {found.trouble}")
    bases = [_base_json(base) for base in found.bases]
    plugins = [{**asdict(row.plugin), "trouble": row.trouble} for row in survey()]
    return {
        **asdict(found),
        "trouble": trouble if found.trouble else "",
        "bases": bases,
        "sound": not found.trouble and not found.losses and not any(part["trouble"] for part in (*bases, *plugins)),
        "settings": [{"name": name, "value": value, "from": origin} for name, value, origin in settings.rows()],
        "models": known_models(settings),
        "plugins": plugins,
    }


def _base_json(base: BaseHealth) -> dict[str, Any]:
    fields = asdict(base)
    reason = fields.pop("reason")
    explained = {
        "ready": "",
        "missing": tr("索引在首次使用时建立", "the index is built on first use"),
        "unfinished": tr("上次写到一半，下次打开时收尾", "a write was cut short; completed on next opening"),
        "unusable": tr(f"{reason}，下次打开时自动重建", f"{reason}; rebuilt on next opening"),
        "away": tr("索引的服务器不在", "the server of the index is away"),
        "other_model": tr("索引属于另一个模型，下次打开时自动重建", "built by another model; rebuilt on next opening"),
        "other_records": tr(
            "索引由别的知识库的记录建成，下次打开时自动重建", "built of another base's records; rebuilt on next opening"
        ),
    }
    state = "foreign" if base.index.startswith("other_") else base.index
    trouble = reason if base.index == "away" else _quarantined(base.quarantined, f"qianxun kb show {base.name}")
    return {**fields, "index": state, "index_told": explained[base.index], "trouble": trouble}


def _quarantined(count: int, show_it: str) -> str:
    if not count:
        return ""
    return tr(
        f"{count} 个文档被隔离，原因见 {show_it}", f"{count} documents are quarantined; for the reasons: {show_it}"
    )


def _show(console: Console, health: dict[str, Any]) -> None:
    _title(console, "程序", "program")
    console.print(f"  qianxun {health['version']}  Python {health['python']}  SQLite {health['sqlite']}")
    _title(console, "设置", "settings")
    console.print(_settings(health["settings"]))
    _title(console, "数据目录", "data folder")
    _show_folder(console, health)
    _title(console, "可选依赖", "extras")
    for extra in health["extras"]:
        gives = tr(extra["gives"], extra["gives_en"])
        install = "" if extra["installed"] else "；[/]" + escape(f"pip install 'qianxun[{extra['name']}]'")
        console.print(f"  {_sign(extra['installed'])} {extra['name']}  [dim]{gives}{install or '[/]'}", soft_wrap=True)
    _title(console, "模型", "models")
    for model in health["models"]:
        where = model["folder"] or tr(f"未下载（qianxun models pull {model['name']}）", "not here")
        chosen = tr("  ← 设置中选用", "  ← the settings' choice") if model["in_use"] else ""
        sign = _sign(bool(model["folder"]), missing="red" if model["in_use"] else "dim")
        console.print(f"  {sign} {model['name']}  {escape(where)}{chosen}", soft_wrap=True)
    if health["plugins"]:
        _title(console, "插件", "plug-ins")
    for plugin in health["plugins"]:
        sign, about = _sign(not plugin["trouble"], missing="red"), f"{plugin['distribution']} {plugin['version']}"
        trouble = f"  [red]{escape(plugin['trouble'])}[/]" if plugin["trouble"] else ""
        console.print(
            f"  {sign} {plugin['kind']} {escape(plugin['name'])}  [dim]{escape(about)}[/]{trouble}", soft_wrap=True
        )
    _title(console, "知识库", "knowledge bases")
    if health["trouble"]:
        console.print("  " + tr("看不到，见上面的“数据目录”", "out of sight: see “data folder” above"))
    elif not health["bases"]:
        console.print(tr("  还没有：qianxun kb create NAME", "  none yet: qianxun kb create NAME"))
    for base in health["bases"]:
        index = tr("索引完好", "index sound") if base["index"] == "ready" else base["index_told"]
        waiting = tr(f"  {base['waiting']} 项待索引", f"  {base['waiting']} waiting") if base["waiting"] else ""
        _show_base(console, base, f"  {escape(index)}", waiting)


def _settings(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for row in rows:
        value, origin = row["value"], escape(row["from"])
        shown = ":".join(value) if isinstance(value, tuple) else str(value)
        table.add_row(row["name"], escape(shown), f"[dim]{origin}[/]" if origin == "默认值" else origin)
    return table


def _show_folder(console: Console, health: dict[str, Any]) -> None:
    where = escape(health["folder"])
    if not health["exists"]:
        console.print("  " + tr(f"{where}（还没有建立）", f"{where} (not there yet)"))
    else:
        console.print(f"  {where}  {health['megabytes']:.1f} MB")
    if health["owner"]:
        in_use = tr(f"正被使用：{health['owner']}", f"in use: {health['owner']}")
        console.print(f"  [yellow]![/] {escape(in_use)}", soft_wrap=True)
    elif health["exists"]:
        console.print("  " + tr("没有进程占用", "in use by no process"))
    if health["exposed"]:
        paths = "、".join(health["exposed"])
        exposed = tr(
            f"本机的其他用户读得到：{paths}；下次打开这个数据目录时改为只有自己读得到",
            f"other users of this machine can read {paths}; closed to them when the folder is next opened",
        )
        console.print(f"  [yellow]![/] {escape(exposed)}", soft_wrap=True)
    elif health["exists"]:
        console.print("  " + tr("只有本用户读得到", "readable by this user only"))
    _show_trouble(console, health["trouble"])
    if given_up := health["given_up"]:
        see = "qianxun webhooks list"
        _show_trouble(
            console,
            tr(
                f"{given_up} 个事件没能送到通知地址，已放弃，原因见 {see}",
                f"{given_up} events could not be delivered to webhooks; for the reasons: {see}",
            ),
        )
    for loss in health["losses"]:
        when, where = loss["acknowledged_at"], f"{health['folder']}/acknowledged.lost"
        _show_trouble(
            console,
            tr(
                f"少了 {loss['commits']} 次已确认的写入，其中 {loss['changes']} 项是文档的增删改，最后一次在 {when}："
                f"从备份恢复，或重新放入那之前的文档；处理完删除 {where}",
                f"{loss['commits']} acknowledged writes are missing, {loss['changes']} of them changes to documents, "
                f"the last of {when}: restore a backup or add the documents again, then delete {where}",
            ),
        )


# ── a service ────────────────────────────────────────────────────────────────────────────────────


async def _examine_service(session: Session, client: Client) -> dict[str, Any]:
    """``unusable``: bases whose index could not be opened."""
    health: dict[str, Any] = {"url": session.url, "ready": False, "queue_depth": 0, "unusable": 0}
    health |= {"trouble": "", "bases": []}
    try:
        found = await client.readiness()
        health |= {"ready": True, "queue_depth": found.queue_depth, "unusable": found.unusable}
        health["bases"] = await _service_bases(client, session.start)
    except QianxunError as error:
        health["trouble"] = str(error)
    troubled = health["trouble"] or health["unusable"] or any(base["trouble"] for base in health["bases"])
    return {**health, "sound": health["ready"] and not troubled}


async def _service_bases(client: Client, start: str) -> list[dict[str, Any]]:
    from qianxun.core.types import STORED_STATUSES

    found = []
    for base in await client.knowledge_bases():
        counts = await client.statistics(base.id)
        quarantined = counts.get("quarantined", 0)
        found.append(
            {
                "name": base.name,
                "embedding_model": base.embedding_model,
                "chunks": counts["chunks"],
                "documents": sum(counts.get(state, 0) for state in STORED_STATUSES),
                "quarantined": quarantined,
                "trouble": _quarantined(quarantined, f"{start} kb show {quoted(base.name)}"),
            }
        )
    return found


def _show_service(console: Console, health: dict[str, Any]) -> None:
    console.print(f"[bold]{tr('服务', 'service')}[/]  {escape(health['url'])}", soft_wrap=True)
    if health["ready"]:
        waiting = tr(f"{health['queue_depth']} 项待索引", f"{health['queue_depth']} waiting for the index")
        console.print(f"  [green]✓[/] {tr('可以接受请求', 'takes requests')}  [dim]{waiting}[/]")
    if unusable := health["unusable"]:
        _show_trouble(
            console,
            tr(
                f"{unusable} 个知识库打不开，或索引坏了正在重建，原因见服务的日志",
                f"{unusable} bases cannot be opened, or their index is being rebuilt",
            ),
        )
    if health["trouble"]:
        _show_trouble(console, health["trouble"])
        return
    _title(console, "知识库", "knowledge bases")
    if not health["bases"]:
        console.print(tr("  还没有", "  none yet"))
    for base in health["bases"]:
        _show_base(console, base)


# ── both ─────────────────────────────────────────────────────────────────────────────────────────


def _title(console: Console, zh: str, en: str) -> None:
    console.print(f"[bold]{tr(zh, en)}[/]")


def _sign(good: bool, missing: str = "dim") -> str:
    return "[green]✓[/]" if good else f"[{missing}]✗[/]"


def _show_trouble(console: Console, trouble: str) -> None:
    if trouble:
        console.print(f"  [red]✗[/] {escape(trouble)}", soft_wrap=True)


def _show_base(console: Console, base: dict[str, Any], index: str = "", waiting: str = "") -> None:
    model = escape(base["embedding_model"] or tr("只按词语", "words only"))
    documents, chunks = base["documents"], base["chunks"]
    counts = tr(f"{documents} 个文档  {chunks} 块", f"{documents} documents  {chunks} chunks")
    trouble = f"  [red]{escape(base['trouble'])}[/]" if base["trouble"] else ""
    sign = _sign(not base["trouble"], missing="red")
    console.print(
        f"  {sign} {escape(base['name'])}  {counts}  [dim]{model}{index}[/]{waiting}{trouble}", soft_wrap=True
    )
