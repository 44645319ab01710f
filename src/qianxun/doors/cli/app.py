"""Where each command is, and the options before it; a command is imported when it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from getpass import getuser
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from qianxun.core.errors import BadInput
from qianxun.core.governance.access import read_principal
from qianxun.core.governance.actor import acting_as
from qianxun.doors.cli.i18n import Language, out, set_language, tr
from qianxun.doors.cli.session import Session, refuse_principal, refuse_url

# Where each command is in `commands`. One is imported when it runs; a Typer there is a group of commands.
COMMANDS = {
    "add": "documents:add",
    "search": "search:search",
    "ask": "ask:ask",
    "chat": "chat:chat",
    "texts": "layered:texts",
    "tables": "layered:tables",
    "show": "documents:show",
    "delete": "documents:delete",
    "purge": "governance.receipts:purge",
    "verify": "maintenance:verify",
    "rebuild": "maintenance:rebuild",
    "doctor": "doctor:doctor",
    "demo": "demo:demo",
    "logs": "logs:logs",
    "replay": "logs:replay",
    "tune": "evaluate:tune",
    "migrate": "maintenance:migrate",
    "copy": "maintenance:copy",
    "serve": "serve:serve",
    "worker": "worker:worker",
    "mcp": "mcp:mcp",
    "eval": "evaluate:evaluate",
    "kb": "bases:app",
    "evalset": "evaluation_sets:app",
    "graph": "graph:app",
    "examples": "examples:app",
    "models": "models:app",
    "keys": "keys:app",
    "access": "governance.access:app",
    "audit": "governance.audit:app",
    "receipts": "governance.receipts:app",
    "quotas": "governance.quotas:app",
    "webhooks": "governance.webhooks:app",
    "corrections": "governance.corrections:app",
}
# Commands that work on the data folder itself, not through --url; the first ones need it for themselves.
EXCLUSIVE = frozenset(("verify", "rebuild", "replay", "copy", "graph"))
LOCAL = EXCLUSIVE | {"demo", "eval", "examples", "keys", "migrate", "quotas", "serve", "worker"}
# Those that only read, and so can be run on behalf of a principal; where they would write they are refused later.
READING = frozenset(("search", "ask", "chat", "texts", "tables", "show", "kb", "logs", "mcp"))

HELP = ("-h", "--help")
WITH_VALUE = ("--data", "--config", "--lang", "--url", "--key", "--principal")  # options before the command


def _version(is_set: bool) -> None:
    if is_set:
        from qianxun.core.system.version import installed_version

        out().print(f"qianxun {installed_version()}")
        raise typer.Exit


def _set_language(language: Language) -> Language:
    """Eager, so that errors of parsing the command are in this language, too."""
    set_language(language)
    return language


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command that the arguments name; all of them where they name none, for the help page or a suggestion."""
    name = _command_named(arguments)
    return app_of((name,) if name in COMMANDS else tuple(COMMANDS))


@cache
def app_of(names: tuple[str, ...]) -> typer.Typer:
    """An application of these commands: to build all of them takes longer than most of them run."""
    app = typer.Typer(
        name="qianxun",
        help="千寻：中文优先的 RAG 召回引擎。 · Chinese-first recall for RAG.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP)},
    )
    app.callback()(options)
    for name in names:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f"qianxun.doors.cli.commands.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _command_named(arguments: Sequence[str]) -> str:
    """The first word that is neither an option nor the value of one; empty for a help page of all commands."""
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return word
        if word in HELP:
            break
        if word in WITH_VALUE:
            next(words, None)
    return ""


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
