"""Chinese text for search: one written form, words, characters and pairs of characters.

Nothing here changes the stored text. Texts and queries go through the same functions, so that they match: 發票 and
发票, ＡＢＣ１２３ and abc123, Ⅱ型 and II型.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadInput
from qianxun.core.types import Terms

ANALYSIS_VERSION: Final = "zh-3"
"""Changes whenever the same chunk would give other tokens: an index built by another version is rebuilt."""

LEXICON: Final = Path(__file__).parent / "lexicon"
"""Tables that come with the package."""


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


STOP_WORDS: Final = _listed("""
    的 了 着 过 地 得 是 在 有 和 与 及 或 而 且 但 也 都 就 还 又 很 才 则 被 把 将 向 从 对 于 为 以 由 到 之
    其 此 这 那 这个 那个 这些 那些 这样 那样 什么 怎么 怎样 怎么样 如何 为什么 为何 哪 哪个 哪些 哪里 谁 几
    多少 是否 能否 可否 是不是 有没有 能不能 可以 能 会 要 想 请 请问 一下 一个 一些 吗 呢 吧 啊 呀 嘛 么 哦 我
    你 您 他 她 它 我们 你们 他们 以及 并且 并 如果 因为 所以 关于 对于 进行 告诉 知道 the a an of to in on for
    and or is are was were be what which who how do does did it
""")

_HAN: Final = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA_AND_HANGUL: Final = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\uac00-\ud7af"
_CHARACTER_RANGES: Final = (  # scripts without spaces between words: indexed by character and pair
    *((0x3005, 0x3005), (0x3007, 0x3007), (0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF)),
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF), (0x20000, 0x323AF)),
)
_CHARACTER_RUN: Final = re.compile(f"[{''.join(f'{chr(one)}-{chr(other)}' for one, other in _CHARACTER_RANGES)}]+")
_LETTER_RUN: Final = re.compile(f"[^\\W_{_HAN}{_KANA_AND_HANGUL}]+")
# Letters that jieba would cut one by one: accented Latin, Greek, Cyrillic, kana, Hangul.
_FOREIGN: Final = re.compile("[\xaa-\xb6\xb8-\xd6\xd8-\u1fff\u3040-\u30fa\u30fc-\u30ff\uac00-\ud7af]")
_FOREIGN_RUN: Final = re.compile(f"[^\\W_{_HAN}]+")
_PART: Final = re.compile(r"[^\W_]+")
_DECIMAL: Final = re.compile(r"[^\W_]*+(?<=\d)(?:\.\d++)++[^\W_]*+")
_MATHEMATICAL: Final = re.compile("[\U0001d400-\U0001d7ff]")
# The frequency jieba suggests for a word of one's own loses to its neighbours a quarter of the time; with this one it
# is found whole in .85 of its places instead of .77 (docs/decisions/0001-tokeniser.md).
_OWN_FREQUENCY: Final = 1000
_QUERIES: Final = 64  # whose analysis is remembered
_ANALYSED: Final = 64  # texts at a time: their arrays stay in the processor's own memory
_JIEBA: Final = "rjieba.rjieba"
_LOADING: Final = threading.Lock()


_CLOSING: Final = "」』”’）】〕》〉"
SENTENCE_END: Final = re.compile(
    "(?>(?:[。！？；…｡]+|．+(?![0-9０-９])"
    r"|[!?;]+(?![\w=&%/#+.-])|[!?;]+(?=[\u3400-\u9fff])"
    rf"|(?:(?<=[^\W\d_])|(?<=\d\d\d)|(?<=[)\]{_CLOSING}]))\.+(?=[\s{_CLOSING}]|\Z))"
    rf"(?:[{_CLOSING}]+|[\"'](?=\s|\Z))?)"  # a straight quote closes only where nothing follows it
    "(?![，、])"  # “去吗？”，他说。 is one sentence
)
"""Where a sentence ends, closing quotes included. Not in 3.14, 1.2.3, a.cn/x?y=1, nor after the number of "1. 总则"."""
_SENTENCE_MARK: Final = re.compile("[。！？；…｡．!?;.]")  # that any of these begins with
CLAUSE_END: Final = re.compile(rf"(?:[，、：]+|[,:](?=[\s\u3400-\u9fff])|——+)[{_CLOSING}]*")


# ── one written form ─────────────────────────────────────────────────────────────────────────────


def fold(text: str) -> str:
    """The form in which texts are compared: lower case, half width, simplified Chinese.

    Nearly always as long as ``text``; a few characters stand for several (Ⅱ → ii, ㎡ → m2). Simplification looks at
    phrases, because it is not one to one: 乾燥 → 干燥, 乾隆 stays.
    """
    text = text.lower()
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    compatible, traditional = _folding()
    text = compatible.sub(_plain, text)
    text = _MATHEMATICAL.sub(_plain, text)
    if traditional.search(text):
        text = _to_simplified().convert(text)
    return text


def is_folded_by_case(text: str) -> bool:
    """Returns True if nothing but capitals makes a text, or any part of it, other than its `fold`: one look at a
    passage, instead of one at each of its sentences."""
    text = text.lower()
    compatible, traditional = _folding()
    has_others = compatible.search(text) or _MATHEMATICAL.search(text) or traditional.search(text)
    return not has_others and unicodedata.is_normalized("NFC", text)


def sentence_ends(text: str) -> Iterator[re.Match[str]]:
    """Every `SENTENCE_END` of a text. That pattern has several beginnings, and is slow where none of them is."""
    mark = _SENTENCE_MARK.search(text)
    while mark is not None:
        end = SENTENCE_END.match(text, mark.start())
        if end is not None:
            yield end
        mark = _SENTENCE_MARK.search(text, mark.end() if end is None else end.end())


def simplified(text: str) -> str:
    """A text without halves of surrogate pairs in simplified characters, otherwise as it is."""
    return _to_simplified().convert(text) if _folding()[1].search(text) else text


def _plain(found: re.Match[str]) -> str:
    character = found.group()
    if "\ud800" <= character <= "\udfff":
        return " "  # half of a surrogate pair is no character, and neither opencc nor rjieba takes it
    return unicodedata.normalize("NFKC", character).lower()


@cache
def _folding() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Characters with a plainer form, and characters that may be traditional; to go through Unicode and opencc for them
    takes .04 s, so that is done beforehand (tests/lexicon.py).

    Both patterns stay within the BMP: `re` then compiles each to one bitmap, 2 ns per character instead of 800.
    """
    _, compatible, traditional, _ = (LEXICON / "folding.txt").read_text(encoding="utf-8").split("\n")
    return re.compile(f"[{compatible}\ud800-\udfff]"), re.compile(f"[{traditional}]")


