"""A sample of the interleavings; ``python -m tests.torture --interleavings 10000`` runs them in earnest."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from qianxun.records import documents
from tests.pipelines.interleavings import Interleavings

SAMPLE = settings(
    max_examples=10,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_interleaved_writes_and_searches_equal_a_plain_dictionary() -> None:
    before = Interleavings.steps
    run_state_machine_as_test(Interleavings, settings=SAMPLE)
    assert Interleavings.steps - before > 200


def test_the_machine_catches_a_delete_that_is_undone_by_a_late_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the check of generations the machine must find the difference."""
    honest = documents._outcome

    def forgetful(submission: object, head: documents.Head) -> object:
        outcome, generation = honest(submission, head)  # type: ignore[arg-type]
        return ("updated", head.generation + 1) if outcome == "stale" else (outcome, generation)

    monkeypatch.setattr(documents, "_outcome", forgetful)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Interleavings, settings=settings(SAMPLE, phases=[Phase.generate]))
