"""Ignore files mean what they mean to git."""

from __future__ import annotations

from pathlib import Path

import pytest

from qianxun.ingest.ignore import is_ignored, rules_of

ROOT = Path("资料")


@pytest.mark.parametrize(
    ("lines", "ignored", "taken"),
    [
        ("*.log", ["甲.log", "子/甲.log"], ["甲.log.txt"]),
        ("# *.txt\n\n   ", [], ["甲.txt"]),
        ("\\#号.txt", ["#号.txt"], ["号.txt"]),
        ("/甲.txt", ["甲.txt"], ["子/甲.txt"]),
        ("子/*.txt", ["子/甲.txt"], ["子/孙/甲.txt", "甲.txt"]),
        ("子/**", ["子/甲.txt", "子/孙/甲.txt"], ["子"]),
        ("**/草稿/*.md", ["草稿/甲.md", "子/草稿/甲.md"], ["草稿/甲.txt"]),
        ("子/**/甲.txt", ["子/甲.txt", "子/孙/曾孙/甲.txt"], ["甲.txt"]),
        ("*.txt\n!留.txt", ["甲.txt"], ["留.txt", "子/留.txt"]),
        ("!留.txt\n*.txt", ["留.txt"], []),
        ("第?章.md", ["第一章.md"], ["第十一章.md"]),
        ("[甲乙].txt", ["甲.txt"], ["丙.txt"]),
        ("\\*.txt", ["*.txt"], ["甲.txt"]),
        ("草稿/", [], ["草稿"]),
    ],
)
def test_patterns(lines: str, ignored: list[str], taken: list[str]) -> None:
    rules = rules_of(ROOT, lines.splitlines())
    assert [name for name in ignored if not is_ignored(ROOT / name, False, rules)] == []
    assert [name for name in taken if is_ignored(ROOT / name, False, rules)] == []


def test_a_slash_at_the_end_asks_for_a_folder() -> None:
    rules = rules_of(ROOT, ["草稿/"])
    assert is_ignored(ROOT / "子" / "草稿", True, rules)
    assert not is_ignored(ROOT / "草稿", False, rules)
