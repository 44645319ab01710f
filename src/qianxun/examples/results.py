"""Examples as results: read from rows, ranked and filtered, and formatted for a prompt.

Results are plain mappings in the names of the seed, so that any node can be put in between.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from typing import Any, Final, TypedDict, TypeVar

from qianxun.examples.schema import CATEGORIES, DEFAULT_GRADE, DEFAULT_TABLE_NAMES, GRADES

log = logging.getLogger(__name__)

GLOBAL_TOP_K: Final = 15
DIGITS: Final = 6  # of a similarity: further ones differ by chance between databases and rows of the same text
GRADE_SCORES: Final = {grade: score for score, grade in enumerate(reversed(GRADES), 1)}  # 优秀 3, 良好 2, 一般 1
LOWEST_GRADE: Final = GRADE_SCORES[DEFAULT_GRADE]
NO_EXAMPLES: Final = "（没有检索到相似的示例，请按通用规则回答。）"
_LABELS: Final = {category.name: category.label for category in CATEGORIES}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class ExampleMetadata(TypedDict, total=False):
    """Of an example beside its texts; plain JSON values."""

    id: int
    tags: list[str]
    quality_grade: str | None
    created_at: str  # ISO 8601, UTC
    updated_at: str | None
    keyword_score: float  # share of the question's words that it has; of a hybrid search
    cosine: float  # … and the similarity of its vector alone


class FoundExample(TypedDict):
    """A row of a table that is similar to the question."""

    id: int
    user_input: str
    agent_response: str
    tags: list[str]
    quality_grade: str | None
    similarity: float
    source: str  # the category, without the table's prefix
    metadata: ExampleMetadata


class RetrievedExample(TypedDict):
    """The output of the retrieval node."""

    content: str
    similarity: float
    source: str
    metadata: Mapping[str, Any]


Result = TypeVar("Result", bound=Mapping[str, Any])


@dataclass(frozen=True, slots=True)
class ExampleFilter:
    """Examples with all of the ``tags`` and one of the ``grades``; empty: any."""

    tags: tuple[str, ...] = ()
    grades: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tags or self.grades)

    def passes(self, tags: Iterable[str], grade: str | None) -> bool:
        return set(self.tags) <= set(tags) and (not self.grades or grade in self.grades)


ANY_EXAMPLE: Final = ExampleFilter()


def from_row(row: Any, similarity: float, source: str) -> FoundExample:
    """A row as a result; the similarity is clipped to [0, 1] after rounding."""
    tags = list(row.tags or ())
    return FoundExample(
        id=row.id,
        user_input=row.user_input,
        agent_response=row.agent_response,
        tags=tags,
        quality_grade=row.quality_grade,
        similarity=min(max(round(float(similarity), DIGITS), 0.0), 1.0),
        source=source,
        metadata=ExampleMetadata(
            id=row.id,
            tags=tags,
            quality_grade=row.quality_grade,
            created_at=_iso(row.created_at) or "",
            updated_at=_iso(row.updated_at),
        ),
    )


def _iso(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment is not None else None


# ── ranking ──────────────────────────────────────────────────────────────────────────────────────


def by_similarity(rows: Sequence[FoundExample]) -> list[FoundExample]:
    return sorted(rows, key=lambda row: (-row["similarity"], row["id"]))


def merge_and_rank_results(all_results: Sequence[Result], global_top_k: int = GLOBAL_TOP_K) -> list[Result]:
    """Most similar first; of equals the better grade, then the newer one. Equal contents are returned once."""
    ranked = sorted(all_results, key=_rank, reverse=True)  # stable: equals stay in the order of their tables
    seen: set[str] = set()
    distinct = []
    for result in ranked:
        content = " ".join(_text(result).split())
        if content not in seen:
            seen.update({content} if content else ())  # results without text are not compared
            distinct.append(result)
    return distinct[: max(global_top_k, 0)]


def quality_filter(results: Sequence[Result], enough: int = GLOBAL_TOP_K) -> list[Result]:
    """Drops results graded 一般, or not at all, from the end of the ranking, as long as ``enough`` remain.

    It is meant for the results before the cut: after it there are never more than enough.
    """
    ordinary = [at for at, result in enumerate(results) if _grade(result) <= LOWEST_GRADE]
    surplus = max(len(results) - enough, 0)
    dropped = set(ordinary[max(len(ordinary) - surplus, 0) :])
    return [result for at, result in enumerate(results) if at not in dropped]


def valid_results(results: Sequence[Result]) -> list[Result]:
    """Those with a similarity in [0, 1], text and metadata. The others are logged."""
    valid = []
    for result in results:
        problem = _problem(result)
        if problem:
            log.warning("舍去一条不完整的案例（%s）：%s", result.get("source", "来源不明"), problem)
        else:
            valid.append(result)
    return valid


def _problem(result: Mapping[str, Any]) -> str:
    similarity = result.get("similarity")
    if not isinstance(similarity, Real) or not 0.0 <= float(similarity) <= 1.0:  # nor is a NaN
        return f"相似度 {similarity!r} 不在 0–1 之间"
    if not _text(result).strip():
        return "内容为空"
    if not isinstance(result.get("metadata"), Mapping):
        return "没有元数据"
    return ""


def _text(result: Mapping[str, Any]) -> str:
    """The text of a result, formatted or as found."""
    if "content" in result:
        return str(result["content"] or "")
    user, agent = str(result.get("user_input") or ""), str(result.get("agent_response") or "")
    return f"{user}\n{agent}" if user.strip() and agent.strip() else ""


def _rank(result: Mapping[str, Any]) -> tuple[float, int, datetime]:
    return float(result["similarity"]), _grade(result), _date(result)


def _attribute(result: Mapping[str, Any], name: str) -> Any:
    value = result.get(name)
    return value if value is not None else (result.get("metadata") or {}).get(name)


def _grade(result: Mapping[str, Any]) -> int:
    return GRADE_SCORES.get(str(_attribute(result, "quality_grade")), LOWEST_GRADE)


def _date(result: Mapping[str, Any]) -> datetime:
    """When it was last changed; the earliest date if unknown."""
    date = _attribute(result, "updated_at") or _attribute(result, "created_at")
    if isinstance(date, str):
        try:
            date = datetime.fromisoformat(date)
        except ValueError:
            return _NEVER
    if not isinstance(date, datetime):
        return _NEVER
    return date if date.tzinfo else date.replace(tzinfo=UTC)


# ── formatting ───────────────────────────────────────────────────────────────────────────────────


def format_retrieved_examples(results: Sequence[Mapping[str, Any]]) -> list[RetrievedExample]:
    """Each result as 用户：… 助手：…; one of another source as it is.

    Formatted results are not changed, so that a node may format the results of `vector_db_search`.
    """
    return [
        RetrievedExample(
            content=_content(result),
            similarity=result.get("similarity", 0.0),
            source=str(result.get("source", "")),
            metadata=dict(result.get("metadata") or {}),
        )
        for result in results
    ]


def _content(result: Mapping[str, Any]) -> str:
    if isinstance(result.get("content"), str):
        return str(result["content"])
    if result.get("source") in DEFAULT_TABLE_NAMES and "user_input" in result and "agent_response" in result:
        return dialogue(result)
    return str(result)


def dialogue(result: Mapping[str, Any]) -> str:
    return f"用户：{result['user_input']}\n助手：{result['agent_response']}"


def format_for_prompt(prompt_vars: Mapping[str, Any] | None) -> dict[str, str]:
    """The text for the placeholder ``{retrieved_examples}``: numbered examples, or a sentence that there are none."""
    examples = (prompt_vars or {}).get("retrieved_examples") or []
    shown = [_numbered(number, example) for number, example in enumerate(examples, 1)]
    return {"retrieved_examples": "\n\n".join(shown) or NO_EXAMPLES}


def _numbered(number: int, example: Any) -> str:
    if not isinstance(example, Mapping):
        return f"示例{number}：\n{example}"
    label = _LABELS.get(str(example.get("source")), "")
    return f"示例{number}{f'（{label}）' if label else ''}：\n{_content(example)}"
