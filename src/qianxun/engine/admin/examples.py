"""The example library that the settings name, administered without an engine: import, statistics, vectors, removal."""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qianxun.core.errors import BadInput
from qianxun.core.ports import nothing
from qianxun.engine.engine import Engine
from qianxun.engine.example_library import open_examples, open_library
from qianxun.engine.settings import Settings, load
from qianxun.evaluation.experiment import Comparison, Run, compare, run
from qianxun.examples import insert as embedding
from qianxun.examples import statistics
from qianxun.examples.dialogues import AdoptionReport, adopt_dialogues
from qianxun.examples.files.contents import category_of, expected_names
from qianxun.examples.files.template import write_template
from qianxun.examples.importing import ImportReport, import_file
from qianxun.examples.insert import Watch, remove
from qianxun.examples.library import ExampleLibrary
from qianxun.examples.results import RetrievedExample
from qianxun.examples.statistics import ExampleRef, LibraryStatistics, NearPair
from qianxun.examples.store import MIGRATIONS, ExampleStore

__all__ = [
    "AdoptionReport",
    "Comparison",
    "ExampleRef",
    "ImportReport",
    "LibraryStatistics",
    "NearPair",
    "RetrievedExample",
    "Watch",
    "adopt",
    "category_of",
    "compare_settings",
    "expected_names",
    "import_examples",
    "import_into",
    "library_statistics",
    "migrate_library",
    "missing_migrations",
    "reembed",
    "remove_examples",
    "run_migrations",
    "store_statistics",
    "try_examples",
    "write_template",
]


def import_examples(settings: Settings, file: Path, *, skip_bad: bool = False, watch: Watch = nothing) -> ImportReport:
    """`import_file` into the library of the settings, which is created where there is none."""
    with open_examples(settings) as store:
        return import_file(file, store, skip_bad=skip_bad, watch=watch)


def library_statistics(settings: Settings, near: float) -> LibraryStatistics:
    """Counts, and pairs of examples whose cosine is at least ``near``."""
    with open_examples(settings) as store:
        return statistics.library_statistics(store, near)


def store_statistics(store: ExampleStore, near: float) -> LibraryStatistics:
    """The same of a store that is open, such as an engine's. Raises NotFound where there is no library yet."""
    return statistics.library_statistics(store, near)


def import_into(store: ExampleStore, file: Path) -> ImportReport:
    """`import_file` into a store that is open, such as an engine's."""
    return import_file(file, store)


def reembed(settings: Settings, watch: Watch = nothing) -> tuple[int, str, int]:
    """Embeds every example with the model of the settings. Returns their number, and the model's name and dimension."""
    with open_examples(settings) as store:
        return embedding.reembed(store, watch), store.model.name, store.model.dimension


def remove_examples(settings: Settings, category: str, ids: Sequence[int]) -> list[int]:
    """The ids of those that existed and are removed now."""
    with open_examples(settings) as store:
        return remove(store, category, ids)


def adopt(settings: Settings, file: Path, table: str, near: float) -> AdoptionReport:
    """`adopt_dialogues` of a JSON file (a list), or of a JSONL file (one dialogue a line)."""
    with open_library(settings) as library:
        return adopt_dialogues(read_values(file), library, table, near=near)


def compare_settings(labelled: Path, first: Settings, second: Settings) -> Comparison:
    """An A/B test: which of two settings finds the labelled examples better, and whether that may be chance.

    The file is a list, or JSONL, of ``{"query": …, "expected": [user_input, …]}``. Both settings search their own
    library, usually the same. Raises BadInput for a file that cannot be used.
    """
    rows = read_values(labelled)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not row.get("query") or not isinstance(row.get("expected"), list):
            raise BadInput(f"第 {number} 条标注不完整", hint='写成 {"query": "问题", "expected": ["示例的用户输入"]}')
    queries = {str(number): str(row["query"]) for number, row in enumerate(rows)}
    qrels = {str(number): {str(one): 1 for one in row["expected"]} for number, row in enumerate(rows)}
    runs = [asyncio.run(_run(name, settings, queries, qrels)) for name, settings in (("A", first), ("B", second))]
    return compare(runs[0], runs[1], queries)


async def _run(
    name: str, settings: Settings, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]
) -> Run:
    with open_library(settings) as library:

        async def search(query: str) -> list[str]:
            found = await asyncio.to_thread(library.retrieve, query)
            return [str(one["content"]).partition("\n助手：")[0].removeprefix("用户：") for one in found]

        return await run(name, queries, qrels, search)


def read_values(file: Path) -> list[Any]:
    """A JSON list, or one JSON value a line. Raises BadInput."""
    hint = "应为 UTF-8 的 JSON 列表，或每行一个 JSON"
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise BadInput(f"读不了 {file}：{error}", hint=hint) from error
    is_list = text.lstrip().startswith("[")
    values: list[Any] = []
    for number, line in enumerate([text] if is_list else text.split("\n"), 1):
        try:
            values += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            place = f"第 {getattr(error, 'lineno', 1) if is_list else number} 行"
            raise BadInput(f"读不了 {file}：{place}不是合法的 JSON", hint=hint) from error
    return values[0] if is_list else values


def missing_migrations(settings: Settings) -> list[str]:
    """What the tables of the library lack; nothing where there is no library and no model to make one with."""
    with open_examples(settings) as store:
        return [f"examples-{revision}" for revision in store.missing_revisions()]


def migrate_library(settings: Settings) -> list[str]:
    """Makes or migrates the tables of the library. Returns what was applied."""
    with open_examples(settings) as store:
        missing = [f"examples-{revision}" for revision in store.missing_revisions()]
        if missing:
            with store.writing() as connection:
                store.migrate(connection)
        return missing


def run_migrations(context: Any) -> None:
    """For an ``env.py``: Alembic's own commands, over the tables of the library that the settings name."""
    settings = load()
    with open_examples(settings) as store, store.writing() as connection:
        stamp = store.stamp(connection)
        context.config.attributes.update(
            connection=connection,
            prefix=store.prefix,
            dimension=store.dimension if stamp is None else stamp.dimension,
            schema=settings.records.schema if connection.dialect.name == "postgresql" else "",
        )
        runpy.run_path(str(MIGRATIONS / "env.py"))


def try_examples(engine: Engine, file: Path, query: str, top_k: int) -> tuple[int, list[RetrievedExample]]:
    """Imports a file into the engine's library if that is empty, and searches it. Returns how many were added."""
    store = engine.examples
    store.prepare()
    added = import_file(file, store).total("added") if statistics.is_empty(store) else 0
    library = ExampleLibrary(store)
    try:
        return added, library.vector_db_search(query, top_k=top_k)
    finally:
        library.close()
