"""The command line: `qianxun`. The only place that starts an event loop.

Read `main` first, then `app`, which knows where each command is. A module of `commands` parses the options of its
commands, calls an engine over the data folder or a client of a service (`session`), and prints the result as JSON or
with a module of `views`, which draw and do nothing else. `i18n` has the two languages and the consoles, `progress` the
bars, `usage` the help pages and usage errors in Chinese; `option_flags` makes flags of the options of a search or a
question. `import_data` is a program of its own, for the example library.

Only `main` is imported from outside. Imports `core`, `engine`, and of the other doors `client`, `http` and `mcp`;
whatever takes long to import, only in the command that needs it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import typer

from qianxun.core.errors import BadInput, FolderInUse, NotFound, QianxunError
from qianxun.doors.cli.i18n import Stopped, err, kind_of_error, print_json, print_plain, tr, warn

log = logging.getLogger(__name__)

PARTIAL, MISTAKEN, IN_USE, INTERRUPTED = 1, 2, 3, 130

# Typer ships its own copy of click since 0.26; this is the root of its usage errors in every version.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns its exit code: 0 done, 1 in part, 2 a mistake, 3 folder in use, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    _configure_logging("--verbose" in given)
    try:
        code = _run(given)
        return _stop("", as_json) if code == INTERRUPTED else code  # typer's own way of passing Ctrl-C on
    except QianxunError as error:
        log.info("where it was raised:", exc_info=error)
        return _explain(error, as_json)
    except _UsageError as error:
        if not str(error) and not as_json:
            return MISTAKEN  # no command was given: its help has been printed
        return _explain(_usage_error(error), as_json)
    except typer.Abort:
        warn("\n没有执行。", "\nNot done.")
        return PARTIAL
    except Stopped as stop:
        return _stop(str(stop), as_json)
    except KeyboardInterrupt:
        return _stop("", as_json)
    except Exception as error:  # the outermost caller: one line for the user, the traceback in the log
        log.info("where it was raised:", exc_info=error)
        return _explain(_unexpected(error), as_json)


def _configure_logging(verbose: bool) -> None:
    """Log lines go to stderr with ``--verbose`` only; the commands themselves print what matters."""
    logging.basicConfig(level=logging.WARNING if verbose else logging.CRITICAL, stream=sys.stderr, force=True)
    logging.getLogger("qianxun").setLevel(logging.INFO if verbose else logging.CRITICAL)


def _run(arguments: list[str]) -> int:
    from qianxun.doors.cli.app import app_for
    from qianxun.doors.cli.usage import adapt_help, may_show_help

    app = app_for(arguments)
    if may_show_help(arguments, app):
        adapt_help()
    code = app(arguments, prog_name="qianxun", standalone_mode=False)
    return code if isinstance(code, int) else 0


def exit_code(error: QianxunError) -> int:
    if isinstance(error, FolderInUse):
        return IN_USE
    return MISTAKEN if isinstance(error, BadInput | NotFound) or error.word == "already_there" else PARTIAL


def _explain(error: QianxunError, as_json: bool) -> int:
    if as_json:
        print_json({"error": error.word, "message": error.message, "hint": error.hint})
        return exit_code(error)
    console = err()
    print_plain(console, f"✗ {kind_of_error(error.word)}{error.message.rstrip()}", "red")
    if error.hint:
        print_plain(console, f"→ {error.hint}")
    return exit_code(error)


def _unexpected(error: Exception) -> QianxunError:
    from qianxun.engine.admin.database import disk_problem

    if (problem := disk_problem(error)) is not None:
        message, hint = problem
        return QianxunError(message, hint=hint)
    lines = str(error).strip().splitlines()
    reason = f"{type(error).__name__}：{lines[0]}" if lines else type(error).__name__
    return QianxunError(
        tr(f"没有料到的错误：{reason}", f"Unforeseen error: {reason}"),
        hint=tr("加 --verbose（写在命令之前）可看到出错的位置", "Put --verbose before the command to see where"),
    )


def _stop(message: str, as_json: bool) -> int:
    message = message or tr("已停下。", "Stopped.")
    if as_json:
        print_json({"error": "interrupted", "message": message, "hint": ""})
    else:
        print_plain(err(), f"\n{message}", "yellow")
    return INTERRUPTED


def _usage_error(error: Exception) -> BadInput:
    from qianxun.doors.cli.usage import in_chinese

    message: str = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "qianxun"
    return BadInput(
        tr(f"命令写得不对：{in_chinese(message)}", f"The command is not right: {message}"),
        hint=tr(f"用法：{path} --help", f"See: {path} --help"),
    )
