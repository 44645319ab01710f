"""A small sample of `make bench`: it runs to its end and says what it promises to say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import side_by_side
from benchmarks.peers.material import spread
from benchmarks.side_by_side import BARE, Entry, Failed, run, verdicts

from tests.shared import needs_data, needs_model

ROOT = Path(__file__).resolve().parents[1]


@needs_data
def test_ingest_is_measured_against_its_bare_parts() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.ingest", "--limit", "600"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    told = json.loads(run.stdout)
    assert told["passages"] == 600
    assert told["chunks"] >= 600
    assert set(told["bare_seconds"]) == {"tokenise", "tantivy", "vectors", "sqlite"}
    assert told["ratio_wall"] > 0


@needs_data
@needs_model
def test_the_pipeline_is_measured_beside_the_bare_calls_on_the_same_questions(tmp_path: Path) -> None:
    arguments = ["--count", "400", "--passes", "1", "--real", "24", "--cache", str(tmp_path), "--only"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.side_by_side", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    told = json.loads(done.stdout)
    assert (told["passages"], told["really_embedded"]) == (400, 24)
    assert told["bare"]["questions"] == 200
    assert told["bare"]["ratio"] > 0
    assert told["ours"]["reopen"]["found"] == 10
    assert "none is held against this run" in done.stderr


def _told(**measured: object) -> dict[str, object]:
    return {"ours": {"reopen": {"cpu": 0.4}}, **measured}


def test_a_peer_that_could_not_be_measured_is_named_with_its_reason_and_counts_as_missed() -> None:
    entry = Entry("txtai", 100, 4.0)
    assert verdicts(_told(txtai={"failed": "no torch"}), [entry]) == [("txtai: not measured: no torch", False)]


@pytest.mark.parametrize(("ratio", "held"), [(4.0, True), (3.9, False)])
def test_a_peer_must_cost_so_many_times_as_much(ratio: float, held: bool) -> None:
    assert [met for _, met in verdicts(_told(lancedb={"ratio": ratio}), [Entry("lancedb", 40, 4.0)])] == [held]


@pytest.mark.parametrize(("bare_to_ours", "held"), [(1 / 1.5, True), (0.6, False), (1.2, True)])
def test_the_pipeline_may_cost_half_as_much_again_as_the_bare_calls(bare_to_ours: float, held: bool) -> None:
    assert [met for _, met in verdicts(_told(bare={"ratio": bare_to_ours}), [BARE])] == [held]


@pytest.mark.parametrize(("best", "held"), [(4.0, True), (3.9, False)])
def test_reopening_is_held_against_the_best_peer_that_persists(best: float, held: bool) -> None:
    entries = [Entry("txtai", 100), Entry("lancedb", 40), Entry("langchain", 20)]
    told = _told(
        txtai={"ratio": 9, "reopen": {"cpu": 16.0}},
        lancedb={"ratio": 9, "reopen": {"cpu": best}},
        langchain={"ratio": 9, "reopen": {"cpu": 0.1}},  # rebuilds its BM25: nothing of it was kept
    )
    said, met = verdicts(told, entries)[-1]
    assert "lancedb" in said
    assert met is held


def test_a_peer_without_its_environment_is_said_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "PEERS_PYTHON", tmp_path / "nowhere")
    with pytest.raises(Failed, match="not installed"):
        run(Entry("txtai", 100), "build", tmp_path, tmp_path / "txtai", 10)


def test_a_contender_that_breaks_leaves_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="FileNotFoundError"):
        run(Entry("ours", 1, is_peer=False), "build", tmp_path / "nothing", tmp_path / "ours", 60)


def test_vectors_that_are_not_embedded_are_unit_mixtures_of_real_ones_from_a_seed() -> None:
    real = np.eye(8, dtype=np.float32)
    made = spread(real, 40)
    assert made.shape == (40, 8)
    assert np.array_equal(made[:8], real)
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    assert np.array_equal(made, spread(real, 40))
    assert len(np.unique(made, axis=0)) == 40
