"""`qianxun chat`: a conversation with a knowledge base, at a terminal or from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import typer

from qianxun.core.errors import QianxunError
from qianxun.core.options import AskChoices, AskOptions
from qianxun.doors.cli.commands.ask import PARTIAL, Request, stream_answer
from qianxun.doors.cli.i18n import hint, note, out, print_json, tr
from qianxun.doors.cli.option_flags import with_options
from qianxun.doors.cli.session import BaseOption, JsonFlag, find_base, open_library, session_of

if TYPE_CHECKING:
    from qianxun.core.answer_types import Answer

HISTORY_TURNS: Final = 40  # turns that go with a question: twenty questions and their answers
QUIT: Final = ("/quit", "/exit", "/q")
NEW: Final = "/new"
Ask = Callable[[str, list[dict[str, str]]], "Answer"]


@with_options(AskOptions)
def chat(context: typer.Context, kb: BaseOption, choices: AskChoices, as_json: JsonFlag = False) -> None:
    """对话：接着上一句问，答案注明出处；/quit 结束 · a conversation, with cited answers

    一行一个问题，来自终端或管道。/new 忘掉前面说过的，/quit 或 Ctrl-D 结束；作答时按 Ctrl-C 只停下这一句。

    A question on every line, typed or piped. /new forgets, /quit or Ctrl-D ends, Ctrl-C stops an answer.
    """
    session = session_of(context)
    lines = _typed() if sys.stdin.isatty() else _piped(echo=not as_json)
    with open_library(session) as (library, runner):
        base = runner.run(find_base(library, kb, session.start))
        if sys.stdin.isatty() and not as_json:
            hint(f"与“{base.name}”对话：/new 重新开始，/quit 结束", f"Talking to “{base.name}”: /new, /quit")

        def ask(question: str, history: list[dict[str, str]]) -> Answer:
            chosen: AskChoices = {**choices, "history": history}
            if as_json:
                return runner.run(library.ask(base.id, question, **chosen))
            request = Request(question, str(base.id), chosen, False, session.start)
            return runner.run(stream_answer(library, request)).answer

        turns, failures = _converse(lines, ask, quiet=as_json)
    if as_json:
        from qianxun.core.codec.wire import written_answer

        written = [{"question": question, **written_answer(base.id, answer)} for question, answer in turns]
        print_json({"turns": written, "failures": failures})
    if failures:
        raise typer.Exit(PARTIAL)


def _converse(lines: Iterator[str], ask: Ask, *, quiet: bool) -> tuple[list[tuple[str, Answer]], list[dict[str, Any]]]:
    """The questions with their answers, and what could not be asked: one bad question does not end a conversation."""
    turns: list[tuple[str, Answer]] = []
    failures: list[dict[str, Any]] = []
    history: list[dict[str, str]] = []
    for question in lines:
        if question in QUIT:
            break
        if question == NEW:
            history = []
            continue
        try:
            answer = ask(question, history)
        except KeyboardInterrupt:
            note(tr("\n停下了这一句；/quit 结束。", "\nStopped; /quit ends."), "yellow")
            continue
        except QianxunError as error:
            failures.append({"question": question, "error": error.word, "message": error.message, "hint": error.hint})
            if not quiet:
                note(f"✗ {error.message}　{error.hint}", "red")
            continue
        turns.append((question, answer))
        exchange = [{"role": "user", "content": question}, {"role": "assistant", "content": answer.answer}]
        history = [*history, *exchange][-HISTORY_TURNS:]
    return turns, failures


def _typed() -> Iterator[str]:
    """Lines of a person, until Ctrl-D or Ctrl-C."""
    import readline  # noqa: F401  # arrows and editing; by its import alone

    while True:
        try:
            line = input(tr("\n问：", "\nYou: ")).strip()
        except (EOFError, KeyboardInterrupt):
            out().print()
            return
        if line:
            yield line


def _piped(*, echo: bool) -> Iterator[str]:
    for line in (line.strip() for line in sys.stdin):
        if line:
            if echo and not line.startswith("/"):
                out().print(tr(f"\n问：{line}", f"\nYou: {line}"), style="bold", markup=False, highlight=False)
            yield line
