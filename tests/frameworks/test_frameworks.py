"""What the retrievers for other frameworks have in common: their extras, and their pages in the documents."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from qianxun import Document, open_blocking
from qianxun.core.errors import MissingExtra

PAGE = Path(__file__).resolve().parents[2] / "docs" / "connecting.md"


@pytest.mark.parametrize(
    ("name", "lacking", "extra"),
    [
        ("langchain", "langchain_core.callbacks.manager", "langchain"),
        ("llamaindex", "llama_index.core.base.base_retriever", "llamaindex"),
    ],
)
def test_without_the_framework_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, lacking: str, extra: str
) -> None:
    module = f"qianxun.doors.frameworks.{name}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, lacking, None)
    with pytest.raises(MissingExtra, match=re.escape(f"qianxun[{extra}]")):
        importlib.import_module(module)


@pytest.mark.parametrize("door", ["LangChain", "LlamaIndex"])
def test_the_programs_on_the_page_run(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (section,) = re.findall(rf"^## {door}\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.S | re.M)
    (program,) = re.findall(r"```python\n(.*?)```", section, re.S)
    monkeypatch.chdir(tmp_path)
    with open_blocking("./qianxun-data", background=False) as rag:
        base = rag.create_knowledge_base("医保")
        rag.add_documents(base.id, [Document("手册", "住院报销比例为 85%，门诊为 60%。", name="手册.pdf")])
    exec(compile(program, f"{PAGE.name}: {door}", "exec"), {})
    told = capsys.readouterr().out
    assert told.count("住院报销比例为 85%") == 2
    assert "手册.pdf" in told
