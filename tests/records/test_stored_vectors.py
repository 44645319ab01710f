from __future__ import annotations

import numpy as np

from qianxun.core.vectors import rounded
from qianxun.records import checksums
from qianxun.records.stored_vectors import SINGLE, pack_vectors, sound_vector, unpack_vector, vector_rows


def _unit(rows: int, dimension: int) -> np.ndarray:
    found = np.random.default_rng(7).standard_normal((rows, dimension)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_a_rounded_vector_takes_half_of_the_bytes_and_comes_back_as_it_was() -> None:
    vectors = rounded(_unit(5, 512))
    stored = pack_vectors(vectors)
    assert {len(one) for one in stored} == {1 + 2 * 512}
    assert np.array_equal(np.stack([unpack_vector(one) for one in stored]), vectors)


def test_a_vector_that_half_precision_would_change_is_stored_whole_as_earlier_programs_did() -> None:
    vectors = np.vstack([_unit(2, 512), rounded(_unit(1, 512)), np.full((1, 512), 1e6)]).astype(np.float32)
    stored = pack_vectors(vectors)
    assert [len(one) for one in stored] == [2048, 2048, 1025, 2048]
    assert stored[0] == vectors[0].astype(SINGLE).tobytes()
    assert np.array_equal(np.stack([unpack_vector(one) for one in stored]), vectors)


def test_cosines_of_rounded_vectors_hardly_move_and_short_vectors_are_left_as_they_are() -> None:
    vectors, query = _unit(200, 512), _unit(1, 512)[0]
    assert np.abs(rounded(vectors) @ query - vectors @ query).max() < 5e-5
    assert np.array_equal(rounded(_unit(3, 64)), _unit(3, 64))


def test_a_damaged_vector_is_not_given_out() -> None:
    ((key, model, stored, checksum),) = vector_rows([7], "m", rounded(_unit(1, 512)))
    assert model == "m"
    assert sound_vector(key, stored, checksum) is not None
    flipped = bytes([stored[0], stored[1] ^ 1, *stored[2:]])
    assert sound_vector(key, flipped, checksum) is None
    endless = b"h" + np.full(512, np.inf, np.float16).tobytes()
    assert sound_vector(7, endless, checksums.vector_checksum(7, endless)) is None
    assert unpack_vector(b"ab") is None
