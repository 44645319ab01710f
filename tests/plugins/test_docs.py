"""The page on plug-ins is true: its code runs, and every part in it passes the conformance class of its kind."""

from __future__ import annotations

import re
from typing import Any

import pytest

from qianxun.core import plugins
from qianxun.testing.model_conformance import ChatConformance, EmbeddingConformance, RerankConformance
from tests.plugins.test_example_package import ROOT

PAGE = (ROOT / "docs" / "extending.md").read_text("utf-8")


def section(title: str) -> dict[str, Any]:
    """The names that the code of a section defines."""
    text = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {"__name__": f"page_{abs(hash(title))}"}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, f"docs/extending.md {title}", "exec", dont_inherit=True), names)
    return names


TestSubtitles = section("解析器")["TestSubtitles"]
TestTitle = section("一路检索")["TestTitle"]


class TestEmbedding(EmbeddingConformance):
    abilities = frozenset({"surrogates"})

    def model(self) -> Any:
        return section("嵌入模型")["create"]("mine", api_key="", batch_size=8)


class TestReranker(RerankConformance):
    def model(self) -> Any:
        return section("重排模型")["create"]("mine", api_key="")


class TestChat(ChatConformance):
    abilities = frozenset({"stream"})

    def model(self) -> Any:
        return section("语言模型")["create"]("mine", api_key="")


def test_the_section_on_indexes_is_python() -> None:
    assert "TestMyIndex" in section("索引后端")


@pytest.mark.parametrize(("kind", "group"), plugins.GROUPS.items())
def test_every_kind_is_in_the_table(kind: str, group: str) -> None:
    assert re.search(rf"\| \S+ {kind} \| `{re.escape(group)}` \|", PAGE)
