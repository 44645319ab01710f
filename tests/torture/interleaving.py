"""The state machine of `tests.pipelines`, run for as many steps as asked."""

from __future__ import annotations

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.indexing.interleavings import Interleavings

RUNS_PER_SEED = 10
STEPS_PER_RUN = 50


def interleave(steps: int, first_seed: int) -> tuple[int, int]:
    """Runs until ``steps`` rules were executed; answers (rules, seeds). Raises where engine and model differ."""
    chosen = settings(
        max_examples=RUNS_PER_SEED,
        stateful_step_count=STEPS_PER_RUN,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    Interleavings.steps = 0
    seeds = 0
    while Interleavings.steps < steps:
        machine = seed(first_seed + seeds)(type("Interleavings", (Interleavings,), {"count": _count}))
        run_state_machine_as_test(machine, settings=chosen)
        seeds += 1
    return Interleavings.steps, seeds


def _count(_: Interleavings) -> None:
    Interleavings.steps += 1
