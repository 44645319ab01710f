"""Bytes to text for files that do not say how they were written.

A byte order mark or valid UTF-8 settles it. What remains in Chinese practice is GB18030 or Big5, whose byte ranges
overlap: both often decode the same bytes. They differ in where their frequent characters lie (level 1 of GB 2312 and
of Big5), so the reading with more frequent characters wins; a list of the most frequent characters decides short texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_COMMON: Final = frozenset(
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种"
    "面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本"
    "去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比"
    "或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总"
    "次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做"
    "必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权"
    "收证改清己美再采转更单风切打白教速花带安场身车例真务具万每目至达走积示议声报斗完类八离华名确才科张信"
    "马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且究观越织装影算低持音众书布复容儿须际商非验连"
    "断深难近矿千周委素技备半办青省列习响约支般史感劳便团往酸历市克何除消构府称太准精值号率族维划选标写存"
    "候毛亲快效斯院查江型眼王按格养易置派层片始却专状育厂京识适属圆包火住调满县局照参红细引听该铁价严测试"
    "请您谢吗呢吧让错码编档案词语简繁"
    "這爲個國時來們於對會發動過說產種後學經進電裏現實兩體機當點從業應開還義間樣與關線內數麼質氣變條沒結問"
    "無軍並題黨員總設長頭資邊級圖統較將組見計別論運農幾區強決幹戰則據處隊給門規熱領東導壓爭濟階術極聯認權"
    "證採轉單風帶場車務萬達積議聲報鬥類離華確張馬節話況溫傳許羣廣記觀織裝衆書覆兒須際驗連斷難礦備辦習響約"
    "勞團歷構稱準號維劃選標寫親養層卻專狀廠識適屬圓調滿縣參紅細聽該鐵價嚴測試請謝嗎讓錯碼編檔詞語簡"
)
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
    common = sum(char in _COMMON for char in wide)
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
