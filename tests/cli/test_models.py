from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run
from tests.models.tiny_cross_encoder import any_reranker, write_cross_encoder

CARD = any_reranker()


def test_a_reranker_is_listed_pulled_and_tried(run: Run, tmp_path: Path) -> None:
    offered = write_cross_encoder(tmp_path / "offered", CARD)
    listed = {row["name"]: row for row in run("models", "list", "--json").json["models"]}
    assert (listed[CARD.name]["kind"], listed[CARD.name]["dimension"]) == ("rerank", None)
    assert listed["bge-m3"]["kind"] == "embedding"
    refused = run("models", "pull", CARD.name, "--from", offered)
    assert refused.code == 2
    assert "--accept-unpinned" in refused.err
    missing = run("models", "test", CARD.name)
    assert missing.code == 1
    assert f"models pull {CARD.name} --accept-unpinned" in missing.err
    assert run("models", "pull", f"BAAI/{CARD.name}", "--from", offered, "--accept-unpinned", "--json").code == 0
    told = run("models", "test", CARD.name, "--json").json
    assert (told["model"], 0.5 < told["score"] <= 1.0) == (CARD.name, True)
    assert "分" in run("models", "test", CARD.name).out
    assert "重排" in run("models", "list").out
