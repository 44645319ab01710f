"""A running service, used as an engine is: the same calls, the same values, the same errors.

Read `client` first: `Client` has the methods of `Engine`. `connection` sends a request with bounded waits and safe
retries; `uploads` sends files and documents and waits until they are searchable; `questions` asks and reads the events
of an answer; `events` and `registered` are the parts for document events and registered models; `payloads` has the JSON
that `qianxun.core.codec.wire` does not. Imports core and engine only.
"""

from __future__ import annotations

from qianxun.doors.client.client import Client
from qianxun.doors.client.connection import Timeouts

__all__ = ["Client", "Timeouts"]
