"""A flow.yaml is read, or refused with what is wrong and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from qianxun.core.errors import BadSettings, MissingExtra
from qianxun.doors.workflow.flow import Flow, FlowNode, flow_of, read_flow
from qianxun.doors.workflow.graph_builder import GraphBuilder


def told(**changes: Any) -> dict[str, Any]:
    flow = {
        "name": "试",
        "entry": "甲",
        "finish": "丙",
        "nodes": [{"name": name, "type": "function"} for name in "甲乙丙"],
        "edges": [{"from": "甲", "to": "乙"}, {"from": "乙", "to": "丙"}],
    }
    return {**flow, **changes}


def step(state: dict[str, Any]) -> dict[str, Any]:
    prompt_vars = state.get("prompt_vars", {})
    return {"prompt_vars": {**prompt_vars, "steps": prompt_vars.get("steps", 0) + 1}}


def test_a_flow_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(yaml.safe_dump(told(), allow_unicode=True), "utf-8")
    nodes = tuple(FlowNode(name, name) for name in "甲乙丙")
    assert read_flow(path) == Flow("试", nodes, (("甲", "乙"), ("乙", "丙")), "甲", ("丙",))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "键值对"),
        ([], "键值对"),
        (told(nodes={}), "nodes应为列表"),
        (told(nodes=[]), "没有节点"),
        (told(nodes=["甲"]), "键值对"),
        (told(edges="甲"), "edges应为列表"),
        (told(stages=[]), "不认识的键 'stages'"),
        (told(nodes=[{"name": "甲", "type": "function", "prompt": "x"}]), "不认识的键 'prompt'"),
        (told(nodes=[{"type": "function"}]), "名字 None"),
        (told(nodes=[{"name": "END", "type": "function"}]), "'END' 不能用"),
        (told(nodes=[{"name": "甲", "type": "agent"}]), "类型 'agent' 不认识.*function"),
        (told(nodes=[{"name": "甲"}]), "类型 None"),
        (told(nodes=[{"name": "甲", "type": "function"}] * 2), "两个节点都叫 甲"),
        (told(edges=[{"from": "甲"}]), "不完整"),
        (told(edges=[{"from": "甲", "to": "丁"}]), "'丁' 不存在.*甲、乙、丙"),
        (told(edges=[{"from": "丁", "to": "甲"}]), "'丁' 不存在"),
        (told(entry="丁"), "entry 提到的节点 '丁' 不存在"),
        (told(entry=None), "entry 提到的节点 '' 不存在"),
        (told(finish="丁"), "finish 提到的节点 '丁' 不存在"),
        (told(finish=None), "在哪里结束"),
        (told(edges=[{"from": "甲", "to": "乙"}]), "走不到节点 丙"),
        (told(finish="乙"), "走到 丙 就没有下一步"),
        (told(edges=[*told()["edges"], {"from": "丙", "to": "乙"}]), "圈：乙 → 丙 → 乙"),
        (told(edges=[*told()["edges"], {"from": "乙", "to": "乙"}]), "圈：乙 → 乙"),
        (told(edges=[*told()["edges"], {"from": "丙", "to": "甲"}]), "圈：甲 → 乙 → 丙 → 甲"),
    ],
)
def test_what_could_not_run_to_its_end_is_refused(content: Any, said: str) -> None:
    with pytest.raises(BadSettings, match=said) as refused:
        flow_of(content)
    assert refused.value.hint


def test_a_file_that_is_missing_or_no_yaml_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="读不了流程文件"):
        read_flow(tmp_path / "nowhere.yaml")
    for content in (b"nodes: [", b"\xff\xfe\xff"):
        (tmp_path / "flow.yaml").write_bytes(content)
        with pytest.raises(BadSettings, match=r"flow\.yaml"):
            read_flow(tmp_path / "flow.yaml")
    (tmp_path / "flow.yaml").write_text("!!python/object/apply:os.getcwd []", "utf-8")
    with pytest.raises(BadSettings, match="YAML"):
        read_flow(tmp_path / "flow.yaml")


def test_functions_are_those_registered_under_the_nodes_name_or_another() -> None:
    nodes = [{"name": "甲", "type": "function", "function": "step"}]
    flow = flow_of(told(nodes=nodes, edges=[], finish="甲"))
    with pytest.raises(BadSettings, match=r"step 没有登记.*retrieval_node"):
        GraphBuilder().build(flow)
    with pytest.raises(BadSettings, match="不是函数"):
        GraphBuilder({"step": "os.system"})  # type: ignore[dict-item]
    graph = GraphBuilder().register("step", step).build(flow).compile()
    assert graph.invoke({}) == {"prompt_vars": {"steps": 1}}


def test_a_flow_may_part_and_end_in_several_places() -> None:
    def quiet(_: Any) -> None:
        return None

    edges = [{"from": "甲", "to": "乙"}, {"from": "甲", "to": "丙"}]
    flow = flow_of(told(edges=edges, finish=["乙", "丙"]))
    graph = GraphBuilder({"甲": step, "乙": step, "丙": quiet}).build(flow).compile()
    assert graph.invoke({}) == {"prompt_vars": {"steps": 2}}


def test_without_langgraph_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.graph", None)
    flow = flow_of(told(nodes=[{"name": "甲", "type": "function"}], edges=[], finish="甲"))
    with pytest.raises(MissingExtra, match=r"qianxun\[langgraph\]"):
        GraphBuilder({"甲": step}).build(flow)
