"""Names are words of the field (docs/glossary.md). The private metaphor that the code once had does not grow back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "qianxun"

# What results, options, candidates, holders and loop variables were called.
PRIVATE = frozenset({
    "told", "tell", "tells", "telling", "said", "says", "saying", "heard", "hear", "hears", "hearing", "listening",
    "held", "asked", "asking", "kept", "stands", "nobody", "whoever", "everybody", "somebody", "anybody", "stranger",
    "strangers", "each", "spoken", "speaks", "climbed", "lent", "patience", "patient", "shelf", "tending", "judging",
    "remembered",
})  # fmt: skip


def words(name: str) -> list[str]:
    """``HeldGraph`` and ``held_graph`` are held, graph."""
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What a module names: functions, classes, parameters, variables, attributes, aliases."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno


# Keys of JSON that clients and stored checkpoints know.
ON_THE_WIRE = {
    ("answer/state.py", "held"),
    ("answer/state.py", "asked"),
    ("core/answer_types.py", "said"),
    ("doors/http/native/query.py", "said"),
}


def private(tree: ast.AST) -> list[str]:
    return [f"{line}: {name}" for name, line in names(tree) if PRIVATE.intersection(words(name))]


def test_names_are_words_of_the_field() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in private(ast.parse(path.read_text("utf-8")))
        if (path.relative_to(SOURCE).as_posix(), name.split()[1]) not in ON_THE_WIRE
    ]
    assert found == []


def test_modules_are_named_in_words_of_the_field() -> None:
    assert [path.name for path in SOURCE.rglob("*.py") if PRIVATE.intersection(words(path.stem))] == []


@pytest.mark.parametrize(
    "code", ["told = 1", "def held_graph(): ...", "for each in (): ...", "class Heard: ...", "def f(asked): ..."]
)
def test_a_private_name_is_caught(code: str) -> None:
    assert private(ast.parse(code))


@pytest.mark.parametrize("code", ["results = 1", "def cached_graph(): ...", "stellar = reach = 2"])
def test_a_plain_name_is_not(code: str) -> None:
    assert not private(ast.parse(code))


def test_no_folder_holds_more_than_about_twenty_modules() -> None:
    crowded = {
        str(folder.relative_to(SOURCE)): count
        for folder in (SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir()))
        if (count := len(list(folder.glob("*.py")))) > 22
    }
    assert crowded == {}


def test_every_package_says_what_it_does() -> None:
    """What it is for, and what to read first; a folder within a package may say so in a line."""
    silent = []
    for path in SOURCE.rglob("__init__.py"):
        described = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        depth = len(path.relative_to(SOURCE).parts)
        if len(described.splitlines()) < (3 if depth == 2 else 1):
            silent.append(str(path.relative_to(SOURCE)))
    assert sorted(silent) == []
