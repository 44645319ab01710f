"""``python -m tests -n 4``: pytest in a process that has imported what the tests and the processes they start import.

The process from which services and commands are forked (`tests.preloaded`) is a fork of this one, and so are the
workers (`tests.forked_workers`): everything is imported once in a run.
"""

from __future__ import annotations

import sys

import pytest

from tests import preloaded, preloaded_parent


def main() -> int:
    if sys.platform == "linux":  # elsewhere libraries may not bear a fork
        preloaded_parent.load()
        if listener := preloaded.fork():
            order = preloaded_parent.serve(listener)
            if order is not None:
                preloaded_parent.run(order)
            return 0
    return pytest.main()


if __name__ == "__main__":
    sys.exit(main())
