"""Questions that need what a first search found, without a model and with one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.answer_types import Answer
from qianxun.core.types import Document, Message
from tests.answer.asked import Opened

DOCUMENTS = [
    Document("projects", "青鹭项目的负责人是沈砚秋，计划九月验收。\n\n白泽项目的合作单位是南湖大学。", name="项目.md"),
    Document("people", "沈砚秋的导师是顾以宁，分机 6103。\n\n顾以宁的办公室在三号楼 402。", name="人员.md"),
    Document("travel", "差旅申请由裴子安审批。\n\n裴子安的办公室在二号楼 306。", name="差旅.md"),
    Document(
        "contracts", "甲合同的总价为 48 万元。\n\n乙合同的总价为 73 万元。\n\n丙合同的总价为 29 万元。", name="合同.md"
    ),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("steps"), DOCUMENTS) as opened:
        yield opened


def asked(shelf: Opened, question: str) -> Answer:
    return shelf.run(shelf.engine.ask(shelf.kb, question))


def planned(answer: Answer) -> list[dict[str, Any]]:
    return [step for one in answer.trace if one.node == "plan_steps" for step in one.said["steps"]]


def test_two_steps_over_prose_are_answered_each_with_its_source(shelf: Opened) -> None:
    answer = asked(shelf, "青鹭项目的负责人的分机是多少")
    assert "6103" in answer.answer
    assert {source.doc_id for source in answer.sources} == {"projects", "people"}
    assert [step["question"] for step in planned(answer)] == ["青鹭项目的负责人是谁", "沈砚秋的分机是多少"]
    assert all(set(one.numbers) <= {source.number for source in answer.sources} for one in answer.citations)


def test_three_steps_go_on_from_what_the_second_found(shelf: Opened) -> None:
    answer = asked(shelf, "青鹭项目的负责人的导师的办公室在哪里")
    assert "402" in answer.answer
    assert [step["answer"] for step in planned(answer)][:2] == ["沈砚秋", "顾以宁"]


def test_who_does_it_is_asked_first(shelf: Opened) -> None:
    assert "306" in asked(shelf, "审批差旅申请的人的办公室在哪里").answer


def test_half_an_answer_is_none(shelf: Opened) -> None:
    """The sentence that names the leader has most of the question's words, and does not answer it."""
    answer = asked(shelf, "青鹭项目的负责人的妻子是谁")
    assert not answer.is_sure
    assert "沈砚秋的妻子是谁" in answer.answer
    assert answer.sources


def test_three_documents_are_compared_by_their_figures(shelf: Opened) -> None:
    answer = asked(shelf, "甲合同、乙合同、丙合同哪个的总价最高")
    assert "乙合同" in answer.answer.splitlines()[-1]
    assert len(planned(answer)) in (0, 3)


def test_a_question_that_is_one_is_not_planned(shelf: Opened) -> None:
    assert planned(asked(shelf, "沈砚秋的分机是多少")) == []


@dataclass
class Planner:
    """A language model that plans, and writes what its last prompt has a figure for."""

    name: str = "planner"
    prompts: list[str] = field(default_factory=list)

    def complete(self, messages: Sequence[Message]) -> str:
        prompt = "\n".join(message.content for message in messages)
        if "拆成几步" in prompt:
            steps = ["青鹭项目的负责人是谁", "#1的分机是多少"]
            return f"```json\n{json.dumps({'steps': steps}, ensure_ascii=False)}\n```"
        if "评估检索结果" in prompt:
            return '{"relevant": [], "enough": false, "missing": "分机"}'
        if "分析用户的问题" in prompt:
            return json.dumps({"question": QUESTION, "kind": "multi_hop", "entities": [], "strategy": "mix"})
        if "改写查询" in prompt:
            return json.dumps({"query": f"青鹭项目 分机 {len(prompt)}"})
        self.prompts.append(prompt)
        return "沈砚秋的分机是 6103[1]。"


QUESTION = "要联系带青鹭项目的那位，分机拨几，对比一下"


def test_a_model_plans_what_rules_do_not_read(tmp_path: Path) -> None:
    """Its plan is read by the one reader of a model's JSON; the writer gets the evidence of every step."""
    model = Planner()
    with Opened(tmp_path, DOCUMENTS, model, config={"chat_model": model.name}) as shelf:
        answer = asked(shelf, QUESTION)
    steps = [one for one in answer.trace if one.node == "plan_steps"]
    assert [one.form for one in steps] == ["model:planner"]
    assert [step["question"] for step in planned(answer)] == ["青鹭项目的负责人是谁", "沈砚秋的分机是多少"]
    assert "6103" in model.prompts[-1]
