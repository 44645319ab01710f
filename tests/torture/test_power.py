"""Power loss by strict POSIX, and a sync left out that the same checker must see (see `power`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.torture.power import lose_power

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace, which records the system calls"),
]


def test_nothing_acknowledged_is_lost_and_no_index_has_to_be_rebuilt(tmp_path: Path) -> None:
    outcome = lose_power(tmp_path, 40, seed=1, operations=5)
    assert (outcome.violations, outcome.rebuilds) == ((), 0)


@pytest.mark.parametrize("ignored", ["qianxun.db-wal", "disk"])
def test_the_checker_sees_a_sync_that_is_left_out(tmp_path: Path, ignored: str) -> None:
    assert lose_power(tmp_path, 12, seed=2, operations=3, ignored=ignored).violations


def test_the_checker_sees_that_the_names_of_the_keyword_index_are_not_durable(tmp_path: Path) -> None:
    assert lose_power(tmp_path, 24, seed=3, operations=4, ignored="keywords").rebuilds
