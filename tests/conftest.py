"""The servers that the tests start by themselves.

`postgres_url` is an empty database on a real PostgreSQL with pgvector: a test that asks for it gets one of its own.
The server comes as a wheel (see tests.servers.postgres), one for a whole run however many workers it has, and
nothing of it is left behind. To run against a server that is there already, name a database of it whose user may
create others: `QIANXUN_TEST_POSTGRES_URL=postgresql://user:password@host/postgres make test`.

`mysql_url` is one on a real MariaDB, where the machine has its programs (see tests.servers.mysql), or on the server
of `QIANXUN_TEST_MYSQL_URL`.

`records_url` is a database for records of every kind: a test that asks for it runs on SQLite, PostgreSQL and MySQL.

`postgres_server` and `mysql_server` are servers of the test's own, which it may stop and start again.

`milvus` is a light Milvus for all tests of a worker, `milvus_server` one of the test's own. To run against a real one,
where what they create stays: `QIANXUN_TEST_MILVUS=127.0.0.1:19530 python -m pytest tests/index tests/seeds -k milvus`.

What the tests write lies in memory where the machine lends some (see `lent_memory`).
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from qianxun.records.database.open import open_database, sqlite_url
from tests import lent_memory, preloaded
from tests.compiled_statements import share_compiled_statements
from tests.forked_workers import ForkedWorkers
from tests.hypothesis_settings import load_profile
from tests.integration.emptied import empty
from tests.servers import milvus as light_milvus
from tests.servers import mysql
from tests.servers.milvus import LightServer
from tests.servers.postgres import (
    Server,
    create_database,
    drop_database,
    own_server,
    shared_server,
    unavailable,
)
from tests.shared_parsers import share_parsers

POSTGRES_URL = os.environ.get("QIANXUN_TEST_POSTGRES_URL", "")
MYSQL_URL = os.environ.get("QIANXUN_TEST_MYSQL_URL", "")
MILVUS_ADDRESS = os.environ.get("QIANXUN_TEST_MILVUS", "")
TESTS = Path(__file__).resolve().parent
FORKED = "forked_workers"
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex


COLLECTED_AT = (20_000, 10, 10)  # new objects, young and middle collections: Python's own are 700, 10, 10

# The files that take longest, by the processor time that was measured of each: begun first, so that no worker is left
# alone with one of them at the end.
LONG = (
    "http/console/test_browser.py",
    "http/test_openapi.py",
    "replicas/test_workers.py",
    "ingest/test_sandbox.py",
    "index/test_milvus.py",
    "http/test_canary.py",
    "test_patterns.py",
    "integration/test_same_promises.py",
    "records/test_mysql.py",
    "http/test_tenants.py",
    "index/test_postgres.py",
    "http/test_spans.py",
    "access/test_non_interference.py",
    "integration/test_neo4j.py",
    "torture/test_kill.py",
    "http/console/test_hostile.py",
    "access/test_servers.py",
    "answer/test_table_generated_files.py",
    "indexing/test_maintenance.py",
    "workflow/test_retrieval_node.py",
    "http/console/test_browser_pages.py",
    "index/test_embedded.py",
    "records/test_postgres.py",
    "ingest/test_parse_sweep.py",
    "http/test_documents.py",
    "integration/test_copying.py",
    "cli/test_eval.py",
    "plugins/test_example_package.py",
    "test_demo.py",
    "indexing/test_corrections.py",
    "test_readme.py",
    "client/test_round_trip.py",
    "test_tenants.py",
    "records/test_user_models.py",
    "cli/test_url.py",
    "answer/test_multimodal.py",
    "engine/test_concurrency.py",
    "test_benchmarks.py",
    "engine/test_opening.py",
    "retrieve/test_explain.py",
    "http/test_consistency.py",
    "quality/test_paraphrases.py",
    "ingest/test_parse_images.py",
    "ingest/test_parse_office.py",
    "records/test_browse.py",
    "indexing/test_events.py",
    "http/test_query.py",
    "http/test_outbound.py",
    "cli/test_documents.py",
    "records/test_documents.py",
    "cli/test_processes.py",
    "ingest/test_chunk.py",
    "http/test_serving.py",
    "cli/test_search.py",
    "retrieve/test_score_contract.py",
    "integration/test_kill.py",
    "graph/test_modes.py",
    "torture/test_replicas.py",
    "test_package.py",
)


def pytest_cmdline_main(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and sys.platform == "linux":  # elsewhere libraries may not bear a fork
        config.pluginmanager.register(ForkedWorkers(len(config.option.tx), share_parsers), FORKED)
        config.option.tx, config.option.dist = [], "no"
    if config.option.basetemp is None and lent_memory.is_there():  # a worker is given a folder in that of the run
        until_the_end = ExitStack()
        config.option.basetemp = str(until_the_end.enter_context(lent_memory.lent_folder()))
        config.add_cleanup(until_the_end.close)


@pytest.hookimpl(trylast=True)  # after hypothesis has read its options
def pytest_configure(config: pytest.Config) -> None:
    share_compiled_statements()
    if config.pluginmanager.has_plugin(FORKED):
        preloaded.start()  # one for all workers; without workers the first test that wants it starts it
    else:
        share_parsers()
    load_profile()  # before any test is read: a test takes over the defaults of that moment
    # A shell starts background jobs with SIGINT ignored, and ignored signals are inherited: children that a test
    # interrupts would never notice. A handler of ours becomes the default action again in whatever we start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# On MySQL in `make torture` alone: what they find there their neighbours find, too.
LONG_ON_MYSQL = (
    "test_hostile_texts_come_back_as_they_were",
    "test_every_write_raises_the_generation_whether_or_not_the_index_follows",
)


def _rank(item: pytest.Item) -> int:
    """Where its file comes among the long ones; behind them where it is not one."""
    path = item.path.relative_to(TESTS).as_posix()
    return LONG.index(path) if path in LONG else len(LONG)


@pytest.hookimpl(tryfirst=True)  # before those that are marked as long are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name.startswith(tuple(f"{name}[mysql" for name in LONG_ON_MYSQL)):
            item.add_marker(pytest.mark.long)
    items.sort(key=_rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is read stays until the end: the collector looks through it once, neither while it grows nor whenever it
    runs later. A third of the time that reading takes, and an eighth of the tests'. Later it runs a thirtieth as often
    as by default, where it took another eighth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECTED_AT)
        gc.enable()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Gone with the test where it lies in memory: there is less of that."""
    yield tmp_path
    if tmp_path.is_relative_to(lent_memory.LENT):
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture(autouse=True)
def _heard_log() -> None:
    """A command that was run in this process has silenced the log, as it does for whoever runs it."""
    for name, level in (("qianxun", logging.NOTSET), (None, logging.WARNING)):
        if logging.getLogger(name).level != level:  # to set it is to go through all loggers there are, a thousand
            logging.getLogger(name).setLevel(level)


