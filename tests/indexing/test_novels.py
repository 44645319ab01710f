"""Long novels through the whole way in, embedding aside: the memory stays bounded and nothing is lost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.indexing.novels import NOVELS, indexed
from tests.shared import needs_data


@pytest.mark.long
@needs_data
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_long_novels_index_within_half_a_gigabyte(tmp_path: Path) -> None:
    """One of the longest; `python -m tests.torture --novels` has all ten of them, in a gigabyte."""
    told = indexed(tmp_path, [NOVELS / "水浒传.txt"])
    assert (told.added, told.refused, told.is_clean) == (1, 0, True)
    assert "水浒传.txt" in told.names
    assert told.chunks > 2_000
    assert 0 < told.peak_megabytes < 512
