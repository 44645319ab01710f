"""Runs Alembic's migrations, one at a time.

Alembic keeps the connection that it works on in one place for the whole process: of two engines that were opened at
once, one had its tables made in the other's database.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from alembic.config import Config

_TURN: Final = threading.Lock()


def upgrade(config: Config, revision: str) -> None:
    from alembic import command  # .12 s, and next to always there is nothing to migrate

    with _TURN:
        command.upgrade(config, revision)


def downgrade(config: Config, revision: str) -> None:
    from alembic import command

    with _TURN:
        command.downgrade(config, revision)
