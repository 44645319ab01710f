"""Node 1 and node 3 of the flow. Both are plain functions: no language model is needed to see them work."""

from __future__ import annotations

import re
from typing import Any

from qianxun.doors.workflow.graph_builder import FlowState
from qianxun.examples.results import format_for_prompt
from qianxun.text.chinese import STOP_WORDS, words

POLITE = re.compile(r"^(你好|您好|请问|麻烦|医生)[，,、。！!\s]*|[，,\s]*(谢谢|拜托)[了啦你您]*[。！!]*$")

PROMPT = """\
你是谨慎的健康助手。参考下面的示例，用同样的口吻和分寸回答；没有示例时按通用规则回答：
不下诊断，不改处方，遇到危险的数值或症状先请用户就医。

【参考示例】
{retrieved_examples}

【用户的问题】
{question}
"""


def query_understanding(state: FlowState) -> dict[str, Any]:
    """Node 1: the question without its politeness, and the words that carry it."""
    said = str(state["history_messages"][-1].content)
    query_text = POLITE.sub("", said).strip() or said
    telling = (word for word in words(query_text) if len(word) > 1 and word not in STOP_WORDS)
    found = {"query_text": query_text, "keywords": list(dict.fromkeys(telling))[:5]}
    return {"prompt_vars": {**state.get("prompt_vars", {}), **found}}


def prompt_assembly(state: FlowState) -> dict[str, Any]:
    """Node 3: the prompt that a language model would get. Put your own call here."""
    prompt_vars = state["prompt_vars"]
    prompt = PROMPT.format(question=prompt_vars["query_text"], **format_for_prompt(prompt_vars))
    return {"prompt_vars": {**prompt_vars, "prompt": prompt}}
