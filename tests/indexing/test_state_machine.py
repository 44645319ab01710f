"""A sample of the interleavings; ``python -m tests.torture --interleavings 10000`` runs them in earnest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from qianxun.records import document_heads, documents
from tests.indexing.interleavings import Interleavings
from tests.sampling import share

SAMPLE = settings(
    max_examples=share(6, 4),
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interleavings, "place", tmp_path)


def test_interleaved_writes_and_searches_equal_a_plain_dictionary() -> None:
    before = Interleavings.steps
    run_state_machine_as_test(Interleavings, settings=SAMPLE)
    assert Interleavings.steps - before > 80


def test_the_machine_catches_a_delete_that_is_undone_by_a_late_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the check of generations the machine must find the difference.

    By its own rules in a given order: whether a few random examples come to a late event is a matter of chance.
    """
    honest = documents._outcome

    def forgetful(submission: object, head: document_heads.Head, retry: bool) -> object:
        outcome, generation = honest(submission, head, retry)  # type: ignore[arg-type]
        return ("updated", head.generation + 1) if outcome == "stale" else (outcome, generation)

    with deleted_before_it_was_created() as machine:
        machine.deliver(which=0, named=True)
        machine.verify()
    monkeypatch.setattr(documents, "_outcome", forgetful)
    with deleted_before_it_was_created() as machine, pytest.raises(AssertionError):
        machine.deliver(which=0, named=True)


@contextmanager
def deleted_before_it_was_created() -> Iterator[Interleavings]:
    """A machine that has handled the second of its two events."""
    told = {"user_id": "张三", "project_id": "p1", "content_type": "note", "tags": (), "metadata": {"年份": 2024}}
    machine = Interleavings()
    try:
        machine.create_base()
        machine.send(doc_id="甲", told=told, poison="", kind="created")
        machine.send(doc_id="甲", told=told, poison="", kind="deleted")
        machine.deliver(which=1, named=True)
        yield machine
    finally:
        machine.teardown()
