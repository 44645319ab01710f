"""The tables that others' data decide are what those data say now."""

from __future__ import annotations

from tests.text.lexicon import LEXICON, folding, sounds


def test_what_folding_looks_for_is_what_unicode_and_opencc_change() -> None:
    assert (LEXICON / "folding.txt").read_text(encoding="utf-8") == folding()


def test_characters_of_one_sound_are_those_of_pypinyin() -> None:
    assert (LEXICON / "sounds.txt").read_text(encoding="utf-8") == sounds()
