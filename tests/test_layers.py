"""The import graph keeps to the map: each layer imports only those above it, siblings never each other."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "qianxun"

# Top to bottom. The parts of one row are siblings.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("types", "errors", "graph_types", "answer_types"),
    (
        "ports",
        "chinese",
        "tokens",
        "thinking",
        "headings",
        "homophones",
        "synonyms",
        "table_types",
        "migrating",
        "patience",
        "filters",
    ),
    (
        "ingest",
        "records",
        "index",
        "cache",
        "recall",
        "rank",
        "graph",
        "answer",
        "models",
        "evaluation",
        "testing",
        "examples",
    ),
    ("pipelines",),
    ("settings", "registry", "folder"),
    ("shelf", "embeddings", "storage", "indexes"),
    ("example_library",),
    ("example_search",),
    ("engine",),
    ("blocking", "shared_engine"),
    ("mcp",),
    ("service",),
    ("client",),  # speaks the service's language: its shapes
    ("workflow", "integrations", "console", "cli"),
)
LAYER_OF = {part: depth for depth, row in enumerate(LAYERS) for part in row}

# A driver is imported in one place only.
DRIVERS = {
    "tantivy": {"index/keywords.py"},
    "faiss": {"index/vectors.py"},
    "onnxruntime": {"models/onnx.py"},
    "tokenizers": {"models/onnx.py"},
    "httpcore": {"models/http.py", "models/wire.py"},
    "httpx": {"models/sources.py", "client"},
    "sentence_transformers": {"models/sentence.py"},
    "rapidocr": {"ingest/parse/ocr.py"},
    "ir_measures": {"evaluation/metrics.py"},
    "pypinyin": set(),  # by tests alone: what is needed of it is in lexicon/sounds.txt
    "typer": {"cli"},
    "fastapi": {"service"},
    "starlette": {"service"},
    "uvicorn": {"service"},
    "prometheus_client": {"service/metrics.py"},
    "opentelemetry": {"service/spans.py"},
    "cryptography": {"records/sealing.py"},
    "graspologic_native": {"graph/communities.py"},
    "neo4j": {"integrations/neo4j.py"},
    "psycopg": {"index/postgres_server.py"},
    "mcp": {"mcp/server.py"},
    "mcp_types": set(),  # `mcp` has all of it
    "langgraph": {"workflow/graph_builder.py", "workflow/query_workflow.py"},
    "langchain_core": {"workflow", "integrations/langchain.py"},
    "llama_index": {"integrations/llamaindex.py"},
    "llama_index_instrumentation": {"integrations/llamaindex.py"},
}


def _modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def _part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def _imported(path: Path) -> set[str]:
    """Every module name an import statement mentions, deferred imports included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "qianxun")
    return found


def _own(path: Path) -> set[str]:
    return {name.split(".")[1] for name in _imported(path) if name.startswith("qianxun.")}


def violations(edges: dict[str, set[str]]) -> list[str]:
    """What breaks the table, given part → imported parts."""
    found = []
    for part, imported in edges.items():
        for other in sorted(imported - {part}):
            if LAYER_OF[other] > LAYER_OF[part]:
                found.append(f"{part} imports {other}, which is below it")
            elif LAYER_OF[other] == LAYER_OF[part] and LAYER_OF[part] >= 2:
                found.append(f"{part} imports its sibling {other}")
    return found


def test_every_part_has_a_layer() -> None:
    assert {_part(path) for path in _modules()} - {"samples"} <= set(LAYER_OF)


def test_layers_import_only_what_is_above_them() -> None:
    edges: dict[str, set[str]] = {}
    for path in _modules():
        edges.setdefault(_part(path), set()).update(_own(path) & set(LAYER_OF))
    assert violations(edges) == []


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({"ingest": {"records"}}, ["ingest imports its sibling records"]),
        ({"records": {"engine"}}, ["records imports engine, which is below it"]),
        ({"pipelines": {"records", "types"}}, []),
    ],
)
def test_the_table_catches_a_planted_violation(edges: dict[str, set[str]], expected: list[str]) -> None:
    assert violations(edges) == expected


def test_modules_form_no_cycle() -> None:
    graph: dict[str, set[str]] = {}
    names = {".".join(("qianxun", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in _modules()}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    for name, path in names.items():
        graph[name] = {other for other in _imported(path) if other in names and other != name}
    done: set[str] = set()
    trail: list[str] = []

    def visit(name: str) -> None:
        assert name not in trail, " → ".join([*trail[trail.index(name) :], name])
        if name in done:
            return
        trail.append(name)
        for other in sorted(graph[name]):
            visit(other)
        trail.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


@pytest.mark.parametrize("driver", sorted(DRIVERS))
def test_a_driver_is_imported_in_one_place(driver: str) -> None:
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in _modules()
        if any(name.split(".")[0] == driver for name in _imported(path))
    }
    assert all(any(user == home or user.startswith(f"{home}/") for home in DRIVERS[driver]) for user in users), users


def test_the_environment_is_read_by_settings_alone() -> None:
    readers = {
        path.relative_to(SOURCE).as_posix()
        for path in _modules()
        if "os.environ" in (text := path.read_text(encoding="utf-8")) or "getenv" in text
    }
    assert readers <= {"settings.py"}
