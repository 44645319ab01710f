"""Flipped bits in the database and its log, and two ways to overlook them that the same checker must see."""

from __future__ import annotations

from pathlib import Path

import pytest

from qianxun.records import checksums
from qianxun.records.database import acknowledged
from tests.torture.bitrot import rot

pytestmark = pytest.mark.long


def test_no_other_text_is_given_out_and_nothing_is_gone_without_a_word(tmp_path: Path) -> None:
    tally = rot(tmp_path, 40, seed=1)
    assert tally.broken == []
    assert tally.told > 10


def test_the_checker_sees_what_no_checksum_guards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "is_sound_chunk", lambda *_: True)
    assert any("another text" in one for one in rot(tmp_path, 16, seed=2, text="参保人员").broken)


def test_the_checker_sees_a_loss_that_nobody_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acknowledged, "missing", lambda *_: None)
    assert any("without a word" in one for one in rot(tmp_path, 20, seed=3).broken)
