"""The PostgreSQL backend keeps the contract, searched exactly and by HNSW, with and without purging."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import pytest

from qianxun.core.ports import IndexBackend
from qianxun.index.postgres.index import create
from qianxun.testing.index_conformance import IndexConformance
from tests.index.test_against_model import Steps


class PostgresConformance(IndexConformance):
    """A folder is the name of a schema here."""

    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _server(self, index_url: str) -> None:
        self.url = index_url

    def backend(self, folder: Path) -> IndexBackend:
        schema = f"index_{blake2b(str(folder).encode(), digest_size=6).hexdigest()}"
        return create(self.url, schema=schema, **self.options)


class TestExact(PostgresConformance):
    """Few vectors need no index of their own."""


class TestGraph(PostgresConformance):
    options: ClassVar[dict[str, Any]] = {"exact_limit": 8, "dead_share": 0.01, "dead_least": 2}


@pytest.mark.parametrize("exact_limit", [10_000, 10])
def test_random_work_equals_a_plain_model(index_url: str, schema: str, exact_limit: int) -> None:
    backend = create(index_url, schema=schema, exact_limit=exact_limit, dead_least=20)
    asyncio.run(Steps(backend, seed=exact_limit).run(120))
