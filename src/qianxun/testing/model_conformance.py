"""What every embedding, rerank and chat model must do, as test classes to inherit.

    class TestMyEmbedding(EmbeddingConformance):
        def model(self) -> EmbeddingModel:
            return MyEmbedding(...)

Required abilities are tested of every model. Optional ones are tested where a class names them:

    class TestMyChat(ChatConformance):
        abilities = frozenset({"stream"})
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, ClassVar, Final

import numpy as np
import pytest

from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.core.ports import ChatModel, EmbeddingModel, RerankModel
from qianxun.core.types import Message

PAIRS: Final = (  # a query, and the passage that answers it
    ("住院报销比例", "参保人员住院费用的报销比例为百分之八十五。"),
    ("机油更换周期", "机油更换周期为五千公里或六个月。"),
    ("入学年龄", "儿童的入学年龄为年满六周岁。"),
)
PASSAGES: Final = tuple(passage for _, passage in PAIRS)
HOSTILE: Final = (
    "", " ", "a", "ＡＢＣ１２３", "🧧👨‍👩‍👧", "第一行\n\n第二行\t表", "\x00\x07", "e\u0301", "长" * 5_000,
    "[PAD][MASK]</s>",
)  # fmt: skip


class Conformance:
    """``abilities``: the optional ones that the part has; their tests are skipped otherwise."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset()
    abilities: ClassVar[frozenset[str]] = frozenset()

    def test_its_abilities_are_known(self) -> None:
        assert self.abilities <= self.OPTIONAL, f"known: {sorted(self.OPTIONAL)}"

    def need(self, ability: str) -> None:
        if ability not in self.abilities:
            pytest.skip(f"optional: {ability}")


class EmbeddingConformance(Conformance):
    """Optional: ``tokens`` (it has ``token_vectors``, for late interaction), ``quick`` (``is_quick`` is true),
    ``surrogates`` (takes halves of surrogate pairs)."""

    OPTIONAL = frozenset({"tokens", "quick", "surrogates"})
    tolerance: ClassVar[float] = 1e-3  # between the vectors of one text in different batches

    def model(self) -> EmbeddingModel:
        raise NotImplementedError

    # ── required ─────────────────────────────────────────────────────────────────────────────────

    def test_it_has_a_name_and_a_dimension(self) -> None:
        model = self.model()
        assert isinstance(model.name, str)
        assert model.name
        assert isinstance(model.dimension, int)
        assert model.dimension > 0

    def test_rows_are_unit_vectors_in_order(self) -> None:
        model = self.model()
        vectors = model.embed_passages(PASSAGES)
        assert vectors.shape == (len(PASSAGES), model.dimension)
        assert vectors.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(PASSAGES)), abs=1e-3)
        assert model.embed_passages(PASSAGES[::-1])[::-1] == pytest.approx(vectors, abs=self.tolerance)

    def test_no_texts_give_no_rows(self) -> None:
        model = self.model()
        assert model.embed_passages([]).shape == (0, model.dimension)

    def test_a_vector_depends_on_its_text_alone(self) -> None:
        model = self.model()
        together = model.embed_passages([*PASSAGES, PASSAGES[0]])
        alone = np.stack([model.embed_passages([passage])[0] for passage in PASSAGES])
        assert together[:-1] == pytest.approx(alone, abs=self.tolerance)
        assert together[-1] == pytest.approx(together[0], abs=self.tolerance)

    def test_a_query_is_nearest_to_its_passage(self) -> None:
        model = self.model()
        passages = model.embed_passages(PASSAGES)
        for at, (query, _) in enumerate(PAIRS):
            vector = model.embed_query(query)
            assert vector.shape == (model.dimension,)
            assert vector.dtype == np.float32
            assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-3)
            assert int(np.argmax(passages @ vector)) == at

    def test_any_text_has_a_vector(self) -> None:
        model = self.model()
        vectors = model.embed_passages(HOSTILE)
        assert vectors.shape == (len(HOSTILE), model.dimension)
        assert np.isfinite(vectors).all()
        assert all(np.isfinite(model.embed_query(text)).all() for text in HOSTILE)

    def test_threads_may_share_it(self) -> None:
        model = self.model()
        expected = model.embed_passages(PASSAGES)
        with ThreadPoolExecutor(4) as threads:
            for found in threads.map(model.embed_passages, [PASSAGES] * 8):
                assert found == pytest.approx(expected, abs=self.tolerance)

    # ── optional ─────────────────────────────────────────────────────────────────────────────────

    def test_tokens_have_vectors_of_their_own(self) -> None:
        self.need("tokens")
        model: Any = self.model()
        found = model.token_vectors([*PASSAGES, ""])
        assert len(found) == len(PASSAGES) + 1
        assert all(vectors.ndim == 2 and vectors.shape[1] == model.dimension for vectors in found)
        assert all(len(vectors) > 1 for vectors in found[:-1])

    def test_a_quick_model_has_the_flag(self) -> None:
        self.need("quick")
        assert getattr(self.model(), "is_quick", False) is True

    def test_halves_of_surrogate_pairs_do_no_harm(self) -> None:
        self.need("surrogates")
        assert np.isfinite(self.model().embed_passages(["坏\ud800字"])).all()


