"""A small sample of `make bench`: it runs to its end and says what it promises to say."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import doors, embedding, recall, service, side_by_side
from benchmarks.__main__ import BENCHMARKS, Benchmark, judge
from benchmarks.__main__ import run as run_benchmark
from benchmarks.load import Client, begun_at
from benchmarks.passages import MODEL, passages
from benchmarks.peers.material import questions, spread
from benchmarks.side_by_side import BARE, PEERS, Entry, Failed, questions_needed, run, table, verdicts

from tests.shared import needs_data, needs_model

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where what was embedded is kept for whoever measures next."""
    return tmp_path_factory.mktemp("kept")


def ran(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A benchmark as people run it; it must succeed."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240)


def imported(script: Path) -> list[tuple[str, str]]:
    """Modules of ours that a script imports names from, and those names."""
    froms = [node for node in ast.walk(ast.parse(script.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    return [(str(node.module), alias.name) for node in froms for alias in node.names if is_ours(str(node.module))]


def is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("qianxun", "benchmarks")


@pytest.mark.parametrize("folder", ["benchmarks", "tests/torture", "tests/llm_check", "examples"])
def test_scripts_that_run_rarely_import_what_there_is(folder: str) -> None:
    names = [name for script in sorted((ROOT / folder).rglob("*.py")) for name in imported(script)]
    missing = [(module, name) for module, name in names if not hasattr(import_module(module), name)]
    assert names
    assert [f"{module}.{name}" for module, name in missing if find_spec(f"{module}.{name}") is None] == []


@needs_data
def test_ingest_is_measured_against_its_bare_parts() -> None:
    run = ran("benchmarks.ingest", "--limit", "600")
    told = json.loads(run.stdout)
    assert told["passages"] == 600
    assert told["chunks"] >= 600
    assert set(told["bare_seconds"]) == {"tokenise", "tantivy", "vectors", "sqlite"}
    assert told["ratio_wall"] > 0


@pytest.mark.long
@needs_data
@needs_model
def test_the_pipeline_is_measured_beside_the_bare_calls_on_the_same_questions(kept: Path) -> None:
    sample = ["--count", "400", "--passes", "1", "--per-pass", "20", "--real", "8"]
    arguments = [*sample, "--cache", str(kept), "--only"]
    done = ran("benchmarks.side_by_side", *arguments)
    told = json.loads(done.stdout)
    assert (told["passages"], told["really_embedded"]) == (400, 8)
    assert told["bare"]["questions"] == 20
    assert told["bare"]["ratio"] > 0
    assert told["ours"]["reopen"]["found"] == 10
    assert told["judged"] is False
    assert "medians of 1 passes" in done.stderr
    assert "none is held against this run" in done.stderr


@pytest.mark.long
@needs_data
@needs_model
def test_the_service_is_measured_beside_its_own_engine_in_the_same_run(kept: Path) -> None:
    # No second is too short: every client asks at least one question, however slow the machine is.
    sample = ["--count", "300", "--real", "8", "--questions", "12", "--passes", "1", "--seconds", "0"]
    done = ran("benchmarks.service", *sample, "--cache", str(kept))
    told = json.loads(done.stdout)
    assert list(told["levels"]) == list(told["with_cache"]) == ["1", "8", "32", "256"]
    assert all(level["ratio"] > 0 for level in told["levels"].values())
    assert sum(level["not_answered"] for level in told["levels"].values()) == 0
    assert told["judged"] is False
    assert "none is held against this run" in done.stderr
    written = (kept / "built-300" / "service.log").read_text(encoding="utf-8").splitlines()
    asked = [line for line in map(json.loads, written) if line["message"] == "request"]
    assert {(line["route"], line["status"]) for line in asked} == {("/v1/retrieval/{knowledge_base_id}", 200)}


@pytest.mark.long
@needs_data
@needs_model
def test_every_door_is_measured_beside_the_service_itself_and_names_the_same_chunks(kept: Path) -> None:
    sample = ["--count", "300", "--real", "8", "--questions", "12"]
    done = ran("benchmarks.doors", *sample, "--cache", str(kept))
    told = json.loads(done.stdout)
    assert told["questions"] == 6
    assert list(told["doors"]) == ["/v1/retrieval", "Dify", "vector store", "MCP"]
    assert all(door["ratio"] > 0 for door in told["doors"].values())
    with pytest.raises(SystemExit, match="Dify and /v1/retrieval answer differently"):
        doors.check("住院", {"/v1/retrieval": [("甲", 0.5)], "Dify": [("甲", 0.4)]})


def _levels(**http: float) -> dict[int, dict[str, float]]:
    return {
        int(clients[1:]): {"ratio": rate / 100, "http_per_second": rate, "not_answered": 0}
        for clients, rate in http.items()
    }


@pytest.mark.parametrize(
    ("levels", "goodput", "held"),
    [
        (_levels(_1=30, _8=60, _32=100, _256=90), 0.9, [True, True, True, True, True]),  # one client has no target
        (_levels(_1=30, _8=59, _32=100, _256=90), 0.9, [False, True, True, True, True]),
        (_levels(_1=30, _8=60, _32=100, _256=90), 0.89, [True, True, True, False, True]),
    ],
)
def test_the_service_is_held_to_its_engine_and_to_its_own_peak(
    levels: dict[int, dict[str, float]], goodput: float, held: list[bool]
) -> None:
    assert service.peak_of(levels) == 32
    assert [met for _, met in service.verdicts(levels, goodput)] == held


def test_an_answer_that_was_none_misses_the_target() -> None:
    levels = _levels(_8=100)
    levels[8]["not_answered"] = 1
    assert [met for _, met in service.verdicts(levels, 1.0)] == [True, True, False]


def test_a_pass_is_told_by_its_answers_and_its_slowest() -> None:
    told = {"waits": [0.001 * each for each in range(1, 201)], "others": {"503": 2}, "seconds": 4.0}
    found = service.pass_of(told, cpu=1.0)
    assert (found.answers, found.rate, found.others, found.cpu_ms) == (200, 50.0, 2, 5.0)
    assert (round(found.p50_ms), round(found.p99_ms)) == (101, 199)
    assert service.pass_of({"waits": [], "others": {}, "seconds": 0.0}, cpu=1.0).rate == 0


@pytest.mark.parametrize("cuts", [(), (5,), (20, 60), (61, 62, 63)])
def test_the_asker_puts_an_answer_together_from_its_pieces(cuts: tuple[int, ...]) -> None:
    reply = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\ncontent-length: 4\r\nx: y\r\n\r\nbusy"

    async def ask() -> tuple[int, bytes]:
        client, sent = Client(), []
        client.connection_made(SimpleNamespace(write=sent.append))  # type: ignore[arg-type]
        asking = asyncio.ensure_future(client.ask(b"question"))
        await asyncio.sleep(0)
        for start, end in pairwise((0, *cuts, len(reply))):
            assert not asking.done()
            client.data_received(reply[start:end])
        assert sent == [b"question"]
        return await asking

    assert asyncio.run(ask()) == (503, b"busy")


def test_questions_go_round_from_where_a_pass_begins() -> None:
    assert begun_at(["a", "b", "c"], 4) == ["b", "c", "a"]


@pytest.mark.long
@needs_data
def test_the_parts_of_a_search_and_what_the_codes_lose_are_measured(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    real = rng.normal(size=(1_200, 64)).astype(np.float32)  # more than are searched without codes
    real /= np.linalg.norm(real, axis=1, keepdims=True)
    texts = [text for _, text in passages(1_500)]
    told = asyncio.run(recall._measured(tmp_path, 1_500, real, texts, real[:4]))
    assert set(told["cpu_ms"]) == {"analyse", "nearest", "match"}
    assert (told["rows"], told["real"]) == (1_500, 1_200)
    (benchmark,) = (each for each in BENCHMARKS if each.module == "benchmarks.recall")
    held, said = judge(benchmark, 0, told)
    assert held is (told["recall@10"] >= 0.95)
    assert f"recall@10 = {told['recall@10']}, at least 0.95" in said


@needs_model
def test_embedding_is_measured_against_the_bare_call() -> None:
    told = embedding.compare(MODEL, MODEL.name, ["医保报销比例", "住院部在三号楼"], rounds=1)
    assert told["passages"] == 2
    assert told["ratio_to_bare"]["cpu"] > 0


def test_a_benchmark_that_breaks_counts_as_missed_and_the_others_go_on() -> None:
    broken = Benchmark("benchmarks.nowhere", (), (), ("ratio",), at_most=1.5)
    code, told = run_benchmark(broken, quick=True)
    assert judge(broken, code, told) == (False, "broke, with exit code 1: MISSED")


@pytest.mark.parametrize(("figure", "held"), [(0.94, False), (0.95, True), (1.5, True), (1.51, False)])
def test_a_figure_is_held_against_both_its_bounds(figure: float, held: bool) -> None:
    benchmark = Benchmark("any", (), (), ("deep", "figure"), at_most=1.5, at_least=0.95)
    assert judge(benchmark, 0, {"deep": {"figure": figure}})[0] is held


def test_a_sample_too_small_for_targets_is_not_said_to_meet_them() -> None:
    benchmark = Benchmark("side_by_side", (), ())
    assert judge(benchmark, 0, {"judged": False}) == (True, "so small a sample is held against no target")
    assert judge(benchmark, 1, {"judged": True}) == (False, "its own targets, above: MISSED")


def _reopen(whole: float, after_imports: float) -> dict[str, float]:
    return {"cpu": whole, "cpu_without_imports": after_imports, "megabytes": 300}


def _told(**measured: object) -> dict[str, object]:
    return {"passes": 3, "ours": {"reopen": _reopen(9.0, 0.4)}, **measured}


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
def test_reopening_is_held_after_imports_against_the_best_peer_that_persists_as_its_guide_builds_it(
    best: float, held: bool
) -> None:
    entries = [Entry("txtai", 100), Entry("lancedb", 20), Entry("lancedb", 40, tuned=True), Entry("langchain", 20)]
    told = _told(
        txtai={"ratio": 9, "reopen": _reopen(1.0, 16.0)},
        lancedb={"ratio": 9, "reopen": _reopen(12.0, best)},
        **{"lancedb-tuned": {"ratio": 9, "reopen": _reopen(1.0, 0.1)}},
        langchain={"ratio": 9, "reopen": _reopen(1.0, 0.1)},  # rebuilds its BM25: nothing of it was kept
    )
    said, met = verdicts(told, entries)[-1]
    assert f"ours 0.4 s / lancedb {best} s" in said
    assert "whole processes: 9.0 s / 12.0 s" in said
    assert met is held


def test_every_peer_is_judged_once_and_what_is_tuned_by_hand_never() -> None:
    judged = [entry.module for entry in PEERS if entry.at_least]
    assert sorted(judged) == ["haystack", "lancedb", "langchain", "llamaindex", "txtai"]
    assert [entry.name for entry in PEERS if not entry.at_least] == ["lancedb-tuned", "llamaindex-tuned"]
    tuned = Entry("lancedb", 40, tuned=True)
    for measured in ({"ratio": 0.1}, {"failed": "no room"}):
        assert verdicts(_told(**{"lancedb-tuned": measured}), [tuned]) == []


def test_the_table_shows_ours_in_the_same_passes_and_how_many_they_were() -> None:
    measured = {"cpu_ms": 50.0, "ours_cpu_ms": 10.0, "ratio": 4.9, "wall_ms": 60, "questions": 120, "megabytes": 9}
    entries = [Entry("txtai", 100, 4.0), Entry("lancedb", 40, tuned=True), Entry("haystack", 2, 50.0)]
    told = _told(txtai=measured, haystack={"failed": "no room"}, **{"lancedb-tuned": measured})
    shown = table(told, entries)
    assert "medians of 3 passes" in shown
    assert "| txtai | 50.0 | 10.0 | 4.9 | ≥ 4 |" in shown
    assert "| lancedb-tuned | 50.0 | 10.0 | 4.9 | none: tuned by hand |" in shown
    assert "| haystack | no room |" in shown


def test_no_two_passes_share_a_question() -> None:
    slow = Entry("haystack", 2, 50.0)
    assert slow.asked_of_ours == 50  # a ratio wants more of ours than a slow peer can be asked
    assert questions_needed([BARE, slow], passes=3) == 1 + 3 * 20 + 3 * (200 + 50)


@needs_data
def test_there_are_questions_for_every_entry_in_five_passes_and_too_many_are_refused() -> None:
    needed = questions_needed([BARE, *PEERS], passes=5)
    asked = questions(needed)
    assert len(set(asked)) == needed
    assert asked[:40] == questions(40)
    with pytest.raises(ValueError, match="ask fewer passes"):
        questions(1_000_000)


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


@pytest.mark.long
@needs_data
def test_the_three_backends_answer_alike_in_one_run() -> None:
    done = ran("benchmarks.backends", "--count", "200", "--questions", "3")
    (report,) = json.loads(done.stdout)
    assert report["same_first_ten"] == {"postgres": 1.0, "milvus": 1.0}
    assert set(report["cpu_seconds"]) == {"embedded", "postgres", "milvus"}
    assert all(ours > 0 for costs in report["cpu_seconds"].values() for ours, _ in costs.values())
    assert "| milvus |" in done.stderr