@cache
def _to_simplified() -> Any:
    import opencc

    return opencc.OpenCC("t2s")


# ── characters and pairs ─────────────────────────────────────────────────────────────────────────


def grams(text: str) -> list[str]:
    """Every Han character, then every pair of neighbours, then the runs of letters and digits, whole."""
    return index_grams(text).split()


def pairs(text: str) -> frozenset[str]:
    """Those of `grams` that are longer than a character. Of a sentence; arrays are for longer texts."""
    folded = fold(text)
    runs = _CHARACTER_RUN.findall(folded)
    letters = (run for run in _LETTER_RUN.findall(folded) if len(run) > 1)
    return frozenset((*(run[at : at + 2] for run in runs for at in range(len(run) - 1)), *letters))


def index_grams(text: str) -> str:
    """`grams`, separated by spaces."""
    return _spaced_grams([fold(text)])[0]


def _spaced_grams(folded: Sequence[str]) -> list[str]:
    """Built as two arrays: joining slices took 1.6 times as long, and arrays for each of many texts twice as long."""
    codes = np.frombuffer("\n".join([*folded, ""]).encode("utf-32-le"), dtype=np.uint32)
    is_character = _characters().take(codes)
    first = is_character.nonzero()[0]
    paired = first[is_character.take(first + 1)]
    singles = np.full((len(first), 2), ord(" "), dtype=np.uint32)
    singles[:, 0] = codes.take(first)
    pairs = np.full((len(paired), 3), ord(" "), dtype=np.uint32)
    pairs[:, 0] = codes.take(paired)
    pairs[:, 1] = codes.take(paired + 1)
    ends = np.cumsum([len(text) + 1 for text in folded])
    of_singles = _parts(singles.tobytes().decode("utf-32-le"), 2 * first.searchsorted(ends))
    of_pairs = _parts(pairs.tobytes().decode("utf-32-le"), 3 * paired.searchsorted(ends))
    return [
        (own + spaced + " ".join(_LETTER_RUN.findall(text))).rstrip(" ")
        for own, spaced, text in zip(of_singles, of_pairs, folded, strict=True)
    ]


