"""The commands, put together; nothing heavy is imported before one of them runs."""

from __future__ import annotations

import os
from getpass import getuser
from pathlib import Path
from typing import Annotated

import typer

from qianxun.core.errors import BadInput
from qianxun.core.governance.access import read_principal
from qianxun.core.governance.actor import acting_as
from qianxun.doors.cli.commands.ask import ask
from qianxun.doors.cli.commands.bases import app as bases
from qianxun.doors.cli.commands.chat import chat
from qianxun.doors.cli.commands.demo import demo
from qianxun.doors.cli.commands.doctor import doctor
from qianxun.doors.cli.commands.documents import add, delete, show
from qianxun.doors.cli.commands.evaluate import evaluate, tune
from qianxun.doors.cli.commands.evaluation_sets import app as evaluation_sets
from qianxun.doors.cli.commands.examples import app as examples
from qianxun.doors.cli.commands.governance.access import app as access
from qianxun.doors.cli.commands.governance.audit import app as audit
from qianxun.doors.cli.commands.governance.corrections import app as corrections
from qianxun.doors.cli.commands.governance.documents import documents
from qianxun.doors.cli.commands.governance.quotas import app as quotas
from qianxun.doors.cli.commands.governance.receipts import app as receipts
from qianxun.doors.cli.commands.governance.receipts import purge
from qianxun.doors.cli.commands.governance.webhooks import app as webhooks
from qianxun.doors.cli.commands.graph import app as graph
from qianxun.doors.cli.commands.keys import app as keys
from qianxun.doors.cli.commands.layered import tables, texts
from qianxun.doors.cli.commands.logs import logs, replay
from qianxun.doors.cli.commands.maintenance import copy, migrate, rebuild, verify
from qianxun.doors.cli.commands.mcp import mcp
from qianxun.doors.cli.commands.models import app as models
from qianxun.doors.cli.commands.search import search
from qianxun.doors.cli.commands.serve import serve
from qianxun.doors.cli.commands.transfer import clone, export_file, import_file
from qianxun.doors.cli.commands.worker import worker
from qianxun.doors.cli.i18n import Language, out, set_language, tr
from qianxun.doors.cli.session import Session, refuse_principal, refuse_url

app = typer.Typer(
    name="qianxun",
    help="千寻：中文优先的 RAG 召回引擎。 · Chinese-first recall for RAG.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Commands that work on the data folder itself, not through --url; the first ones need it for themselves.
EXCLUSIVE = frozenset(("verify", "rebuild", "replay", "copy", "graph"))
LOCAL = EXCLUSIVE | {"demo", "eval", "examples", "keys", "migrate", "quotas", "serve", "worker"}
# Those that only read, and so can be run on behalf of a principal; where they would write they are refused later.
READING = frozenset(("search", "ask", "chat", "texts", "tables", "show", "kb", "logs", "mcp"))


def _version(is_set: bool) -> None:
    if is_set:
        from qianxun.core.system.version import installed_version

        out().print(f"qianxun {installed_version()}")
        raise typer.Exit


def _set_language(language: Language) -> Language:
    """Eager, so that errors of parsing the command are in this language, too."""
    set_language(language)
    return language


@app.callback()
def options(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="数据目录，默认 ./qianxun-data 或 QIANXUN_DATA · the data folder", show_default=False
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="设置文件（YAML/JSON） · the settings file")
    ] = None,
    lang: Annotated[
        Language, typer.Option(callback=_set_language, is_eager=True, help="说中文或英文 · the language of messages")
    ] = Language.zh,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="改为连接运行中的服务 · talk to a running service", show_default=False),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            envvar="QIANXUN_KEY",
            help="服务的密钥；写在环境变量里别人看不到 · the service's key, better in the variable",
            show_default=False,
        ),
    ] = None,
    principal: Annotated[
        str,
        typer.Option(
            metavar="L,...",
            help="以谁的身份看：user:、group:、role: 开头 · see what one with these labels sees",
            show_default=False,
        ),
    ] = "",
    verbose: Annotated[bool, typer.Option("--verbose", help="把日志与出错位置写到标准错误 · logs on stderr")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="版本号 · the version")
    ] = False,
) -> None:
    context.with_resource(acting_as(f"command:{_user()}"))
    seen_by = read_principal(principal) if principal else None
    context.obj = Session(data, config, verbose, _address(url, data), key or "", seen_by)
    command = context.invoked_subcommand or ""
    if command in LOCAL:
        refuse_url(context.obj, command, alone=command in EXCLUSIVE)
    if command not in READING:
        refuse_principal(context.obj, command)


def _user() -> str:
    """Who runs the command, for the audit log."""
    try:
        return getuser()
    except (KeyError, OSError):  # in a container the number of a user need not have a name
        return str(os.getuid())


def _address(url: str | None, data: str | None) -> str:
    """Refuses an empty address: the command would quietly work on another library than the intended one."""
    if url is None:
        return ""
    if not url.strip():
        raise BadInput(tr("--url 是空的", "--url is empty"), hint=tr("例如 --url http://127.0.0.1:8000", ""))
    if data is not None:
        raise BadInput(
            tr("--url 与 --data 只能给一个", "Give either --url or --data"),
            hint=tr("要服务里的，去掉 --data；要本机目录里的，去掉 --url", "Leave one of them out"),
        )
    return url.strip()


for name, transfer in (("export", export_file), ("import", import_file), ("clone", clone), ("documents", documents)):
    bases.command(name)(transfer)
app.add_typer(bases, name="kb")
for commands in (
    (add, search, ask, chat, texts, tables, show, delete, purge, verify, rebuild),
    (doctor, demo, logs, replay, tune, migrate, copy, serve, worker, mcp),
):
    for command in commands:
        app.command()(command)
app.command("eval")(evaluate)
app.add_typer(evaluation_sets, name="evalset")
app.add_typer(graph, name="graph")
app.add_typer(examples, name="examples")
app.add_typer(models, name="models")
app.add_typer(keys, name="keys")
app.add_typer(access, name="access")
app.add_typer(audit, name="audit")
app.add_typer(receipts, name="receipts")
app.add_typer(quotas, name="quotas")
app.add_typer(webhooks, name="webhooks")
app.add_typer(corrections, name="corrections")
