"""The command line: `qianxun`. The only place that starts an event loop."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import typer

from qianxun.core.errors import BadInput, FolderInUse, NotFound, QianxunError
from qianxun.doors.cli.i18n import Stopped, err, kind_of_error, print_json, tr
from qianxun.doors.cli.usage_errors import in_chinese

log = logging.getLogger(__name__)

PARTIAL, MISTAKEN, IN_USE, INTERRUPTED = 1, 2, 3, 130

# Typer ships its own copy of click since 0.26; this is the root of its usage errors in every version.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and answers its exit code: 0 done, 1 in part, 2 a mistake, 3 folder in use, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    verbose = "--verbose" in given
    _log(verbose)
    try:
        code = _run(given)
        return _stop("", as_json) if code == INTERRUPTED else code  # typer's own way of passing Ctrl-C on
    except QianxunError as error:
        log.info("where it was raised:", exc_info=error)
        return _explain(error, as_json)
    except _UsageError as error:
        if not str(error) and not as_json:
            return MISTAKEN  # no command was given: its help has been printed
        return _explain(_mistake(error), as_json)
    except typer.Abort:
        err().print(tr("\n没有执行。", "\nNot done."), style="yellow")
        return PARTIAL
    except Stopped as stop:
        return _stop(str(stop), as_json)
    except KeyboardInterrupt:
        return _stop("", as_json)
    except Exception as error:  # the outer door: whatever nobody foresaw is told in one line, its place in the log
        log.info("where it was raised:", exc_info=error)
        return _explain(_unforeseen(error), as_json)


def _log(verbose: bool) -> None:
    """What the parts note for operators goes to stderr when asked for; the commands themselves say what matters."""
    logging.basicConfig(level=logging.WARNING if verbose else logging.CRITICAL, stream=sys.stderr, force=True)
    logging.getLogger("qianxun").setLevel(logging.INFO if verbose else logging.CRITICAL)


def _run(arguments: list[str]) -> int:
    from qianxun.doors.cli import help
    from qianxun.doors.cli.app import app

    if help.is_asked_for(arguments, app):
        help.suit_chinese()
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
    console.print(f"✗ {kind_of_error(error.word)}{error.message.rstrip()}", style="red", markup=False, soft_wrap=True)
    if error.hint:
        console.print(f"→ {error.hint}", markup=False, soft_wrap=True)
    return exit_code(error)


def _unforeseen(error: Exception) -> QianxunError:
    from qianxun.records.database.disk_errors import trouble

    if (disk := trouble(error)) is not None:
        message, hint = disk
        return QianxunError(message, hint=hint)
    told = str(error).strip().splitlines()
    reason = f"{type(error).__name__}：{told[0]}" if told else type(error).__name__
    return QianxunError(
        tr(f"没有料到的错误：{reason}", f"Unforeseen error: {reason}"),
        hint=tr("加 --verbose（写在命令之前）可看到出错的位置", "Put --verbose before the command to see where"),
    )


def _stop(told: str, as_json: bool) -> int:
    message = told or tr("已停下。", "Stopped.")
    if as_json:
        print_json({"error": "interrupted", "message": message, "hint": ""})
    else:
        err().print(f"\n{message}", style="yellow", markup=False, soft_wrap=True)
    return INTERRUPTED


def _mistake(error: Exception) -> BadInput:
    """A wrongly written command, said in the user's language."""
    told: str = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "qianxun"
    return BadInput(
        tr(f"命令写得不对：{in_chinese(told)}", f"The command is not right: {told}"),
        hint=tr(f"用法：{path} --help", f"See: {path} --help"),
    )
