"""Facts come and go: what is left is what the rest would have given, and nothing is kept of what is gone for good."""

from __future__ import annotations

from qianxun.core.graph_types import Alias
from qianxun.graph.network.columns import FactColumns, bigrams_of
from qianxun.graph.network.knowledge_graph import derive_graph, graph_from_facts
from tests.graph.telling import alias, prose, triple

STAYING = [triple(1, "青松公司", "位于", "杭州"), alias(2, "世界卫生组织", "世卫组织"), prose(3, "鲁迅", "绍兴")]


def test_names_that_only_gone_chunks_told_are_forgotten_in_time() -> None:
    columns = FactColumns()
    columns.add(STAYING)
    before = derive_graph(columns, [Alias("松松", "青松公司")])
    for at in range(1000):
        columns.add([triple(100 + at, f"第{at}版", "作者", f"作者{at}")])
        columns.remove([100 + at])
    after = derive_graph(columns, [Alias("松松", "青松公司")])
    fresh = graph_from_facts(STAYING, [Alias("松松", "青松公司")])
    assert len(columns.names.written) < 400
    assert after.entities == fresh.entities == before.entities
    assert after.relations_of(after.ids.tolist()) == fresh.relations_of(fresh.ids.tolist())
    assert [after.name(each.entity) for each in after.find("世卫组织在哪里")] == ["世界卫生组织"]
    assert [before.name(each.entity) for each in before.find("松松在哪里")] == ["松松"]


def test_pairs_of_characters_are_those_of_all_names_however_they_came() -> None:
    columns = FactColumns()
    for each in STAYING:
        columns.add([each])
        pairs = columns.names.bigrams()
        whole = [(code, form) for form, name in enumerate(columns.names.folded) for code in bigrams_of(name).tolist()]
        assert list(zip(pairs.codes.tolist(), pairs.owners.tolist(), strict=True)) == whole
        assert pairs.lengths.tolist() == [len(name) - 1 for name in columns.names.folded]
