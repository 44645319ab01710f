"""An arm that none of Qianxun's own is: what stands in quotation marks must stand in the text, letter by letter.

    qianxun search '灯塔“折断的桨”' --kb 小说 --explain

Reads the text of record, so that nothing is split into words: 5‰, 折断的桨 and error codes are found as written. Width,
case and traditional characters make no difference.
"""

from __future__ import annotations

import re

from qianxun.core.ports import ArmContext, RetrieverArm
from qianxun.core.types import Query, Ranking
from qianxun.text.chinese import fold

qianxun_api = 1

QUOTED = re.compile('[“"「『]([^”"」』]{1,200})[”"」』]')


class ExactPhraseArm(RetrieverArm):
    name = "exact_phrase"
    label = ("逐字短语", "exact phrase")
    unit = ("命中比例", "share of phrases")
    weight = 0.6

    def applies_to(self, query: Query) -> bool:
        return QUOTED.search(query.text) is not None

    async def search(self, query: Query, limit: int, context: ArmContext) -> Ranking:
        """Scores are the share of the quoted phrases that a chunk contains: in [0, 1], so no calibration is needed."""
        phrases = [fold(phrase) for phrase in QUOTED.findall(query.text)]
        scores: dict[int, float] = {}
        async for page in context.texts(query.where):
            for key, text in page:
                folded = fold(text)
                if found := sum(phrase in folded for phrase in phrases):
                    scores[key] = found / len(phrases)
        return Ranking.of(sorted(scores.items(), key=lambda row: (-row[1], row[0]))[:limit])


def create() -> ExactPhraseArm:
    return ExactPhraseArm()