def _parts(text: str, ends: NDArray[np.int64]) -> list[str]:
    places = [0, *ends.tolist()]
    return [text[start:end] for start, end in pairwise(places)]


@cache
def _characters() -> NDArray[np.bool_]:
    table = np.zeros(0x110000, dtype=np.bool_)
    for first, last in _CHARACTER_RANGES:
        table[first : last + 1] = True
    return table


# ── where a word occurs ──────────────────────────────────────────────────────────────────────────


def occurs_in(word: str, folded: str) -> bool:
    """Whether a word occurs in a folded text, and not inside a longer run of letters or digits: 12 is not in 2012."""
    if word not in folded:
        return False
    # Only letters and digits are part of longer runs; most words are Chinese.
    return not (word[:1].isascii() or word[-1:].isascii()) or next(places(word, folded), None) is not None


def places(word: str, folded: str) -> Iterator[int]:
    """Where it begins each time that it occurs there."""
    at = folded.find(word)
    while at >= 0:
        end = at + len(word)
        if not cuts_run(folded, at, end):
            yield at
        at = folded.find(word, at + 1)


def cuts_run(text: str, start: int, end: int) -> bool:
    """Returns True if a span begins or ends inside a run of letters or digits: 12 of 2012."""
    return runs_on(text[start - 1 : start], text[start : start + 1]) or runs_on(
        text[end - 1 : end], text[end : end + 1]
    )


def runs_on(left: str, right: str) -> bool:
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()


# ── words ────────────────────────────────────────────────────────────────────────────────────────


