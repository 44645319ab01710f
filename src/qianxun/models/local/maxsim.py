"""Reranking by late interaction: each word of the query looks for its best match in the passage.

Khattab and Zaharia, ColBERT (SIGIR 2020), over the token vectors of the embedding model that is loaded anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qianxun.core.cache import LRUCache
from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.core.ports import EmbeddingModel, never
from qianxun.core.types import Scores, Vectors
from qianxun.text.chinese import STOP_WORDS

Halves: TypeAlias = NDArray[np.float16]  # (tokens, dimension): what is kept of a passage
CACHE_BYTES = 128 << 20
QUERY_TOKENS = 16  # compared at once
# Products that OpenBLAS computes in the caller's thread. Beyond this it wakes others, which then spin: 8.5 ms of
# processor time instead of .1 for 12 × 290 tokens of 512 numbers.
SINGLE_THREAD = 1 << 18
SLICE = 8  # passages encoded before `stop` is asked again


@runtime_checkable
class TokenModel(Protocol):
    """A model that gives a unit vector for every token of a text, special tokens left out."""

    @property
    def name(self) -> str: ...

    def token_vectors(self, texts: Sequence[str]) -> list[Vectors]: ...

    def token_spans(self, text: str) -> list[tuple[int, int]]: ...


def clipped(similarities: Scores) -> Scores:
    kept: Scores = np.clip(similarities, 0.0, 1.0)
    return kept


class MaxSim:
    """A RerankModel over token vectors. Safe to call from several threads at once.

    A passage's score is the mean, over the query's telling tokens, of the best cosine with a token of the passage,
    brought to [0, 1] by ``calibration``. It depends on nothing but query and passage: not on the other passages, nor
    on whether the passage was seen before. Where there is nothing to compare, in query or passage, it is 0.
    """

    def __init__(
        self,
        model: EmbeddingModel | TokenModel,
        *,
        share: float = 0.5,
        calibration: Callable[[Scores], Scores] = clipped,
        cache_bytes: int = CACHE_BYTES,
        slice_size: int = SLICE,
    ) -> None:
        """Keeps up to ``cache_bytes`` of passages' vectors. Raises ModelUnavailable for a model without tokens."""
        if not 0.0 < share <= 1.0 or cache_bytes < 0 or slice_size < 1:
            raise BadInput("share 须在 (0, 1] 之内，cache_bytes 不能为负，slice_size 须大于零", hint="请改正重排设置")
        self._model = with_tokens(model)
        self._share = share
        self._calibration = calibration
        self._cache = LRUCache[bytes, Halves](bytes_limit=cache_bytes, size=_weight)  # token vectors of passages
        self._slice_size = slice_size

    @property
    def name(self) -> str:
        return f"maxsim({self._model.name})"

    @property
    def share(self) -> float:
        return self._share

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
        """One score in [0, 1] per passage, in order. What was encoded before a stop is kept for the next call."""
        if not passages:
            return []
        asked = self._tokens([query])[0].astype(np.float32)
        spans = self._model.token_spans(query)
        if len(spans) == len(asked):
            asked = asked[telling(query, spans)]
        if len(asked) == 0:
            return [0.0] * len(passages)
        raw = np.full(len(passages), np.nan)
        for start in range(0, len(passages), self._slice_size):
            if stop():
                raise ModelUnavailable("重排到了时限，没有做完", hint="请放宽重排的时限，或减少参与重排的条数")
            held = self._passages(passages[start : start + self._slice_size])
            for position, rows in enumerate(held, start):
                if len(rows):
                    raw[position] = _maxsim(asked, rows)
        return self._calibrated(raw)

    def _calibrated(self, raw: Scores) -> list[float]:
        """Brought to [0, 1]; a score that is no number here means that there was nothing to compare."""
        compared = np.flatnonzero(~np.isnan(raw))
        scores = np.zeros(len(raw))
        scores[compared] = np.clip(self._calibration(raw[compared]), 0.0, 1.0)
        if not np.isfinite(scores).all():
            raise BadModelReply(f"{self.name} 的校准给出了非数", hint="请检查校准的两个参数")
        found: list[float] = scores.tolist()
        return found

    def _passages(self, texts: Sequence[str]) -> list[Halves]:
        """The token vectors of a slice; those not kept are encoded together, each text once."""
        digests = [_digest(text) for text in texts]
        held = {digest: rows for digest in digests if (rows := self._cache.get(digest)) is not None}
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in held}
        if missing:
            for digest, rows in zip(missing, self._tokens(list(missing.values())), strict=True):
                held[digest] = rows
                self._cache.put(digest, rows)
        return [held[digest] for digest in digests]

    def _tokens(self, texts: Sequence[str]) -> list[Halves]:
        found = self._model.token_vectors(texts)
        if len(found) != len(texts):
            raise BadModelReply(
                f"模型 {self._model.name} 应为 {len(texts)} 段文本返回词元向量，实际返回 {len(found)} 段",
                hint="请检查模型",
            )
        return [self._halved(np.asarray(rows)) for rows in found]

    def _halved(self, rows: Vectors) -> Halves:
        # Whatever is compared went through half precision, so that a kept passage scores like a fresh one.
        with np.errstate(over="ignore"):
            half = rows.astype(np.float16)
        if half.ndim != 2 or not np.isfinite(half).all():
            raise BadModelReply(f"模型 {self._model.name} 的词元向量含有非数，或形状不对", hint="请检查模型的权重文件")
        return half


