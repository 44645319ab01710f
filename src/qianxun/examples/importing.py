"""Imports a file of examples: parsed, cleaned, deduplicated, embedded, stored; with a report."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from qianxun.core.errors import BadInput
from qianxun.core.ports import EmbeddingModel, nothing
from qianxun.examples.driver_connection import driver_connection
from qianxun.examples.files.cleaning import BadExample, ExampleDraft, clean
from qianxun.examples.files.contents import JSON_SUFFIXES, Contents, Row, read_json
from qianxun.examples.files.excel import read_workbook
from qianxun.examples.files.template import is_untouched_sample
from qianxun.examples.insert import Inserted, Watch, insert_drafts
from qianxun.examples.schema import PREFIX
from qianxun.examples.store import ExampleStore

log = logging.getLogger(__name__)

Database: TypeAlias = Connection | Engine | Session | ExampleStore | Any  # the last: of psycopg or sqlite3


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is not stored, and why. Row 0 is the whole sheet."""

    sheet: str
    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class DuplicateRow:
    """A row with the same texts as an earlier one of the file, which is stored."""

    sheet: str
    row: int
    first_sheet: str
    first_row: int


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import. ``stored`` is False if nothing was stored because of rejected rows."""

    rows: Mapping[str, int]  # by category, without blank ones and the template's own
    inserted: Mapping[str, Inserted]
    rejected: tuple[Rejected, ...] = ()
    doubles: tuple[DuplicateRow, ...] = ()
    ignored_sheets: tuple[str, ...] = ()
    ignored_columns: tuple[tuple[str, str], ...] = ()
    stored: bool = True
    seconds: float = field(default=0.0, compare=False)
    samples: int = 0  # rows of the template that were left as they are: not imported

    def total(self, what: str) -> int:
        """Of ``added``, ``updated`` or ``unchanged``."""
        return sum(getattr(inserted, what) for inserted in self.inserted.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            "stored": self.stored,
            **{what: self.total(what) for what in ("added", "updated", "unchanged")},
            "rejected": [
                {"sheet": rejected.sheet, "row": rejected.row, "reason": rejected.reason} for rejected in self.rejected
            ],
            "doubles": [
                {
                    "sheet": double.sheet,
                    "row": double.row,
                    "same_as": {"sheet": double.first_sheet, "row": double.first_row},
                }
                for double in self.doubles
            ],
            "samples": self.samples,
            "ignored_sheets": list(self.ignored_sheets),
            "ignored_columns": [{"sheet": sheet, "column": column} for sheet, column in self.ignored_columns],
            "tables": {category: self._of_table(category) for category in self.rows},
            "seconds": round(self.seconds, 3),
        }

    def _of_table(self, category: str) -> dict[str, int]:
        return {"rows": self.rows[category], **asdict(self.inserted.get(category, Inserted()))}


def import_file(
    path: str | Path, store: ExampleStore, *, skip_bad: bool = False, watch: Watch = nothing
) -> ImportReport:
    """Imports an .xlsx or .json file in one transaction.

    If rows are rejected nothing is stored, unless ``skip_bad``. Raises Refused or NotFound for a file that cannot be
    read, ModelError if the model fails: nothing is changed then.
    """
    started = time.perf_counter()
    path = Path(path)
    reader = read_json if path.suffix.lower() in JSON_SUFFIXES else read_workbook
    contents = reader(path, store.prefix, store.more_tables)
    samples = _drop_samples(contents)
    drafts, rejected, doubles = _drafted(contents)
    stored = skip_bad or not rejected
    inserted = insert_drafts(store, drafts, watch) if stored else {}
    report = ImportReport(
        {category: len(rows) for category, rows in contents.rows.items()},
        inserted,
        tuple(rejected),
        tuple(doubles),
        tuple(contents.ignored_sheets),
        tuple(contents.ignored_columns),
        stored,
        time.perf_counter() - started,
        samples,
    )
    _log(path, report)
    return report


def _drop_samples(contents: Contents) -> int:
    """Removes the template's own rows that nobody has changed; returns how many."""
    before = contents.count()
    for category, rows in contents.rows.items():
        contents.rows[category] = [row for row in rows if not is_untouched_sample(category, row.fields)]
    return before - contents.count()


def _drafted(contents: Contents) -> tuple[dict[str, list[ExampleDraft]], list[Rejected], list[DuplicateRow]]:
    drafts: dict[str, list[ExampleDraft]] = {}
    rejected = [Rejected(row.sheet, row.number, row.problem) for row in contents.problems]
    doubles: list[DuplicateRow] = []
    for category, rows in contents.rows.items():
        first: dict[tuple[str, str], Row] = {}
        for row in rows:
            try:
                if row.problem:
                    raise BadExample(row.problem)
                draft = clean(row.fields)
            except BadExample as error:
                rejected.append(Rejected(row.sheet, row.number, error.message))
                continue
            earlier = first.setdefault(draft.content, row)
            if earlier is row:
                drafts.setdefault(category, []).append(draft)
            else:
                doubles.append(DuplicateRow(row.sheet, row.number, earlier.sheet, earlier.number))
    return drafts, rejected, doubles


def _log(path: Path, report: ImportReport) -> None:
    for rejected in report.rejected:
        log.warning("%s：工作表“%s”第 %d 行未收：%s", path.name, rejected.sheet, rejected.row, rejected.reason)
    if report.samples:
        log.info("%s：模板自带的 %d 行没有改过，不导入", path.name, report.samples)
    counts = (report.total("added"), report.total("updated"), report.total("unchanged"), len(report.rejected))
    log.info("%s：新增 %d，更新 %d，未变 %d，未收 %d", path.name, *counts)


@contextmanager
def store_over(
    database: Database, model: EmbeddingModel | None, prefix: str = PREFIX, more_tables: Sequence[str] = ()
) -> Iterator[ExampleStore]:
    """The library of a connection (of SQLAlchemy, psycopg or sqlite3), an engine, a session or a store.

    Raises BadInput for anything else.
    """
    if isinstance(database, ExampleStore):
        yield database
    elif isinstance(database, Engine):
        yield ExampleStore(database, prefix, model, more_tables=more_tables)
    elif isinstance(database, Session | Connection):
        connection = database.connection() if isinstance(database, Session) else database
        yield ExampleStore.on(connection, prefix, model, more_tables=more_tables)
    else:
        with driver_connection(database) as connection:
            yield ExampleStore.on(connection, prefix, model, more_tables=more_tables)


def insert_examples(
    category: str, examples: Sequence[Mapping[str, Any]], db_conn: Database, model: EmbeddingModel, prefix: str = PREFIX
) -> int:
    """Inserts examples, all or none; returns how many were new: not those with the texts of a stored or earlier one.

    Raises BadInput, naming the position, for one that cannot be stored.
    """
    drafts: dict[tuple[str, str], ExampleDraft] = {}
    for number, example in enumerate(examples, 1):
        try:
            draft = clean(example)
        except BadExample as error:
            raise BadInput(f"第 {number} 条示例：{error.message}", hint="改正后再来；没有写入任何内容") from error
        drafts.setdefault(draft.content, draft)
    with store_over(db_conn, model, prefix) as store:
        return insert_drafts(store, {category: list(drafts.values())})[category].added
