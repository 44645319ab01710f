"""The example library that the settings name, administered without an engine: import, statistics, vectors, removal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qianxun.core.ports import nothing
from qianxun.engine.engine import Engine
from qianxun.engine.example_library import open_examples
from qianxun.engine.settings import Settings
from qianxun.examples import insert as embedding
from qianxun.examples import statistics
from qianxun.examples.files.contents import category_of, expected_names
from qianxun.examples.files.template import write_template
from qianxun.examples.importing import ImportReport, import_file
from qianxun.examples.insert import Watch, remove
from qianxun.examples.library import ExampleLibrary
from qianxun.examples.results import RetrievedExample
from qianxun.examples.statistics import ExampleRef, LibraryStatistics, NearPair

__all__ = [
    "ExampleRef",
    "ImportReport",
    "LibraryStatistics",
    "NearPair",
    "RetrievedExample",
    "Watch",
    "category_of",
    "expected_names",
    "import_examples",
    "library_statistics",
    "reembed",
    "remove_examples",
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


def reembed(settings: Settings, watch: Watch = nothing) -> tuple[int, str, int]:
    """Embeds every example with the model of the settings. Returns their number, and the model's name and dimension."""
    with open_examples(settings) as store:
        return embedding.reembed(store, watch), store.model.name, store.model.dimension


def remove_examples(settings: Settings, category: str, ids: Sequence[int]) -> list[int]:
    """The ids of those that existed and are removed now."""
    with open_examples(settings) as store:
        return remove(store, category, ids)


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
