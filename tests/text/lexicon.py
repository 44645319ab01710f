"""How the tables of `lexicon` come about that others' data decide: computed here, kept with the package, compared by
tests.

    python -m tests.text.lexicon    writes them anew, for a newer opencc or pypinyin
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import opencc

import qianxun

LEXICON: Final = Path(qianxun.__file__).parent / "text" / "lexicon"
PLANE: Final = [chr(code) for code in range(0x80, 0x10000) if not 0xD800 <= code <= 0xDFFF]
JOINING_SIGNS: Final = "＃＆＋－．／＠＿"  # they hold words and numbers together: Ｃ＋＋, ３．１４
# Both sounds are everyday ones. Of the others only the first counts: 提 is also dī, 达 also tì; nobody types them so.
TWO_SOUNDS: Final = "行长重乐调还都率传弹藏朝种系血薄更觉降便盛参单曾"
NOTE: Final = "# 由 tests/lexicon.py 生成，不要手改。"
TONES: Final = re.compile("[\u0300\u0301\u0304\u030c]")  # not the two dots of ü


def folding() -> str:
    """Characters with a plainer form, then characters that may be traditional, each as the inside of a pattern."""
    simplified = opencc.OpenCC("t2s").convert("\n".join(PLANE)).split("\n")
    traditional = [old for old, new in zip(PLANE, simplified, strict=True) if old != new]
    return f"{NOTE}\n{_ranges(filter(_has_plainer_form, PLANE))}\n{_ranges(traditional)}\n"


def _has_plainer_form(character: str) -> bool:
    if character in JOINING_SIGNS:
        return True
    kind = unicodedata.decomposition(character).partition(" ")[0]
    if not kind.startswith("<") or kind in ("<circle>", "<fraction>"):
        return False  # ①② must not become 12, nor 3½ become 31⁄2
    return any(part.isalnum() for part in unicodedata.normalize("NFKC", character))


def _ranges(characters: Iterable[str]) -> str:
    return "".join(first if first == last else f"{first}-{last}" for first, last in _runs(sorted(characters)))


def _runs(characters: list[str]) -> Iterator[tuple[str, str]]:
    """First and last of those that follow each other without a gap."""
    for _, run in groupby(enumerate(characters), lambda each: ord(each[1]) - each[0]):
        members = [character for _, character in run]
        yield members[0], members[-1]


def sounds() -> str:
    """Every sound without its tone, and the characters of GB 2312, in which people type, that have it."""
    from pypinyin.constants import PINYIN_DICT  # half a second, which every process that collects tests would take

    characters: dict[str, list[str]] = {}
    for code, readings in sorted(PINYIN_DICT.items()):
        if _is_in_gb2312(chr(code)):
            usual = readings.split(",")[: 2 if chr(code) in TWO_SOUNDS else 1]
            for sound in dict.fromkeys(map(_toneless, usual)):
                characters.setdefault(sound, []).append(chr(code))
    lines = "".join(f"{sound} {''.join(alike)}\n" for sound, alike in sorted(characters.items()))
    return f"{NOTE}\n{lines}"


def _is_in_gb2312(character: str) -> bool:
    try:
        return bool(character.encode("gb2312"))
    except UnicodeEncodeError:
        return False


def _toneless(reading: str) -> str:
    return unicodedata.normalize("NFC", TONES.sub("", unicodedata.normalize("NFD", reading)))


if __name__ == "__main__":
    (LEXICON / "folding.txt").write_text(folding(), encoding="utf-8")
    (LEXICON / "sounds.txt").write_text(sounds(), encoding="utf-8")
