from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.records import Records


@pytest.fixture
def records(records_url: str) -> Iterator[Records]:
    """On each of the databases."""
    opened = Records.open(records_url)
    yield opened
    opened.close()