@pytest.fixture(scope="session")
def server_place(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Where servers keep their folders, the same for all workers of a run; None: where the system has such."""
    return lent_memory.LENT if tmp_path_factory.getbasetemp().is_relative_to(lent_memory.LENT) else None


@pytest.fixture(scope="session")
def postgres_maintenance_url(server_place: Path | None) -> Iterator[str]:
    """The database from which others are created; a test wants `postgres_url`."""
    if POSTGRES_URL:
        yield POSTGRES_URL
        return
    if reason := unavailable():
        pytest.skip(reason)
    with shared_server(RUN, server_place) as server:
        yield server.url


@pytest.fixture
def postgres_url(postgres_maintenance_url: str) -> Iterator[str]:
    url = create_database(postgres_maintenance_url)
    yield url
    drop_database(postgres_maintenance_url, url)


@pytest.fixture(scope="session")
def worker_postgres_url(postgres_maintenance_url: str) -> Iterator[str]:
    """A database with the tables of the records, for all tests of a worker: to empty it is quicker than a new one."""
    url = create_database(postgres_maintenance_url)
    open_database(url).dispose()
    yield url
    drop_database(postgres_maintenance_url, url)


@pytest.fixture
def migrated_postgres_url(worker_postgres_url: str) -> str:
    """As `postgres_url`, with the empty tables of the records in it; to be left with these tables and no others."""
    empty(worker_postgres_url)
    return worker_postgres_url


@pytest.fixture(scope="session")
def mysql_maintenance_url(server_place: Path | None) -> Iterator[str]:
    """The database from which others are created; a test wants `mysql_url`."""
    if MYSQL_URL:
        yield MYSQL_URL
        return
    if reason := mysql.unavailable():
        pytest.skip(reason)
    with mysql.shared_server(RUN, server_place) as server:
        yield server.url


@pytest.fixture
def mysql_url(mysql_maintenance_url: str) -> Iterator[str]:
    url = mysql.create_database(mysql_maintenance_url)
    yield url
    mysql.drop_database(mysql_maintenance_url, url)


@pytest.fixture(scope="session")
def worker_mysql_url(mysql_maintenance_url: str) -> Iterator[str]:
    """As `worker_postgres_url`."""
    url = mysql.create_database(mysql_maintenance_url)
    open_database(url).dispose()
    yield url
    mysql.drop_database(mysql_maintenance_url, url)


@pytest.fixture
def migrated_mysql_url(worker_mysql_url: str) -> str:
    """As `mysql_url`, with the empty tables of the records in it; to be left with these tables and no others."""
    empty(worker_mysql_url)
    return worker_mysql_url


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def records_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database for records, for a test that runs on every kind: a file, or one of a real server."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "records.db")
    return str(request.getfixturevalue(f"migrated_{request.param.replace('postgresql', 'postgres')}_url"))


@pytest.fixture
def mysql_server(server_place: Path | None) -> Iterator[mysql.Server]:
    if reason := mysql.unavailable():
        pytest.skip(reason)
    with mysql.own_server(server_place) as server:
        yield server


@pytest.fixture
def postgres_server(server_place: Path | None) -> Iterator[Server]:
    if reason := unavailable():
        pytest.skip(reason)
    with own_server(server_place) as server:
        yield server


@pytest.fixture(scope="session")
def milvus() -> Iterator[LightServer]:
    """Not to be stopped: an index has names of its own in it."""
    if MILVUS_ADDRESS:
        host, _, port = MILVUS_ADDRESS.rpartition(":")
        yield LightServer(Path(), int(port), host)
        return
    if reason := light_milvus.unavailable():
        pytest.skip(reason)
    with light_milvus.own_server() as server:
        yield server


@pytest.fixture
def milvus_uri(milvus: LightServer) -> str:
    return milvus.uri


@pytest.fixture
def milvus_server() -> Iterator[LightServer]:
    if reason := light_milvus.unavailable():
        pytest.skip(reason)
    with light_milvus.own_server() as server:
        yield server
