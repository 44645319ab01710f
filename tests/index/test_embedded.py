"""The embedded backend keeps the contract, searched exactly and through codes, with and without compaction."""

from __future__ import annotations

from pathlib import Path

from qianxun.index.embedded import create
from qianxun.ports import IndexBackend
from qianxun.testing.index_conformance import IndexConformance


class TestExact(IndexConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(folder)


class TestCoded(IndexConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(folder, exact_limit=8)


class TestCompacted(IndexConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(folder, exact_limit=20, dead_share=0.01, dead_least=2)