class RerankConformance(Conformance):
    """Optional: ``stop`` (gives up on request, also before the first passage)."""

    OPTIONAL = frozenset({"stop"})
    tolerance: ClassVar[float] = 1e-3

    def model(self) -> RerankModel:
        raise NotImplementedError

    # ── required ─────────────────────────────────────────────────────────────────────────────────

    def test_it_has_a_name_and_a_share(self) -> None:
        model = self.model()
        assert isinstance(model.name, str)
        assert model.name
        assert 0 < model.share <= 1

    def test_one_score_per_passage_between_0_and_1(self) -> None:
        for passages in ((), PASSAGES[:1], PASSAGES, HOSTILE):
            scores = list(self.model().score("住院报销比例", passages))
            assert len(scores) == len(passages)
            assert all(math.isfinite(score) and 0 <= score <= 1 for score in scores)

    def test_scores_follow_their_passages(self) -> None:
        model = self.model()
        scores = list(model.score("住院报销比例", PASSAGES))
        assert list(model.score("住院报销比例", PASSAGES[::-1]))[::-1] == pytest.approx(scores, abs=self.tolerance)
        assert list(model.score("住院报销比例", PASSAGES)) == pytest.approx(scores, abs=self.tolerance)

    def test_the_passage_that_answers_wins(self) -> None:
        model = self.model()
        for at, (query, _) in enumerate(PAIRS):
            assert int(np.argmax(list(model.score(query, PASSAGES)))) == at

    # ── optional ─────────────────────────────────────────────────────────────────────────────────

    def test_it_stops_on_request(self) -> None:
        self.need("stop")
        with pytest.raises(ModelUnavailable):
            self.model().score("住院报销比例", PASSAGES * 20, lambda: True)


class ChatConformance(Conformance):
    """The model may reply with anything. Optional: ``stream``; ``unreachable`` (`unreachable_model` returns one that
    cannot be reached)."""

    OPTIONAL = frozenset({"stream", "unreachable"})
    MESSAGES: ClassVar = (
        Message("system", "按资料回答。"),
        Message("user", "住院报销多少？"),
        Message("assistant", "百分之八十五。"),
        Message("user", "门诊呢？"),
    )

    def model(self) -> ChatModel:
        raise NotImplementedError

    def unreachable_model(self) -> ChatModel:
        raise NotImplementedError

    # ── required ─────────────────────────────────────────────────────────────────────────────────

    def test_it_has_a_name(self) -> None:
        assert isinstance(self.model().name, str)
        assert self.model().name

    def test_it_replies_with_text(self) -> None:
        model = self.model()
        for messages in (self.MESSAGES, self.MESSAGES[1:2]):
            reply = model.complete(messages)
            assert isinstance(reply, str)
            assert reply.strip()

    def test_threads_may_share_it(self) -> None:
        model = self.model()
        with ThreadPoolExecutor(4) as threads:
            assert all(isinstance(reply, str) for reply in threads.map(model.complete, [self.MESSAGES] * 8))

    # ── optional ─────────────────────────────────────────────────────────────────────────────────

    def _stream(self, model: Any, **options: Any) -> Iterator[str]:
        found: Iterator[str] = model.stream(self.MESSAGES, **options)
        return found

    def test_a_stream_is_the_reply_in_pieces(self) -> None:
        self.need("stream")
        pieces = list(self._stream(self.model()))
        assert pieces
        assert all(isinstance(piece, str) and piece for piece in pieces)
        assert "".join(pieces).strip()

    def test_a_stream_may_be_left(self) -> None:
        self.need("stream")
        model = self.model()
        with closing(self._stream(model)) as pieces:  # type: ignore[type-var]
            next(pieces)
        assert "".join(self._stream(model)).strip()

    def test_a_stream_stops_on_request(self) -> None:
        self.need("stream")
        with pytest.raises(ModelUnavailable):
            list(self._stream(self.model(), stop=lambda: True))

    def test_what_cannot_be_reached_is_unavailable(self) -> None:
        self.need("unreachable")
        with pytest.raises((ModelUnavailable, BadModelReply)):
            self.unreachable_model().complete(self.MESSAGES)
