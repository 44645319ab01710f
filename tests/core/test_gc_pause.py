"""The collector is back when the last bulk step ends, off where the program wants it off, and as it was after a
service."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from qianxun.core.system.gc_pause import (
    MANY,
    SERVICE_THRESHOLD,
    bulk_step,
    collection_of_a_service,
    paused_collection,
)


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """One that has nothing frozen, as the process of the tests has."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    gc.enable()
    if was_frozen:
        gc.freeze()


def test_the_collector_rests_until_the_last_step_ends() -> None:
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_step_that_fails_gives_the_collector_back() -> None:
    with pytest.raises(ValueError, match="坏"), paused_collection():
        raise ValueError("坏")
    assert gc.isenabled()


def test_a_program_without_a_collector_keeps_it_so() -> None:
    gc.disable()
    with paused_collection(), paused_collection():
        pass
    assert not gc.isenabled()


def test_a_service_leaves_out_what_it_has_loaded_and_collects_the_rest() -> None:
    threshold, loaded = gc.get_threshold(), [[number] for number in range(1000)]
    with collection_of_a_service():
        assert not {id(one) for one in loaded} & {id(one) for one in gc.get_objects()}
        assert gc.get_threshold() == (SERVICE_THRESHOLD, *threshold[1:])
        cycle: list[object] = []
        cycle.append(cycle)
        del cycle
        assert gc.collect() >= 1
    assert gc.get_threshold() == threshold


def test_what_a_bulk_step_made_is_not_looked_at_again() -> None:
    gc.collect()
    with bulk_step():
        made = [[number] for number in range(MANY + 1)]
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation)}
    assert not young & {id(one) for one in made}
    assert not gc.get_freeze_count()


def test_what_a_bulk_step_left_in_circles_goes_with_the_next_full_collection() -> None:
    with bulk_step():
        made: list[list[object]] = [[number] for number in range(MANY + 1)]
        for one in made:
            one.append(one)
        del made, one
    assert gc.collect() > MANY


def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.freeze()  # as a service does
    try:
        frozen = gc.get_freeze_count()
        with bulk_step():
            made = [[number] for number in range(MANY + 1)]
        assert gc.get_freeze_count() == frozen
        assert len(made) > MANY
    finally:
        gc.unfreeze()
