"""An arm of another package, installed as packages are: it takes part where it is named, and keeps every promise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qianxun.core import plugins
from qianxun.core.errors import BadQuery, PluginError
from qianxun.core.types import EVERYTHING, Eq
from qianxun.doors.http.middleware.metrics import Metrics
from qianxun.engine.settings import Search
from qianxun.rank.calibrate import Curves
from qianxun.retrieve.arms import STANDARD, find_arm, plugin_arm
from tests.answer.asked import Opened, near_ties
from tests.retrieve.test_score_contract import follows_the_contract

ARM = """
import numpy as np
from qianxun.core.ports import RetrieverArm
from qianxun.core.types import Ranking


class ExactPhrase(RetrieverArm):
    name = "exact_phrase"
    label = ("原句", "exact phrase")
    unit = ("次", "times")
    weight = 0.4

    def is_local(self, context):
        return context.is_local

    async def search(self, query, limit, context):
        counts = {}
        async for page in context.texts(query.where):
            counts |= {key: text.count(query.text) for key, text in page if query.text in text}
        return Ranking.of(sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:limit])

    def calibrate(self, found):
        return np.minimum(found.scores / 2.0, 1.0)


class Unfiltered(ExactPhrase):
    name = "unfiltered"
    applies_filters = False

    async def search(self, query, limit, context):
        from dataclasses import replace
        from qianxun.core.types import EVERYTHING
        return await super().search(replace(query, where=EVERYTHING), limit, context)


class Wrong(ExactPhrase):
    name = "another"


class Broken(ExactPhrase):
    name = "broken"

    async def search(self, query, limit, context):
        raise ZeroDivisionError("除以零")
