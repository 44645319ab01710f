"""`qianxun models`: which models there are, fetching one, trying one; for registered ones see `registered_models`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from qianxun.core.errors import BadInput
from qianxun.doors.cli.commands.registered_models import (
    TenantOption,
    add_model,
    registered_models,
    registered_table,
    remove_model,
    try_registered,
)
from qianxun.doors.cli.i18n import done, err, hint, note, out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, refuse_url, session_of
from qianxun.doors.cli.views.drawing import new_table

if TYPE_CHECKING:
    from qianxun.engine.admin.models import PullEvent
    from qianxun.engine.settings import Settings

app = typer.Typer(help="嵌入模型与重排模型 · embedding and rerank models", no_args_is_help=True)

WhoseOption: TypeAlias = Annotated[
    str | None, typer.Option("--user", metavar="U", help="登记它的用户 · whose registered models")
]


@app.command("list", help="列出认识的模型和登记的模型 · the cards and where they were found, and registered models")
def list_models(
    context: typer.Context, user: WhoseOption = None, tenant: TenantOption = "local", as_json: JsonFlag = False
) -> None:
    session = session_of(context)
    if session.url and not user:
        raise BadInput(
            tr("服务里的模型是用户登记的，没有写是谁的", "The models of a service are its users'; whose was not said"),
            hint=tr("写明用户：models list --user U", "Say so: models list --user U"),
        )
    rows = []
    if not session.url:  # a service has none of this machine
        from qianxun.engine.admin.models import known_models

        rows = known_models(session.settings())
    registered = registered_models(session, user, tenant)
    if as_json:
        print_json({"models": rows, "registered": registered})
        return
    if rows:
        _print_known(rows)
        out().print()
    if registered:
        out().print(registered_table(registered))
    elif session.url:
        hint(f"{user} 还没有登记模型：{session.start} models add --help", f"{user} has registered no model yet")


def _print_known(rows: list[dict[str, Any]]) -> None:
    table = new_table(("模型", "model"), ("用途", "kind"))
    table.add_column(tr("维度", "dimension"), justify="right")
    table.add_column(tr("哈希", "hashes"))
    table.add_column(tr("位置", "where"), overflow="fold")
    for row in rows:
        where = row["folder"] or tr(f"未下载：qianxun models pull {row['name']}", "not here")
        in_use = " [green]●[/]" if row["in_use"] else ""
        pinned = tr("已固定", "pinned") if row["pinned"] else tr("未固定", "unpinned")
        kind = tr("嵌入", "embedding") if row["kind"] == "embedding" else tr("重排", "rerank")
        table.add_row(row["name"] + in_use, kind, str(row["dimension"] or ""), pinned, escape(where))
    out().print(table)
    hint("● 设置中选用的模型", "● the model of the settings")


@app.command("pull", help="取来一个模型的文件，只收哈希相符的 · fetch a model; only files with the right hashes")
def pull_model(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="模型名，见 models list · see models list")],
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FOLDER", help="从这个目录取 · take it from this folder")
    ] = None,
    accept_unpinned: Annotated[
        bool, typer.Option("--accept-unpinned", help="接受尚未固定哈希的权重，首次即登记 · trust what comes first")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    refuse_url(session_of(context), "models pull")
    settings = session_of(context).settings()
    if source is not None and not source.is_dir():
        raise BadInput(
            tr(f"{source} 不是目录", f"{source} is not a folder"),
            hint=tr("--from 要指向放着模型文件的目录", "--from wants the folder that holds the model's files"),
        )
    folder = fetch(settings, name, source, accept_unpinned=accept_unpinned, quiet=as_json)
    if as_json:
        print_json({"model": name, "folder": str(folder)})
        return
    done(f"{name} 已就绪：{folder}", f"{name} is ready: {folder}")


def fetch(
    settings: Settings, name: str, source: Path | None = None, *, accept_unpinned: bool = False, quiet: bool = False
) -> Path:
    """`pull_model` with progress on stderr. Returns the model's folder."""
    from qianxun.engine.admin.models import find_model, pull_model

    find_model(settings, name)  # raises NotFound before a bar is drawn
    if quiet:
        return pull_model(settings, name, source, accept_unpinned=accept_unpinned)
    columns = (TextColumn("  {task.description}"), BarColumn(bar_width=30), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err(), transient=True) as shown:
        return pull_model(settings, name, source, accept_unpinned=accept_unpinned, progress=_PullProgress(shown))


