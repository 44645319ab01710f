"""Bytes to text for files of unknown encoding.

A byte order mark or valid UTF-8 settles it. What remains in Chinese practice is GB18030 or Big5, whose byte ranges
overlap: both often decode the same bytes. They differ in where their frequent characters lie (level 1 of GB 2312 and
of Big5), so the decoding with more frequent characters wins; `common_characters.txt` decides short texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from qianxun.core.errors import Unreadable

_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_ALIASES: Final = {"gb2312": "gb18030", "gbk": "gb18030", "gb_2312-80": "gb18030", "big5": "big5hkscs"}
_SAMPLE: Final = 65_536
_DAMAGE: Final = 0.001  # share of unreadable characters up to which a text counts as damaged, not as something else


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    encoding: str
    warnings: tuple[str, ...] = ()


@cache
def _common() -> frozenset[str]:
    lines = Path(__file__).with_name("common_characters.txt").read_text("utf-8").splitlines()
    return frozenset("".join(line for line in lines if not line.startswith("#")))


def read_text(path: Path, declared: str = "") -> Decoded:
    """The text of a file. Raises Unreadable when its encoding is not recognised."""
    decoded = decode(path.read_bytes(), declared)
    if decoded is None:
        raise Unreadable("认不出文字编码", hint="请另存为 UTF-8 再试")
    return decoded


def decode(data: bytes, declared: str = "") -> Decoded | None:
    """The text in ``data``, or None when no reading makes sense. ``declared`` is believed if it fits."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return Decoded(data.decode(encoding, "replace"), encoding.removesuffix("-sig"))
    for encoding in _in_order(declared, data):
        try:
            return Decoded(data.decode(encoding), _public(encoding))
        except (UnicodeDecodeError, LookupError):
            continue
    return _damaged(data)


def _in_order(declared: str, data: bytes) -> Iterable[str]:
    """UTF-8 first: text of another encoding is practically never valid UTF-8, while declarations do lie."""
    yield "utf-8"
    if wide := _wide(data):
        yield wide
    if declared and declared.lower() not in ("utf-8", "utf8", "iso-8859-1", "latin-1", "windows-1252", "us-ascii"):
        yield _ALIASES.get(declared.lower(), declared)
    scored = [(_score(data, encoding), encoding) for encoding in ("gb18030", "big5hkscs")]
    yield from (encoding for score, encoding in sorted(scored, key=lambda pair: -pair[0]) if score > 0)


def _public(encoding: str) -> str:
    return "big5" if encoding == "big5hkscs" else encoding


def _wide(data: bytes) -> str:
    """UTF-16 without a mark: blanks, line ends and digits leave a zero in every second byte."""
    sample = data[:_SAMPLE]
    if len(data) % 2 or not sample.count(0):
        return ""
    little, big = sample[1::2].count(0), sample[0::2].count(0)
    low, high = sorted((little, big))
    if high * 100 < len(sample) or low * 20 > high:
        return ""
    return "utf-16-le" if little > big else "utf-16-be"


def _score(data: bytes, encoding: str) -> float:
    """How much the high bytes look like Chinese in this encoding; 0 when the sample does not decode."""
    sample = data[:_SAMPLE]
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError as failure:
        if len(sample) - failure.start > 4 or len(data) == len(sample):
            return 0.0
        text = sample[: failure.start].decode(encoding)
    wide = [char for char in text if char > "\x7f"]
    if not wide:
        return 0.0
    frequent = sum(_is_frequent(char, encoding) for char in wide)
    known = _common()
    common = sum(char in known for char in wide)
    return (frequent + common) / len(wide) + (0.05 if encoding == "gb18030" else 0.0)


def _is_frequent(char: str, encoding: str) -> bool:
    try:
        raw = char.encode("gb2312" if encoding == "gb18030" else "big5")
    except UnicodeEncodeError:
        return False
    if len(raw) != 2:
        return False
    if encoding == "gb18030":
        return 0xB0 <= raw[0] <= 0xD7 or raw[0] in (0xA1, 0xA3)
    return 0xA4 <= raw[0] <= 0xC6 or 0xA1 <= raw[0] <= 0xA3


def _damaged(data: bytes) -> Decoded | None:
    """A text with a few broken bytes is still that text; anything worse is no text we know."""
    best: Decoded | None = None
    fewest = max(1, int(len(data) * _DAMAGE)) + 1
    for encoding in ("utf-8", "gb18030", "big5hkscs"):
        text = data.decode(encoding, "replace")
        broken = text.count("\ufffd")
        if broken < fewest:
            fewest = broken
            best = Decoded(
                text, _public(encoding), (f"有 {broken} 处字节无法按 {_public(encoding)} 解读，已用 � 代替",)
            )
    return best
