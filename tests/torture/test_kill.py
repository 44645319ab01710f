"""kill -9 in the middle of an ingest, and two faults that the same checker must see (see `rounds`).

A sample: ``python -m tests.torture --rounds 200`` runs it in earnest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.ledger import Violation
from tests.torture.planted import Fault
from tests.torture.rounds import torture


def test_nothing_acknowledged_is_lost_and_nothing_is_half_there(tmp_path: Path) -> None:
    tally = torture(tmp_path / "data", rounds=8, seed=1)
    assert tally.acknowledged > 8
    assert tally.unfinished > 2  # the kills did interrupt something


def test_a_kill_during_rebuild_leaves_the_old_index_or_the_new_one(tmp_path: Path) -> None:
    tally = torture(tmp_path / "data", rounds=4, seed=2, mixture="rebuilding")
    assert tally.acknowledged > 2


@pytest.mark.parametrize("fault", ["torn", pytest.param("early", marks=pytest.mark.long)])
def test_the_checker_catches_a_writer_that_breaks_its_promise(tmp_path: Path, fault: Fault) -> None:
    """Separate transactions for a document, its chunks and its outbox row; an acknowledgement before the commit."""
    with pytest.raises(Violation):
        torture(tmp_path / "data", rounds=30, seed=3, fault=fault)
