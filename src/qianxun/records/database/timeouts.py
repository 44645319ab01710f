"""How long a connection to PostgreSQL waits for a server that says nothing at all."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

GRACE_SECONDS = 5.0  # in which a server is to tell that a statement's time is up; one that does not hangs


def patient(driver: Any, statement_seconds: float) -> Any:
    """The driver's kind of connection, which waits for an answer only as long as the server itself may take for it.

    Nothing comes from a server that hangs (a paused machine, a stalled disk, a proxy without anything behind it): not
    even that the time is up. ``driver`` is the module psycopg, as its user has imported it.
    """

    class PatientConnection(driver.Connection):  # type: ignore[misc]
        # Seconds; None: as long as it takes. To the server, too, zero means that it has no limit.
        patience: float | None = statement_seconds + GRACE_SECONDS if statement_seconds else None

        def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
            return super().wait(gen if self.patience is None else self._within(gen, self.patience), *given, **named)

        def _within(self, gen: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
            give_up = time.monotonic() + seconds
            ready = None
            while True:
                try:
                    wanted = gen.send(ready)
                except StopIteration as done:
                    return done.value
                ready = yield wanted
                if not ready and time.monotonic() > give_up:
                    self.close()  # whatever it still says would be taken for the answer to something else
                    raise driver.OperationalError(f"数据库 {seconds:.0f} 秒没有任何答复")

    return PatientConnection
