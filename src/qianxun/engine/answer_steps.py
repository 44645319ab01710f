"""The steps of an answer, for callers who take them one by one over what `Engine.answering` gives: workflows."""

from __future__ import annotations

from qianxun.answer import run as steps
from qianxun.answer.state import Answering, AnswerState

__all__ = ["AnswerState", "Answering", "steps"]
