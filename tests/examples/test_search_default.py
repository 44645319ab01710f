"""The seed's bare names search the library of the settings, which nobody has to open."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadSettings, ModelUnavailable
from qianxun.doors.workflow.nodes.retrieval_node import retrieval_node
from qianxun.engine import example_library as example_search
from qianxun.engine.example_library import (
    close_default_library,
    default_library,
    get_embedding_model,
    multi_table_search,
    open_examples,
    search_in_table,
    search_with_fallback,
    vector_db_search,
)
from qianxun.engine.settings import load
from qianxun.examples.importing import import_file
from qianxun.examples.library import ExampleLibrary
from qianxun.examples.schema import DEFAULT_TABLE_NAMES
from qianxun.samples import EXAMPLES
from tests.shared import MODELS, needs_model

WINE = "用户：高血压能喝酒吗？"


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("QIANXUN_"):
            monkeypatch.delenv(name)
    close_default_library()
    yield tmp_path / "qianxun.yaml"
    close_default_library()
    get_embedding_model.cache_clear()


@needs_model
def test_the_bare_names_search_what_was_imported(settings_file: Path) -> None:
    settings_file.write_text(f"data: ./data\nvectorization: {{model_folders: [{MODELS}]}}\n", "utf-8")
    with open_examples(load()) as store:
        import_file(EXAMPLES, store)
    found = vector_db_search("患有高血压的人可以喝酒吗", ["饮酒"])
    assert found[0]["content"].startswith(WINE)
    assert 5 <= len(found) <= 15
    vector = get_embedding_model().embed_query("患有高血压的人可以喝酒吗")
    tables = list(DEFAULT_TABLE_NAMES)
    assert search_in_table("qa_examples", vector, 1, 0.5)[0]["user_input"] == "高血压能喝酒吗？"
    assert multi_table_search(vector, tables)[0]["source"] == "qa_examples"
    assert len(search_with_fallback(vector, tables)) >= 5
    state: dict[str, Any] = {"prompt_vars": {"query_text": "患有高血压的人可以喝酒吗", "keywords": ["饮酒"]}}
    assert retrieval_node(state)["prompt_vars"]["retrieved_examples"] == found


def test_the_signatures_are_those_of_the_seed() -> None:
    def shown(function: Any) -> str:
        signature = inspect.signature(function)
        plain = (each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values())
        return str(inspect.Signature(list(plain)))

    assert shown(vector_db_search) == (
        "(query_text, keywords=None, top_k=15, similarity_threshold=0.7, table_names=None)"
    )
    assert shown(search_in_table) == "(table_name, query_embedding, top_k=5, threshold=0.7)"
    assert shown(multi_table_search) == (
        "(query_embedding, table_names=None, top_k_per_table=5, similarity_threshold=0.7)"
    )
    assert shown(search_with_fallback) == "(query_embedding, table_names=None, min_results=5)"


def test_a_library_that_cannot_be_opened_is_tried_again(settings_file: Path) -> None:
    settings_file.write_text("data: ./data\nno_such_setting: 1\n", "utf-8")
    with pytest.raises(BadSettings):
        vector_db_search("高血压")
    settings_file.write_text("data: ./data\nvectorization: {model: none}\n", "utf-8")
    with pytest.raises(ModelUnavailable):
        vector_db_search("高血压")
    close_default_library()
    settings_file.write_text("data: ./data\nexamples: {prefix: 'no prefix'}\n", "utf-8")
    with pytest.raises(BadSettings, match="前缀"):
        vector_db_search("高血压")


def test_it_is_opened_once_however_many_ask_at_first(settings_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_file.write_text("data: ./data\nvectorization: {model: none}\n", "utf-8")
    made: list[ExampleLibrary] = []

    class Counted(ExampleLibrary):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(example_search, "ExampleLibrary", Counted)
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(lambda _: default_library(), range(32)))
    assert found == set(made)
    assert len(made) == 1


def test_nothing_is_opened_or_loaded_by_an_import(tmp_path: Path) -> None:
    asked = (
        "import sys, threading, qianxun.doors.workflow.graph_builder, qianxun.engine.example_library;"
        "assert threading.active_count() == 1;"
        "print(*[name for name in ('langgraph', 'langchain_core', 'psycopg', 'onnxruntime') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    assert list(tmp_path.iterdir()) == []
