"""`make demo`, as a newcomer runs it."""

from __future__ import annotations

import json
import logging
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from qianxun.doors.cli import main
from qianxun.samples import DEMO, LIBRARY
from tests import preloaded
from tests.shared import MODELS, needs_model

PROGRAM = (sys.executable, "-c", "import sys; from qianxun.doors.cli import main; sys.exit(main())")
Demo = Callable[..., dict[str, Any]]


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Demo]:
    """`qianxun demo --json` under these settings, in this process: one of its own loads for longer than it runs."""
    root, own = logging.getLogger(), logging.getLogger("qianxun")
    kept = root.handlers[:], root.level, own.level
    monkeypatch.chdir(tmp_path)

    def told(**settings: str) -> dict[str, Any]:
        for name in [name for name in os.environ if name.startswith("QIANXUN_")]:
            monkeypatch.delenv(name)
        for name, value in surroundings(tmp_path, settings).items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main(["demo", "--data", str(tmp_path / "data"), "--json"])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        document: dict[str, Any] = json.loads(shown.out)
        return document

    yield told
    root.handlers[:], root.level, own.level = kept
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]


def surroundings(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    return {"QIANXUN_VECTORIZATION_MODEL_HOME": str(folder / "models"), "COLUMNS": "100", **settings}


@needs_model
def test_every_search_finds_what_it_is_meant_to_show(demo: Demo) -> None:
    told = demo(QIANXUN_VECTORIZATION_MODEL_FOLDERS=str(MODELS))
    assert told["embedding_model"] == "bge-small-zh-v1.5"
    assert told["refused"] == []
    assert told["added"] == len(list(LIBRARY.iterdir()))
    best = {search["query"]: search["chunks"][0] for search in told["searches"]}
    expected = {
        "心里难受想找人聊聊": ("青禾科技员工手册.md", "心理咨询"),
        "QH-2087 多少钱": ("办公用品价目表.csv", "| QH-2087 | 升降书桌 |"),
        "糖尿丙门诊待遇": ("云溪市医保问答.html", "糖尿病"),
        "退休職工三級醫院住院起付標準和支付比例": ("云溪市医保问答.html", "| 三级 | 900 | 84% | 88% |"),
        "茶馆为什么没有发票": ("山城茶館見聞.txt", "發票"),
        "西南大区 2025年下半年 销售": ("分区销售.xlsx", "2025年 / 下半年"),
    }
    assert set(expected) == {one["query"] for one in tomllib.loads(DEMO.read_text("utf-8"))["searches"]}
    for query, (name, words) in expected.items():
        assert best[query]["doc_name"] == name
        assert words in best[query]["content"]
    lost, table, unknown = told["answers"]
    assert "8023" in lost["answer"]
    assert lost["sources"][0]["doc_name"] == "青禾科技员工手册.md"
    assert (table["form"], table["answer"][:3]) == ("table", "88%")
    assert unknown["form"] == "declined"
    assert all(f"[{source['number']}]" in unknown["answer"] for source in unknown["sources"])  # the nearest there is
    assert told["examples"]["added"] >= 60
    assert "立刻拨打 120" in told["examples"]["found"][0]["content"]
    again = demo(QIANXUN_VECTORIZATION_MODEL_FOLDERS=str(MODELS))
    assert (again["added"], again["unchanged"]) == (0, told["added"])
    assert (again["examples"]["added"], again["examples"]["found"]) == (0, told["examples"]["found"])


def test_without_a_model_the_demo_says_so_and_goes_on(tmp_path: Path) -> None:
    # Nobody has pinned this model's hashes: it is refused before any source is asked, network or none.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("QIANXUN_")}
    told = preloaded.run(
        [*PROGRAM, "demo", "--data", str(tmp_path / "data")],
        cwd=tmp_path,
        env={**plain, **surroundings(tmp_path, {"QIANXUN_VECTORIZATION_MODEL": "bge-m3"})},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    assert "零模型模式" in told.stdout
    assert "原文里没有这些词" in told.stdout
    assert "示例库靠向量检索" in told.stdout
    assert "QH-2087 | 升降书桌" in told.stdout
    assert "| 三级 | 900 | 84% | 88% |" in told.stdout
    assert "781" in told.stdout
    assert "8023" in told.stdout
    assert "[1] library/青禾科技员工手册.md" in told.stdout
    assert f"qianxun --data {tmp_path / 'data'} search" in told.stdout


@needs_model
def test_a_demo_without_a_model_changes_over_when_there_is_one(demo: Demo) -> None:
    first = demo(QIANXUN_VECTORIZATION_MODEL="none")
    assert first["embedding_model"] == ""
    second = demo(QIANXUN_VECTORIZATION_MODEL_FOLDERS=str(MODELS))
    assert second["embedding_model"] == "bge-small-zh-v1.5"
    assert second["searches"][0]["chunks"][0]["doc_name"] == "青禾科技员工手册.md"
