"""Community detection: Leiden (Traag, Waltman and van Eck 2019), one connected component at a time.

The communities of a component depend on that component alone, so an unchanged component needs no second run.
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

LARGEST: Final = 64  # entities: as many as a summary of a few sentences can cover
_SEED: Final = 7
_RANDOMNESS: Final = 0.001
_WEIGHTS: Final = (1e-9, 1e9)  # of an edge; beyond them the modularity overflows and Leiden panics
_HIGHEST_RESOLUTION: Final = 1024.0  # splits even a clique


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Every node is in one community; communities are numbered by their first node.

    ``known`` maps a digest of each component to its communities: passed to the next `partition`, unchanged components
    are not computed again. ``runs`` counts those that were computed.
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
    """The communities of a graph of ``count`` nodes, none larger than ``largest``.

    Nodes must be numbered in the order of their ids, so that the same graph has the same numbers. Direction is ignored,
    parallel edges add up, a node without edges is a community of its own. Raises BadInput.
    """
    if largest < 1:
        raise BadInput("社区至少要容得下一个实体", hint="largest 须为正整数")
    edges = merged(sources, targets, weights)
    if len(edges) and int(edges.high.max()) >= count:
        raise BadInput("边指向了不存在的节点", hint="节点编号须小于节点总数")
    labels = np.zeros(count, dtype=np.int64)
    before = known or {}
    found: dict[bytes, Labels] = {}
    runs = reached = 0
    for nodes, own in components(count, edges):
        if len(nodes) > 1:
            digest = _digest(len(nodes), own, largest)
            if digest not in found:
                runs += digest not in before
                found[digest] = before[digest] if digest in before else _communities(len(nodes), own, largest)
            labels[nodes] = found[digest].astype(np.int64) + reached
            reached += int(found[digest].max()) + 1
        else:
            labels[nodes] = reached
            reached += 1
    return Partition(_numbered(labels), found, runs)


def merged(sources: ArrayLike, targets: ArrayLike, weights: ArrayLike) -> Edges:
    """Independent of the order and direction of the edges: floats are added in the order of their size."""
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
    """Connected components, in the order of their first nodes."""
    return _split(_roots(count, edges), edges)


def _split(labels: Places, edges: Edges) -> Iterator[tuple[Places, Edges]]:
    """The nodes of each label (sorted), and the edges among them, by the nodes' places there."""
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


def _digest(count: int, edges: Edges, largest: int) -> bytes:
    digest = blake2b(f"{count}:{largest}:".encode(), digest_size=16)
    for column in (edges.low, edges.high, edges.weights):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.digest()


def _numbered(labels: Places) -> Labels:
    """Renumbers communities by their first node."""
    if not len(labels):
        return labels.astype(np.int32)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int32)
    place[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    return place[inverse]


# ── one component ────────────────────────────────────────────────────────────────────────────────


def _communities(count: int, edges: Edges, largest: int) -> Labels:
    """Leiden, repeated within communities that are too large."""
    labels = np.zeros(count, dtype=np.int64)
    queue = [(np.arange(count, dtype=np.int64), edges)]
    if count > 2:
        queue = list(_split(_leiden(count, edges, 1.0), edges))
    reached = 0
    while queue:
        nodes, own = queue.pop()
        if len(nodes) <= largest:
            labels[nodes] = reached
            reached += 1
        else:
            queue.extend((nodes[part], its) for part, its in _split(_separated(len(nodes), own, largest), own))
    return _numbered(labels)


def _separated(count: int, edges: Edges, largest: int) -> Places:
    """Raises the resolution until there are at least two parts."""
    resolution = 1.0
    while resolution <= _HIGHEST_RESOLUTION:
        parts = _leiden(count, edges, resolution)
        if parts.any():
            return _without_singletons(parts, edges, largest)
        resolution *= 2
    return np.arange(count, dtype=np.int64) // largest


def _leiden(count: int, edges: Edges, resolution: float) -> Places:
    """The community of each node, numbered from 0 by first nodes; a node without edges is one of its own."""
    names = [str(node) for node in range(count)]
    found: dict[str, int] = {}
    if len(edges):
        columns = zip(edges.low.tolist(), edges.high.tolist(), edges.weights.tolist(), strict=True)
        # Other threads can run during a comprehension, not during list(map(…)).
        found = _run([(names[low], names[high], weight) for low, high, weight in columns], resolution)
    labels = np.array([found.get(name, -1 - node) for node, name in enumerate(names)], dtype=np.int64)
    return _numbered(labels).astype(np.int64)


def _run(edges: list[tuple[str, str, float]], resolution: float) -> dict[str, int]:
    try:
        _, found = graspologic_native.leiden(edges, None, resolution, _RANDOMNESS, 1, True, _SEED, 1)
    except Exception:
        raise
    except BaseException as panic:  # Rust panics are no Exception: nothing would catch them
        if type(panic).__name__ != "PanicException":
            raise
        raise RuntimeError(f"Leiden panicked: {panic}") from panic
    return found


def _without_singletons(parts: Places, edges: Edges, largest: int) -> Places:
    """A high resolution leaves singletons, mostly neighbours of a hub. Each joins the part that it is connected to most
    while there is room; the rest are grouped in order."""
    sizes = np.bincount(parts)
    single = set(np.flatnonzero(sizes[parts] == 1).tolist())
    connected: dict[int, dict[int, float]] = {}  # singleton → weight of its edges to each part
    for low, high, weight in zip(edges.low.tolist(), edges.high.tolist(), edges.weights.tolist(), strict=True):
        for node, other in ((low, high), (high, low)):
            if node in single and other not in single:
                own = connected.setdefault(node, {})
                part = int(parts[other])
                own[part] = own.get(part, 0.0) + weight
    joined = parts.copy()
    rest = []
    for node in sorted(single):
        open_parts = [(-weight, part) for part, weight in connected.get(node, {}).items() if sizes[part] < largest]
        if open_parts:
            joined[node] = min(open_parts)[1]
            sizes[joined[node]] += 1
        else:
            rest.append(node)
    joined[rest] = len(sizes) + np.arange(len(rest)) // largest
    return joined


def community_id(members: Iterable[str], relations: Iterable[Relation]) -> str:
    """Made of the ids of its entities and the relations among them, in any order, but not of their evidence: a summary
    is stored by `summaries.digest`, so that it does not outlive a changed text."""
    digest = blake2b(digest_size=8)
    for member in sorted(members):
        digest.update(f"{member}\n".encode())
    for source, target, kind, weight in sorted((row.source, row.target, row.type, row.weight) for row in relations):
        digest.update(f"{source}\t{target}\t{kind}\t{weight:.6g}\n".encode())
    return f"c_{digest.hexdigest()}"
