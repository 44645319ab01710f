"""A database for the tests of one file: an index has a schema of its own in it, which is all the room it needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.servers.postgres import create_database, drop_database


@pytest.fixture(scope="module")
def index_url(postgres_maintenance_url: str) -> Iterator[str]:
    url = create_database(postgres_maintenance_url)
    yield url
    drop_database(postgres_maintenance_url, url)


@pytest.fixture
def schema() -> str:
    return f"index_{uuid.uuid4().hex[:12]}"
