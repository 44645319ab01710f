"""The state of a query as plain JSON, which any checkpointer can keep, and the value that the steps work on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from qianxun.core.answer_types import Answer
from qianxun.core.codec.plain import plain, read
from qianxun.core.conversation import turns_of
from qianxun.core.errors import BadQuery
from qianxun.core.filters import filter_from_log, filter_to_log
from qianxun.core.types import EVERYTHING, Filter
from qianxun.engine.answer_steps import AnswerState, steps

INPUTS: Final = ("mode", "top_k", "where", "multimodal_content")  # for one question; the next has its own
CONVERSATION: Final = ("query", "graph_id", "history", "request")
# What the steps find out, by the fields of `AnswerState`.
KNOWN: Final = (
    "given",
    "given_words",
    "analysis",
    "wording",
    "asked",
    "found",
    "beside",
    "has_new",
    "graph",
    "tie",
    "table",
    "part_tables",
    "lack",
    "grade",
    "draft",
    "trace",
    "degraded",
    "steps",
    "trace_id",
    "generation",
)
RESULT: Final = ("answer", "sources", "citations", "form", "flags", "is_partial", "context", "seconds", "reason")


def new_question(state: Mapping[str, Any]) -> tuple[AnswerState, dict[str, Any]]:
    """A new question, and the options that the steps need. Raises BadQuery."""
    query = state.get("query")
    if not isinstance(query, str):
        raise BadQuery("输入里没有 query", hint='例如 {"query": "糖尿病的主要症状是什么？", "graph_id": "医保"}')
    begins = steps.begun(query, state.get("mode"), state.get("history") or ())
    where = state.get("where") or EVERYTHING
    written = filter_to_log(where) if not isinstance(where, Mapping) else dict(where)
    return begins, {"mode": begins.mode, "top_k": state.get("top_k"), "where": written}


def restored(state: Mapping[str, Any]) -> AnswerState:
    """The value that the steps before left behind."""
    values = {name: state[name] for name in KNOWN if state.get(name) is not None}
    return read(
        AnswerState,
        {"query": state["query"], "mode": state["request"]["mode"], "history": _history(state), **values},
    )


def known(state: AnswerState, before: AnswerState | None = None) -> dict[str, Any]:
    """What a step leaves behind: all that is known, or what was not known ``before``."""
    values = {name: getattr(state, name) for name in KNOWN}
    return {name: plain(value) for name, value in values.items() if before is None or value != getattr(before, name)}


def answered(state: AnswerState, before: AnswerState, answer: Answer) -> dict[str, Any]:
    """What the last step leaves behind: the answer, and the conversation with it."""
    history = [
        *({"role": turn.role, "content": turn.content} for turn in state.history),
        {"role": "user", "content": state.query},
        {"role": "assistant", "content": answer.answer},
    ]
    result = {name: plain(getattr(answer, name)) for name in RESULT}
    return {**known(state, before), **result, "mode": answer.mode, "history": history}


def filter_of(request: Mapping[str, Any]) -> Filter:
    """Raises BadQuery for what never was a filter."""
    try:
        return filter_from_log(request["where"])
    except (KeyError, TypeError) as error:
        raise BadQuery(
            f"where 不是过滤条件：{request['where']!r}", hint="用 qianxun.core.types 的 Eq、In、And 等"
        ) from error


def _history(state: Mapping[str, Any]) -> Any:
    return plain(turns_of(state.get("history") or ()))
