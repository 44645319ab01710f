"""Sentences that say more than their source: 所有, 一律, 只有…才, where the source speaks of some, or of what suffices.

A word of this kind is borne out by any of its family in what the source says of the same matter. Where none is there,
the sentence may still be right, and is kept with a flag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from qianxun.text.chinese import fold, grams

SAME_MATTER: Final = 0.25  # of the pairs of characters of a clause are in a sentence of the source
NEAREST: Final = 0.6  # … of that of the sentence that has most of them
FEWEST: Final = 3  # pairs that make a clause one that can be compared
_CLAUSE: Final = re.compile(r"[^。；;！？!?\n]+")
_ALL: Final = re.compile("所有|一律|任何|无论|不论|从未|从不|从来|全年|全都|全部(?!门)")
_ONLY: Final = re.compile("只有[^，。]{1,20}才|必须同时|唯一")
_DENIES: Final = re.compile("[不无未没禁勿拒]")  # what nobody may do is for all
_OF_ALL: Final = re.compile("所有|全|一律|任何|[均都各每凡皆]|一切|[无不]论|仅|只|共|总|合计|始终|一直|持续|完")
_OF_ONLY: Final = re.compile("只|仅|才|方可|必须|须|应|限|除|不得|不能|不可|唯一|需")


def overstated(sentence: str, sources: Sequence[str]) -> str:
    """What the sources say of the matter of a clause that claims all of it; "" where they claim as much."""
    for clause in _CLAUSE.findall(fold(sentence)):
        for claimed, borne_out in ((_ALL, _OF_ALL), (_ONLY, _OF_ONLY)):
            if not claimed.search(clause):
                continue
            own = _pairs(claimed.sub(" ", clause))
            parts = [part for text in sources for part in _CLAUSE.findall(fold(text))]
            shares = [(len(own & _pairs(part)) / max(len(own), 1), part) for part in parts]
            best = max(shares, default=(0.0, ""))
            about = [part for share, part in shares if share >= NEAREST * best[0]]
            is_denial = claimed is _ALL and _DENIES.search(claimed.sub("", clause)) is not None
            is_borne_out = any(borne_out.search(part) or (is_denial and _DENIES.search(part)) for part in about)
            if len(own) >= FEWEST and best[0] >= SAME_MATTER and not is_borne_out:
                return best[1].strip()
    return ""


def _pairs(text: str) -> frozenset[str]:
    return frozenset(gram for gram in grams(text) if len(gram) > 1)
