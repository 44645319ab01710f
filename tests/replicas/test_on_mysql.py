"""Several replicas over records on MySQL, with the index on PostgreSQL or Milvus: the promises of `test_together` and
`test_lease` once more."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qianxun.engine.settings import Settings
from qianxun.records import Records
from tests.replicas import engines, test_lease, test_together
from tests.servers.milvus import LightServer

CHOSEN: tuple[Callable[..., None], ...] = (
    test_together.test_writers_on_all_replicas_at_once_lose_nothing,
    test_lease.test_a_consumer_that_was_stopped_cannot_write_after_another_took_over,
)
LONG: tuple[Callable[..., None], ...] = (
    test_together.test_what_one_has_written_every_one_finds_and_what_one_has_deleted_none_does,
    test_together.test_settings_are_followed_and_a_dictionary_reaches_the_index_of_all,
    test_together.test_a_base_that_one_deletes_is_gone_for_all,
    test_lease.test_without_fencing_the_same_is_a_write_by_a_lapsed_lease,
    test_lease.test_an_index_that_a_lapsed_process_has_built_takes_no_ones_place,
    test_lease.test_two_replicas_do_not_prepare_the_same_document,
)


@pytest.mark.parametrize(
    "promise",
    [*CHOSEN, *(pytest.param(promise, marks=pytest.mark.long) for promise in LONG)],
    ids=lambda given: given.__name__.removeprefix("test_"),
)
def test_it_holds(
    promise: Callable[..., None],
    tmp_path: Path,
    postgres_url: str,
    migrated_mysql_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = engines.settings

    def on_mysql(folder: Path, url: str, **chosen: object) -> Settings:
        return usual(folder, migrated_mysql_url, **{"index.url": url, **chosen})

    monkeypatch.setattr(engines, "settings", on_mysql)
    given: dict[str, Any] = {"tmp_path": tmp_path, "monkeypatch": monkeypatch, "postgres_url": postgres_url}
    promise(**{name: given[name] for name in inspect.signature(promise).parameters})
    assert has_leases(migrated_mysql_url), "it did not work on MySQL"


@pytest.mark.parametrize(
    "promise",
    [
        test_together.test_what_one_has_written_every_one_finds_and_what_one_has_deleted_none_does,
        pytest.param(test_together.test_writers_on_all_replicas_at_once_lose_nothing, marks=pytest.mark.long),
    ],
    ids=lambda given: given.__name__.removeprefix("test_"),
)
def test_it_holds_with_the_index_in_milvus(
    promise: Callable[..., None],
    tmp_path: Path,
    milvus: LightServer,
    migrated_mysql_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = engines.settings
    there = {"index.backend": "milvus", "milvus.host": milvus.host, "milvus.port": milvus.port}
    monkeypatch.setattr(engines, "settings", lambda folder, url, **chosen: usual(folder, url, **there, **chosen))
    promise(tmp_path=tmp_path, postgres_url=migrated_mysql_url)
    assert has_leases(migrated_mysql_url), "it did not work on MySQL"


def has_leases(url: str) -> bool:
    records = Records.open(url)
    with records.reading() as tx:
        count = tx.exec_driver_sql("SELECT count(*) FROM leases").scalar_one()
    records.close()
    return bool(count)
