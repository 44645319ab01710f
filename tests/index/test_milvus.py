"""The Milvus backend keeps the contract, on a light Milvus: searched exactly and by HNSW, with and without purging."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import pytest

from qianxun.core.ports import IndexBackend
from qianxun.index.milvus.index import create
from qianxun.testing.index_conformance import IndexConformance
from tests.index.test_against_model import Steps


class TestMilvus(IndexConformance):
    """A folder is the beginning of names here."""

    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _server(self, milvus_uri: str) -> None:
        self.uri = milvus_uri

    def backend(self, folder: Path) -> IndexBackend:
        prefix = f"index_{blake2b(str(folder).encode(), digest_size=6).hexdigest()}"
        return create(self.uri, prefix=prefix, **self.options)


def test_random_work_equals_a_plain_model(milvus_uri: str, schema: str) -> None:
    asyncio.run(Steps(create(milvus_uri, prefix=schema, purge_seconds=0), seed=10_000).run(60))
