"""The interleavings of `tests.pipelines` on PostgreSQL, records and index, with its connections dying in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from qianxun.core.errors import RecordsUnavailable
from qianxun.records.database import postgres
from tests.indexing.interleavings import Interleavings
from tests.integration.emptied import empty, end_sessions

SAMPLE = settings(
    max_examples=4,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class OnPostgres(Interleavings):
    """A plain dictionary knows nothing of connections: whatever happens to them, the answers stay the same."""

    url = ""
    ended = 0

    def __init__(self) -> None:
        empty(self.url)
        super().__init__()

    @rule()
    def connections_die(self) -> None:
        self.count()
        type(self).ended += end_sessions(self.url)


def machine(url: str, index: str = "embedded") -> type[OnPostgres]:
    arguments = {"records.url": url, "index.backend": index}
    return type("OnPostgres", (OnPostgres,), {"url": url, "arguments": arguments, "steps": 0, "ended": 0})


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interleavings, "place", tmp_path)


@pytest.mark.parametrize("index", ["embedded", "postgres"])
def test_interleaved_writes_and_searches_equal_a_plain_dictionary(migrated_postgres_url: str, index: str) -> None:
    made = machine(migrated_postgres_url, index)
    run_state_machine_as_test(made, settings=SAMPLE)
    assert made.steps > 60
    assert made.ended > 5, "the machine has to end connections that somebody holds"


def test_the_machine_catches_a_pool_that_hands_out_dead_connections(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the look at a connection before it is used, searches and writes fail."""
    monkeypatch.setattr(postgres, "is_quiet", lambda connection: True)
    with pytest.raises(RecordsUnavailable):
        run_state_machine_as_test(machine(migrated_postgres_url), settings=settings(SAMPLE, phases=[Phase.generate]))