"""
NAMES = {"exact_phrase": "ExactPhrase", "unfiltered": "Unfiltered", "wrong": "Wrong", "broken": "Broken"}
QUERY = "医疗保障局规定"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("site")
    metadata = folder / "exact_phrase-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: exact-phrase\nVersion: 1.0\n", "utf-8")
    lines = [f"{name} = exact_phrase_arms:{attribute}" for name, attribute in NAMES.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[qianxun.arms]", *lines]) + "\n", "utf-8")
    (folder / "exact_phrase_arms.py").write_text(ARM, "utf-8")
    sys.path.insert(0, str(folder))
    plugins._installed.cache_clear()
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("exact_phrase_arms", None)
    plugins._installed.cache_clear()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, installed: None) -> Iterator[Opened]:
    search = Search(cache_entries=0, arms=("exact_phrase",))
    with Opened(tmp_path_factory.mktemp("plugin"), near_ties(), search=search) as held:
        yield held


def with_arms(shelf: Opened, *arms: str) -> None:
    told = shelf.engine.settings
    shelf.engine.settings = replace(told, search=replace(told.search, arms=arms))


@pytest.fixture(autouse=True)
def on(shelf: Opened) -> None:
    with_arms(shelf, "exact_phrase")
    shelf.run(shelf.engine.base(shelf.kb)).curves = Curves()


def test_it_is_off_unless_it_is_named(shelf: Opened) -> None:
    assert all("exact_phrase" in found.arms for found in shelf.ask(QUERY).found)
    with_arms(shelf)
    recall = shelf.ask(QUERY)
    assert recall.found
    assert not any("exact_phrase" in found.arms for found in recall.found)
    assert not any(step.name == "recall.exact_phrase" for step in recall.steps)


def test_its_score_weight_and_label_are_explained(shelf: Opened) -> None:
    explained = shelf.run(shelf.engine.explain(shelf.kb, QUERY))
    best, figures = explained.answer.found[0], explained.sums[0]
    assert best.arms["exact_phrase"].raw == 1.0
    assert best.arms["exact_phrase"].score == 0.5
    assert explained.weights["exact_phrase"] == figures.votes["exact_phrase"].weight == 0.4
    votes = figures.votes.values()
    assert figures.fused == pytest.approx(sum(v.weight * v.score for v in votes) / sum(v.weight for v in votes))
    arm = find_arm("exact_phrase")
    assert arm is not None
    assert arm.label == ("原句", "exact phrase")


def test_a_base_names_arms_and_their_weights(shelf: Opened) -> None:
    with_arms(shelf)
    config = {
        "search": {"arms": ["exact_phrase", "-qa"], "weights": {"vector": 0.2, "keyword": 0.2, "exact_phrase": 2.0}}
    }
    shelf.run(shelf.engine.configure(shelf.kb, config))
    try:
        explained = shelf.run(shelf.engine.explain(shelf.kb, QUERY))
        assert explained.weights == config["search"]["weights"]
        assert {step.name for step in explained.answer.steps if step.name.startswith("recall.")} == {
            "recall.vector", "recall.keyword", "recall.exact_phrase",
        }  # fmt: skip
    finally:
        shelf.run(shelf.engine.configure(shelf.kb, {"search": None}))
    with pytest.raises(BadQuery, match="没有名为 exact_phrase 的一路"):
        shelf.ask(QUERY, weights={"vector": 1.0, "exact_phrase": 1.0})


@pytest.mark.parametrize("curves", [Curves(), Curves((0.45, 9.0), (0.1, 8.0), (0.4, 7.0))])
@pytest.mark.parametrize("mode", ["hybrid", "fulltext"])
@pytest.mark.parametrize("fusion", ["weighted", "rrf", "min_max"])
@pytest.mark.parametrize("where", [EVERYTHING, Eq("user_id", "张三")])
@pytest.mark.parametrize("arm", ["exact_phrase", "unfiltered"])
def test_the_score_contract_holds_with_it(
    shelf: Opened, curves: Curves, mode: str, fusion: str, where: Any, arm: str
) -> None:
    with_arms(shelf, arm)
    shelf.run(shelf.engine.base(shelf.kb)).curves = curves
    asked = {"query": QUERY, "mode": mode, "fusion": fusion, "where": where, "doc_ids": (), "fuzzy": True}
    follows_the_contract(shelf, asked, 5, 0.4)
    assert any(arm in found.arms for found in shelf.ask(**asked).found)


def test_what_it_does_not_find_keeps_its_score(shelf: Opened) -> None:
    """On calibrated curves it is a bonus, and no other result is worth less by it."""
    shelf.run(shelf.engine.base(shelf.kb)).curves = Curves((0.45, 9.0), (0.1, 8.0))
    query = "住院的报销比例为百分之六十"
    with_it = {found.chunk.key: found for found in shelf.ask(query, top_k=100).found}
    with_arms(shelf)
    without = {found.chunk.key: found for found in shelf.ask(query, top_k=100).found}
    others = [key for key, found in with_it.items() if "exact_phrase" not in found.arms and key in without]
    assert others
    assert [with_it[key].score for key in others] == pytest.approx([without[key].score for key in others])


def test_what_is_deleted_is_not_found_by_it(tmp_path: Path) -> None:
    with Opened(
        tmp_path, near_ties()[:6], search=Search(cache_entries=0, arms=("exact_phrase",)), model="none"
    ) as held:
        first = held.ask(QUERY).found[0].chunk
        held.run(held.engine.delete_document(held.kb, first.doc_id))
        recall = held.ask(QUERY)
        assert first.doc_id not in {found.chunk.doc_id for found in recall.found}
        assert [missing.part for missing in recall.degraded] == ["vector"]  # there is no model


@pytest.mark.parametrize("name", ["nowhere", "wrong", "broken"])
def test_one_that_cannot_take_part_is_named_and_the_others_answer(shelf: Opened, name: str) -> None:
    with_arms(shelf, name)
    recall = shelf.ask(QUERY)
    assert recall.found
    assert [missing.part for missing in recall.degraded] == [name]
    if name != "broken":
        with pytest.raises(PluginError):
            plugin_arm(name)


def test_layered_search_and_metrics_know_it_too(shelf: Opened) -> None:
    assert shelf.run(shelf.engine.search_texts(shelf.kb, QUERY)).results
    metrics = Metrics()
    assert metrics.registry.get_sample_value("rag_arm_failures_total", {"arm": "exact_phrase"}) == 0.0


def test_arms_of_ours_have_all_that_others_need() -> None:
    for arm in STANDARD:
        assert all(hasattr(arm, attribute) for attribute in plugins.MODEL_ATTRIBUTES["arm"])
    assert {arm.name for arm in STANDARD} == plugins.OWN_NAMES["arm"]
