"""BM25, as every backend counts it: `rarity`, `damping`, `term_weight`, lengths rounded to a byte, the ceiling.

The constants are `core.types.BM25`, or those of a search (``search.bm25_k1``, ``search.bm25_b``). A term that occurs f
times in an entry adds `term_weight` · f ÷ (f + `damping`): summed up in the database for PostgreSQL
(`postgres.keywords`), with numpy for Milvus (`milvus.keywords`) and wherever only some entries count
(`embedded.keywords.population`). The embedded index lets tantivy count (`embedded.keywords.search`), and counts again
what has died since or other constants weigh otherwise (`embedded.keywords.live_scores`).

tantivy's constants cannot be set. What is written `REPEATED` times is scored by its k1 as what is written once is by a
part of that: n·f ÷ (n·f + k1·d) is f ÷ (f + k1/n·d), lengths and their average growing alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import BM25, Bm25
from qianxun.index.shared import SCORE_DECIMALS

Lengths = TypeVar("Lengths", float, NDArray[Any])

TANTIVY: Final = Bm25(1.2, 0.75)
REPEATED: Final = round(TANTIVY.k1 / BM25.k1)  # times that every token is written
TOKEN: Final = re.compile(r"[^ \t\n\f\r]+")  # what tantivy's whitespace tokenizer keeps
# Characters that stand in a tenth of 10,000 passages of `zh_scale_200k`, most frequent first. Among some documents
# alone they are left out wherever something else of a query occurs, as characters that are frequent there are over all
# (`shared.FREQUENT_SHARE`): to count how frequent each is among some would take reading the longest lists there are.
COMMON: Final = frozenset(
    "的在中一有为以用和是了不到ea行上下时于将rt可人个is来o要1大对使发c后n这u如2会作能出pld0成定m方进分过多地动本应部此日文新其所建示年并前理通开关数现与自请3他生据国同全加务等表之果月实提"
    "z入户任法从更置设们面事当b内公工家性或高5程8安接hgv间服者而参合相说子名都信4件标器主正管就经重保创也制该已回区持7道查机问解需息及6业源我选还f体因然情式例最明员天心力外看被长配目位次向y资展"
    "报市点指w供得网些你化门代小求处平元三单原常意题步民计度何起组记称无量受包结取运9集没项值期存好场但支容则两系活k序特近流认由确调续共交基导产立布完类去南命着备二种属规传至打令型显联义列给各"
)


def token_count(spaced: str) -> int:
    """How many tokens a text has. Single spaces between them, as an analyser writes them, are counted in a tenth of the
    time that it takes to find them."""
    stripped = spaced.strip(" ")
    if "  " in stripped or "\n" in stripped or "\t" in stripped or "\r" in stripped or "\f" in stripped:
        return len(TOKEN.findall(stripped))
    return stripped.count(" ") + 1 if stripped else 0


def is_informative(gram: str) -> bool:
    """Whether a gram counts among some documents, whatever else occurs there."""
    return len(gram) > 1 or gram not in COMMON


def _norms() -> NDArray[np.int64]:
    """The lengths that a byte stands for, as in Lucene's SmallFloat: exact up to 40, then three bits of each."""

    def value(code: int) -> int:
        if code < 24:
            return code
        bits, shift = (code - 24) & 7, ((code - 24) >> 3) - 1
        return 24 + (bits if shift < 0 else (bits | 8) << shift)

    return np.array([value(code) for code in range(256)], dtype=np.int64)


WRITTEN_NORMS: Final = _norms()  # in tokens as they are written
NORMS: Final[NDArray[np.float64]] = WRITTEN_NORMS / REPEATED


def norm_codes(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The byte that stands for each length: of the longest that is no longer."""
    return np.searchsorted(WRITTEN_NORMS, lengths * REPEATED, side="right") - 1


def damping(lengths: Lengths, average: float, bm25: Bm25) -> Lengths:
    """k1 (1 − b + b · length ÷ average)"""
    return bm25.k1 * (1 - bm25.b + bm25.b * lengths / average)


def damping_by_code(average: float, bm25: Bm25) -> NDArray[np.float64]:
    """… for each code of a length."""
    return damping(NORMS, average, bm25)


def average_length(total: float, entries: int) -> float:
    return total / entries if total else 1.0


def rarity(entries: float, holding: float) -> float:
    """BM25's inverse document frequency."""
    return math.log(1 + (entries - holding + 0.5) / (holding + 0.5))


def term_weight(entries: float, holding: float, bm25: Bm25) -> float:
    """The most that a term can add to a score: (k1 + 1) times its inverse document frequency."""
    return (bm25.k1 + 1) * rarity(entries, holding)


def ceiling(weights: Iterable[float]) -> float:
    """The most that a query of these weights can score; rounded up, never down."""
    return math.ceil(sum(weights) * 10.0**SCORE_DECIMALS) / 10.0**SCORE_DECIMALS