def with_tokens(model: EmbeddingModel | TokenModel) -> TokenModel:
    """The model itself, where it can give token vectors. Raises ModelUnavailable."""
    if isinstance(model, TokenModel):
        return model
    raise ModelUnavailable(
        f"模型 {model.name} 不提供词元向量，不能用于 maxsim 重排",
        hint="请改用本地模型（如 bge-small-zh-v1.5），或另选重排模型、不重排",
    )


def telling(query: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The tokens that carry the question's meaning; all of them where none does.

    Left out are marks and words like 的、什么、吗: every passage has something near to those, so they only blur the
    score (docs/quality.md: with them MaxSim gains a fifth less).
    """
    folded = query.lower()
    empty = {at for found in _stop_words().finditer(folded) for at in range(found.start(), found.end())}
    kept = [
        position
        for position, (start, end) in enumerate(spans)
        if any(query[at].isalnum() and at not in empty for at in range(start, min(end, len(query))))
    ]
    return kept or list(range(len(spans)))


@cache
def _stop_words() -> re.Pattern[str]:
    chinese = sorted((word for word in STOP_WORDS if not word.isascii()), key=lambda word: (-len(word), word))
    return re.compile("|".join(map(re.escape, chinese)))


def _maxsim(query: Vectors, passage: Halves) -> float:
    if passage.shape[1] != query.shape[1]:
        raise BadModelReply(
            f"词元向量的维度不一：查询 {query.shape[1]}，段落 {passage.shape[1]}", hint="请检查模型的权重文件"
        )
    rows = passage.astype(np.float32)
    few = max(1, min(len(query), QUERY_TOKENS))
    many = max(1, SINGLE_THREAD // (few * query.shape[1]))
    best = [_best(query[start : start + few], rows, many) for start in range(0, len(query), few)]
    return float(np.concatenate(best).mean(dtype=np.float64))


def _best(query: Vectors, passage: Vectors, many: int) -> NDArray[np.float32]:
    """Each row's best cosine, ``many`` rows of the passage at a time."""
    blocks = [(query @ passage[start : start + many].T).max(axis=1) for start in range(0, len(passage), many)]
    best: NDArray[np.float32] = np.max(blocks, axis=0)
    return best


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _weight(_: bytes, rows: Halves) -> int:
    return rows.nbytes + 256  # and what the entry itself takes: a passage without tokens is not free
