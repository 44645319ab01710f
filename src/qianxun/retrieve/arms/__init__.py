"""The arms of retrieval: one a file, and those that other packages bring.

An arm is one object (`core.ports.RetrieverArm`) with its name, label, weight, calibration and `search`. `STANDARD`
lists ours. An arm of another package is an entry point of the group ``qianxun.arms`` that returns such an object when
called; it takes part in the searches whose configuration names it (``search.arms``). Fusion, tiers, explanations,
settings and metrics work over whatever arms there are.

Read `vector.py` first, then `keyword.py` and `qa.py`. May import `core`, `rank`, `records` and `bases`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from qianxun.bases.base import OpenBase, Serving, read
from qianxun.core import plugins
from qianxun.core.errors import PluginError, RecallFailed
from qianxun.core.options import Mode, SearchOptions
from qianxun.core.ports import Index, RetrieverArm
from qianxun.core.types import BM25, EVERYTHING, Bm25, Chunk, Degraded, Everything, Filter, matches
from qianxun.records import chunks, pairs, terms
from qianxun.retrieve.arms.keyword import KeywordArm
from qianxun.retrieve.arms.qa import QuestionArm
from qianxun.retrieve.arms.vector import VectorArm

STANDARD: Final[tuple[RetrieverArm, ...]] = (VectorArm(), KeywordArm(), QuestionArm())


def arms_of(base: OpenBase, options: SearchOptions) -> tuple[list[RetrieverArm], list[Degraded]]:
    """The arms of a search, and why one that its configuration names cannot take part.

    Raises RecallFailed if none is left.
    """
    arms = list(STANDARD if base.arms is None else base.arms)
    failed = []
    for name in options.arms:
        if name.startswith("-"):
            arms = [arm for arm in arms if arm.name != name[1:]]
            continue
        try:
            arms += [] if any(arm.name == name for arm in arms) else [plugin_arm(name)]
        except PluginError as error:
            failed.append(Degraded(name, str(error)))
    arms = [arm for arm in arms if _is_in_mode(arm, options.mode)]
    if not arms:
        names = [arm.name for arm in STANDARD if _is_in_mode(arm, options.mode)]
        raise RecallFailed("没有一路检索可用", hint=f"这种检索要用到：{'、'.join(names)}")
    return arms, failed


def _is_in_mode(arm: RetrieverArm, mode: Mode) -> bool:
    return mode == "hybrid" or arm.needs_vector == (mode == "vector")


def plugin_arm(name: str) -> RetrieverArm:
    """The arm of another package. Raises PluginError."""
    return _created(plugins.find("arm", name))


@lru_cache(maxsize=64)
def _created(plugin: plugins.Plugin) -> RetrieverArm:
    arm: RetrieverArm = plugins.create("arm", plugin.name)
    wrong = ""
    if arm.name != plugin.name:
        wrong = f"它的 name 是 {arm.name!r}，与登记的名字不同"
    elif not (
        isinstance(arm.label, tuple) and len(arm.label) == 2 and all(isinstance(part, str) for part in arm.label)
    ):
        wrong = "label 应是 (中文, English)"
    elif isinstance(arm.weight, bool) or not isinstance(arm.weight, (int, float)) or not 0.0 <= arm.weight < math.inf:
        wrong = f"weight 是 {arm.weight!r}，应是不为负的数"
    if wrong:
        raise PluginError(f"插件 {plugin} 不合接口：{wrong}", hint=f"升级 {plugin.distribution}，或请它的作者改正")
    return arm


def plugin_weights(names: Sequence[str]) -> dict[str, float]:
    """The weights that arms of other packages have by themselves, by signal."""
    arms = (find_arm(name) for name in names if not name.startswith("-"))
    return {signal_of(arm): float(arm.weight) for arm in arms if arm is not None and arm not in STANDARD}


def find_arm(name: str) -> RetrieverArm | None:
    """The arm of this name, ours or of another package; None if there is none."""
    try:
        return next((arm for arm in STANDARD if arm.name == name), None) or plugin_arm(name)
    except PluginError:
        return None


def signal_of(arm: RetrieverArm) -> str:
    return arm.signal or arm.name


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The base that is searched, as arms see it (`core.ports.ArmContext`)."""

    base: OpenBase
    serving: Serving
    bm25: Bm25 = BM25

    @property
    def index(self) -> Index:
        return self.serving.index

    @property
    def is_local(self) -> bool:
        return self.serving.index.is_here and self.base.records.is_here

    async def texts(self, where: Filter = EVERYTHING) -> AsyncIterator[Sequence[tuple[int, str]]]:
        after = 0
        while page := await read(self.base, terms.texts, after):
            after = page[-1][0]
            if not isinstance(where, Everything):
                known = await self.chunks([key for key, _ in page])
                page = [row for row in page if row[0] in known and matches(where, known[row[0]].attributes)]
            yield page

    async def chunks(self, keys: Sequence[int]) -> Mapping[int, Chunk]:
        return await read(self.base, chunks.by_keys, keys)

    async def chunks_of_questions(self, keys: Sequence[int]) -> Mapping[int, int]:
        return await read(self.base, pairs.chunks_of, keys)
