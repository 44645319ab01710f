"""What a fresh process loads before it can answer: a search, and nothing that only other work needs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from qianxun import Document, Engine
from qianxun.testing.scripted import HashEmbedding

# Of each, what it is for; none of it is a search's.
NOT_FOR_SEARCH = {
    "alembic": "migrations",
    "mako": "migrations",
    "sqlalchemy.orm": "rows as objects, which only the example library wants",
    "openpyxl": "files",
    "PIL": "files",
    "lxml": "files",
    "markdown_it": "files",
    "pypinyin": "tests",
    "rjieba": "another dictionary beside ours: its compiled module is enough",
    "yaml": "settings files",
    "httpx": "model services",
    "httpcore": "model services",
    "onnxruntime": "models",
    "tokenizers": "models",
    "cryptography": "keys of models",
    "graspologic_native": "the graph",
    "numpy.ma": "nothing of ours",
    "typer": "the command line",
    "rich": "the command line",
    "fastapi": "the service",
    "opentelemetry": "the service",
    "langchain_core": "LangChain",
    "llama_index": "LlamaIndex",
    "qianxun.answer.generate": "answers",
    "qianxun.answer.tables.answer": "answers",
    "qianxun.graph.extract.chunk": "the graph",
    "qianxun.graph.network.knowledge_graph": "the graph",
    "qianxun.examples": "the example library",
    "qianxun.indexing.add": "files",
    "qianxun.graph.modes": "answers",
}
LOADED = f"print('loaded:', sorted(set({sorted(NOT_FOR_SEARCH)!r}) & set(sys.modules)))"
# The question is misspelt, so that it is also asked as it may have been meant.
ASKED = """
import asyncio, sys
from qianxun import Engine
from qianxun.testing.scripted import HashEmbedding

async def story():
    async with Engine.open(sys.argv[1], models={"hash-64": HashEmbedding()}, background=False) as engine:
        base = await engine.knowledge_base("医保")
        found = await engine.retrieve(base.id, "住院报销比利是多少")
        print([one.chunk.doc_id for one in found.found], [each.part for each in found.degraded])

asyncio.run(story())
"""


def _last_lines(program: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("module", ["qianxun", "qianxun.engine.engine", "qianxun.index.embedded.backend"])
def test_what_is_imported_for_a_search_has_no_part_in_other_work(module: str) -> None:
    assert _last_lines(f"import sys, {module}; {LOADED}") == ["loaded: []"]


def test_a_base_is_reopened_and_asked_without_the_code_of_other_work(tmp_path: Path) -> None:
    async def build() -> None:
        async with Engine.open(tmp_path, models={"hash-64": HashEmbedding()}, background=False) as engine:
            base = await engine.create_knowledge_base("医保", model="hash-64")
            await engine.add_documents(base.id, [Document("a", "住院费用的报销比例为85%。")])

    asyncio.run(build())
    assert _last_lines(ASKED + LOADED, str(tmp_path)) == ["['a'] []", "loaded: []"]


def test_a_service_has_loaded_what_it_answers_with_before_it_is_asked(tmp_path: Path) -> None:
    """The first question of a kind would else hold up everybody's while the code for it is loaded."""
    kinds = (
        "answer.run",
        "answer.question_log",
        "retrieve.explain",
        "graph.curate",
        "graph.modes",
        "retrieve.layered.tables",
        "retrieve.layered.texts",
        "indexing.maintenance",
    )
    nowhere = {"data": str(tmp_path), "service.host": "203.0.113.1"}  # an address that no machine has
    served = (
        "import asyncio, sys\nfrom qianxun.core.errors import BadInput\nfrom qianxun.doors.http.serve import serve\n"
        f"from qianxun.engine.settings import load\ntry: asyncio.run(serve(load(arguments={nowhere!r})))\n"
        "except BadInput: pass\n"
    )
    missing = f"print([name for name in {kinds!r} if f'qianxun.{{name}}' not in sys.modules])"
    assert _last_lines(served + missing) == ["[]"]


@pytest.mark.parametrize("name", ["retrieve", "search_texts", "search_tables", "ask", "ask_stream"])
def test_what_an_agent_asks_by_says_in_full_what_it_takes_and_gives(name: str) -> None:
    """Those who make tools of functions evaluate the annotations, where the function was defined."""
    assert "return" in get_type_hints(getattr(Engine, name))
