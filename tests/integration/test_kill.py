"""A sample of kill -9 with the records on a server: what a killed process acknowledged is there, the next goes on.

The server lets go of a killed process's lock by itself; `tests.torture` runs the same against SQLite, and in earnest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.rounds import torture


@pytest.mark.parametrize("server", ["postgres", pytest.param("mysql", marks=pytest.mark.long)])
def test_a_killed_writer_loses_nothing_and_blocks_nobody(
    tmp_path: Path, request: pytest.FixtureRequest, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIANXUN_RECORDS_URL", request.getfixturevalue(f"migrated_{server}_url"))
    tally = torture(tmp_path, 3, seed=11)
    assert tally.rounds == 3
    assert tally.acknowledged > 0
    assert not (tmp_path / "qianxun.db").exists()
