"""The database of records that the settings name, opened without an engine: for keys, migrations, copies.

Imports SQLAlchemy only when a function needs it: the command line asks `has_records` before it opens anything.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from qianxun.engine.folder_lock import DATABASE, make_private_folder, owned, refused
from qianxun.engine.settings import Settings

if TYPE_CHECKING:
    from qianxun.records import Records


def has_records(settings: Settings) -> bool:
    """Whether the database exists, as far as that can be seen without opening it. Creates nothing.

    Raises BadInput where the data folder is a file: it is not as if there were nothing yet.
    """
    if settings.folder.exists() and not settings.folder.is_dir():
        raise refused(settings.folder, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
    return bool(settings.records.url) or (settings.folder / DATABASE).exists()


@contextmanager
def open_records(settings: Settings) -> Iterator[Records]:
    """Opens the database alone, also while another process owns the data folder. Creates both where missing."""
    from qianxun.engine.storage import connection_options, database_url
    from qianxun.records import Records

    if not settings.records.url:
        make_folder(settings)
    records = Records.open(database_url(settings), connection_options(settings))
    try:
        yield records
    finally:
        records.close()


@contextmanager
def exclusive_records(settings: Settings) -> Iterator[Records]:
    """Opens the database as its only user. Raises FolderInUse where an engine has it."""
    from qianxun.engine.storage import connection_options, database_url
    from qianxun.records import Records

    if not settings.records.url:
        with owned(settings.folder), open_records(settings) as records:
            yield records
        return
    records = Records.open(database_url(settings), connection_options(settings), alone=True)
    try:
        yield records
    finally:
        records.close()


def make_folder(settings: Settings) -> None:
    """Raises BadInput where the data folder cannot be created."""
    try:
        make_private_folder(settings.folder)
    except OSError as error:
        raise refused(settings.folder, error) from error


def missing_migrations(settings: Settings) -> list[str]:
    """The revisions that the schema of the database lacks, oldest first. Changes nothing."""
    from qianxun.engine.storage import connection_options, database_url
    from qianxun.records.database.open import connect, missing_revisions

    engine = connect(database_url(settings), connection_options(settings))
    try:
        return missing_revisions(engine)
    finally:
        engine.dispose()


def migrate(settings: Settings) -> list[str]:
    """Brings the schema up to date. Returns what was applied; raises FolderInUse where an engine has the folder."""
    from qianxun.engine.storage import connection_options, database_url
    from qianxun.records.database.open import open_database

    with nullcontext() if settings.records.url else owned(settings.folder):
        missing = missing_migrations(settings)
        open_database(database_url(settings), connection_options(settings)).dispose()
    return missing


def disk_problem(error: BaseException) -> tuple[str, str] | None:
    """What is wrong with the disk or the database file, and what to do; None where the error has another cause."""
    from qianxun.records.database.disk_errors import trouble

    return trouble(error)
