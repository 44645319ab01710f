"""Examples as a prompt wants them: what was said and answered, and all of them as the text of one placeholder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from qianxun.examples.schema import CATEGORIES, DEFAULT_TABLE_NAMES

NO_EXAMPLES: Final = "（没有检索到相似的示例，请按通用规则回答。）"
_LABELS: Final = {category.name: category.label for category in CATEGORIES}


class RetrievedExample(TypedDict):
    """What the retrieval node hands to the next one."""

    content: str
    similarity: float
    source: str
    metadata: Mapping[str, Any]


def format_retrieved_examples(results: Sequence[Mapping[str, Any]]) -> list[RetrievedExample]:
    """Each result as 用户：… 助手：…; one from a source that is none of the library's as it stands.

    What is formatted already stays as it is, so that a node may format whatever `vector_db_search` gave it.
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
        return f"用户：{result['user_input']}\n助手：{result['agent_response']}"
    return str(result)


def format_for_prompt(prompt_vars: Mapping[str, Any] | None) -> dict[str, str]:
    """The text for the placeholder ``{retrieved_examples}``: numbered examples, or a sentence that there are none."""
    examples = (prompt_vars or {}).get("retrieved_examples") or []
    shown = [_shown(number, example) for number, example in enumerate(examples, 1)]
    return {"retrieved_examples": "\n\n".join(shown) or NO_EXAMPLES}


def _shown(number: int, example: Any) -> str:
    if not isinstance(example, Mapping):
        return f"示例{number}：\n{example}"
    label = _LABELS.get(str(example.get("source")), "")
    return f"示例{number}{f'（{label}）' if label else ''}：\n{_content(example)}"
