"""A flow as a file: which nodes there are, in which order they follow, where it begins and ends.

    name: medical_agent
    entry: query_understanding
    finish: core_agent
    nodes:
      - {name: query_understanding, type: function}
      - {name: retrieval_node, type: function}
      - {name: core_agent, type: function, function: prompt_assembly}   # registered under another name
    edges:
      - {from: query_understanding, to: retrieval_node}
      - {from: retrieval_node, to: core_agent}

What could not run to its end is refused when it is read, not when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from qianxun.core.errors import BadSettings

NODE_TYPES: Final = ("function",)
_KEYS: Final = ("name", "nodes", "edges", "entry", "finish")
_NODE_KEYS: Final = ("name", "type", "function")
_RESERVED: Final = ("START", "END", "__start__", "__end__")


@dataclass(frozen=True, slots=True)
class FlowNode:
    name: str
    function: str  # the name under which it is registered


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow that begins, goes through all of its nodes, and ends."""

    name: str
    nodes: tuple[FlowNode, ...]
    edges: tuple[tuple[str, str], ...]
    entry: str
    finish: tuple[str, ...]


def read_flow(path: str | Path) -> Flow:
    """Raises BadSettings, saying what is wrong with the file."""
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"读不了流程文件 {path}：{error}", hint="检查路径与编码（须为 UTF-8）") from error
    except yaml.YAMLError as error:
        raise BadSettings(f"流程文件 {path} 不是合法的 YAML：{error}", hint="改正该处后重试") from error
    return flow_of(content, str(path))


def flow_of(content: Any, origin: str = "flow") -> Flow:
    """A flow from what its file says. Raises BadSettings."""
    given = _mapping(content, f"流程 {origin}", _KEYS)
    nodes = tuple(_node(node, origin) for node in _list(given.get("nodes"), f"流程 {origin} 的 nodes"))
    edges = tuple(_edge(edge, origin) for edge in _list(given.get("edges", []), f"流程 {origin} 的 edges"))
    finish = given.get("finish")
    finishing = tuple(finish) if isinstance(finish, list) else (finish,) if finish else ()
    flow = Flow(str(given.get("name") or origin), nodes, edges, str(given.get("entry") or ""), finishing)
    _check_names(flow, origin)
    _check_ways(flow, origin)
    return flow


def _node(content: Any, origin: str) -> FlowNode:
    given = _mapping(content, f"流程 {origin} 的节点", _NODE_KEYS)
    name = given.get("name")
    if not isinstance(name, str) or not name or name in _RESERVED:
        raise BadSettings(f"流程 {origin} 里有节点的名字 {name!r} 不能用", hint="给它一个 name，且不用 START、END")
    kind = given.get("type")
    if kind not in NODE_TYPES:
        raise BadSettings(f"流程 {origin} 的节点 {name} 的类型 {kind!r} 不认识", hint=f"可用：{'、'.join(NODE_TYPES)}")
    return FlowNode(name, str(given.get("function") or name))


def _edge(content: Any, origin: str) -> tuple[str, str]:
    given = _mapping(content, f"流程 {origin} 的边", ("from", "to"))
    if not given.get("from") or not given.get("to"):
        raise BadSettings(f"流程 {origin} 的边 {dict(given)} 不完整", hint="写成 {from: 节点, to: 节点}")
    return str(given["from"]), str(given["to"])


def _check_names(flow: Flow, origin: str) -> None:
    names = [node.name for node in flow.nodes]
    if not names:
        raise BadSettings(f"流程 {origin} 没有节点", hint="在 nodes 下至少写一个")
    for name in names:
        if names.count(name) > 1:
            raise BadSettings(f"流程 {origin} 有两个节点都叫 {name}", hint="改掉其中一个")
    used = {"entry": [flow.entry], "finish": flow.finish, "edges": [name for edge in flow.edges for name in edge]}
    for place, mentioned in used.items():
        for name in mentioned:
            if name not in names:
                raise BadSettings(
                    f"流程 {origin} 的 {place} 提到的节点 {name!r} 不存在", hint=f"已有：{'、'.join(names)}"
                )
    if not flow.finish:
        raise BadSettings(f"流程 {origin} 没有写在哪里结束", hint="写 finish: 节点名")


def _check_ways(flow: Flow, origin: str) -> None:
    """Every node is come to and left, and none is come to twice on one way: such a way would never end."""
    after = {node.name: [to for start, to in flow.edges if start == node.name] for node in flow.nodes}
    circle = _circle(after)
    if circle:
        raise BadSettings(f"流程 {origin} 走进了出不来的圈：{' → '.join(circle)}", hint="去掉其中一条边")
    reached = _reached(after, flow.entry)
    for name in after:
        if name not in reached:
            raise BadSettings(f"流程 {origin} 从 {flow.entry} 走不到节点 {name}", hint="补一条边，或去掉这个节点")
    for name, following in after.items():
        if not following and name not in flow.finish:
            raise BadSettings(f"流程 {origin} 走到 {name} 就没有下一步了", hint=f"补一条边，或把 {name} 写进 finish")


def _reached(after: Mapping[str, Sequence[str]], start: str) -> set[str]:
    reached, waiting = set[str](), [start]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(after[name])
    return reached


def _circle(after: Mapping[str, Sequence[str]]) -> list[str]:
    """A way that comes back to where it began; empty where there is none."""
    done: set[str] = set()

    def found(name: str, trail: tuple[str, ...]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        for following in after[name]:
            if circle := found(following, (*trail, name)):
                return circle
        done.add(name)
        return []

    return next((circle for name in after if (circle := found(name, ()))), [])


def _mapping(content: Any, what: str, keys: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise BadSettings(f"{what}应为键值对，而不是 {content!r}", hint=f"可用的键：{'、'.join(keys)}")
    for key in content:
        if key not in keys:
            raise BadSettings(f"{what}里有不认识的键 {key!r}", hint=f"可用的键：{'、'.join(keys)}")
    return content


def _list(content: Any, what: str) -> Sequence[Any]:
    if not isinstance(content, list):
        raise BadSettings(f"{what}应为列表", hint="每行以“- ”开头")
    return content
