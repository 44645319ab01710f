"""Which model a name means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import ModelUnavailable, NotFound
from qianxun.core.types import Message
from qianxun.engine.model_catalog import MAXSIM, ModelCatalog
from qianxun.engine.settings import ChatSettings, RerankSettings, Settings
from qianxun.models import RERANK_CARDS, MaxSim
from qianxun.models.embedding import LazyEmbedding
from qianxun.testing.scripted import HashEmbedding
from tests.answer.asked import FakeChat, FakeRerank
from tests.models.embedding_service import ranks_well, says, serving


def catalog(settings: Settings | None = None, **brought: Any) -> ModelCatalog:
    return ModelCatalog(settings or Settings(), [], brought)


def test_what_was_brought_along_comes_first() -> None:
    mine = FakeRerank(MAXSIM, 0.5)
    assert catalog(maxsim=mine).rerank(MAXSIM, None) is mine
    talker = FakeChat("qwen", lambda: "")
    told = Settings(chat=ChatSettings(base_url="http://127.0.0.1:9", model="qwen"))
    assert catalog(told, qwen=talker).chat("qwen") is talker


def test_what_is_brought_later_is_seen_and_what_is_gone_is_not() -> None:
    brought: dict[str, Any] = {}
    held = ModelCatalog(Settings(), [], brought)
    with pytest.raises(NotFound):
        held.chat("甲")
    brought["甲"] = one = FakeChat("甲", lambda: "")
    assert held.chat("甲") is one
    brought["甲"] = two = FakeChat("甲", lambda: "")
    assert held.chat("甲") is two
    del brought["甲"]
    with pytest.raises(NotFound):
        held.chat("甲")


def test_maxsim_is_made_once_for_each_embedding_model() -> None:
    held = catalog()
    one, other = (LazyEmbedding(name, 16, HashEmbedding) for name in ("甲", "乙"))
    made = held.rerank(MAXSIM, one)
    assert isinstance(made, MaxSim)
    assert held.rerank(MAXSIM, one) is made
    assert held.rerank(MAXSIM, other) is not made
    with pytest.raises(ModelUnavailable, match="没有向量模型"):
        held.rerank(MAXSIM, None)
    with pytest.raises(ModelUnavailable, match="词元向量"):
        held.rerank(MAXSIM, HashEmbedding())


def test_an_unknown_reranker_is_not_found_and_the_known_ones_are_named() -> None:
    told = Settings(rerank=RerankSettings(base_url="http://127.0.0.1:9", model="远处的"))
    with pytest.raises(NotFound, match="魔法") as missing:
        catalog(told, 自带=FakeRerank("自带", 0.5)).rerank("魔法", None)
    for name in (MAXSIM, "自带", "远处的", *(card.name for card in RERANK_CARDS)):
        assert name in missing.value.hint


def test_an_unknown_language_model_is_not_found_with_advice() -> None:
    with pytest.raises(NotFound, match="魔法") as missing:
        catalog().chat("魔法")
    assert "chat.model" in missing.value.hint


def test_a_card_whose_weights_are_not_here_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable):
        ModelCatalog(Settings(), [tmp_path], {}).rerank(RERANK_CARDS[0].name, None)


def test_the_endpoints_of_the_settings_answer_under_their_names() -> None:
    with serving(ranks_well) as service:
        held = catalog(Settings(rerank=RerankSettings(base_url=service.url, model="远处的")))
        model = held.rerank("远处的", None)
        assert list(model.score("住院", ["住院的报销", "公园"])) == [1.0, 0.0]
        assert held.rerank("远处的", None) is model
        held.close()
    with serving(says("好")) as service:
        held = catalog(Settings(chat=ChatSettings(base_url=service.url, model="qwen", max_tokens=800)))
        assert held.chat("qwen").complete([Message("user", "你好")]) == "好"
        assert service.asked[0]["max_tokens"] == 800
        assert held.chat("qwen") is held.chat("qwen")
        held.close()


def test_an_endpoint_without_an_address_is_none() -> None:
    with pytest.raises(NotFound):
        catalog(Settings(chat=ChatSettings(model="qwen"))).chat("qwen")
    with pytest.raises(NotFound):
        catalog(Settings(rerank=RerankSettings(model="远处的"))).rerank("远处的", None)
