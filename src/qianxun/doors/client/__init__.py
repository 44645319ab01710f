"""A running service, used as an engine is: the same calls, the same values, the same errors."""

from __future__ import annotations

from qianxun.doors.client.client import Client
from qianxun.doors.client.connection import Timeouts

__all__ = ["Client", "Timeouts"]