class _PullProgress:
    """Shows which source is tried, why it failed, and how far a file is."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._task = shown.add_task("", total=None, visible=False)
        self._file = ""

    def __call__(self, event: PullEvent) -> None:
        if event.kind == "trying":
            self._shown.console.print(tr(f"  · 试 {event.source}", f"  · trying {event.source}"), style="dim")
        elif event.kind == "failed":
            self._shown.console.print(f"    {escape(event.detail)}", style="dim yellow", soft_wrap=True)
        elif event.kind == "fetching":
            if event.detail != self._file:
                self._file = event.detail
                self._shown.reset(self._task, description=event.detail, visible=True, total=event.total)
            self._shown.update(self._task, completed=event.done)


app.command("add", help="登记一个远程模型 · register a model behind an HTTP service")(add_model)
app.command("remove", help="删去一个登记的模型 · remove a registered model")(remove_model)


@app.command("test", help="试一个模型：嵌入一句话，或给一问一答打分 · try a model on one sentence or pair")
def try_model(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="默认为设置中的；登记的写 user-model:编号 · the settings', or user-model:ID"
        ),
    ] = None,
    user: WhoseOption = None,
    tenant: TenantOption = "local",
    as_json: JsonFlag = False,
) -> None:
    session = session_of(context)
    if name and name.startswith("user-model:"):
        _show_trial(try_registered(session, name, user, tenant), as_json)
        return
    refuse_url(session, tr("试本机的模型", "Trying a model of this machine"))
    settings = session.settings()
    chosen = name or settings.vectorization.model
    if chosen == "none":
        raise BadInput(
            tr("设置中没有选用模型（none）", "The settings name no model (none)"),
            hint=tr("写明要试哪个：qianxun models test bge-small-zh-v1.5", "Say which: qianxun models test NAME"),
        )
    from qianxun.engine.admin import models

    outcome = models.try_model(settings, chosen)
    if as_json:
        print_json(outcome)
        return
    model, load = outcome["model"], outcome["load_seconds"]
    if "score" in outcome:
        score, ms = outcome["score"], outcome["score_seconds"] * 1000
        done(
            f"{model}：装载 {load:.2f} 秒，一问一答得 {score:.3f} 分，{ms:.0f} 毫秒",
            f"{model}: loaded in {load:.2f} s, one pair scored {score:.3f} in {ms:.0f} ms",
        )
    else:
        dimension, ms = outcome["dimension"], outcome["embed_seconds"] * 1000
        done(
            f"{model}：{dimension} 维，装载 {load:.2f} 秒，嵌入一句话 {ms:.0f} 毫秒",
            f"{model}: {dimension} dimensions, loaded in {load:.2f} s, one sentence in {ms:.0f} ms",
        )


def _show_trial(outcome: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(outcome)
    elif outcome["ok"]:
        ms, dimension = outcome["seconds"] * 1000, outcome["dimension"]
        zh, en = (f"{dimension} 维，", f"{dimension} dimensions, ") if dimension else ("", "")
        done(f"{outcome['model']}：{zh}{ms:.0f} 毫秒", f"{outcome['model']}: {en}answered in {ms:.0f} ms")
    else:
        note(f"✗ {outcome['model']}：{outcome['reason']}", "red")
    if not outcome["ok"]:
        raise typer.Exit(1)