class Analyser:
    """Text to words, with a knowledge base's own dictionary. Safe to share between threads."""

    def __init__(self, dictionary: Iterable[str] = ()) -> None:
        self._own = frozenset(filter(None, (fold(word).strip() for word in dictionary)))
        for word in self._own:
            if any(character.isspace() for character in word):
                raise BadInput(f"自定义词不能含空格：{word!r}", hint="请拆成多个词，或去掉其中的空格。")
        self._jieba = _jieba_with(self._own) if self._own else _plain_jieba()
        self._analysed = lru_cache(_QUERIES)(self._analyse_query)

    @property
    def own_words(self) -> frozenset[str]:
        """The dictionary's words, folded."""
        return self._own

    @property
    def version(self) -> str:
        """The version of the analysis, dictionary included: what an index's stamp holds."""
        if not self._own:
            return ANALYSIS_VERSION
        digest = hashlib.sha256("\n".join(sorted(self._own)).encode()).hexdigest()
        return f"{ANALYSIS_VERSION}+{digest[:12]}"

    def words(self, text: str) -> list[str]:
        """The words of a text, long ones also as the shorter words inside them; no punctuation, no spaces."""
        return self._words(fold(text))

    def _words(self, folded: str) -> list[str]:
        if _FOREIGN.search(folded):
            return list(self._words_among_foreign(folded))
        return self._cut(folded)

    def longer_words(self, folded: Sequence[str]) -> list[tuple[int, str]]:
        """The words of more than one character in many short texts of Han characters alone, folded already: each with
        the number of its text. The segmenter is called once, which for short texts costs more than the words."""
        at = 0
        found: list[tuple[int, str]] = []
        for token in self._jieba.cut_for_search("\n".join(folded)):
            if len(token) > 1:
                found.append((at, token))
            elif token == "\n":
                at += 1
        return found

    def segments(self, folded: str) -> list[str]:
        """A folded text cut into its words, none inside another, with all that stands between them: joined they are
        the text."""
        return list(self._jieba.cut(folded))

    def tagged(self, folded: str) -> list[tuple[str, str]]:
        """`segments`, each with its part of speech as jieba's dictionary has it: n, nr (people), ns (places), nt, v …

        Of words that the dictionary lacks the tag is a guess.
        """
        return list(self._jieba.tag(folded))

    def index_words(self, text: str) -> str:
        """`words`, separated by spaces."""
        return " ".join(self.words(text))

    def index_terms(self, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
        """`index_words` and `index_grams` of each text, folded once."""
        coming = iter(texts)
        while folded := [fold(text) for text in islice(coming, _ANALYSED)]:
            yield from zip([" ".join(self._words(text)) for text in folded], _spaced_grams(folded), strict=True)

    def has_word(self, word: str) -> bool:
        """Whether the dictionary lists it, own words included; what the segmenter merely guesses to be one is not."""
        return bool(self._jieba.has_word(fold(word)))

    def analyse_query(self, text: str) -> Terms:
        """Words and grams of a question, each once; words that carry no meaning, and pairs of their characters, only
        when there is nothing else."""
        return self._analysed(text)  # a question is analysed by every step that looks for it

    def _analyse_query(self, text: str) -> Terms:
        folded = fold(text)
        words = tuple(dict.fromkeys(self._words(folded)))
        grams = dict.fromkeys(_spaced_grams([folded])[0].split())
        meaningful = tuple([word for word in words if not self._is_stop(word)])
        if not meaningful or len(meaningful) == len(words):
            return Terms(meaningful or words, tuple(grams))
        idle = "".join([word if self._is_stop(word) else " " for word in self._jieba.cut(folded)])
        for at in range(len(idle) - 1):
            grams.pop(idle[at : at + 2], None)
        return Terms(meaningful, tuple(grams))

    def _is_stop(self, word: str) -> bool:
        return word in STOP_WORDS and word not in self._own

    def _cut(self, folded: str) -> list[str]:
        words: list[str] = []
        for token in self._jieba.cut_for_search(folded):
            if token.isalnum():
                words.append(token)
            elif len(token) > 1:
                words.extend(word for word in self._compound(token) if word not in words[-4:])
        return words

    def _words_among_foreign(self, folded: str) -> Iterator[str]:
        last = 0
        for run in _FOREIGN_RUN.finditer(folded):
            if not run.group().isascii():
                yield from self._cut(folded[last : run.start()])
                yield run.group()
                last = run.end()
        yield from self._cut(folded[last:])

    def _compound(self, token: str) -> Iterator[str]:
        """Words of a token that has signs in it. rjieba leaves some out: of covid-19 it gives covid but not 19."""
        if token in self._own:
            yield token
        if _DECIMAL.fullmatch(token):
            yield token
            return
        parts = _PART.findall(token)
        yield from parts
        if len(parts) > 1:
            yield token.strip("-_.%+#&/@")


@cache
def _plain_jieba() -> Any:
    return _jieba_type()()


def _jieba_with(own: frozenset[str]) -> Any:
    jieba = _jieba_type()()
    for word in sorted(own):
        jieba.add_word(word, max(jieba.suggest_freq(word), _OWN_FREQUENCY), None)
    return jieba


def _jieba_type() -> Any:
    """rjieba's segmenter, from its compiled module alone.

    The package around that reads the dictionary on import (.11 s, 25 MB) for a segmenter that any code in the process
    may add words to, so that we need one of our own. Loaded under its own name: importing rjieba gives the same.
    """
    with _LOADING:
        if "rjieba" in sys.modules:
            return import_module("rjieba").Jieba
        if _JIEBA not in sys.modules:
            package = find_spec("rjieba")
            found = PathFinder.find_spec(_JIEBA, package.submodule_search_locations) if package else None
            if found is None or found.loader is None:
                return import_module("rjieba").Jieba  # which says what is missing
            module = module_from_spec(found)
            found.loader.exec_module(module)
            sys.modules[_JIEBA] = module
        return sys.modules[_JIEBA].Jieba


@cache
def plain_analyser() -> Analyser:
    return Analyser()


def words(text: str) -> list[str]:
    """`Analyser.words` without a dictionary of one's own."""
    return plain_analyser().words(text)


def index_words(text: str) -> str:
    """`Analyser.index_words` without a dictionary of one's own."""
    return plain_analyser().index_words(text)


def analyse_query(text: str) -> Terms:
    """`Analyser.analyse_query` without a dictionary of one's own."""
    return plain_analyser().analyse_query(text)
