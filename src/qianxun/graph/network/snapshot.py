"""A derived graph kept on disk, so that the first question after opening need not derive it again.

Numbers are `.npy` files, mapped into memory when opened: what no question touches stays on disk. Names are JSON.
A snapshot is of one base at one state of its records; ``meta.json`` names that, and has a checksum of every file. One
that is damaged, of another base, or of another reader of facts counts as none: everything in it can be derived again.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np

from qianxun.core.graph_types import Alias
from qianxun.core.system.durable import replace_file
from qianxun.graph.network.aliases import forms_in
from qianxun.graph.network.columns import Bigrams, FactColumns, FactTables, Names
from qianxun.graph.network.communities import Partition
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.graph.network.relations import GroupedValues, RelationColumns
from qianxun.graph.network.walk import Transitions

log = logging.getLogger(__name__)

FORMAT: Final = 3  # raised whenever what is written changes: an older one counts as none
META: Final = "meta.json"
_MAPPED: Final = 1 << 16  # bytes, from which on a file is mapped
_PLAIN: Final = ("ids", "forms", "entity_of", "mentioned")
# What is computed of a graph when it is first needed, by its attribute.
_COMPUTED: Final[Mapping[str, type[Any]]] = {
    "importance": np.ndarray,
    "occurrences": np.ndarray,
    "relations_by_entity": GroupedValues,
    "chunks_by_entity": GroupedValues,
    "_mentions_by_entity": GroupedValues,
    "_stated_names": GroupedValues,
    "transitions": Transitions,
}


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """What a snapshot has to be of."""

    base: str  # the identity of the base
    reader: str  # of its facts: version, dictionary and lexicon


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    graph: KnowledgeGraph
    about: Mapping[str, Any]  # as it was saved with
    arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]]  # as they were saved with it


def save(
    folder: Path,
    key: SnapshotKey,
    graph: KnowledgeGraph,
    about: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]],
) -> None:
    """Puts this graph in place of the one that is there, with whatever was computed of it. Raises OSError."""
    for name in _COMPUTED:
        getattr(graph, name)
    place = folder / uuid4().hex
    place.mkdir(parents=True)
    try:
        sums = {name: _write(place / name, data) for name, data in _files(graph, arrays)}
        meta = {"format": FORMAT, "base": key.base, "reader": key.reader, "place": place.name, "sums": sums}
        meta |= {"entities": len(graph), "about": dict(about)}
        replace_file(folder / META, json.dumps(meta).encode())
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    for other in folder.iterdir():  # what is mapped stays readable where the system allows its removal
        if other.is_dir() and other.name != place.name:
            shutil.rmtree(other, ignore_errors=True)


def load(folder: Path, key: SnapshotKey) -> Snapshot | None:
    """The snapshot in this folder; None if there is none that is sound and of this base and reader."""
    try:
        meta = json.loads((folder / META).read_bytes())
        if (meta["format"], meta["base"], meta["reader"]) != (FORMAT, key.base, key.reader):
            return None
        place = folder / meta["place"]
        if any(_checksum(place / name) != known for name, known in meta["sums"].items()):
            log.warning("the graph that is kept in %s is damaged, and derived again", folder)
            return None
        return _read(place, meta)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("the graph that is kept in %s cannot be read, and is derived again: %s", folder, error)
        return None


def columns_of(graph: KnowledgeGraph) -> FactColumns:
    """The facts that it was derived from, to be changed: those of a snapshot have none yet."""
    facts = graph.facts
    types = list(graph.types)
    return FactColumns(
        names=graph.names,
        types=types,
        _types={name: number for number, name in enumerate(types)},
        _keys=array("q", facts.keys.tobytes()),
        _rows={key: row for row, key in enumerate(facts.keys.tolist())},
        _mentions=array("q", np.ascontiguousarray(facts.mentions).tobytes()),
        _statements=array("q", np.ascontiguousarray(facts.statements).tobytes()),
        _aliases=array("q", np.ascontiguousarray(facts.aliases).tobytes()),
        _sentences=array("q", np.ascontiguousarray(facts.sentences).tobytes()),
    )


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def _files(graph: KnowledgeGraph, arrays: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    names = graph.names
    texts = _texts(graph)
    given = [[row.name, row.alias, row.origin, dict(row.details)] for row in graph.given]
    for name, value in {**texts, "types": list(graph.types), "given": given}.items():
        yield f"{name}.json", value
    yield "form_of.npy", np.frombuffer(names.form_of, dtype=np.int64)
    yield "digests.npy", np.frombuffer(bytes(names.digests), dtype=np.uint8)
    bigrams = names.bigrams()
    for column in fields(bigrams):
        yield f"bigrams.{column.name}.npy", getattr(bigrams, column.name)
    for part, value in (("facts", graph.facts), ("relations", graph.relations)):
        for column in fields(value):
            yield f"{part}.{column.name}.npy", getattr(value, column.name)
    for name in _PLAIN:
        yield f"{name}.npy", getattr(graph, name)
    for name in _COMPUTED:
        value = getattr(graph, name)
        if is_dataclass(value):
            for column in fields(value):
                yield f"{name}.{column.name}.npy", np.asarray(getattr(value, column.name))
        else:
            yield f"{name}.npy", value
    if "communities" in vars(graph):
        yield "communities.npy", graph.communities.labels
    for name, value in arrays.items():
        yield f"array.{name}.npy", value


def _texts(graph: KnowledgeGraph) -> dict[str, Any]:
    """The names of its chunks by their numbers. Those that only deleted chunks had are left blank."""
    names = graph.names
    forms = set(forms_in(graph.facts, names).tolist()) | {
        names.form_of[names.number(name)] for row in graph.given for name in (row.name, row.alias)
    }
    return {
        "written": [name if names.form_of[at] in forms else "" for at, name in enumerate(names.written)],
        "folded": [name if form in forms else "" for form, name in enumerate(names.folded)],
        "bare": _only(names.bare, forms),
        "parts": _only(names.parts, forms),
    }


def _only(known: Mapping[str, list[int]], forms: set[int]) -> dict[str, list[int]]:
    return {text: own for text, listed in known.items() if (own := [form for form in listed if form in forms])}


def _write(path: Path, data: Any) -> int:
    if path.suffix == ".json":
        written = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        path.write_bytes(written.encode("utf-8", "surrogatepass"))
    else:
        np.save(path, np.ascontiguousarray(data), allow_pickle=False)
    return _checksum(path)


def _checksum(path: Path) -> int:
    found = os.path.getsize(path)
    with path.open("rb") as file:
        while part := file.read(1 << 22):
            found = zlib.crc32(part, found)
    return found


def _read(place: Path, meta: Mapping[str, Any]) -> Snapshot:
    def text(name: str) -> Any:
        return json.loads((place / f"{name}.json").read_bytes().decode("utf-8", "surrogatepass"))

    def numbers(name: str) -> Any:
        path = place / f"{name}.npy"
        is_small = path.stat().st_size < _MAPPED
        return np.asarray(np.load(path, mmap_mode=None if is_small else "r", allow_pickle=False))

    def columns(kind: type[Any], part: str) -> Any:
        return kind(**{column.name: numbers(f"{part}.{column.name}") for column in fields(kind)})

    graph = KnowledgeGraph(
        facts=columns(FactTables, "facts"),
        names=_names(text, numbers, columns(Bigrams, "bigrams")),
        types=text("types"),
        given=tuple(Alias(*row) for row in text("given")),
        relations=columns(RelationColumns, "relations"),
        **{name: numbers(name) for name in _PLAIN},
    )
    for name, kind in _COMPUTED.items():  # as `cached_property` stores it
        vars(graph)[name] = numbers(name) if kind is np.ndarray else columns(kind, name)
    transitions = vars(graph)["transitions"]
    vars(graph)["transitions"] = replace(transitions, entities=transitions.entities.item())
    if "communities.npy" in meta["sums"]:
        vars(graph)["communities"] = Partition(numbers("communities"), {})
    own = {name.removeprefix("array.").removesuffix(".npy") for name in meta["sums"] if name.startswith("array.")}
    return Snapshot(graph, meta["about"], {name: numbers(f"array.{name}") for name in own})


def _names(text: Callable[[str], Any], numbers: Callable[[str], Any], bigrams: Bigrams) -> Names:
    folded = text("folded")
    return Names(
        written=text("written"),
        folded=folded,
        form_of=array("q", numbers("form_of").tobytes()),
        digests=bytearray(numbers("digests").tobytes()),
        forms={name: form for form, name in enumerate(folded) if name},
        bare=text("bare"),
        parts=text("parts"),
        _bigrams=bigrams,
    )
