"""Other ways to put a question, by a model that the base names and that is looked up for every request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadModelReply, BadQuery, ModelUnavailable, NotFound
from qianxun.core.model_types import NewModel
from qianxun.core.options import SearchOptions, check, search_options
from qianxun.core.types import Document
from qianxun.engine.settings import ChatSettings, Outbound, Search, Settings
from qianxun.retrieve.query_plan import REWRITING_LIMIT, REWRITINGS, rewritten
from tests.answer.asked import FakeChat, Opened, near_ties
from tests.models.embedding_service import says, serving, status

LIBRARY = [
    Document("住院", "参保职工住院的报销比例为百分之八十五。"),
    Document("生育", "生育津贴按照上年度职工月平均工资计发。"),
    Document("公园", "城市公园的花卉养护记录。"),
]
QUERY = "生娃给钱吗"
PATIENT = 60.0  # what nothing that is well takes, on a busy machine too
SEARCH = Search(rewrite_seconds=PATIENT, rerank_seconds=PATIENT)
IMPATIENT = Search(rewrite_seconds=0.1)  # with a model that never answers


def opened(folder: Path, *models: Any, name: str = "改写", **more: Any) -> Opened:
    config = {"rewrite_model": name} if name else {}
    return Opened(folder, LIBRARY, *models, config=config, model="none", **more)


def chat(reply: Any, name: str = "改写") -> FakeChat:
    return FakeChat(name, reply if callable(reply) else lambda: reply)


def test_the_question_is_asked_in_all_its_wordings(tmp_path: Path) -> None:
    model = chat('好的：\n["生育津贴如何计发", "生娃给钱吗", "生育津贴如何计发", "  ", "产假工资"]')
    with opened(tmp_path, model, search=SEARCH) as held:
        recall = held.ask(QUERY, mode="fulltext", fuzzy=False)
        assert recall.queries == (QUERY, "生育津贴如何计发", "产假工资")
        assert recall.found[0].chunk.doc_id == "生育"
        assert recall.found[0].tier == "strict"  # by its best wording, not by all words of all wordings together
        assert recall.degraded == ()
        assert [text.count(QUERY) for text in model.asked] == [1]
        assert "rewrite" in [step.name for step in recall.steps]


def test_without_a_configured_model_nobody_is_asked(tmp_path: Path) -> None:
    model = chat('["生育津贴"]')
    with opened(tmp_path, model, name="", search=SEARCH) as held:
        assert held.ask(QUERY, mode="fulltext").queries == (QUERY,)
        assert model.asked == []


def test_a_model_registered_between_two_requests_takes_effect(tmp_path: Path) -> None:
    told = Settings(data=str(tmp_path), search=SEARCH, outbound=Outbound(allow=("127.0.0.1",)))
    with (
        serving(says('["津贴"]')) as one,
        serving(says('["工资"]')) as other,
        opened(tmp_path, name="", settings=told) as held,
    ):
        registry = held.engine.registry

        def asked() -> tuple[str, ...]:
            return held.ask(QUERY, mode="fulltext").queries

        first = held.run(registry.add("7", NewModel("甲", one.url, "m", "rewrite")))
        held.run(held.engine.configure(held.kb, {"rewrite_model": first.ref}))
        assert asked() == (QUERY, "津贴")
        held.run(registry.change("7", first.id, {"base_url": other.url}))
        assert asked() == (QUERY, "工资")
        held.run(registry.remove("7", first.id))
        gone = held.ask(QUERY, mode="fulltext")
        assert gone.queries == (QUERY,)
        assert [each.part for each in gone.degraded] == ["rewrite"]
        assert first.ref in gone.degraded[0].reason
        second = held.run(registry.add("7", NewModel("乙", one.url, "m", "rewrite")))
        held.run(held.engine.configure(held.kb, {"rewrite_model": second.ref}))
        assert asked() == (QUERY, "津贴")


def failing(error: BaseException) -> Callable[[], Any]:
    def reply() -> Any:
        raise error

    return reply


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (failing(ModelUnavailable("服务连不上")), "服务连不上"),
        (failing(RuntimeError("显存不足")), "RuntimeError: 显存不足"),
        ("我不知道", "不是 JSON"),
        ('{"queries": "x"}', "不是 JSON"),
        ('["好", 3]', "字符串数组"),
        ("[[[[", "不是 JSON"),
        (None, "出错"),
        ("", "不是 JSON"),
    ],
)
def test_a_bad_rewriting_leaves_the_question_as_it_was(tmp_path: Path, reply: Any, reason: str) -> None:
    with opened(tmp_path, chat(reply), search=SEARCH) as held:
        recall = held.ask("职工工资", mode="fulltext")
        assert recall.queries == ("职工工资",)
        assert recall.found[0].chunk.doc_id == "生育"
        assert [each.part for each in recall.degraded] == ["rewrite"]
        assert reason in recall.degraded[0].reason


def test_a_rewriting_that_does_not_come_leaves_the_question_as_it_was(tmp_path: Path) -> None:
    gate = threading.Event()
    with opened(tmp_path, chat(gate.wait), search=IMPATIENT) as held:
        recall = held.ask("职工工资", mode="fulltext")
        gate.set()
    assert recall.queries == ("职工工资",)
    assert recall.found[0].chunk.doc_id == "生育"
    assert [(each.part, "0.1 秒内没有答复" in each.reason) for each in recall.degraded] == [("rewrite", True)]


def test_a_language_model_that_hangs_takes_no_thread_from_others(tmp_path: Path) -> None:
    gate = threading.Event()
    config = {"rewrite_model": "改写"}
    with Opened(tmp_path, near_ties()[:5], chat(gate.wait), search=IMPATIENT, config=config) as held:
        for _ in range(10):
            recall = held.ask("住院报销比例")
            assert [each.part for each in recall.degraded] == ["rewrite"]
            assert recall.found[0].source == "hybrid"
        gate.set()


def test_few_and_short_wordings_are_taken() -> None:
    many = [f"第{number}种问法" for number in range(9)]
    assert rewritten(chat(json.dumps(["长" * (REWRITING_LIMIT + 1), *many])), "问") == tuple(many[:REWRITINGS])
    assert rewritten(chat("[]"), "问") == ()
    with pytest.raises(BadModelReply):
        rewritten(chat("]["), "问")


def test_a_real_endpoint_rewrites(tmp_path: Path) -> None:
    with serving(says('["生育津贴如何计发"]'), status(500), says("抱歉")) as service:
        told = Settings(
            data=str(tmp_path),
            search=Search(rewrite_seconds=PATIENT),
            chat=ChatSettings(base_url=service.url, model="qwen"),
        )
        with opened(tmp_path, name="qwen", settings=told) as held:
            assert held.ask(QUERY, mode="fulltext").queries == (QUERY, "生育津贴如何计发")
            assert service.asked[0]["path"] == "/v1/chat/completions"
            assert "不是 JSON" in held.ask(QUERY, mode="fulltext").degraded[0].reason
            assert len(service.asked) == 3  # a failure is tried again; a bad reply is not


# ── whose choice holds ───────────────────────────────────────────────────────────────────────────


def test_the_request_chooses_then_the_base_then_the_settings() -> None:
    told = Search(semantic_weight=0.8, keyword_weight=0.2, fusion="rrf", top_k=7, rerank="甲", fuzzy=False)
    of_settings = search_options(told, {}, {})
    assert (of_settings.weights, of_settings.fusion) == ({"vector": 0.8, "keyword": 0.2}, "rrf")
    assert (of_settings.top_k, of_settings.rerank, of_settings.fuzzy) == (7, "甲", False)
    config = {"search": {"weights": {"vector": 0.3, "keyword": 0.7}, "fuzzy": True}}
    of_base = search_options(told, config, {"weights": None})
    assert (of_base.weights, of_base.fuzzy, of_base.fusion) == ({"vector": 0.3, "keyword": 0.7}, True, "rrf")
    of_request = search_options(told, config, {"weights": {"vector": 1.0}, "rerank": "", "fuzzy": False})
    assert (of_request.weights, of_request.rerank, of_request.fuzzy) == ({"vector": 1.0}, "", False)
    assert search_options(Search(), {}, {}).weights == {}  # as fits the base


def test_weights_are_felt(tmp_path: Path) -> None:
    search = Search(semantic_weight=1.0, keyword_weight=0.0, cache_entries=0)
    with Opened(tmp_path, near_ties()[:20], search=search) as held:
        by_meaning = held.ask("住院报销比例").found[0]
        assert by_meaning.fused == pytest.approx(by_meaning.arms["vector"].raw)
        by_words = held.ask("住院报销比例", weights={"vector": 0.0, "keyword": 1.0}).found[0]
        assert by_words.fused == pytest.approx(by_words.arms["keyword"].score)
        held.run(held.engine.configure(held.kb, {"search": {"weights": {"vector": 0.25, "keyword": 0.75}}}))
        of_base = held.ask("住院报销比例").found[0]
        arms = of_base.arms
        assert of_base.fused == pytest.approx(0.25 * arms["vector"].raw + 0.75 * arms["keyword"].score)


@pytest.mark.parametrize(
    "search",
    [
        {"top_k": "10"},
        {"top_k": 0},
        {"top_k": True},
        {"top_k": 2.5},
        {"fusion": "magic"},
        {"fusion": ["rrf"]},
        {"weights": [0.5, 0.5]},
        {"weights": "0.5"},
        {"weights": {"vector": "0.5"}},
        {"weights": {"vector": None}},
        {"weights": {"vector": float("nan")}},
        {"weights": {"vector": float("inf")}},
        {"weights": {"vector": -1.0, "keyword": 2.0}},
        {"weights": {"vector": 0.0, "keyword": 0.0}},
        {"weights": {"graph": 1.0}},
        {"weights": {3: 1.0}},
        {"rerank": 3},
        {"fuzzy": "no"},
        {"mode": "hybrid"},
        {"top-k": 3},
        {5: 3},
        "rrf",
        7,
        ["rrf"],
    ],
)
def test_a_bad_configuration_is_refused_by_name_with_advice(search: Any) -> None:
    with pytest.raises(BadQuery) as refused:
        check(search_options(Search(), {"search": search}, {}))
    assert refused.value.hint


@pytest.mark.parametrize("bad", [{"mode": None}, {"mode": []}, {"threshold": "0.5"}, {"threshold": None}])
def test_a_request_of_a_wrong_type_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BadQuery):
        check(SearchOptions(**bad))


def test_an_unknown_reranker_is_refused_by_name(tmp_path: Path) -> None:
    with Opened(tmp_path, LIBRARY, model="none") as held, pytest.raises(NotFound, match="没有名为“魔法”的重排模型"):
        held.ask("职工工资", rerank="魔法")
