"""Vectors as records store them: little-endian, in half precision where that loses nothing, else in single precision.

What is embedded is rounded to half precision first (`core.vectors.rounded`); vectors of earlier programs stay as they
are. A mark makes the number of bytes odd, which that of single precision never is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from qianxun.core.types import Vector, Vectors
from qianxun.records import checksums

SINGLE = np.dtype("<f4")
HALF = np.dtype("<f2")
MARK = b"h"
PACKED = 512  # vectors at a time: what is made of them stays in the processor's own memory


def vector_rows(keys: Sequence[int], model: str, vectors: Vectors) -> list[tuple[Any, ...]]:
    """The rows of these chunks or pairs: key, model, vector, checksum."""
    parts = (vectors[start : start + PACKED] for start in range(0, len(vectors), PACKED))
    packed = (data for part in parts for data in pack_vectors(part))
    return [(key, model, data, checksums.vector_checksum(key, data)) for key, data in zip(keys, packed, strict=True)]


def pack_vectors(vectors: Vectors) -> list[bytes]:
    single = np.ascontiguousarray(vectors, dtype=SINGLE)
    with np.errstate(over="ignore"):  # what is too large for it does not come back
        half = single.astype(HALF)
    is_whole = (half.astype(SINGLE) == single).all(axis=1)
    if not is_whole.all():
        return [
            MARK + short.tobytes() if fits else row.tobytes()
            for fits, short, row in zip(is_whole, half, single, strict=True)
        ]
    data, size = half.tobytes(), half.shape[1] * HALF.itemsize
    return [MARK + data[start : start + size] for start in range(0, len(half) * size, size)]


def unpack_vector(stored: bytes) -> Vector | None:
    """The vector, unless these bytes are none."""
    if len(stored) % 2:
        vector: Vector = np.frombuffer(stored, dtype=HALF, offset=len(MARK)).astype(SINGLE)
    elif len(stored) % SINGLE.itemsize == 0:
        vector = np.frombuffer(stored, dtype=SINGLE)
    else:
        return None
    return vector if np.isfinite(vector).all() else None


def sound_vector(key: int, stored: bytes | None, checksum: int | None) -> Vector | None:
    """A stored vector, unless there is none or it is not what was written."""
    if stored is None or not checksums.is_sound_vector(key, stored, checksum):
        return None
    return unpack_vector(stored)


def sound_vectors(found: Iterable[Any]) -> list[tuple[int, Vector]]:
    """Of rows of key, vector and checksum, those that are what was written."""
    checked = ((key, sound_vector(key, stored, checksum)) for key, stored, checksum in found)
    return [(key, vector) for key, vector in checked if vector is not None]
