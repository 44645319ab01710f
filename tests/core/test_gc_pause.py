"""The collector is back when the last bulk step ends, and stays off where the program wants it off."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from qianxun.core.system.gc_pause import paused_collection


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.enable()


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
