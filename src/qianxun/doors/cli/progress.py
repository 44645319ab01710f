"""What commands show on stderr while they work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from qianxun.doors.cli.i18n import err, tr

if TYPE_CHECKING:
    from qianxun.core.ingest_types import Step


LINE_SECONDS = 30.0  # between two lines about what is embedded, where no bars can be shown


class Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        unit = task.fields.get("unit", "")
        return Text("" if not speed else f"{speed:.1f} {unit}/{tr('秒', 's')}", style="dim")


class Counted(ProgressColumn):
    """Done out of all; ``~`` before a total that is only estimated so far."""

    def render(self, task: Task) -> Text:
        total = "?" if task.total is None else f"{'~' if task.fields.get('estimated') else ''}{task.total:.0f}"
        return Text(f"{task.completed:.0f}/{total} {task.fields.get('unit', '')}")


class Interrupted(Exception):
    """Ends work in another thread after Ctrl-C; never leaves this package."""


class Bars:
    """Progress bars and lines above them. ``shown`` is None where stderr is a file or a pipe: then only the lines are
    printed; with ``quiet`` nothing is."""

    def __init__(self, shown: Progress | None, *, quiet: bool = False) -> None:
        self._shown, self._quiet = shown, quiet

    @property
    def are_shown(self) -> bool:
        return self._shown is not None

    def task(self, title: str, unit: str = "", *, total: int | None = None, visible: bool = True) -> TaskID:
        if self._shown is None:
            return TaskID(0)
        return self._shown.add_task(title, total=total, unit=unit, visible=visible, estimated=False)

    def update(self, task: TaskID, **changes: Any) -> None:
        if self._shown is not None:
            self._shown.update(task, **changes)

    def estimate(self, task: TaskID, total: float, *, is_final: bool) -> None:
        if self._shown is not None:
            self._shown.tasks[task].total = total  # not by `update`: a new total would reset the rate
            self._shown.update(task, estimated=not is_final)

    def print(self, line: str, *, markup: bool = True) -> None:
        if not self._quiet:
            console = self._shown.console if self._shown is not None else err()
            console.print(line, markup=markup, soft_wrap=True)

    def stop(self) -> None:
        if self._shown is not None:
            self._shown.stop()


@contextmanager
def bars(*, quiet: bool = False) -> Iterator[Bars]:
    console = err()
    if quiet or not console.is_terminal:
        yield Bars(None, quiet=quiet)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        Counted(),
        Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=20) as shown:
        yield Bars(shown)


@contextmanager
def counting(title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """A single bar; what is yielded advances it."""
    with bars() as shown:
        task = shown.task(title, unit, total=total)
        yield lambda done: shown.update(task, advance=done)


class AddProgress:
    """Follows one `add`: files parsed, chunks embedded; refused files are shown as they happen.

    Steps come from worker threads as well. After `stop` the next step of a worker raises `Interrupted`, so that
    Ctrl-C need not wait for a long batch to be embedded.
    """

    def __init__(self, shown: Bars) -> None:
        self.safe = 0  # documents that are in the records and the index
        self._bars = shown
        self._found = self._parsed = self._cut = self._embedded = 0
        self._began = self._line_at = time.monotonic()
        self._stopped = threading.Event()
        self._files = shown.task(tr("解析文件", "parsing"), tr("个", "files"))
        self._chunks = shown.task(tr("向量化", "embedding"), tr("块", "chunks"), visible=False)
        self._read = shown.task(tr("读图谱", "reading"), tr("块", "chunks"), visible=False)

    def stop(self) -> None:
        self._stopped.set()

    def __call__(self, step: Step) -> None:
        if self._stopped.is_set():
            raise Interrupted
        match step.kind:
            case "found":
                self._found = step.count
                self._bars.update(self._files, total=step.count)
            case "parsed":
                self._parsed += step.count
                self._bars.update(self._files, advance=step.count)
                self._estimate()
            case "cut":
                if not self._cut:
                    self._began = self._line_at = time.monotonic()
                self._cut += step.count
                self._bars.update(self._chunks, visible=True)
                self._estimate()
            case "embedded":
                self._embedded += step.count
                self._bars.update(self._chunks, advance=step.count)
                if not self._bars.are_shown and time.monotonic() - self._line_at >= LINE_SECONDS:
                    self._print_rate()
            case "added":
                self.safe += step.count
            case "refused":
                self._bars.print(f"[red]✗[/] {escape(step.name)}：{escape(_reason(step))}")
            case "waiting":
                self._bars.print(f"[yellow]![/] {waiting(step.count)}：{escape(step.reason)}")
            case "reading":
                self._bars.print(
                    escape(step.reason) + tr("；停下不会丢，graph build 接着读", "; `graph build` resumes")
                )
                self._bars.update(self._read, visible=True, total=step.count)
            case "read":
                self._bars.update(self._read, advance=step.count)

    def _estimate(self) -> None:
        share = self._share()
        if self._cut and share:
            self._bars.estimate(self._chunks, self._cut / share, is_final=share >= 1.0)

    def _share(self) -> float:
        """Of the files that are parsed so far: from the chunks of these follows how many there will be."""
        return self._parsed / self._found if self._found else 1.0

    def _print_rate(self) -> None:
        """For a log: how many a second, and how long it will take."""
        self._line_at = time.monotonic()
        rate = self._embedded / max(self._line_at - self._began, 1e-9)
        share = self._share()
        total = self._cut / share if share else 0.0
        left = max(total - self._embedded, 0.0) / rate
        about = f"{self._embedded}/{'' if share >= 1.0 else '~'}{total:.0f}" if total else f"{self._embedded}/?"
        minutes = f"{left / 60:.0f}" if total else "?"
        self._bars.print(
            tr(
                f"向量化 {about} 块，{rate:.1f} 块/秒，还要约 {minutes} 分钟",
                f"embedding {about} chunks, {rate:.1f}/s, about {minutes} minutes left",
            )
        )


def _reason(step: Step) -> str:
    """The reason alone: the parsers begin theirs with the file's name, which is shown before it already."""
    return step.reason.removeprefix(f"{PurePath(step.name).name}：")


def waiting(count: int) -> str:
    return tr(f"{count} 个文件已保存，但模型暂时不能用", f"{count} files are saved, but the model cannot be used now")
