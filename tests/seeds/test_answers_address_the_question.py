"""Document 002: an answer is based on the context, and `local` gives precise context. What is said of one thing is not
said of another that is named alike; a question for all members gets all that are stated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.core.answer_types import Answer
from qianxun.core.types import Document
from qianxun.engine.settings import Search
from tests.answer.asked import Opened

TEXTS = {
    "糖尿病": "糖尿病的主要症状是多饮、多尿、多食和体重下降。二甲双胍是治疗2型糖尿病的首选药物。"
    "胰岛素用于治疗1型糖尿病，也用于口服药控制不佳的2型糖尿病。糖尿病足是糖尿病的严重并发症，表现为足部溃疡和感染。",
    "高血压": "高血压患者应限制钠盐。氨氯地平可以治疗高血压。卡托普利也是治疗高血压的常用药。",
    "班车": "公司班车每天早上七点半发车，晚到的请自行前往。",
    "笔记本": "充电时请用原装充电器。笔记本左侧有两个USB接口。笔记本右侧另有一个HDMI接口。",
    "劳动": "劳动合同期满，劳动合同终止。双方可以协商修改合同。解除劳动合同应当提前三十日通知。",
    "血压": "血压应当每天早晚各量一次。血压计放在护士站。",
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    documents = [Document(id=name, content=text, name=f"{name}.txt") for name, text in TEXTS.items()]
    folder = tmp_path_factory.mktemp("addressed")
    with Opened(folder, documents, search=Search(cache_entries=0), model="none") as opened:
        yield opened


def answered(shelf: Opened, question: str, mode: str = "mix") -> Answer:
    return shelf.run(shelf.engine.ask(shelf.kb, question, mode=mode))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["mix", "local"])
def test_what_treats_the_disease_is_no_answer_for_its_complication(shelf: Opened, mode: str) -> None:
    answer = answered(shelf, "糖尿病足怎么治疗", mode)
    assert answer.form == "declined"
    assert "治疗" in answer.reason
    assert "并发症" in answered(shelf, "糖尿病足是什么", mode).answer


@pytest.mark.parametrize(
    ("question", "other"), [("合同法怎么修改", "协商修改合同"), ("血压计多久量一次", "早晚各量一次")]
)
def test_so_it_is_for_laws_and_devices(shelf: Opened, question: str, other: str) -> None:
    assert other not in answered(shelf, question).answer


def test_the_thing_itself_is_answered(shelf: Opened) -> None:
    assert "护士站" in answered(shelf, "血压计放在哪里").answer
    assert "首选药物" in answered(shelf, "治疗糖尿病首选什么药物").answer


@pytest.mark.parametrize(
    ("question", "members"),
    [
        ("治疗糖尿病的药有哪些", ("二甲双胍", "胰岛素")),
        ("治疗高血压的药有哪些", ("氨氯地平", "卡托普利")),
        ("笔记本的接口有哪些", ("USB", "HDMI")),
    ],
)
def test_a_question_for_all_gets_every_member_that_is_stated(
    shelf: Opened, question: str, members: tuple[str, ...]
) -> None:
    answer = answered(shelf, question).answer
    assert all(member in answer for member in members)


def test_local_does_not_fill_up_with_what_is_unrelated(shelf: Opened) -> None:
    found = shelf.run(shelf.engine.gather(shelf.kb, "糖尿病有什么症状", mode="local", top_k=5)).found
    assert [one.chunk.doc_id for one in found] == ["糖尿病"]
    filled = shelf.run(shelf.engine.gather(shelf.kb, "糖尿病有什么症状", mode="hybrid", top_k=5)).found
    assert len(filled) == 5  # as the document's HybridRetriever asserts
