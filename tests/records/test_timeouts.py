"""No test with generated examples fails because the machine is busy."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def test_every_test_that_was_collected_waits_for_its_examples(request: pytest.FixtureRequest) -> None:
    told = [(item.nodeid, _settings(getattr(item, "obj", None))) for item in request.session.items]
    chosen = [(name, each) for name, each in told if each is not None]
    assert [name for name, each in chosen if each.deadline is not None] == []
    assert [name for name, each in chosen if HealthCheck.too_slow not in each.suppress_health_check] == []


@given(value=st.none())
def test_an_ordinary_test_is_still_held_to_the_other_checks(value: None) -> None:
    own = _settings(test_an_ordinary_test_is_still_held_to_the_other_checks)
    assert own is not None
    assert list(own.suppress_health_check) == [HealthCheck.too_slow]


def _settings(test: object) -> settings | None:
    return getattr(test, "_hypothesis_internal_use_settings", None) if hasattr(test, "hypothesis") else None
