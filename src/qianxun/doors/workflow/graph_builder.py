"""From a flow to a LangGraph. The only importer of LangGraph, when a graph is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from qianxun.core.errors import BadSettings, MissingExtra
from qianxun.doors.workflow.flow import Flow, read_flow
from qianxun.doors.workflow.nodes.retrieval_node import retrieval_node

if TYPE_CHECKING:
    from langgraph.graph import StateGraph


class FlowState(TypedDict, total=False):
    """What travels through a flow."""

    prompt_vars: dict[str, Any]
    history_messages: list[Any]


class GraphBuilder:
    """Registers functions by name, and builds the graphs that name them. ``retrieval_node`` is there already.

        graph = GraphBuilder({"query_understanding": understand}).build("flow.yaml").compile()

    ``state`` is the schema of the graph's state; a flow that carries more than `FlowState` brings its own.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]] | None = None, *, state: type = FlowState) -> None:
        self.state = state
        self._functions: dict[str, Callable[..., Any]] = {"retrieval_node": retrieval_node}
        for name, function in (functions or {}).items():
            self.register(name, function)

    def register(self, name: str, function: Callable[..., Any]) -> GraphBuilder:
        """Later ones take the place of earlier ones: ``register("retrieval_node", make_retrieval_node(engine))``."""
        if not callable(function):
            raise BadSettings(f"登记为 {name} 的不是函数：{function!r}", hint="登记一个接收 state 的函数")
        self._functions[name] = function
        return self

    def build(self, flow: Flow | str | Path) -> StateGraph[Any, Any, Any, Any]:
        """Raises BadSettings for a flow that cannot run, MissingExtra without LangGraph."""
        flow = flow if isinstance(flow, Flow) else read_flow(flow)
        functions = {node.name: self._function(node.function, flow) for node in flow.nodes}
        try:
            from langgraph.graph import END, START, StateGraph
        except ModuleNotFoundError as error:
            raise MissingExtra("langgraph", "langgraph") from error
        graph: StateGraph[Any, Any, Any, Any] = StateGraph(self.state)
        for name, function in functions.items():
            graph.add_node(name, function)
        graph.add_edge(START, flow.entry)
        for start, to in flow.edges:
            graph.add_edge(start, to)
        for name in flow.finish:
            graph.add_edge(name, END)
        return graph

    def _function(self, name: str, flow: Flow) -> Callable[..., Any]:
        if name not in self._functions:
            known = "、".join(sorted(self._functions))
            raise BadSettings(f"流程 {flow.name} 要用的函数 {name} 没有登记", hint=f"先 register；已登记：{known}")
        return self._functions[name]
