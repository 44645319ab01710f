"""An embedding model without weights, for tests and for those who extend Qianxun."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from qianxun.core.types import Vector, Vectors


class HashEmbedding:
    """Characters and character bigrams hashed into signed buckets: texts that share them get similar unit vectors.

    Deterministic across processes and machines. It knows form, not meaning: synonyms are strangers to it.
    """

    def __init__(self, dimension: int = 64, name: str = "") -> None:
        self._dimension = dimension
        self._name = name or f"fake-{dimension}"

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            self._add_features(row, text)
        return vectors

    def embed_query(self, text: str) -> Vector:
        row: Vector = self.embed_passages([text])[0]
        return row

    def _add_features(self, row: Vector, text: str) -> None:
        # A bigram says more than a character, so it weighs more; the empty text has a feature of its own.
        for start in range(len(text)):
            self._add(row, text[start], 0.3)
            self._add(row, text[start : start + 2], 1.0)
        norm = float(np.linalg.norm(row))
        if norm == 0.0:
            row[0] = norm = 1.0
        row /= norm

    def _add(self, row: Vector, feature: str, weight: float) -> None:
        digest = int.from_bytes(blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        row[(digest >> 1) % self._dimension] += weight if digest & 1 else -weight
