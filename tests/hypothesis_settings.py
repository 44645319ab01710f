"""Hypothesis in this suite: the same examples in every run, and no deadline, so that a busy machine fails no test.

`make test` derives its examples from the test itself (``derandomize``) and tries a third of them: being the same ones
each time, all they can find is what a change has broken, and the first ones show that. New random ones, and as many as
a test names (`examples`), belong to `make torture`, which sets QIANXUN_TEST_SEED and prints it. A test that names
health checks itself replaces those of the default, and begins with the ones here.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from hypothesis import HealthCheck, settings

SLOW = (HealthCheck.too_slow,)
SLOW_OR_SHARED = (*SLOW, HealthCheck.function_scoped_fixture)  # examples that share what a fixture made
IS_RANDOM = bool(os.environ.get("QIANXUN_TEST_SEED"))


def examples(count: int, suppress_health_check: Collection[HealthCheck] = SLOW) -> settings:
    """For a test of ``count`` examples."""
    return settings(max_examples=_tried(count), deadline=None, suppress_health_check=suppress_health_check)


def load_profile() -> None:
    """Makes these the defaults of the whole suite. Call it before any test module is imported."""
    settings.register_profile(
        "qianxun",
        max_examples=_tried(100),
        derandomize=not IS_RANDOM,
        database=None,
        deadline=None,
        suppress_health_check=SLOW,
    )
    settings.load_profile("qianxun")


def _tried(count: int) -> int:
    return count if IS_RANDOM else count // 3
