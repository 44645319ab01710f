"""`make demo`, as a newcomer runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from qianxun.cli.demo import TRIES
from qianxun.samples import LIBRARY
from tests.shared import MODELS, needs_model

PROGRAM = (sys.executable, "-c", "import sys; from qianxun.cli import main; sys.exit(main())")


def demo(folder: Path, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("QIANXUN_")}
    home = {"QIANXUN_VECTORIZATION_MODEL_HOME": str(folder / "models"), "COLUMNS": "100"}
    return subprocess.run(
        [*PROGRAM, "demo", "--data", str(folder / "data"), *options],
        cwd=folder,
        env={**plain, **home, **settings},
        capture_output=True,
        text=True,
    )


def read(told: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert told.returncode == 0, told.stderr
    document: dict[str, Any] = json.loads(told.stdout)
    return document


@needs_model
def test_every_search_finds_what_it_is_meant_to_show(tmp_path: Path) -> None:
    told = read(demo(tmp_path, "--json", QIANXUN_VECTORIZATION_MODEL_FOLDERS=str(MODELS)))
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
    assert set(expected) == {one.query for one in TRIES}
    for query, (name, words) in expected.items():
        assert best[query]["doc_name"] == name
        assert words in best[query]["content"]
    lost, table, unknown = told["answers"]
    assert "8023" in lost["answer"]
    assert lost["sources"][0]["doc_name"] == "青禾科技员工手册.md"
    assert (table["form"], table["answer"][:3]) == ("table", "88%")
    assert (unknown["form"], unknown["sources"]) == ("declined", [])
    assert told["examples"]["added"] >= 60
    assert "立刻拨打 120" in told["examples"]["found"][0]["content"]
    again = read(demo(tmp_path, "--json", QIANXUN_VECTORIZATION_MODEL_FOLDERS=str(MODELS)))
    assert (again["added"], again["unchanged"]) == (0, told["added"])
    assert (again["examples"]["added"], again["examples"]["found"]) == (0, told["examples"]["found"])


def test_without_a_model_the_demo_says_so_and_goes_on(tmp_path: Path) -> None:
    # Nobody has pinned this model's hashes: it is refused before any source is asked, network or none.
    told = demo(tmp_path, QIANXUN_VECTORIZATION_MODEL="bge-m3")
    assert told.returncode == 0, told.stderr
    assert "零模型模式" in told.stdout
    assert "原文里没有这些词" in told.stdout
    assert "示例库靠向量检索" in told.stdout
    assert "QH-2087 | 升降书桌" in told.stdout
    assert "| 三级 | 900 | 84% | 88% |" in told.stdout
    assert "781" in told.stdout
    assert "8023" in told.stdout
    assert "[1] 青禾科技员工手册.md" in told.stdout
    assert f"qianxun --data {tmp_path / 'data'} search" in told.stdout


@needs_model
def test_a_demo_without_a_model_changes_over_when_there_is_one(tmp_path: Path) -> None:
    first = read(demo(tmp_path, "--json", QIANXUN_VECTORIZATION_MODEL="none"))
    assert first["embedding_model"] == ""
    second = read(demo(tmp_path, "--json", QIANXUN_VECTORIZATION_MODEL_FOLDERS=str(MODELS)))
    assert second["embedding_model"] == "bge-small-zh-v1.5"
    assert second["searches"][0]["chunks"][0]["doc_name"] == "青禾科技员工手册.md"
