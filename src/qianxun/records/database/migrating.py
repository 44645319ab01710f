"""Migrations on a database that commits every change of a table by itself (MySQL): after a crash they go on.

A migration that was cut short is run again from its first statement. What its first attempt had done is passed over:
every statement either took effect as a whole or not at all. Data that a migration fills in must bear being filled in
twice.
"""

from __future__ import annotations

import logging
from typing import Any

from alembic.runtime.migration import MigrationContext
from sqlalchemy.exc import DBAPIError

log = logging.getLogger(__name__)


def skip_what_is_applied(context: MigrationContext) -> None:
    """Has the statements of this context's migrations taken for done where they are; on MySQL alone."""
    if context.dialect.name != "mysql":
        return
    from qianxun.records.database.mysql import is_already_done

    implementation: Any = context.impl
    execute = implementation._exec

    def resumed(*given: Any, **named: Any) -> Any:
        try:
            return execute(*given, **named)
        except DBAPIError as error:
            if not is_already_done(error):
                raise
            log.info("an earlier attempt had come as far: %s", error.orig)
            return None

    implementation._exec = resumed
