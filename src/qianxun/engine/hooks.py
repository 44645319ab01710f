"""Who wants to know of what an engine does: metrics, spans, tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qianxun.core.log_types import IndexTime, Recalled

if TYPE_CHECKING:
    from qianxun.core.layered_types import LayeredRecall


def nothing(_: Any) -> None:
    return None


@dataclass
class Hooks:
    """One value for all tenants, so that a hook set late, or on one of them, hears of all. Each is called in the task
    of the work that it is told of."""

    recalled: Callable[[Recalled], None] = nothing  # every search that has ended
    climbed: Callable[[LayeredRecall], None] = nothing  # every layered one
    indexed: Callable[[IndexTime], None] = nothing  # every piece of index work that is done
