"""From what the tables found to what is shown: checked, each content once, the better grades first, then cut.

Results are plain mappings in the names of the seed, so that a node of anybody's own can be put in between.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from numbers import Real
from typing import Any, Final, TypedDict, TypeVar

from qianxun.examples.schema import DEFAULT_GRADE, GRADES

log = logging.getLogger(__name__)

GLOBAL_TOP_K: Final = 15
GRADE_SCORES: Final = {grade: score for score, grade in enumerate(reversed(GRADES), 1)}  # 优秀 3, 良好 2, 一般 1
LOWEST_GRADE: Final = GRADE_SCORES[DEFAULT_GRADE]
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class ExampleMetadata(TypedDict, total=False):
    """What is known of an example beside its words; plain JSON values."""

    id: int
    tags: list[str]
    quality_grade: str | None
    created_at: str  # ISO 8601, UTC
    updated_at: str | None
    keyword_score: float  # share of the question's words it has; only where words were searched too
    cosine: float  # … and what its vector alone said


class FoundExample(TypedDict):
    """A row of a table that came near the question."""

    id: int
    user_input: str
    agent_response: str
    tags: list[str]
    quality_grade: str | None
    similarity: float
    source: str  # the category, without the table's prefix
    metadata: ExampleMetadata


Result = TypeVar("Result", bound=Mapping[str, Any])


def merge_and_rank_results(all_results: Sequence[Result], global_top_k: int = GLOBAL_TOP_K) -> list[Result]:
    """Most similar first; of equals the better grade, then the newer one. The same content comes once."""
    ranked = sorted(all_results, key=_rank, reverse=True)  # stable: equals stay in the order of their tables
    seen: set[str] = set()
    kept = []
    for result in ranked:
        content = " ".join(_content(result).split())
        if content not in seen:
            seen.update({content} if content else ())  # nothing can be said of two that have no words
            kept.append(result)
    return kept[: max(global_top_k, 0)]


def quality_filter(results: Sequence[Result], enough: int = GLOBAL_TOP_K) -> list[Result]:
    """Without those graded 一般, or not at all, where more than ``enough`` were found; never empty for that reason.

    It works on what was found, before the cut: after it there are never more than enough.
    """
    if len(results) <= enough:
        return list(results)
    return [result for result in results if _grade(result) > LOWEST_GRADE] or list(results)


def valid_results(results: Sequence[Result]) -> list[Result]:
    """Those with a similarity in [0, 1], words and metadata. What is left out is said in the log."""
    kept = []
    for result in results:
        problem = _problem(result)
        if problem:
            log.warning("舍去一条不完整的案例（%s）：%s", result.get("source", "来源不明"), problem)
        else:
            kept.append(result)
    return kept


def _problem(result: Mapping[str, Any]) -> str:
    similarity = result.get("similarity")
    if not isinstance(similarity, Real) or not 0.0 <= float(similarity) <= 1.0:  # nor is a NaN
        return f"相似度 {similarity!r} 不在 0–1 之间"
    if not _content(result).strip():
        return "内容为空"
    if not isinstance(result.get("metadata"), Mapping):
        return "没有元数据"
    return ""


def _content(result: Mapping[str, Any]) -> str:
    """The words of a result, be it formatted already or a row as it was found."""
    if "content" in result:
        return str(result["content"] or "")
    said, answered = str(result.get("user_input") or ""), str(result.get("agent_response") or "")
    return f"{said}\n{answered}" if said.strip() and answered.strip() else ""


def _rank(result: Mapping[str, Any]) -> tuple[float, int, datetime]:
    return float(result["similarity"]), _grade(result), _date(result)


def _about(result: Mapping[str, Any], name: str) -> Any:
    value = result.get(name)
    return value if value is not None else (result.get("metadata") or {}).get(name)


def _grade(result: Mapping[str, Any]) -> int:
    return GRADE_SCORES.get(str(_about(result, "quality_grade")), LOWEST_GRADE)


def _date(result: Mapping[str, Any]) -> datetime:
    """When it was last changed; long ago where that cannot be told."""
    told = _about(result, "updated_at") or _about(result, "created_at")
    if isinstance(told, str):
        try:
            told = datetime.fromisoformat(told)
        except ValueError:
            return _NEVER
    if not isinstance(told, datetime):
        return _NEVER
    return told if told.tzinfo else told.replace(tzinfo=UTC)
