"""`qianxun ask`: an answer with its sources, for people and as JSON, whole or as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from qianxun.core.codec.command_line import command_for, quoted
from qianxun.core.options import AskChoices, AskOptions
from qianxun.doors.cli.i18n import note, out, print_json, tr
from qianxun.doors.cli.option_flags import with_options
from qianxun.doors.cli.session import BaseOption, JsonFlag, Library, find_base, session_of, with_library
from qianxun.doors.cli.views.answer import (
    show_answer,
    show_end,
    show_notes,
    show_reason,
    show_sources,
    show_trace,
    shown_text,
)
from qianxun.doors.cli.views.drawing import show_degraded

if TYPE_CHECKING:
    from rich.console import Console

    from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed
    from qianxun.core.types import KnowledgeBase

PARTIAL = 1  # the exit code of what was cut off


ImageOption: TypeAlias = Annotated[
    list[Path] | None, typer.Option("--image", metavar="F", help="带上一张图片，可多次 · with a picture")
]
TableOption: TypeAlias = Annotated[
    list[Path] | None, typer.Option("--table", metavar="F", help="带上一个表格文件，可多次 · with a table")
]


@with_options(AskOptions)
def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="问题 · the question")],
    kb: BaseOption,
    choices: AskChoices,
    stream: Annotated[bool, typer.Option("--stream", help="一边写一边显示 · show it as it comes")] = False,
    image: ImageOption = None,
    table: TableOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="说出每一步怎样得来 · tell each step of the way")] = False,
    as_json: JsonFlag = False,
) -> None:
    """提问：答案的每一句注明出处 · ask, and get an answer that cites its sources

    没有配置语言模型时，答案由资料的原句组成；资料里没有的，明说没有。

    Without a language model the answer is made of the sources' own sentences; what they do not say, it says so.
    """
    choices["multimodal_content"] = _attached(image or (), table or ())
    session = session_of(context)
    request = Request(question, kb, choices, explain, session.start)
    if as_json:
        from qianxun.core.codec.wire import written_answer

        base, answer = with_library(session, lambda library: _answer(library, request))
        print_json(written_answer(base.id, answer))
    elif stream:
        from qianxun.core.answer_types import Failed

        if isinstance(with_library(session, lambda library: stream_answer(library, request)), Failed):
            raise typer.Exit(PARTIAL)
    else:
        answer, advice = with_library(session, lambda library: _advised(library, request))
        show_answer(out(), answer)
        _show_rest(out(), request, answer, advice)


@dataclass(frozen=True, slots=True)
class Request:
    """A question as the command line was given it."""

    question: str
    kb: str
    choices: AskChoices
    explain: bool
    start: str  # what suggested commands begin with


def _attached(images: Sequence[Path], tables: Sequence[Path]) -> list[dict[str, Any]]:
    return [
        *({"type": "image", "img_path": str(path)} for path in images),
        *({"type": "table", "table_path": str(path)} for path in tables),
    ]


async def _answer(library: Library, request: Request) -> tuple[KnowledgeBase, Answer]:
    base = await find_base(library, request.kb, request.start)
    return base, await library.ask(base.id, request.question, **request.choices)


async def _advised(library: Library, request: Request) -> tuple[Answer, str]:
    base, answer = await _answer(library, request)
    return answer, await _advice(library, request, base, answer)


async def stream_answer(library: Library, request: Request) -> Done | Failed:
    """Shows the answer as it comes. Returns its end."""
    from qianxun.core.answer_types import Done, Failed, Token

    console = out()
    base = await find_base(library, request.kb, request.start)
    shown, last = "", None
    async with aclosing(library.ask_stream(base.id, request.question, **request.choices)) as events:
        async for event in events:
            _show_event(console, event)
            shown += event.text if isinstance(event, Token) else ""
            last = event
    assert isinstance(last, Done | Failed), "an answer has an end"
    if shown:
        console.print()
    if isinstance(last, Failed):
        reason = last.message or last.error
        if shown:
            note(tr(f"✗ 答案到这里断了：{reason}", f"✗ The answer was cut off: {reason}"), "red")
        else:
            note(tr(f"✗ 语言模型没能作答：{reason}", f"✗ The language model did not answer: {reason}"), "red")
    _show_final(console, shown, last.answer)
    _show_rest(console, request, last.answer, await _advice(library, request, base, last.answer))
    return last


def _show_final(console: Console, shown: str, answer: Answer) -> None:
    """The answer once more, where it is another than was shown while it came: what nothing bears out is not in it."""
    if "".join(answer.answer.split()) == "".join(shown.split()) or not answer.answer.strip():
        return
    if shown:
        console.print()
        console.print(tr("以这里为准：", "What stands of it:"), style="bold")
    show_answer(console, answer)


def _show_event(console: Console, event: AnswerEvent) -> None:
    from qianxun.core.answer_types import SourcesFound, Token

    if isinstance(event, SourcesFound) and event.sources:
        number = len(event.sources)
        note(tr(f"找到 {number} 块资料", f"{number} sources found"))
    elif isinstance(event, Token):
        console.print(shown_text(event.text), end="", soft_wrap=True)


def _show_rest(console: Console, request: Request, answer: Answer, advice: str) -> None:
    show_reason(console, answer)
    show_notes(console, answer)
    show_sources(console, answer)
    if advice:
        console.print(advice, markup=False, soft_wrap=True)
    if request.explain:
        show_trace(console, answer)
    show_degraded(answer.degraded)
    show_end(console, answer)


async def _advice(library: Library, request: Request, base: KnowledgeBase, answer: Answer) -> str:
    """What to do where the sources do not say; "" where they do."""
    if not answer.is_declined:
        return ""
    add = f"{request.start} add FILE --kb {quoted(base.name)}"
    if not (await library.statistics(base.id))["chunks"]:
        return tr(f"这个知识库里还没有资料，先放进来：{add}", f"There is nothing in this base yet. First: {add}")
    search = command_for(request.start, request.question, base.name, {})
    tips = [
        tr(f"看看检索到了什么：{search}", f"see what is found: {search}"),
        tr(f"把说到它的文档放进来：{add}", f"add a document that tells: {add}"),
        tr("换个说法，或去掉过滤条件", "say it differently, or without the filters"),
    ]
    return tr("可以试试：", "You could:") + "".join(f"\n  · {tip}" for tip in tips)
