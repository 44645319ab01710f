from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.http.console.chrome import Running, launched, visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture
def page(browser: Browser, service: Running) -> Iterator[Page]:
    """Of a visitor whose browser has nothing to complain about; ``service`` is that of the module."""
    with visiting(browser, service.url) as visit:
        yield visit.page
        assert visit.complaints == []
        assert visit.hosts <= {service.url.removeprefix("http://")}
