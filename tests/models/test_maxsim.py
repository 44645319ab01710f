from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.core.ports import RerankModel
from qianxun.models import MaxSim
from qianxun.models.embedding import LazyEmbedding
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.models.local.maxsim import informative
from qianxun.testing.scripted import HashEmbedding
from tests.shared import BGE_SMALL, needs_model

NAME = "bge-small-zh-v1.5"
PASSAGES = [
    "城镇职工基本医疗保险参保人员住院费用报销比例为百分之八十五。",
    "建议每行驶五千公里或六个月更换一次机油和机滤。",
    "",
    "年满六周岁的适龄儿童应当入学接受义务教育。",
    "城镇职工基本医疗保险参保人员住院费用报销比例为百分之八十五。",
]
QUERY = "住院能报多少钱"


class Letters:
    """Each character is a token: a unit vector along an axis of its own, so that the expected scores are arithmetic."""

    name = "letters"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def token_vectors(self, texts: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        self.asked.extend(texts)
        return [np.eye(128, dtype=np.float32)[[ord(letter) for letter in text]] for text in texts]

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(len(text))]


class Scripted(Letters):
    def __init__(self, *replies: Any) -> None:
        super().__init__()
        self.replies = list(replies)

    def token_vectors(self, texts: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        reply = self.replies.pop(0)
        return [reply] * len(texts) if isinstance(reply, np.ndarray) else reply


def test_the_score_is_the_mean_of_each_query_tokens_best_match() -> None:
    assert MaxSim(Letters()).score("abcd", ["ab", "abcd", "xyz", "dddd"]) == [2 / 4, 4 / 4, 0 / 4, 1 / 4]


def test_marks_and_words_without_meaning_do_not_count() -> None:
    spans = [(at, at + 1) for at in range(8)]
    assert informative("医保的比例是多少？"[:8], spans) == [0, 1, 3, 4]
    assert informative("是什么", [(0, 1), (1, 3)]) == [0, 1]  # nothing else to go by
    assert informative("ＡＢ ok!", [(0, 2), (3, 5), (5, 6)]) == [0, 1]
    assert MaxSim(Letters()).score("ab, c", ["abc", "ab"]) == [1.0, pytest.approx(2 / 3)]


def test_nothing_to_compare_scores_zero_whatever_the_calibration() -> None:
    generous = MaxSim(Letters(), calibration=lambda raw: raw * 0 + 0.9)
    assert generous.score("abc", ["", "x"]) == [0.0, 0.9]
    assert generous.score("", ["abc", "x"]) == [0.0, 0.0]
    assert generous.score("abc", []) == []


def test_a_calibration_is_kept_within_bounds_and_must_give_numbers() -> None:
    assert MaxSim(Letters(), calibration=lambda raw: raw * 5 - 1).score("ab", ["a", "x"]) == [1.0, 0.0]
    with pytest.raises(BadModelReply, match="校准"):
        MaxSim(Letters(), calibration=lambda raw: raw * np.nan).score("ab", ["x"])


def test_a_text_is_encoded_once_while_it_is_kept_and_again_when_it_was_dropped() -> None:
    model = Letters()
    assert MaxSim(model).score("ab", ["a", "a", "b"]) == [0.5, 0.5, 0.5]
    assert model.asked == ["ab", "a", "b"]
    kept = MaxSim(small := Letters(), cache_bytes=2 * (2 * 128 + 256), slice_size=1)  # room for two letters
    for _ in range(2):
        assert kept.score("ab", ["a", "b", "c"]) == [0.5, 0.5, 0.0]
    assert small.asked.count("a") == 2
    without = MaxSim(forgetful := Letters(), cache_bytes=0)
    assert without.score("ab", ["a"]) == without.score("ab", ["a"]) == [0.5]
    assert forgetful.asked.count("a") == 2


def test_stop_is_asked_between_slices_and_what_was_done_is_kept() -> None:
    model = Letters()
    rerank = MaxSim(model, slice_size=2)
    answers = iter([False, False, True])
    with pytest.raises(ModelUnavailable, match="时限"):
        rerank.score("q", list("abcdef"), lambda: next(answers))
    assert model.asked == ["q", "a", "b", "c", "d"]
    rerank.score("q", list("abcdef"))
    assert model.asked[5:] == ["q", "e", "f"]


@pytest.mark.parametrize(
    "reply",
    [
        np.full((2, 128), np.nan, np.float32),
        np.full((2, 128), np.inf, np.float32),
        np.full((2, 128), 1e30, np.float32),
        np.ones(128, np.float32),
        np.ones((2, 64), np.float32),
        [],
    ],
    ids=["nan", "inf", "huge", "flat", "other dimension", "too few"],
)
def test_a_bad_reply_is_refused_and_not_kept(reply: Any) -> None:
    good = np.eye(128, dtype=np.float32)[:2]
    rerank = MaxSim(Scripted(good, reply, good, good))
    with pytest.raises(BadModelReply):
        rerank.score("ab", ["x"])
    if np.shape(reply) != (2, 64):  # only its comparison shows that this one is bad
        assert rerank.score("ab", ["x"]) == [1.0]


def test_impossible_settings_and_models_without_tokens_are_refused() -> None:
    for wrong in ({"share": 0.0}, {"share": 1.5}, {"share": float("nan")}, {"cache_bytes": -1}, {"slice_size": 0}):
        with pytest.raises(BadInput):
            MaxSim(Letters(), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ModelUnavailable, match="词元"):
        MaxSim(HashEmbedding(16))
    lazy = MaxSim(LazyEmbedding("hash", 16, lambda: HashEmbedding(16)))
    with pytest.raises(ModelUnavailable, match="词元"):
        lazy.score("a", ["b"])


def test_threads_at_once_agree() -> None:
    rerank = MaxSim(Letters(), cache_bytes=4000, slice_size=3)
    texts = [f"{a}{b}" for a in "abcdef" for b in "uvwxyz"]
    expected = [0.5 if "a" in text else 0.0 for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: rerank.score("aq", texts), range(40))) == [expected] * 40


@needs_model
def test_the_score_depends_on_query_and_passage_alone() -> None:
    model = LocalEmbedding(NAME, BGE_SMALL)
    rerank: RerankModel = MaxSim(LazyEmbedding(NAME, 512, lambda: model))
    together = rerank.score(QUERY, PASSAGES)
    assert together == rerank.score(QUERY, PASSAGES)  # from the cache
    assert together == [MaxSim(model).score(QUERY, [passage])[0] for passage in PASSAGES]
    assert together == MaxSim(model, slice_size=2).score(QUERY, PASSAGES[::-1])[::-1]
    assert together[0] == together[4] == max(together)
    assert together[2] == 0.0
    assert all(0.0 <= score <= 1.0 for score in together)
    assert rerank.name == f"maxsim({NAME})"
    assert rerank.score("\ud800 \x00", ["甲\udfff", "\u200b"])[1] == 0.0


@pytest.mark.parametrize("shape", [(1, 1), (16, 33), (17, 290), (200, 70)])
def test_comparing_in_blocks_changes_nothing(shape: tuple[int, int]) -> None:
    chance = np.random.default_rng(7)
    query, passage = (chance.standard_normal((count, 512)) for count in shape)
    query, passage = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (query, passage))
    said = MaxSim(Scripted(query.astype(np.float32), passage.astype(np.float32))).score("q", ["p"])
    assert said == pytest.approx([max(0.0, (query @ passage.T).max(axis=1).mean())], abs=1e-4)
