"""Which entities belong together: Leiden (Traag, Waltman and van Eck 2019), one connected component at a time.

A component's communities depend on nothing but that component: what was there before, what else there is and in which
order it came make no difference. So a component that did not change needs no second run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

import graspologic_native
import numpy as np
from numpy.typing import ArrayLike, NDArray

from qianxun.core.errors import BadInput
from qianxun.core.graph_types import Relation

Places: TypeAlias = NDArray[np.int64]
Labels: TypeAlias = NDArray[np.int32]
Weights: TypeAlias = NDArray[np.float64]

LARGEST: Final = 64  # entities: what a summary of a few sentences can speak of
_SEED: Final = 7
_RANDOMNESS: Final = 0.001
_WEIGHTS: Final = (1e-9, 1e9)  # of an edge; Leiden panics where the modularity of larger ones is no number
_SHARPEST: Final = 1024.0  # the resolution at which even a clique has come apart


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Every node is in one community; communities are numbered by their first node.

    ``known`` are the communities of this graph's components by what each component is: hand them to the next
    `partition`, and what did not change is not run again. ``runs`` counts the components that were.
    """

    labels: Labels
    known: Mapping[bytes, Labels]
    runs: int = 0

    def __len__(self) -> int:
        return int(self.labels.max()) + 1 if len(self.labels) else 0

    def groups(self) -> list[Places]:
        """The members of each community, in order."""
        order = np.argsort(self.labels, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.labels[order])) + 1) if len(order) else []


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Undirected and weighted: ``low < high``, sorted, none twice."""

    low: Places
    high: Places
    weights: Weights

    def __len__(self) -> int:
        return len(self.low)


def partition(
    count: int,
    sources: ArrayLike,
    targets: ArrayLike,
    weights: ArrayLike,
    *,
    largest: int = LARGEST,
    known: Mapping[bytes, Labels] | None = None,
) -> Partition:
    """The communities of a graph of ``count`` nodes, none of more than ``largest``.

    Nodes are called by number; number them in the order of their ids, so that the same graph has the same numbers.
    Direction does not count; parallel edges add up. A node without edges is a community of its own.
    """
    if largest < 1:
        raise BadInput("社区至少要容得下一个实体", hint="largest 须为正整数")
    edges = merged(sources, targets, weights)
    if len(edges) and int(edges.high.max()) >= count:
        raise BadInput("边指向了不存在的节点", hint="节点编号须小于节点总数")
    labels = np.zeros(count, dtype=np.int64)
    held = known or {}
    kept: dict[bytes, Labels] = {}
    runs = reached = 0
    for nodes, own in components(count, edges):
        if len(nodes) > 1:
            name = _content(len(nodes), own, largest)
            if name not in kept:
                runs += name not in held
                kept[name] = held[name] if name in held else _communities(len(nodes), own, largest)
            labels[nodes] = kept[name].astype(np.int64) + reached
            reached += int(kept[name].max()) + 1
        else:
            labels[nodes] = reached
            reached += 1
    return Partition(_numbered(labels), kept, runs)


def merged(sources: ArrayLike, targets: ArrayLike, weights: ArrayLike) -> Edges:
    """The same whatever the order and direction of the edges: floats add up in the order of their size."""
    one, other = np.asarray(sources, dtype=np.int64), np.asarray(targets, dtype=np.int64)
    heavy = np.asarray(weights, dtype=np.float64)
    low, high = np.minimum(one, other), np.maximum(one, other)
    counts = (low != high) & (heavy > 0) & np.isfinite(heavy)
    low, high, heavy = low[counts], high[counts], np.clip(heavy[counts], *_WEIGHTS)
    order = np.lexsort((heavy, high, low))
    low, high, heavy = low[order], high[order], heavy[order]
    if not len(low):
        return Edges(low, high, heavy)
    first = np.flatnonzero(np.concatenate(([True], (np.diff(low) != 0) | (np.diff(high) != 0))))
    return Edges(low[first], high[first], np.add.reduceat(heavy, first))


def components(count: int, edges: Edges) -> Iterator[tuple[Places, Edges]]:
    """The connected parts of a graph, in the order of their first nodes."""
    return _apart(_roots(count, edges), edges)


def _apart(labels: Places, edges: Edges) -> Iterator[tuple[Places, Edges]]:
    """The nodes of each label (sorted), and the edges among them, which call them by their place there."""
    nodes = np.argsort(labels, kind="stable")
    names, starts, sizes = np.unique(labels[nodes], return_index=True, return_counts=True)
    place = np.empty(len(labels), dtype=np.int64)
    place[nodes] = np.arange(len(labels)) - np.repeat(starts, sizes)
    inside = np.flatnonzero(labels[edges.low] == labels[edges.high])
    inside = inside[np.argsort(labels[edges.low[inside]], kind="stable")]
    owner = labels[edges.low[inside]]
    low, high, weights = place[edges.low[inside]], place[edges.high[inside]], edges.weights[inside]
    begins, ends = np.searchsorted(owner, names, side="left"), np.searchsorted(owner, names, side="right")
    for start, size, begin, end in zip(starts, sizes, begins, ends, strict=True):
        own = slice(begin, end)
        yield nodes[start : start + size], Edges(low[own], high[own], weights[own])


def _roots(count: int, edges: Edges) -> Places:
    """The first node of each node's component: hooking and pointer jumping (Shiloach and Vishkin 1982)."""
    root = np.arange(count, dtype=np.int64)
    while True:
        low, high = root[edges.low], root[edges.high]
        apart = low != high
        if not apart.any():
            return root
        np.minimum.at(root, np.maximum(low, high)[apart], np.minimum(low, high)[apart])
        while (root != root[root]).any():
            root = root[root]


