from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from qianxun.core.errors import NotFound
from qianxun.models import CARDS, RERANK_CARDS, any_card, card, rerank_card
from tests.shared import BGE_SMALL, needs_model


def test_the_table_holds_the_four_models() -> None:
    shapes = {row.name: (row.dimension, row.pooling, row.max_tokens) for row in CARDS}
    assert shapes == {
        "bge-small-zh-v1.5": (512, "cls", 512),
        "bge-large-zh-v1.5": (1024, "cls", 512),
        "bge-m3": (1024, "cls", 8192),
        "m3e-base": (768, "mean", 512),
    }
    assert [row.name for row in CARDS if row.pinned] == ["bge-small-zh-v1.5"]


def test_a_name_is_found_by_alias_and_in_any_case() -> None:
    assert card("BAAI/bge-large-zh-v1.5") is card(" BGE-Large-zh-v1.5 ")
    assert card("moka-ai/m3e-base").name == "m3e-base"


def test_every_name_leads_to_one_card() -> None:
    names = [known.casefold() for row in (*CARDS, *RERANK_CARDS) for known in (row.name, *row.aliases)]
    assert len(names) == len(set(names))


def test_rerankers_have_cards_of_their_own() -> None:
    assert [row.name for row in RERANK_CARDS] == ["bge-reranker-large", "bge-reranker-base", "bge-reranker-v2-m3"]
    assert rerank_card("BAAI/bge-reranker-large") is any_card("bge-reranker-LARGE")
    assert any_card("bge-m3") is card("bge-m3")
    assert not any(row.pinned for row in RERANK_CARDS)
    with pytest.raises(NotFound, match="嵌入模型"):
        card("bge-reranker-base")
    with pytest.raises(NotFound, match=r"重排模型.*bge-reranker-v2-m3"):
        rerank_card("bge-m3")


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(NotFound, match=r"是不是 bge-small-zh-v1\.5"):
        card("bge-small-zh")
    with pytest.raises(NotFound, match="m3e-base"):
        card("完全不同")


def test_a_card_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        card("bge-m3").dimension = 7  # type: ignore[misc]


@needs_model
def test_the_pinned_sizes_are_the_sizes_of_the_files() -> None:
    for file in card("bge-small-zh-v1.5").files:
        assert (BGE_SMALL / file.path).stat().st_size == file.max_bytes
