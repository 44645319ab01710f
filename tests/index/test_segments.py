"""Every segment of the keyword index costs every search: a batch leaves one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from qianxun.index.embedded.keywords import tantivy_index

ROWS = 1_200
HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 3_000)]


def written(folder: Path) -> int:
    """How many segments a batch of entries leaves that are as long as usual chunks."""
    chance = random.Random(7)
    grams = [" ".join(chance.choices(HAN, k=900)) for _ in range(ROWS)]
    index = tantivy_index.Keywords.create(folder)
    index.write(range(ROWS), [""] * ROWS, grams, ())
    return int(index.view().searcher.num_segments)


def test_a_batch_leaves_one_segment(tmp_path: Path) -> None:
    assert written(tmp_path / "keywords") == 1


def test_a_batch_that_does_not_fit_into_memory_would_leave_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tantivy_index, "MOST_HEAP_BYTES", tantivy_index.LEAST_HEAP_BYTES)
    assert written(tmp_path / "keywords") > 1


def test_what_tantivy_keeps_of_its_writers_is_let_go_after_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tantivy_index, "WRITES_AN_OPENING", 3)
    index = tantivy_index.Keywords.create(tmp_path / "keywords")
    objects = [index._index]
    for row in range(7):
        index.write([row], ["住院"], [""], ())
        assert index.view().searcher.num_docs == row + 1
        objects += [index._index] if index._index is not objects[-1] else []
    assert len(objects) == 3, "a new one after three writes and after six"


def test_halves_of_surrogate_pairs_are_written_as_what_cannot_be_read(tmp_path: Path) -> None:
    index = tantivy_index.Keywords.create(tmp_path / "keywords")
    index.write([1, 2], ["报销 \ud800 比例", "报销"], ["报 销 \ud800", "报 销"], [])
    view = index.view()
    assert view.frequency("words", "报销") == 2
    assert view.frequency("words", "?") == 1
    assert view.frequency("grams", "?") == 1
