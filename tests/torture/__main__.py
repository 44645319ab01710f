"""``python -m tests.torture``: kill writers for a long time, run many interleavings, lay siege to the service."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.indexing.novels import NOVELS, indexed
from tests.torture.ledger import Ledger
from tests.torture.rounds import torture


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    asked.add_argument(
        "--rounds", type=int, default=0, help="kill -9 so many writers, and a quarter as many again amid rebuilds"
    )
    asked.add_argument("--power", type=int, default=0, help="cut the power in so many states, by strict POSIX")
    asked.add_argument("--bitrot", type=int, default=0, help="flip so many bits in the database and its log")
    asked.add_argument("--interleavings", type=int, default=0, help="so many random steps against the plain model")
    asked.add_argument("--survey", type=int, default=0, help="so many random requests to each operation of the service")
    asked.add_argument("--siege", type=int, default=0, help="so many writes by each of 16 writers, beside 16 readers")
    asked.add_argument("--cuts", type=int, default=0, help="cut off so many streamed answers, each in another way")
    asked.add_argument("--shortages", type=int, default=0, help="so many calls with few descriptors, on a full disk")
    asked.add_argument("--replicas", type=int, default=0, help="so many times kill or stop one of four processes")
    asked.add_argument("--milvus", action="store_true", help="… whose index is in a light Milvus")
    asked.add_argument("--unfenced", action="store_true", help="… that compare no fences: it must be seen")
    asked.add_argument("--soak", type=float, default=0, help="so many minutes of steady work, whose memory is watched")
    asked.add_argument("--bases", type=int, default=0, help="so many bases in one service: threads, files, memory")
    asked.add_argument("--hostile", action="store_true", help="read hostile files and look at what each takes")
    asked.add_argument("--novels", action="store_true", help="index ten long novels and look at the memory")
    asked.add_argument("--properties", type=int, default=0, help="so many runs of the property tests on new examples")
    asked.add_argument("--seed", type=int, default=1)
    told = asked.parse_args()
    if told.rounds:
        _kill(told.rounds, told.seed)
    if told.power:
        _lose_power(told.power, told.seed)
    if told.bitrot:
        _rot(told.bitrot, told.seed)
    if told.interleavings:
        _interleave(told.interleavings, told.seed)
    if told.survey:
        _survey(told.survey, told.seed)
    if told.siege:
        _besiege(told.siege, told.seed)
    if told.cuts:
        _cut(told.cuts, told.seed)
    if told.shortages:
        _run_short(told.shortages, told.seed)
    if told.replicas:
        _kill_replicas(told.replicas, told.seed, unfenced=told.unfenced, with_milvus=told.milvus)
    if told.soak:
        _soak(told.soak, told.seed)
    if told.bases:
        _crowd(told.bases, told.seed)
    if told.hostile:
        _read_hostile()
    if told.novels:
        _read_novels()
    if told.properties:
        _try_properties(told.properties)


def _kill(rounds: int, seed: int) -> None:
    for mixture, count in (("mixture", rounds), ("rebuilding", max(1, rounds // 4))):
        with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
            tally = torture(Path(folder), count, seed, mixture=mixture, watch=_tell)
        sys.stdout.write(
            f"{mixture}: {tally.rounds} kills, {tally.acknowledged} acknowledged operations, "
            f"{tally.unfinished} interrupted, no violation, {tally.seconds:.0f} s\n"
        )


def _lose_power(states: int, seed: int) -> None:
    from tests.torture.power import lose_power

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
        outcome = lose_power(Path(folder), states, seed)
    for violation in outcome.violations:
        sys.stdout.write(f"{violation}\n")
    sys.stdout.write(
        f"{outcome.states} power losses, {len(outcome.violations)} violations, {outcome.rebuilds} indexes rebuilt, "
        f"{time.monotonic() - started:.0f} s\n"
    )
    if outcome.violations or outcome.rebuilds:
        sys.exit(1)


def _rot(rounds: int, seed: int) -> None:
    from tests.torture.bitrot import rot

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
        tally = rot(Path(folder), rounds, seed)
    for broken in tally.broken:
        sys.stdout.write(f"{broken}\n")
    sys.stdout.write(
        f"{rounds} flipped bits: {tally.told} told, {tally.unseen} that nothing reads, {len(tally.broken)} broken "
        f"promises, {time.monotonic() - started:.0f} s\n"
    )
    if tally.broken:
        sys.exit(1)


def _tell(number: int, ledger: Ledger) -> None:
    if number % 20 == 0:
        sys.stdout.write(f"  {number} kills, {ledger.acknowledged} acknowledged\n")
        sys.stdout.flush()


def _interleave(steps: int, seed: int) -> None:
    from tests.torture.interleaving import interleave  # hypothesis takes a while to load

    started = time.monotonic()
    done, seeds = interleave(steps, seed)
    sys.stdout.write(f"{done} steps over {seeds} seeds equal the plain model, {time.monotonic() - started:.0f} s\n")


def _survey(examples: int, seed: int) -> None:
    from tests.torture.service import surveyed  # schemathesis takes a while to load

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
        found = surveyed(Path(folder), examples, seed)
    for flaw in found.flaws:
        sys.stdout.write(f"{flaw}\n\n")
    sys.stdout.write(f"{found.cases} requests, {len(found.flaws)} flaws, {time.monotonic() - started:.0f} s\n")
    if found.flaws:
        sys.exit(1)


def _besiege(rounds: int, seed: int) -> None:
    from tests.torture.service import besieged

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
        ledger = besieged(Path(folder), rounds, seed)
    for broken in ledger.broken:
        sys.stdout.write(f"{broken}\n")
    sys.stdout.write(
        f"{ledger.writes} writes, {ledger.questions} questions, {len(ledger.broken)} broken promises, "
        f"{time.monotonic() - started:.0f} s\n"
    )
    if ledger.broken:
        sys.exit(1)


def _cut(rounds: int, seed: int) -> None:
    from tests.torture.service import cut_off

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
        cuts = cut_off(Path(folder), rounds, seed)
    for wrong in cuts.wrong:
        sys.stdout.write(f"{wrong}\n")
    sys.stdout.write(
        f"{cuts.rounds} answers cut off: {cuts.failed} told as failed, {cuts.without_model} made without the model, "
        f"{len(cuts.wrong)} hung or told as complete, {time.monotonic() - started:.0f} s\n"
    )
    if cuts.wrong:
        sys.exit(1)


def _run_short(calls: int, seed: int) -> None:
    from tests.torture.shortages import Answers, on_a_full_disk, with_few_descriptors, with_half_sent_heads

    tries: list[tuple[str, Callable[[Path], Answers]]] = [
        *((f"{n} descriptors", lambda at, n=n: with_few_descriptors(at, n, calls, seed)) for n in (40, 64)),
        ("1200 half-sent heads", lambda at: with_half_sent_heads(at, 1200)),
        ("full disk", lambda at: on_a_full_disk(at, calls // 4, seed)),
    ]
    wrong = False
    for name, attempt in tries:
        with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
            try:
                answers = attempt(Path(folder))
            except subprocess.CalledProcessError:
                sys.stdout.write(f"{name}: skipped, a small disk of memory may not be mounted here\n")
                continue
        sys.stdout.write(f"{name}: {dict(answers.statuses)}, {len(answers.wrong)} wrong\n")
        sys.stdout.writelines(f"  {line}\n" for line in answers.wrong[:20])
        wrong = wrong or bool(answers.wrong)
    if wrong:
        sys.exit(1)


def _kill_replicas(rounds: int, seed: int, *, unfenced: bool, with_milvus: bool) -> None:
    from tests.torture.replicas import Tally, torture_replicas
    from tests.torture.servers import servers

    def tell(tally: Tally) -> None:
        sys.stdout.write(f"  {tally.rounds} rounds, {tally.acknowledged} acknowledged, {tally.searches} searches\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder, servers(with_milvus=with_milvus) as place:
        tally = torture_replicas(Path(folder), place, rounds, seed, unfenced=unfenced, watch=tell)
    sys.stdout.writelines(f"{line}\n" for line in tally.broken[:20])
    sys.stdout.write(
        f"{tally.rounds} rounds ({tally.done}): {tally.acknowledged} acknowledged, {tally.searches} searches, "
        f"{tally.uncertain} requests given up, caught up within {tally.slowest_catch_up:.1f} s, "
        f"{len(tally.broken)} broken promises, {tally.seconds:.0f} s\n"
    )
    if bool(tally.broken) is not unfenced:
        sys.exit(1)


def _soak(minutes: float, seed: int) -> None:
    from tests.torture.soak import MOST_MEGABYTES_AN_HOUR, soak, warming

    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
        done = soak(Path(folder), minutes, seed)
    slope, by_calls = done.an_hour(warming(minutes)), done.ten_thousand_calls(warming(minutes))
    sys.stdout.write(
        f"{done.calls} calls, {len(done.failures)} failed, {slope:+.1f} MB an hour, "
        f"{by_calls:+.2f} MB in 10,000 calls, at {done.samples[-1][1]:.0f} MB\n"
    )
    if done.failures or not slope <= MOST_MEGABYTES_AN_HOUR:
        sys.exit(f"memory may rise by {MOST_MEGABYTES_AN_HOUR:g} MB an hour; nan: too few calls to tell")


def _crowd(count: int, seed: int) -> None:
    from tests.torture.bases import crowd

    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
        found = crowd(Path(folder), count, seed)
    sys.stdout.writelines(f"{line}\n" for line in found.wrong[:20])
    sys.stdout.write(
        f"{count} bases: at most {found.threads} threads, {found.files} files, "
        f"{found.kilobytes_a_base:+.1f} KB for each base of the second half, {len(found.wrong)} wrong\n"
    )
    if found.wrong:
        sys.exit(1)


def _read_hostile() -> None:
    from tests.torture.hostile import costs

    unbounded = 0
    for cost in costs():
        unbounded += not cost.is_bounded
        sys.stdout.write(f"{'' if cost.is_bounded else 'NOT BOUNDED: '}{cost}\n")
        sys.stdout.flush()
    if unbounded:
        sys.exit(f"{unbounded} files took more than they may")


def _read_novels() -> None:
    novels = sorted(NOVELS.glob("*.txt"))
    if not novels:
        sys.stdout.write(f"no novels in {NOVELS}: skipped\n")
        return
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
        told = indexed(Path(folder), novels)
    sys.stdout.write(
        f"{told.added} novels, {told.chunks} chunks, {told.peak_megabytes} MB, {time.monotonic() - started:.0f} s\n"
    )
    is_well = told.added == len(novels) and told.chunks > 15_000 and told.is_clean and "水浒传.txt" in told.names
    if not is_well or told.peak_megabytes >= 1024:
        sys.exit(f"not as it should be: {told}")


def _try_properties(runs: int) -> None:
    """`make test` tries the same examples every time; here each run has a seed of its own, which is printed."""
    marks = re.compile(r"hypothesis|tests\.sampling")
    files = [str(path) for path in sorted(Path("tests").rglob("test_*.py")) if marks.search(path.read_text("utf-8"))]
    for _ in range(runs):
        seed = secrets.randbelow(2**32)
        sys.stdout.write(f"property tests, seed {seed} (QIANXUN_TEST_SEED, --hypothesis-seed)\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "pytest", "-n", "2", "-k", "not kill", f"--hypothesis-seed={seed}", *files]
        done = subprocess.run(command, env={**os.environ, "QIANXUN_TEST_SEED": str(seed)}, check=False)
        if done.returncode:
            sys.exit(f"failed with seed {seed}")


if __name__ == "__main__":
    main()
