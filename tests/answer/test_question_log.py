"""Every question asked leaves one row in the log of recalls: how, what was found, whether that answered it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from qianxun.answer.question_log import retrieve_again
from qianxun.core.codec.digests import found_digest
from qianxun.core.codec.options import choices_from
from qianxun.core.log_types import LogEntry
from qianxun.core.option_fields import choices_of
from qianxun.core.options import AskChoices, AskOptions
from qianxun.core.types import Eq
from qianxun.doors.workflow.query_workflow import create_query_workflow
from qianxun.retrieve.recall_cache import replaying
from tests.answer.answers_base import Asking

SYMPTOMS = "糖尿病的主要症状是什么？"
UNKNOWN = "火星基地的站长是谁？"


class Logged(Asking):
    since = 0  # the last row before a test


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    held = Logged(tmp_path_factory.mktemp("asked"))
    yield held
    held.close()


@pytest.fixture
def at(opened: Logged) -> Logged:
    """Asked by nobody yet, as far as the test can tell."""
    opened.since = max((entry.id for entry in rows(opened, every=True)), default=0)
    return opened


def rows(at: Logged, *, every: bool = False, **told: Any) -> list[LogEntry]:
    found: list[LogEntry] = at.run(at.engine.logs.list(limit=1000, **told))
    return found if every else [entry for entry in found if entry.id > at.since]


def test_a_question_leaves_one_row_that_says_how_it_was_answered(at: Logged) -> None:
    mine = Eq("user_id", "张三")
    answer = at.answer(SYMPTOMS, mode="hybrid", top_k=3, where=mine, trace_id="t-1")
    (row,) = rows(at)
    assert (row.query, row.mode, row.tier, row.trace_id, row.zero) == (SYMPTOMS, "ask:hybrid", "", "t-1", False)
    assert (row.params["top_k"], row.params["form"], row.params["answer"]) == (3, "extractive", True)
    assert row.params["where"] == {"op": "eq", "field": "user_id", "value": "张三"}
    assert (row.params["wordings"], row.params["writer"]) == ([SYMPTOMS], "rules")
    assert row.params["cited"] == [source.chunk_id for source in answer.sources]
    assert set(row.params["cited"]) <= {chunk_id for chunk_id, _ in row.results}
    assert 0 < len(row.results) <= 3
    assert row.degraded == answer.degraded
    assert {"retrieve", "generate_answer", "graph"} <= {step.name for step in row.steps}
    assert row.generation
    assert "多饮" not in repr(row), "no word of a document or an answer"


def test_searched_in_other_words_it_is_one_question_and_what_is_not_answered_is_among_the_zero(at: Logged) -> None:
    answer = at.answer("消渴症在火星基地由谁负责治疗？")
    assert answer.is_declined
    (row,) = rows(at, zero=True)
    assert len(row.params["wordings"]) == sum(step.node == "retrieve" for step in answer.trace) > 1
    assert (row.params["form"], len(row.params["cited"]), bool(row.results)) == ("declined", 1, True)


def test_as_it_comes_it_is_the_same_row(at: Logged) -> None:
    at.answer(SYMPTOMS)
    at.events(SYMPTOMS)
    streamed, whole = rows(at)
    assert (streamed.mode, streamed.params, streamed.results) == (whole.mode, whole.params, whole.results)
    assert (streamed.digest, streamed.generation) == (whole.digest, whole.generation)


@pytest.mark.parametrize(
    ("question", "mode", "form"),
    [("你好", "mix", "direct"), (SYMPTOMS, "bypass", "direct"), ("胸片的价格", "mix", "table")],
)
def test_what_needs_no_passages_is_no_failure(at: Logged, question: str, mode: Any, form: str) -> None:
    at.answer(question, mode=mode)
    (row,) = rows(at)
    assert (row.mode, row.params["form"], row.zero) == (f"ask:{mode}", form, False)


def test_the_options_of_a_question_are_logged_as_those_of_a_search_are(at: Logged) -> None:
    chosen: AskChoices = {"mode": "local", "top_k": 4, "where": Eq("user_id", "张三")}
    at.answer(SYMPTOMS, **chosen, history=[{"role": "user", "content": "上一句悄悄话"}])
    (row,) = rows(at)
    assert choices_from(AskOptions, row.params) == {**chosen, "as_of": "", "check": None}
    logged = {name for name, offered in choices_of(AskOptions).items() if offered.is_logged}
    assert row.params.keys() >= logged == choices_of(AskOptions).keys() - {"history", "multimodal_content"}
    assert "悄悄话" not in repr(row)


def test_what_is_gathered_is_told_apart_from_what_is_asked_and_searched(at: Logged) -> None:
    kb = at.kb
    at.run(at.engine.gather(kb, SYMPTOMS, mode="hybrid", top_k=2, doc_ids=("dm", "hbp")))
    at.run(at.engine.gather(kb, SYMPTOMS, mode="bypass"))
    at.run(at.engine.gather(kb, SYMPTOMS, mode="local", where=Eq("user_id", "王五")))
    at.run(at.engine.retrieve(kb, SYMPTOMS))
    modes = [(row.mode, len(row.results), row.zero) for row in rows(at)]
    assert modes[1:] == [("gather:local", 0, True), ("gather:bypass", 0, False), ("gather:hybrid", 2, False)]
    assert modes[0][0] == "hybrid"
    assert rows(at)[-1].params["doc_ids"] == ["dm", "hbp"]


@pytest.mark.parametrize("question", [SYMPTOMS, "糖尿病在火星基地由谁负责治疗？", UNKNOWN, "你好"])
def test_what_was_found_is_found_again_and_that_leaves_no_row(at: Logged, question: str) -> None:
    at.answer(question, top_k=3)
    (row,) = rows(at)

    async def again() -> Any:
        with replaying():
            return await retrieve_again(row, partial(at.engine.gather, at.kb))

    found = at.run(again())
    assert found_digest(found.query, found.mode, found.found) == row.digest
    assert found.generation == row.generation
    assert len(rows(at)) == 1


def test_a_follow_up_is_logged_as_asked_and_found_again_as_understood(at: Logged) -> None:
    at.answer("它怎么治疗？", history=[{"role": "user", "content": SYMPTOMS}])
    (row,) = rows(at)
    assert row.query == "它怎么治疗？"
    assert "糖尿病" in row.params["wordings"][0]
    found = at.run(retrieve_again(row, partial(at.engine.gather, at.kb)))
    assert found_digest(found.query, found.mode, found.found) == row.digest


def test_the_workflow_leaves_the_same_row(at: Logged) -> None:
    at.answer(SYMPTOMS)
    workflow = create_query_workflow(at.engine)
    at.run(workflow.ainvoke({"query": SYMPTOMS, "graph_id": at.kb, "mode": "mix"}))
    walked, asked = rows(at)
    assert (walked.mode, walked.params, walked.results) == (asked.mode, asked.params, asked.results)
    assert (walked.digest, walked.generation) == (asked.digest, asked.generation)


def test_what_came_along_is_counted_and_not_kept(at: Logged, tmp_path: Path) -> None:
    table = {"type": "table", "table_data": "姓名,病房\n赵六,四〇二\n", "table_caption": "病房"}
    at.answer("赵六在哪个病房？", multimodal_content=[table])
    (row,) = rows(at)
    assert (row.params["attached"], row.zero) == (1, False)
    assert "四〇二" not in repr(row)
