"""The interleavings of `tests.indexing` on PostgreSQL (records, and index) and MySQL (records), connections dying."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from qianxun.core.errors import RecordsUnavailable
from qianxun.records.database import mysql, postgres
from tests.indexing.interleavings import Interleavings
from tests.integration.emptied import empty, end_sessions
from tests.sampling import share

SAMPLE = settings(
    max_examples=share(4, 2),
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class OnServer(Interleavings):
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


def machine(url: str, index: str = "embedded") -> type[OnServer]:
    arguments = {"records.url": url, "index.backend": index}
    return type("OnServer", (OnServer,), {"url": url, "arguments": arguments, "steps": 0, "ended": 0})


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interleavings, "place", tmp_path)


@pytest.mark.parametrize(
    ("server", "index"), [("postgres", "embedded"), ("postgres", "postgres"), ("mysql", "embedded")]
)
def test_interleaved_writes_and_searches_equal_a_plain_dictionary(
    request: pytest.FixtureRequest, server: str, index: str
) -> None:
    made = machine(request.getfixturevalue(f"migrated_{server}_url"), index)
    run_state_machine_as_test(made, settings=SAMPLE)
    assert made.steps > 30
    assert made.ended > 5, "the machine has to end connections that somebody holds"


@pytest.mark.parametrize("server", [postgres, pytest.param(mysql, marks=pytest.mark.long)], ids=["postgres", "mysql"])
def test_the_machine_catches_a_pool_that_hands_out_dead_connections(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, server: ModuleType
) -> None:
    """The control: without the look at a connection before it is used, searches and writes fail."""
    monkeypatch.setattr(server, "is_quiet", lambda connection: True)
    url = request.getfixturevalue(f"migrated_{server.EXTRA}_url")
    with pytest.raises(RecordsUnavailable):
        run_state_machine_as_test(machine(url), settings=settings(SAMPLE, phases=[Phase.generate]))
