"""What hypothesis is told, so that a busy machine fails no test: how long an example takes is nobody's promise.

`conftest` makes it the default of the whole suite; a test that names health checks itself replaces those of the
default, and begins with these.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SLOW = (HealthCheck.too_slow,)
SLOW_OR_SHARED = (*SLOW, HealthCheck.function_scoped_fixture)  # examples that share what a fixture made


def be_patient() -> None:
    """What is chosen otherwise, by an option or on a build server, stays."""
    settings.register_profile("patient", settings.default, deadline=None, suppress_health_check=SLOW)
    settings.load_profile("patient")
