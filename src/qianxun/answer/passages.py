"""What a generator is given, in whatever form: assembled passages, results of a search, plain texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from qianxun.answer.assemble import assemble
from qianxun.core.answer_types import AnswerContext, Passage
from qianxun.core.errors import BadInput
from qianxun.core.types import Found

Given: TypeAlias = "AnswerContext | Sequence[Found] | Sequence[Mapping[str, Any]] | Sequence[str] | Sequence[Passage]"

_TEXTS = ("text", "content", "chunk_text", "page_content")
_NAMES = ("doc_name", "document_name", "title", "source", "name")


def as_context(given: Given) -> AnswerContext:
    """The passages, numbered from 1 in the order they have. Raises BadInput for what is no passage."""
    if isinstance(given, AnswerContext):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise BadInput("context 须是资料的列表", hint="给出检索结果、字典或字符串的列表，或 assemble 的结果")
    found = [each for each in given if isinstance(each, Found)]
    if found and len(found) == len(given):
        return assemble(found)
    return AnswerContext(tuple(_passage(each, number) for number, each in enumerate(given, start=1)))


def _passage(each: object, number: int) -> Passage:
    if isinstance(each, Passage):
        return each
    if isinstance(each, str):
        return Passage(number, f"资料{number}", "", f"资料{number}", each)
    if isinstance(each, Mapping):
        return _of_mapping(each, number)
    raise BadInput(
        f"第 {number} 份资料的类型是 {type(each).__name__}，不是资料", hint="每份资料是检索结果、字典或字符串"
    )


def _of_mapping(each: Mapping[str, Any], number: int) -> Passage:
    text = next((each[name] for name in _TEXTS if isinstance(each.get(name), str)), None)
    if text is None:
        raise BadInput(f"第 {number} 份资料没有正文", hint=f"字典里要有 {'、'.join(_TEXTS)} 之一")
    held = each.get("metadata")
    metadata: Mapping[str, Any] = held if isinstance(held, Mapping) else {}
    named = next((str(each[name]) for name in _NAMES if each.get(name)), str(metadata.get("source", "")))
    doc_id = str(each.get("doc_id") or each.get("document_id") or named or f"资料{number}")
    score = each.get("score")
    return Passage(
        number,
        doc_id,
        named,
        str(each.get("chunk_id") or each.get("id") or doc_id),
        text,
        _offset(each.get("start")),
        _offset(each.get("end")),
        float(score) if isinstance(score, int | float) else 0.0,
        metadata,
    )


def _offset(told: object) -> int:
    return told if isinstance(told, int) and not isinstance(told, bool) and told >= 0 else 0
