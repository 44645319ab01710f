"""`qianxun models`: what models there are, fetching one, trying one; registered ones in `registered`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from qianxun.core.errors import BadInput, NotFound
from qianxun.doors.cli.commands.registered_models import (
    TenantOption,
    add_model,
    registered_models,
    registered_table,
    remove_model,
    try_registered,
)
from qianxun.doors.cli.i18n import err, note, out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, refuse_url, session_of

if TYPE_CHECKING:
    from qianxun.engine.settings import Settings
    from qianxun.models import PullEvent

app = typer.Typer(help="嵌入模型与重排模型 · embedding and rerank models", no_args_is_help=True)

SENTENCE = "住院费用可以报销多少？"
ANSWER = "住院费用的报销比例为百分之八十五。"


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
    rows = [] if session.url else known_models(session.settings())  # of this machine: not the service's affair
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
        note(tr(f"{user} 还没有登记模型：{session.start} models add --help", f"{user} has registered no model yet"))


def _print_known(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column(tr("模型", "model"))
    table.add_column(tr("用途", "kind"))
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
    note(tr("● 设置中选用的模型", "● the model of the settings"))


def known_models(settings: Settings) -> list[dict[str, Any]]:
    """Every card, as JSON, with the folder that holds its files."""
    from qianxun.engine.embedding_models import model_folders
    from qianxun.models import EVERY_CARD, ModelCard, find_local

    folders = model_folders(settings)
    chosen = settings.vectorization.model
    rows = []
    for card in EVERY_CARD:
        found = find_local(card, folders)
        rows.append(
            {
                "name": card.name,
                "kind": "embedding" if isinstance(card, ModelCard) else "rerank",
                "dimension": card.dimension if isinstance(card, ModelCard) else None,
                "max_tokens": card.max_tokens,
                "licence": card.licence,
                "pinned": card.pinned,
                "in_use": chosen in (card.name, *card.aliases),
                "folder": str(found) if found else None,
            }
        )
    return rows


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
    out().print(tr(f"[green]✓[/] {name} 已就绪：{folder}", f"[green]✓[/] {name} is ready: {folder}"))


def fetch(
    settings: Settings, name: str, source: Path | None = None, *, accept_unpinned: bool = False, quiet: bool = False
) -> Path:
    """`pull` into the model home, with progress on stderr; ``source`` alone is asked where it is given."""
    from qianxun.models import pull, standard_sources
    from qianxun.models.local.download_sources import LocalFolder

    home = Path(settings.vectorization.model_home).expanduser()
    folders = [Path(folder).expanduser() for folder in settings.vectorization.model_folders]
    sources = (LocalFolder(source),) if source else standard_sources(name, folders)
    if quiet:
        return pull(name, home, sources=sources, accept_unpinned=accept_unpinned)
    columns = (TextColumn("  {task.description}"), BarColumn(bar_width=30), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err(), transient=True) as shown:
        return pull(name, home, sources=sources, accept_unpinned=accept_unpinned, progress=_Watcher(shown))


class _Watcher:
    """Tells which source is tried, why it failed, and how far a file is."""

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
        _tell_trial(try_registered(session, name, user, tenant), as_json)
        return
    refuse_url(session, tr("试本机的模型", "Trying a model of this machine"))
    settings = session.settings()
    wanted = name or settings.vectorization.model
    if wanted == "none":
        raise BadInput(
            tr("设置中没有选用模型（none）", "The settings name no model (none)"),
            hint=tr("写明要试哪个：qianxun models test bge-small-zh-v1.5", "Say which: qianxun models test NAME"),
        )
    told = _try_reranker(settings, wanted) if _is_reranker(wanted) else _try(settings, wanted)
    if as_json:
        print_json(told)
        return
    out().print(_said(told))


def _tell_trial(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(told)
    elif told["ok"]:
        spent, dimension = told["seconds"] * 1000, told["dimension"]
        zh, en = (f"{dimension} 维，", f"{dimension} dimensions, ") if dimension else ("", "")
        out().print(f"[green]✓[/] {told['model']}" + tr(f"：{zh}{spent:.0f} 毫秒", f": {en}answered in {spent:.0f} ms"))
    else:
        note(f"✗ {told['model']}：{told['reason']}", "red")
    if not told["ok"]:
        raise typer.Exit(1)


def _said(told: dict[str, Any]) -> str:
    name, load = told["model"], told["load_seconds"]
    if "score" in told:
        spent = told["score_seconds"] * 1000
        return tr(
            f"[green]✓[/] {name}：装载 {load:.2f} 秒，一问一答得 {told['score']:.3f} 分，{spent:.0f} 毫秒",
            f"[green]✓[/] {name}: loaded in {load:.2f} s, one pair scored {told['score']:.3f} in {spent:.0f} ms",
        )
    spent = told["embed_seconds"] * 1000
    return tr(
        f"[green]✓[/] {name}：{told['dimension']} 维，装载 {load:.2f} 秒，嵌入一句话 {spent:.0f} 毫秒",
        f"[green]✓[/] {name}: {told['dimension']} dimensions, loaded in {load:.2f} s, one sentence in {spent:.0f} ms",
    )


def _is_reranker(name: str) -> bool:
    from qianxun.models import rerank_card

    try:
        rerank_card(name)
    except NotFound:
        return False
    return True


def _try_reranker(settings: Settings, name: str) -> dict[str, Any]:
    from qianxun.engine.embedding_models import model_folders
    from qianxun.models import open_cross_encoder

    vectors = settings.vectorization
    started = time.perf_counter()
    model = open_cross_encoder(name, folders=model_folders(settings), threads=vectors.threads, device=vectors.device)
    loaded = time.perf_counter()
    score = model.score(SENTENCE, [ANSWER])[0]
    done = time.perf_counter()
    return {
        "model": model.name,
        "score": score,
        "load_seconds": round(loaded - started, 3),
        "score_seconds": round(done - loaded, 4),
    }


def _try(settings: Settings, name: str) -> dict[str, Any]:
    from qianxun.engine.embedding_models import open_model

    started = time.perf_counter()
    model = open_model(settings, name)
    loaded = time.perf_counter()
    vector = model.embed_query(SENTENCE)
    done = time.perf_counter()
    return {
        "model": model.name,
        "dimension": len(vector),
        "load_seconds": round(loaded - started, 3),
        "embed_seconds": round(done - loaded, 4),
    }
