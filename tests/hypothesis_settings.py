"""Hypothesis in this suite: the same examples in every run, and no deadline, so that a busy machine fails no test.

`make test` derives its examples from the test itself (``derandomize``). New random ones belong to `make torture`, which
sets QIANXUN_TEST_SEED and prints it. A test that names health checks itself replaces those of the default, and begins
with the ones here.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW = (HealthCheck.too_slow,)
SLOW_OR_SHARED = (*SLOW, HealthCheck.function_scoped_fixture)  # examples that share what a fixture made


def load_profile() -> None:
    """Makes these the defaults of the whole suite. Call it before any test module is imported."""
    is_random = bool(os.environ.get("QIANXUN_TEST_SEED"))
    settings.register_profile(
        "qianxun", derandomize=not is_random, database=None, deadline=None, suppress_health_check=SLOW
    )
    settings.load_profile("qianxun")
