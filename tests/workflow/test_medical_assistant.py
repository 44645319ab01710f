"""The example flow of the repository: node 1 → node 2 → node 3, as its flow.yaml has them."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from qianxun.examples.importing import import_file
from qianxun.examples.library import SearchSettings
from qianxun.examples.results import NO_EXAMPLES
from qianxun.samples import EXAMPLES
from tests import preloaded
from tests.examples.libraries import MODEL, broken_model, library_url, opened
from tests.shared import MODELS, needs_model

FLOW = Path(__file__).resolve().parents[2] / "examples" / "medical_assistant"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its run.py, imported as Python would import it for a script in that folder."""
    monkeypatch.syspath_prepend(str(FLOW))
    yield importlib.import_module("run")
    for name in ("run", "nodes"):
        sys.modules.pop(name, None)


def ran(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    told = {name: value for name, value in os.environ.items() if not name.startswith("QIANXUN_")}
    command = [sys.executable, str(FLOW / "run.py"), "--data", str(folder / "data"), *arguments]
    return preloaded.run(command, cwd=folder, env={**told, **environment}, capture_output=True, text=True, timeout=600)


@needs_model
def test_a_question_ends_in_a_prompt_with_fitting_examples(tmp_path: Path) -> None:
    done = ran(tmp_path, "您好，记一下我今天早上的血压128/82，谢谢", QIANXUN_VECTORIZATION_MODEL_FOLDERS=str(MODELS))
    assert done.returncode == 0, done.stderr
    assert "【用户的问题】\n记一下我今天早上的血压128/82\n" in done.stdout
    assert "示例1（记录）：\n用户：" in done.stdout
    assert "示例5（" in done.stdout
    assert "血压" in done.stdout.split("示例2")[0]


def test_without_a_model_the_flow_still_reaches_its_end(
    run: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", "none")
    monkeypatch.setattr("sys.argv", ["run.py", "--data", str(tmp_path / "data"), "高血压能喝酒吗"])
    assert run.main() == 0
    assert NO_EXAMPLES in capsys.readouterr().out
    assert "没有向量模型" in caplog.text


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_each_node_writes_reaches_the_next(
    run: Any, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = SearchSettings(similarity_threshold=0.3, min_results=0)
    with opened(library_url(kind, tmp_path, request), settings=settings) as library:
        import_file(EXAMPLES, library.store)
        graph = run.graph_over(library)
        state = {"history_messages": [HumanMessage("请问高血压可以喝酒吗？")], "prompt_vars": {"user": "王"}}
        ended = graph.invoke(state)
        prompt_vars = ended["prompt_vars"]
        assert prompt_vars["user"] == "王"
        assert prompt_vars["query_text"] == "高血压可以喝酒吗？"
        assert {"高血压", "喝酒"} <= set(prompt_vars["keywords"])
        assert prompt_vars["retrieved_examples"]
        for example in prompt_vars["retrieved_examples"]:
            assert example["content"] in prompt_vars["prompt"]
        assert [message.content for message in ended["history_messages"]] == ["请问高血压可以喝酒吗？"]
        assert asyncio.run(graph.ainvoke(state))["prompt_vars"] == prompt_vars


def test_a_broken_model_costs_the_examples_and_nothing_else(
    run: Any, tmp_path: Path, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    url = library_url("sqlite", tmp_path, request)
    with opened(url) as library:
        import_file(EXAMPLES, library.store)
    with opened(url, broken_model(MODEL.dimension)) as library:
        ended = run.graph_over(library).invoke({"history_messages": [HumanMessage("高血压能喝酒吗")]})
    assert NO_EXAMPLES in ended["prompt_vars"]["prompt"]
    assert "权重文件损坏" in caplog.text
