"""The PostgreSQL backend keeps the contract, searched exactly and by HNSW, with and without purging."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import pytest

from qianxun.index.postgres import create
from qianxun.ports import IndexBackend
from qianxun.testing.index_conformance import IndexConformance


class PostgresConformance(IndexConformance):
    """A folder is the name of a schema here."""

    @pytest.fixture(autouse=True)
    def _server(self, postgres_url: str) -> None:
        self.url = postgres_url

    def schema(self, folder: Path) -> str:
        return f"index_{blake2b(str(folder).encode(), digest_size=6).hexdigest()}"


class TestExact(PostgresConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(self.url, schema=self.schema(folder))


class TestGraph(PostgresConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(self.url, schema=self.schema(folder), exact_limit=8)


class TestPurged(PostgresConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(self.url, schema=self.schema(folder), exact_limit=20, dead_share=0.01, dead_least=2)