def _content(count: int, edges: Edges, largest: int) -> bytes:
    told = blake2b(f"{count}:{largest}:".encode(), digest_size=16)
    for column in (edges.low, edges.high, edges.weights):
        told.update(np.ascontiguousarray(column).tobytes())
    return told.digest()


def _numbered(labels: Places) -> Labels:
    """The same communities, numbered by their first node."""
    if not len(labels):
        return labels.astype(np.int32)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int32)
    place[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    return place[inverse]


# ── one component ────────────────────────────────────────────────────────────────────────────────


def _communities(count: int, edges: Edges, largest: int) -> Labels:
    """Leiden, and again within whatever is too large."""
    labels = np.zeros(count, dtype=np.int64)
    waiting = [(np.arange(count, dtype=np.int64), edges)]
    if count > 2:
        waiting = list(_apart(_leiden(count, edges, 1.0), edges))
    reached = 0
    while waiting:
        nodes, own = waiting.pop()
        if len(nodes) <= largest:
            labels[nodes] = reached
            reached += 1
        else:
            waiting.extend((nodes[part], its) for part, its in _apart(_come_apart(len(nodes), own, largest), own))
    return _numbered(labels)


def _come_apart(count: int, edges: Edges, largest: int) -> Places:
    """At least two parts of what is too large: the resolution is raised until there are."""
    resolution = 1.0
    while resolution <= _SHARPEST:
        parts = _leiden(count, edges, resolution)
        if parts.any():
            return _without_dust(parts, edges, largest)
        resolution *= 2
    return np.arange(count, dtype=np.int64) // largest


def _leiden(count: int, edges: Edges, resolution: float) -> Places:
    """The community of each node, numbered from 0 by first nodes; a node without edges is one of its own."""
    names = [str(node) for node in range(count)]
    found: dict[str, int] = {}
    if len(edges):
        columns = zip(edges.low.tolist(), edges.high.tolist(), edges.weights.tolist(), strict=True)
        # A comprehension lets other threads run, list(map(…)) would keep them waiting until the last edge.
        told = [(names[low], names[high], weight) for low, high, weight in columns]
        found = _run(told, resolution)
    labels = np.array([found.get(name, -1 - node) for node, name in enumerate(names)], dtype=np.int64)
    return _numbered(labels).astype(np.int64)


def _run(edges: list[tuple[str, str, float]], resolution: float) -> dict[str, int]:
    try:
        _, found = graspologic_native.leiden(edges, None, resolution, _RANDOMNESS, 1, True, _SEED, 1)
    except Exception:
        raise
    except BaseException as panic:  # that of Rust code is no Exception: no door would catch it
        if type(panic).__name__ != "PanicException":
            raise
        raise RuntimeError(f"Leiden panicked: {panic}") from panic
    return found


def _without_dust(parts: Places, edges: Edges, largest: int) -> Places:
    """A high resolution leaves single nodes behind, of a hub's neighbours most of them. Each goes to the part that it
    is tied to most while there is room; the rest are put together as they come."""
    sizes = np.bincount(parts)
    single = set(np.flatnonzero(sizes[parts] == 1).tolist())
    ties = _ties(single, edges, parts)
    swept = parts.copy()
    rest = []
    for node in sorted(single):
        open_to = [(-tied, part) for part, tied in ties.get(node, {}).items() if sizes[part] < largest]
        if open_to:
            swept[node] = min(open_to)[1]
            sizes[swept[node]] += 1
        else:
            rest.append(node)
    swept[rest] = len(sizes) + np.arange(len(rest)) // largest
    return swept


def _ties(single: set[int], edges: Edges, parts: Places) -> dict[int, dict[int, float]]:
    """How strongly each single node is tied to each part that is none."""
    ties: dict[int, dict[int, float]] = {}
    for low, high, weight in zip(edges.low.tolist(), edges.high.tolist(), edges.weights.tolist(), strict=True):
        for node, other in ((low, high), (high, low)):
            if node in single and other not in single:
                own = ties.setdefault(node, {})
                part = int(parts[other])
                own[part] = own.get(part, 0.0) + weight
    return ties


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def community_id(members: Iterable[str], relations: Iterable[Relation]) -> str:
    """Made of the ids of its entities and of the relations between them, whatever their order.

    Which chunks say so is no part of it: a summary kept by this name has to be kept by what it was made from, too
    (`summarise.digest`), or it would outlive a text that somebody replaced.
    """
    told = blake2b(digest_size=8)
    for member in sorted(members):
        told.update(f"{member}\n".encode())
    for source, target, kind, weight in sorted(
        (each.source, each.target, each.type, each.weight) for each in relations
    ):
        told.update(f"{source}\t{target}\t{kind}\t{weight:.6g}\n".encode())
    return f"c_{told.hexdigest()}"
