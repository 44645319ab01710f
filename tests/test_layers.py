"""The import graph keeps to the map: each layer imports only those above it, siblings never each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "qianxun"

# Top to bottom. The parts of one row are siblings. A dotted part is a folder that stands apart from its package.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("core",),
    ("text",),
    ("question",),
    ("records",),
    (
        "ingest",
        "index",
        "models",
        "rank",
        "graph.extract",
        "answer.tables",
        "evaluation",
        "examples",
    ),
    ("testing",),
    ("graph.network",),
    ("bases",),
    ("retrieve",),
    ("graph",),
    ("indexing",),
    ("answer",),
    ("jobs",),
    ("engine",),
    ("doors.mcp",),
    ("doors.http",),
    ("doors.client",),
    ("doors.workflow", "doors.frameworks", "doors.cli"),
)
LAYER_OF = {part: depth for depth, row in enumerate(LAYERS) for part in row}

# A driver is imported in one place only.
DRIVERS = {
    "tantivy": {"index/embedded/keywords"},
    "faiss": {"index/embedded/vectors.py"},
    "onnxruntime": {"models/local/onnx.py"},
    "tokenizers": {"models/local/onnx.py"},
    "httpcore": {"models/remote/http.py", "models/remote/pinned_transport.py"},
    "httpx": {"models/local/download_sources.py", "doors/client", "doors/http/workers/forward.py"},
    "sentence_transformers": {"models/local/sentence_transformers.py"},
    "rapidocr": {"ingest/parse/pages/ocr.py"},
    "pypinyin": set(),  # by tests alone: what is needed of it is in lexicon/sounds.txt
    "typer": {"doors/cli"},
    "fastapi": {"doors/http"},
    "starlette": {"doors/http"},
    "uvicorn": {"doors/http"},
    "jinja2": {"doors/http/console"},
    "prometheus_client": {"doors/http/middleware/metrics.py"},
    "opentelemetry": {"doors/http/middleware/spans.py"},
    "cryptography": {"records/secrets/sealing.py", "records/governance/signing.py"},
    "graspologic_native": {"graph/network/communities.py"},
    "neo4j": {"doors/frameworks/neo4j.py"},
    "psycopg": {"index/postgres/server.py"},
    "pymilvus": {"index/milvus/server.py"},
    "grpc": {"index/milvus/server.py"},
    "milvus_lite": set(),  # by tests alone
    "pymysql": set(),  # by SQLAlchemy alone
    "redis": {"jobs/redis_events.py", "retrieve/redis_cache.py"},
    "mcp": {"doors/mcp/server.py"},
    "mcp_types": set(),  # `mcp` has all of it
    "langgraph": {"doors/workflow/graph_builder.py", "doors/workflow/query_workflow.py"},
    "langchain_core": {"doors/workflow", "doors/frameworks/langchain.py"},
    "llama_index": {"doors/frameworks/llamaindex.py"},
    "llama_index_instrumentation": {"doors/frameworks/llamaindex.py"},
}


def _modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def _name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def _part(name: str) -> str | None:
    """The part of the table that a module belongs to, by its name below the package: the longest that fits."""
    fitting = [part for part in LAYER_OF if name == part or name.startswith(f"{part}.")]
    return max(fitting, key=len, default=None)


@cache
def _imported(path: Path) -> set[str]:
    """Every module name an import statement mentions, deferred imports included."""
    found: set[str] = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "qianxun")
    return found


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These, and those within them; no expressions, which are most of a tree."""
    for node in nodes:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, part, ()))


def _own(path: Path) -> set[str]:
    """The parts that a module imports."""
    names = {name.removeprefix("qianxun.") for name in _imported(path) if name.startswith("qianxun.")}
    return {part for name in names if (part := _part(name)) is not None}


def violations(edges: dict[str, set[str]]) -> list[str]:
    """What breaks the table, given part → imported parts."""
    found = []
    for part, imported in edges.items():
        for other in sorted(imported - {part}):
            if LAYER_OF[other] > LAYER_OF[part]:
                found.append(f"{part} imports {other}, which is below it")
            elif LAYER_OF[other] == LAYER_OF[part]:
                found.append(f"{part} imports its sibling {other}")
    return found


def test_every_module_has_a_layer() -> None:
    names = {_name(path) for path in _modules()}
    assert [name for name in names if _part(name) is None and name not in ("samples", "doors")] == []


def test_layers_import_only_what_is_above_them() -> None:
    edges: dict[str, set[str]] = {}
    for path in _modules():
        if (part := _part(_name(path))) is not None:
            edges.setdefault(part, set()).update(_own(path))
    assert violations(edges) == []


def test_doors_see_the_engine_and_core_only() -> None:
    seen = {
        f"{_name(path)} imports {part}"
        for path in _modules()
        if _name(path).startswith("doors")
        for part in _own(path)
        if part not in ("core", "engine") and not part.startswith("doors.")
    }
    assert seen == set()


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({"ingest": {"index"}}, ["ingest imports its sibling index"]),
        ({"records": {"engine"}}, ["records imports engine, which is below it"]),
        ({"retrieve": {"records", "core"}}, []),
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
    assert readers <= {"engine/settings.py"}
