"""Reranking by late interaction (Khattab and Zaharia, ColBERT, SIGIR 2020): the best match of each query token.

Uses the token vectors of the embedding model that is loaded anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.core.ports import EmbeddingModel, never
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import Scores, Vectors
from qianxun.text.chinese import STOP_WORDS

Halves: TypeAlias = NDArray[np.float16]  # (tokens, dimension), of a cached passage
CACHE_BYTES = 128 << 20
QUERY_TOKENS = 16  # compared at once
# Products that OpenBLAS computes in the caller's thread. Beyond this it wakes others, which spin: 8.5 ms of CPU time
# instead of .1 for 12 × 290 tokens of 512 numbers.
SINGLE_THREAD = 1 << 18
SLICE = 8  # passages encoded between two calls of ``stop``


@runtime_checkable
class TokenModel(Protocol):
    """A model with a unit vector for every token of a text, without special tokens."""

    @property
    def name(self) -> str: ...

    def token_vectors(self, texts: Sequence[str]) -> list[Vectors]: ...

    def token_spans(self, text: str) -> list[tuple[int, int]]: ...


def clipped(similarities: Scores) -> Scores:
    bounded: Scores = np.clip(similarities, 0.0, 1.0)
    return bounded


class MaxSim:
    """A RerankModel over token vectors. Thread-safe.

    The score of a passage is the mean, over the informative tokens of the query, of the best cosine with a token of the
    passage, mapped to [0, 1] by ``calibration``. It depends on query and passage alone, not on other passages or on the
    cache. With nothing to compare it is 0.
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
        """Caches up to ``cache_bytes`` of passages' vectors. Raises ModelUnavailable for a model without tokens."""
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
        """One score in [0, 1] per passage, in order. Passages encoded before a stop are cached."""
        if not passages:
            return []
        tokens = self._tokens([query])[0].astype(np.float32)
        spans = self._model.token_spans(query)
        if len(spans) == len(tokens):
            tokens = tokens[informative(query, spans)]
        if len(tokens) == 0:
            return [0.0] * len(passages)
        raw = np.full(len(passages), np.nan)
        for start in range(0, len(passages), self._slice_size):
            if stop():
                raise ModelUnavailable("重排到了时限，没有做完", hint="请放宽重排的时限，或减少参与重排的条数")
            for position, rows in enumerate(self._passages(passages[start : start + self._slice_size]), start):
                if len(rows):
                    raw[position] = _maxsim(tokens, rows)
        return self._calibrated(raw)

    def _calibrated(self, raw: Scores) -> list[float]:
        """Mapped to [0, 1]; NaN means that there was nothing to compare."""
        compared = np.flatnonzero(~np.isnan(raw))
        scores = np.zeros(len(raw))
        scores[compared] = np.clip(self._calibration(raw[compared]), 0.0, 1.0)
        if not np.isfinite(scores).all():
            raise BadModelReply(f"{self.name} 的校准给出了非数", hint="请检查校准的两个参数")
        found: list[float] = scores.tolist()
        return found

    def _passages(self, texts: Sequence[str]) -> list[Halves]:
        """The token vectors of a slice; uncached texts are encoded together, each once."""
        digests = [_digest(text) for text in texts]
        known = {digest: rows for digest in digests if (rows := self._cache.get(digest)) is not None}
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
        if missing:
            for digest, rows in zip(missing, self._tokens(list(missing.values())), strict=True):
                known[digest] = rows
                self._cache.put(digest, rows)
        return [known[digest] for digest in digests]

    def _tokens(self, texts: Sequence[str]) -> list[Halves]:
        found = self._model.token_vectors(texts)
        if len(found) != len(texts):
            raise BadModelReply(
                f"模型 {self._model.name} 应为 {len(texts)} 段文本返回词元向量，实际返回 {len(found)} 段",
                hint="请检查模型",
            )
        return [self._halved(np.asarray(rows)) for rows in found]

    def _halved(self, rows: Vectors) -> Halves:
        # Always in half precision, so that a cached passage scores like a fresh one.
        with np.errstate(over="ignore"):
            half = rows.astype(np.float16)
        if half.ndim != 2 or not np.isfinite(half).all():
            raise BadModelReply(f"模型 {self._model.name} 的词元向量含有非数，或形状不对", hint="请检查模型的权重文件")
        return half


def with_tokens(model: EmbeddingModel | TokenModel) -> TokenModel:
    """The model itself, if it has token vectors. Raises ModelUnavailable."""
    if isinstance(model, TokenModel):
        return model
    raise ModelUnavailable(
        f"模型 {model.name} 不提供词元向量，不能用于 maxsim 重排",
        hint="请改用本地模型（如 bge-small-zh-v1.5），或另选重排模型、不重排",
    )


def informative(query: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The informative tokens of a query; all of them if there are none.

    Marks and stop words like 的、什么、吗 are excluded: they match every passage and only blur the score
    (docs/quality.md: with them MaxSim gains a fifth less).
    """
    folded = query.lower()
    empty = {at for found in _stop_words().finditer(folded) for at in range(found.start(), found.end())}
    found = [
        position
        for position, (start, end) in enumerate(spans)
        if any(query[at].isalnum() and at not in empty for at in range(start, min(end, len(query))))
    ]
    return found or list(range(len(spans)))


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
    """The best cosine of each row, ``many`` rows of the passage at a time."""
    blocks = [(query @ passage[start : start + many].T).max(axis=1) for start in range(0, len(passage), many)]
    best: NDArray[np.float32] = np.max(blocks, axis=0)
    return best


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _weight(_: bytes, rows: Halves) -> int:
    return rows.nbytes + 256  # with the entry itself: a passage without tokens is not free
