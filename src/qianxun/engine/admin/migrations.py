"""Every table of the database that the settings name: those of the records, and those of the example library."""

from __future__ import annotations

from qianxun.engine.admin import database, examples
from qianxun.engine.settings import Settings


def missing(settings: Settings) -> list[str]:
    """The revisions that the database lacks, oldest first. Changes nothing."""
    return [*database.missing_migrations(settings), *examples.missing_migrations(settings)]


def migrate(settings: Settings) -> list[str]:
    """Brings every table up to date. Returns what was applied; raises FolderInUse where an engine has the folder."""
    return [*database.migrate(settings), *examples.migrate_library(settings)]
