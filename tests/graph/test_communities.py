"""Communities follow from the graph alone, and only what changed is worked out again."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.errors import BadInput
from qianxun.core.graph_types import Relation
from qianxun.graph.network.communities import Partition, community_id, components, merged, partition
from tests.hypothesis_settings import examples

Edge = tuple[str, str, float]
NAMES = ["李白", "杜甫", "静夜思", "春望", "唐朝", "长安", "糖尿病", "胰岛素", "二甲双胍", "血糖", "北京", "上海"]

edges_of = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from([0.1, 0.2, 0.3, 1.0, 2.5])), max_size=40
)


def numbered(edges: Sequence[Edge], names: Sequence[str] = NAMES, **options: object) -> Partition:
    place = {name: at for at, name in enumerate(sorted(names))}
    sources, targets = [place[one] for one, _, _ in edges], [place[other] for _, other, _ in edges]
    return partition(len(place), sources, targets, [weight for _, _, weight in edges], **options)  # type: ignore[arg-type]


def by_name(edges: Sequence[Edge], names: Sequence[str] = NAMES, **options: object) -> set[frozenset[str]]:
    ordered = sorted(names)
    return {frozenset(ordered[at] for at in group) for group in numbered(edges, names, **options).groups()}


def ring(names: Sequence[str]) -> list[Edge]:
    return [(one, other, 1.0) for one, other in itertools.pairwise((*names, names[0]))]


def clique(names: Sequence[str]) -> list[Edge]:
    return [(one, other, 1.0) for one, other in itertools.combinations(names, 2)]


def test_two_circles_joined_by_a_thread_are_two_communities() -> None:
    poets, medicine = ["李白", "杜甫", "静夜思", "春望", "唐朝"], ["糖尿病", "胰岛素", "二甲双胍", "血糖"]
    edges = [*clique(poets), *clique(medicine), ("唐朝", "血糖", 0.1)]
    assert by_name(edges, [*poets, *medicine]) == {frozenset(poets), frozenset(medicine)}


@given(edges=edges_of, data=st.data())
@examples(60)
def test_order_and_direction_of_the_edges_do_not_matter(edges: list[Edge], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(edges))
    turned = [
        (other, one, weight) if data.draw(st.booleans()) else (one, other, weight) for one, other, weight in shuffled
    ]
    assert by_name(turned) == by_name(edges)


@given(before=edges_of, after=edges_of)
@examples(60)
def test_history_does_not_matter(before: list[Edge], after: list[Edge]) -> None:
    known = numbered(before).known
    assert by_name(after, known=known) == by_name(after)


@given(edges=edges_of, others=st.integers(1, 6))
@examples(60)
def test_other_components_do_not_matter(edges: list[Edge], others: int) -> None:
    strangers = [f"{sign}{at}" for at in range(others) for sign in ("一", "甲", "龥")]  # before, among and after
    among = by_name([*edges, *ring(strangers)], [*NAMES, *strangers])
    assert {group for group in among if not group & set(strangers)} == by_name(edges)


@given(edges=edges_of, largest=st.integers(1, 6))
@examples(60)
def test_every_node_is_in_one_community_of_bounded_size_within_one_component(edges: list[Edge], largest: int) -> None:
    found = numbered(edges, largest=largest)
    groups = found.groups()
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(NAMES)))
    assert len(found) == len(groups)
    assert max(map(len, groups)) <= largest
    assert [int(group[0]) for group in groups] == sorted(int(group[0]) for group in groups)
    place = {name: at for at, name in enumerate(sorted(NAMES))}
    one, other = ([place[edge[side]] for edge in edges] for side in (0, 1))
    whole = merged(one, other, [weight for _, _, weight in edges])
    parts = [set(nodes.tolist()) for nodes, _ in components(len(NAMES), whole)]
    assert all(sum(bool(part & set(group.tolist())) for part in parts) == 1 for group in groups)


@pytest.mark.parametrize("shape", ["star", "clique", "path"])
def test_what_does_not_fall_apart_is_bounded_all_the_same(shape: str) -> None:
    names = [f"名{at:03}" for at in range(200)]
    edges = {
        "star": [(names[0], other, 1.0) for other in names[1:]],
        "clique": clique(names),
        "path": [(one, other, 1.0) for one, other in itertools.pairwise(names)],
    }[shape]
    sizes = [len(group) for group in numbered(edges, names, largest=50).groups()]
    assert sum(sizes) == 200
    assert max(sizes) <= 50
    assert len(sizes) <= 40  # not dust


def test_only_the_component_that_changed_is_run_again() -> None:
    circles = [[f"{at}{sign}" for sign in "甲乙丙丁戊"] for at in range(20)]
    names = [name for circle in circles for name in circle]
    edges = [edge for at, circle in enumerate(circles) for edge in ring(circle) if at or edge[0] != "0甲"]
    edges += [(circle[0], circle[2], 1.0 + at) for at, circle in enumerate(circles)]  # no two are alike
    first = numbered(edges, names)
    assert first.runs == 20
    assert numbered(edges, names, known=first.known).runs == 0
    changed = numbered([*edges, ("7甲", "7丁", 3.0)], names, known=first.known)
    assert changed.runs == 1
    assert numbered(edges[1:], names, known=first.known).runs <= 2  # one that came apart is two
    assert set(numbered([], names, known=first.known).known) == set()  # what is gone is not kept


def test_components_of_one_shape_are_run_once() -> None:
    circles = [[f"{at}{sign}" for sign in "甲乙丙丁戊"] for at in range(20)]
    found = numbered(
        [edge for circle in circles for edge in ring(circle)], [name for circle in circles for name in circle]
    )
    assert found.runs == 1


def test_another_process_finds_the_same() -> None:
    told = (
        "from qianxun.graph.network.communities import partition; import numpy as np; r = np.random.default_rng(3);"
        "e = r.integers(0, 400, (2, 1500));"
        "print(partition(400, e[0], e[1], r.random(1500), largest=30).labels.tolist())"
    )
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    here = np.random.default_rng(3)
    ends = here.integers(0, 400, (2, 1500))
    own = partition(400, ends[0], ends[1], here.random(1500), largest=30)
    assert run.stdout.strip() == str(own.labels.tolist())


def test_no_nodes_have_no_communities() -> None:
    assert partition(0, [], [], []).groups() == []
    assert len(partition(0, [], [], [])) == 0
    assert [group.tolist() for group in partition(2, [], [], []).groups()] == [[0], [1]]


def test_edges_without_weight_or_to_oneself_join_nothing() -> None:
    found = partition(3, [0, 1, 2, 0], [1, 2, 2, 2], [0.0, -1.0, 5.0, float("nan")])
    assert len(found) == 3


def test_weights_of_any_size_are_borne() -> None:
    here = np.random.default_rng(9)
    for size in (-300, 300):
        ends = here.integers(0, 50, (2, 150))
        found = partition(50, ends[0], ends[1], 10.0 ** here.integers(min(size, 0), max(size, 1), 150))
        assert sum(map(len, found.groups())) == 50


def test_a_panic_of_the_driver_is_an_error_that_doors_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As pyo3 raises it."""

    def panics(*_: object) -> None:
        raise PanicException("unwrap on None")

    monkeypatch.setattr("graspologic_native.leiden", panics)
    with pytest.raises(RuntimeError, match="unwrap"):
        partition(3, [0, 1], [1, 2], [1.0, 1.0])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BadInput, match="不存在的节点"):
        partition(2, [0], [2], [1.0])
    with pytest.raises(BadInput, match="至少"):
        partition(2, [0], [1], [1.0], largest=0)


def test_the_id_of_a_community_is_made_of_members_and_relations() -> None:
    treats = Relation("e2", "e1", "TREATS", 1.0)
    lowers = Relation("e2", "e3", "降低", 2.0)
    own = community_id(["e1", "e2", "e3"], [treats, lowers])
    assert own == community_id(["e3", "e1", "e2"], [lowers, treats])
    assert own != community_id(["e1", "e2"], [treats, lowers])
    assert own != community_id(["e1", "e2", "e3"], [treats])
    assert own != community_id(["e1", "e2", "e3"], [Relation("e1", "e2", "TREATS", 1.0), lowers])
