"""The fit by which an hour of steady work is judged finds growth, and nothing where columns merely come and go."""

from __future__ import annotations

import math
import random

import pytest

from tests.torture.soak import MOST_MEGABYTES_AN_HOUR, WARMING_CALLS, Soak, warming

MINUTES = 60


def _soak(growth: float, calls_a_second: float = 40.0) -> Soak:
    """Caches that are full after some minutes, columns that are rewritten now and then, and megabytes an hour."""
    chance = random.Random(1)
    samples = []
    for at in range(180, 60 * MINUTES, 185):
        filled = 40 * (1 - math.exp(-at / 100))
        dead = 2.0 if chance.random() < 0.15 else 0.0  # rows of columns that wait to be rewritten
        memory = 240 + filled + dead + chance.uniform(-0.2, 0.2) + growth * at / 3600
        samples.append((float(at), memory, int(at * calls_a_second)))
    return Soak(samples, samples[-1][2], ())


@pytest.mark.parametrize("growth", [0.0, 3.0, 20.0])
def test_the_growth_of_an_hour_is_found(growth: float) -> None:
    found = _soak(growth)
    assert found.an_hour(warming(MINUTES)) == pytest.approx(growth, abs=0.6)
    assert (found.an_hour(warming(MINUTES)) <= MOST_MEGABYTES_AN_HOUR) == (growth <= MOST_MEGABYTES_AN_HOUR)
    assert found.ten_thousand_calls(warming(MINUTES)) == pytest.approx(growth / 14.4, abs=0.1)


def test_a_machine_that_is_too_busy_shows_nothing() -> None:
    assert math.isnan(_soak(0.0, calls_a_second=WARMING_CALLS / 3600).an_hour(warming(MINUTES)))
