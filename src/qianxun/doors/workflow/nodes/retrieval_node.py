"""Node 2 of the flow: finds examples for what node 1 understood, and hands them to node 3.

    graph.add_node("retrieval_node", retrieval_node)                      # the library of the settings
    graph.add_node("retrieval_node", make_retrieval_node(engine))         # an engine's, or an `ExampleLibrary`

It needs no LangGraph itself: the state may be any mapping.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

from qianxun.core.errors import RetrieverUnavailable
from qianxun.engine.engine import Engine
from qianxun.engine.example_library import ExampleLibrary, Lane, RetrievedExample, default_library, example_library

log = logging.getLogger(__name__)

SECONDS: Final = 30.0  # after which the flow goes on without examples; the first search also loads the model
AT_ONCE: Final = 16
_HUMAN: Final = ("human", "user", "HumanMessageChunk")

Search = Callable[[str, Sequence[str]], list[RetrievedExample]]


class RetrievalNode(Protocol):
    """Called by itself it gives the whole new state; in a graph, which brings its ``runtime``, the change alone.

    There the whole state would be merged into itself: a history that grows by addition would double.
    """

    def __call__(self, state: Any, *, runtime: Any = None) -> dict[str, Any]: ...


def retrieval_node(state: Any, *, runtime: Any = None) -> dict[str, Any]:
    """Writes ``prompt_vars["retrieved_examples"]``, nothing else; what fails leaves it empty and is in the log.

    Reads ``prompt_vars["query_text"]``, or the last of ``history_messages`` where that is a human's, and
    ``prompt_vars["keywords"]``. The given state is not changed.
    """
    return _updated(state, runtime is not None, _default_search())


def make_retrieval_node(source: Engine | ExampleLibrary, *, seconds: float = SECONDS) -> RetrievalNode:
    """`retrieval_node` over the library of an engine, or one opened by the caller, who also closes it."""
    library = source if isinstance(source, ExampleLibrary) else example_library(source.examples, source.settings)
    search = _InTime(lambda: library, seconds)

    def retrieval_node(state: Any, *, runtime: Any = None) -> dict[str, Any]:
        return _updated(state, runtime is not None, search)

    retrieval_node.__doc__ = globals()["retrieval_node"].__doc__
    return retrieval_node


@cache
def _default_search() -> Search:
    return _InTime(default_library, SECONDS)


@dataclass(frozen=True)
class _InTime:
    """A search that keeps nobody waiting: whatever hangs, the model or the database, hangs in a thread of its own."""

    library: Callable[[], ExampleLibrary]
    seconds: float
    lane: Lane = field(default_factory=lambda: Lane("examples", AT_ONCE))

    def __call__(self, query_text: str, keywords: Sequence[str]) -> list[RetrievedExample]:
        searching = self.lane.submit(lambda: self.library().retrieve(query_text, keywords))
        try:
            found: list[RetrievedExample] = searching.result(self.seconds)
        except TimeoutError as error:
            searching.cancel()
            raise RetrieverUnavailable(f"{self.seconds:g} 秒内没有答复", hint="检查数据库与向量模型") from error
        return found


def _updated(state: Any, is_in_graph: bool, search: Search) -> dict[str, Any]:
    prompt_vars: dict[str, Any] = {}
    examples: list[RetrievedExample] = []
    try:
        prompt_vars = _prompt_vars(state)
        examples = _found(state, prompt_vars, search)
    except Exception as error:  # the outer door: without examples the flow goes on
        log.exception("RAG 检索节点执行失败，retrieved_examples 为空：%s", error)
    change = {"prompt_vars": {**prompt_vars, "retrieved_examples": examples}}
    return change if is_in_graph or not isinstance(state, Mapping) else {**state, **change}


def _found(state: Any, prompt_vars: Mapping[str, Any], search: Search) -> list[RetrievedExample]:
    query_text, keywords = _question(state, prompt_vars), _keywords(prompt_vars)
    if not query_text and not keywords:
        log.warning(
            "RAG 检索节点没有可检索的文字：prompt_vars 里没有 query_text，history_messages 的最后一条也不是用户的话；"
            "retrieved_examples 为空"
        )
        return []
    examples = search(query_text, keywords)
    log.info("检索到 %d 个示例", len(examples))
    return examples


def _part(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _prompt_vars(state: Any) -> dict[str, Any]:
    given = _part(state, "prompt_vars")
    return dict(given) if isinstance(given, Mapping) else {}


def _question(state: Any, prompt_vars: Mapping[str, Any]) -> str:
    query_text = prompt_vars.get("query_text")
    if isinstance(query_text, str) and query_text.strip():
        return query_text
    history = _part(state, "history_messages")
    if isinstance(history, str):
        return history.strip()
    return _human_text(history[-1]).strip() if isinstance(history, Sequence) and history else ""


def _keywords(prompt_vars: Mapping[str, Any]) -> list[str]:
    given = prompt_vars.get("keywords") or []
    listed = [given] if isinstance(given, str) else list(given)
    return [word for word in (str(keyword).strip() for keyword in listed if keyword is not None) if word]


def _human_text(message: Any) -> str:
    """The words of a message in any form that LangGraph takes for a human's; else nothing."""
    if isinstance(message, str):
        return message
    if isinstance(message, Mapping):
        is_human = message.get("role", message.get("type")) in _HUMAN
        return _words(message.get("content") or (message.get("data") or {}).get("content")) if is_human else ""
    if isinstance(message, tuple | list):
        return _words(message[1]) if len(message) == 2 and message[0] in _HUMAN else ""
    return _words(getattr(message, "content", "")) if getattr(message, "type", "") in _HUMAN else ""


def _words(content: Any) -> str:
    """Content may be a list of blocks, of which only some are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    blocks = (
        block if isinstance(block, str) else block.get("text") for block in content if isinstance(block, str | Mapping)
    )
    return " ".join(block for block in blocks if isinstance(block, str))
