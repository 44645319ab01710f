"""What the pipelines promise, they promise on servers too: the same tests once more, with the records on PostgreSQL or
MySQL, and those in which searches and writes meet an index with that on PostgreSQL as well.

They open their engines with the settings of the environment, which here names the database.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import test_tenants
from tests.graph import test_base_summaries as test_graph_summaries
from tests.graph import test_curate as test_graph_keeper
from tests.graph import test_llm_build as test_graph_reading
from tests.indexing import test_events
from tests.indexing import test_maintenance as test_upkeep

CHOSEN: tuple[Callable[..., None], ...] = (
    test_events.test_a_document_is_created_updated_and_deleted_by_events,
    test_events.test_an_event_that_comes_twice_is_handled_once,
    test_events.test_a_delete_wins_over_the_indexing_it_overtook,
    test_events.test_a_newer_version_wins_over_the_indexing_it_overtook,
    test_events.test_a_search_finds_one_version_or_the_other_at_every_moment_of_a_replacement,
    test_events.test_the_indexer_in_the_background_retries_by_itself,
    test_events.test_an_event_that_cannot_be_stored_is_raised_and_can_be_sent_again,
    test_graph_keeper.test_merge_then_split_is_as_if_nothing_had_been,
    test_graph_reading.test_texts_that_did_not_change_and_twins_are_not_asked_about,
    test_graph_summaries.test_a_model_writes_of_each_community_once_and_of_changed_ones_again,
    test_tenants.test_another_tenants_base_is_not_there_on_any_way,
    test_tenants.test_names_are_a_tenants_own,
    test_tenants.test_bases_are_listed_a_page_at_a_time,
    test_tenants.test_logs_and_what_people_think_of_an_answer_are_a_tenants_own,
    test_tenants.test_without_that_door_a_stranger_would_see_everything,
    test_tenants.test_the_same_name_of_the_same_user_is_the_same_document,
    test_upkeep.test_searches_go_on_without_an_error_while_the_index_is_rebuilt,
    test_upkeep.test_a_change_of_model_leaves_no_vector_of_the_old_one,
    test_upkeep.test_documents_written_during_a_change_of_model_end_under_the_new_one,
    test_upkeep.test_a_rebuild_that_fails_leaves_everything_as_it_was,
    test_upkeep.test_deletes_during_a_rebuild_are_not_undone_by_it,
    test_upkeep.test_verify_raises_no_false_alarm_under_writes,
)


WITH_INDEX: tuple[Callable[..., None], ...] = (
    test_events.test_a_delete_wins_over_the_indexing_it_overtook,
    test_events.test_a_search_finds_one_version_or_the_other_at_every_moment_of_a_replacement,
    test_tenants.test_another_tenants_base_is_not_there_on_any_way,
    test_upkeep.test_searches_go_on_without_an_error_while_the_index_is_rebuilt,
    test_upkeep.test_a_change_of_model_leaves_no_vector_of_the_old_one,
    test_upkeep.test_documents_written_during_a_change_of_model_end_under_the_new_one,
    test_upkeep.test_deletes_during_a_rebuild_are_not_undone_by_it,
    test_upkeep.test_verify_raises_no_false_alarm_under_writes,
)


ON_MYSQL = (  # in every run; the others in `make torture`
    test_events.test_a_newer_version_wins_over_the_indexing_it_overtook,
    test_tenants.test_another_tenants_base_is_not_there_on_any_way,
    test_upkeep.test_documents_written_during_a_change_of_model_end_under_the_new_one,
)


def name_of(promise: Callable[..., None]) -> str:
    return promise.__name__.removeprefix("test_")


@pytest.mark.parametrize(
    ("promise", "index"),
    [
        # With the index there, too, the records are there already: with an embedded one in `make torture`.
        *(pytest.param(one, "embedded", marks=pytest.mark.long if one in WITH_INDEX else ()) for one in CHOSEN),
        *((one, "postgres") for one in WITH_INDEX),
    ],
    ids=lambda given: given if isinstance(given, str) else name_of(given),
)
def test_on_postgresql(
    promise: Callable[..., None],
    index: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    migrated_postgres_url: str,
) -> None:
    check(promise, migrated_postgres_url, index, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "promise",
    [pytest.param(each, marks=() if each in ON_MYSQL else pytest.mark.long, id=name_of(each)) for each in CHOSEN],
)
def test_on_mysql(
    promise: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migrated_mysql_url: str
) -> None:
    check(promise, migrated_mysql_url, "embedded", tmp_path, monkeypatch)


def check(promise: Callable[..., None], url: str, index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIANXUN_RECORDS_URL", url)
    monkeypatch.setenv("QIANXUN_INDEX_BACKEND", index)
    given: dict[str, Any] = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    promise(**{name: given[name] for name in inspect.signature(promise).parameters})
    assert not list(tmp_path.rglob("qianxun.db")), "it did not work on the server"
