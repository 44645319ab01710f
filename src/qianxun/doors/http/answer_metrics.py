"""What is noted of an answer, by whichever door it was asked for: in the metrics and in the log line of its request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fastapi import Request

from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed, Token
from qianxun.core.errors import QianxunError
from qianxun.doors.http.concurrency import ClientDisconnected
from qianxun.doors.http.middleware.metrics import AnswerTime
from qianxun.doors.http.responses import status_of


@dataclass
class AnswerRecorder:
    """Of one answer on its way out. No text of anybody: words from closed sets, and times."""

    request: Request
    mode: str  # that was asked for
    started: float = field(default_factory=time.perf_counter)
    first_word: float | None = None  # seconds until it

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes what ends before anything of the answer is told; a request that was wrong is no answer that failed."""
        try:
            yield
        except ClientDisconnected:
            self.left()
            raise
        except QianxunError as error:
            if status_of(error) >= 500:
                self.failed()
            raise

    def came(self, event: AnswerEvent) -> None:
        match event:
            case Token() if self.first_word is None:
                self.first_word = time.perf_counter() - self.started
            case Done(answer):
                self.given(answer)
            case Failed(answer=answer):
                self._note(answer, "failed")

    def given(self, answer: Answer) -> None:
        self._note(answer, "partial" if answer.is_partial else "done")

    def failed(self) -> None:
        self._note(None, "failed")

    def left(self) -> None:
        """Nobody listens any more."""
        self._note(None, "left")

    def _note(self, answer: Answer | None, outcome: str) -> None:
        asked: Callable[[AnswerTime], None] = self.request.app.state.asked
        asked(AnswerTime(self.mode, outcome, time.perf_counter() - self.started, answer, self.first_word))
        about: dict[str, object] = {"mode": answer.mode if answer else self.mode, "outcome": outcome}
        if answer is not None:
            about |= {"form": answer.form, "sources": len(answer.sources)}
        if self.first_word is not None:
            about["first_word_ms"] = round(self.first_word * 1e3, 2)
        self.request.state.about = about
