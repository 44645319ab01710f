"""Ranking quality on every Chinese set: `python -m benchmarks.quality --limit 500` gives the table of docs/quality.md.

Each set goes through `qianxun eval`, as a user would run it: one configuration for all, nothing tuned per set. Indexes
and embeddings stay in the data folder, so that a second run only searches.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SETS = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "beir"
CHINESE = (
    "cmrc2018",
    "dureader_robust",
    "kuake_qtr",
    "rgb_zh",
    "rageval_zh_fin",
    "insuranceqa_zh",
    "imtqa",
    "dusql_tables_train",
    "kbqa_zh_1hop",
    "kbqa_zh_mh_train",
)
MODES = ("fulltext", "vector", "hybrid", "rerank")
TOLERANCE = 0.003
GAIN = 0.02


def measured(name: str, data: Path, limit: int) -> dict[str, Any]:
    command = [str(Path(sys.executable).with_name("qianxun")), "--data", str(data), "eval", str(SETS / name)]
    command += ["--modes", ",".join(MODES), "--limit", str(limit), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ndcg(report: Mapping[str, Any]) -> dict[str, float]:
    return {run["name"]: float(run["ndcg@10"]) for run in report["runs"]}


def table(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| 数据集 | 文档 / 查询 | 词语 | 向量 | 混合 | 混合 + 重排 | 混合 − 最好的一路 | 重排 − 混合 |"]
    lines.append("| --- " * 8 + "|")
    for report in reports:
        by = ndcg(report)
        best = max(by["fulltext"], by["vector"])
        scores = " | ".join(f"{by[mode]:.4f}" for mode in MODES)
        told = f"{by['hybrid'] - best:+.4f} | {by['rerank'] - by['hybrid']:+.4f}"
        lines.append(f"| {report['dataset']} | {report['documents']} / {report['queries']} | {scores} | {told} |")
    means = [sum(ndcg(report)[mode] for report in reports) / len(reports) for mode in MODES]
    lines.append("| **平均** | | " + " | ".join(f"**{mean:.4f}**" for mean in means) + " | | |")
    return lines


def verdicts(reports: Sequence[Mapping[str, Any]]) -> list[tuple[str, bool]]:
    """What issue and readers may rely on, and whether it holds."""
    found = []
    gains = []
    for report in reports:
        by = ndcg(report)
        best = max(by["fulltext"], by["vector"])
        gains.append(by["rerank"] - best)
        found.append((f"{report['dataset']}: hybrid ≥ best arm − {TOLERANCE}", by["hybrid"] >= best - TOLERANCE))
        found.append((f"{report['dataset']}: rerank ≥ hybrid − {TOLERANCE}", by["rerank"] >= by["hybrid"] - TOLERANCE))
    mean = sum(gains) / len(gains)
    found.append((f"rerank gains {mean:+.4f} over the best arm on average (≥ {GAIN})", mean >= GAIN))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=500, help="queries per set")
    parser.add_argument("--data", type=Path, default=Path(".bench-cache/quality"), help="where indexes are kept")
    parser.add_argument("--sets", nargs="*", default=list(CHINESE))
    chosen = parser.parse_args()
    reports = [measured(name, chosen.data, chosen.limit) for name in chosen.sets]
    print("\n".join(table(reports)))
    judged = verdicts(reports)
    for told, holds in judged:
        print(("met    " if holds else "MISSED ") + told)
    return 0 if all(holds for _, holds in judged) else 1


if __name__ == "__main__":
    raise SystemExit(main())
