"""Replicas under kill -9 and SIGSTOP, and without fencing (see `replicas`).

A sample: ``python -m tests.torture --replicas 200`` runs it in earnest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.postgres import Server
from tests.torture.replicas import on_postgres, torture_replicas


def test_nothing_acknowledged_is_lost_and_nothing_deleted_comes_back(tmp_path: Path, postgres_server: Server) -> None:
    tally = torture_replicas(tmp_path, on_postgres(postgres_server), rounds=1, seed=6, replicas=2)
    assert tally.broken == []
    assert tally.acknowledged > 2


@pytest.mark.long
def test_without_fencing_the_torture_sees_it(tmp_path: Path, postgres_server: Server) -> None:
    assert torture_replicas(tmp_path, on_postgres(postgres_server), rounds=60, seed=5, unfenced=True).broken
