"""One arm fails, hangs or talks rubbish; the others answer in time, and the answer says what happened."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qianxun.bases.base import ArmTime
from qianxun.core.errors import (
    BadFilter,
    BadModelReply,
    IndexUnusable,
    ModelUnavailable,
    RecallFailed,
    RetrieverUnavailable,
)
from qianxun.core.ports import ArmContext, RetrieverArm
from qianxun.core.types import EVERYTHING, NOTHING, Eq, Query, Ranking, Recall
from qianxun.engine.settings import Search
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.models.threads import Lane, ModelThreads
from qianxun.retrieve.arms import STANDARD
from qianxun.retrieve.run_arms import ArmResults, checked
from qianxun.testing.scripted import HashEmbedding
from tests import preloaded
from tests.answer.asked import FakeRerank, HungEmbedding, Opened, near_ties

PATIENT = 60.0  # what nothing that is well takes, on a busy machine too
DEADLINES = (0.25, 2.0, 15.0, PATIENT)  # of arms of which one never answers
SEARCH = Search(arm_seconds=PATIENT, rerank_seconds=PATIENT, rewrite_seconds=PATIENT, cache_entries=0)
QUERY = "住院的报销比例"

Answer = Callable[[Query, int], Awaitable[Any]]


class Double(RetrieverArm):
    """An arm in the place of one of ours."""

    def __init__(self, name: str) -> None:
        (arm,) = (arm for arm in STANDARD if arm.name == name)
        self.name, self.label, self.needs_vector, self.signal = name, arm.label, arm.needs_vector, arm.signal


class Bad(Double):
    """An arm that answers as the test says."""

    def __init__(self, name: str, answer: Answer) -> None:
        super().__init__(name)
        self.answer = answer

    async def search(self, query: Query, limit: int, context: ArmContext) -> Any:
        return await self.answer(query, limit)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("arms"), near_ties(), search=SEARCH) as held:
        yield held


@pytest.fixture(autouse=True)
def whole(shelf: Opened) -> Iterator[None]:
    OVER.clear()
    yield
    OVER.set()
    shelf.run(shelf.engine.base(shelf.kb)).arms = None
    within(shelf, PATIENT)


OVER = threading.Event()  # the test is: what hangs is let go


def within(held: Opened, seconds: float) -> None:
    """The deadline of the arms from now on."""
    told = held.engine.settings
    held.engine.settings = replace(told, search=replace(told.search, arm_seconds=seconds))


def with_bad(shelf: Opened, *bad: Double) -> None:
    """The real arms, but for those of the same name."""
    names = {each.name for each in bad}
    shelf.run(shelf.engine.base(shelf.kb)).arms = [*bad, *(arm for arm in STANDARD if arm.name not in names)]


def timely(shelf: Opened, query: str = QUERY, **options: Any) -> Recall:
    started = time.monotonic()
    recall = shelf.ask(query, **options)
    assert time.monotonic() - started < 2 * PATIENT
    return recall


def without(shelf: Opened, late: str, **options: Any) -> Recall:
    """A search in which one arm never answers: that one alone is late. The others have the shortest of the deadlines
    within which they answer on this machine, at this moment."""
    for seconds in DEADLINES:
        within(shelf, seconds)
        with suppress(RecallFailed):
            recall = timely(shelf, **options)
            if [each.part for each in recall.degraded] == [late]:
                return recall
    raise AssertionError("another arm is late, too, however long it is waited for")


def raising(error: BaseException) -> Answer:
    async def answer(query: Query, limit: int) -> Any:
        raise error

    return answer


def giving(*columns: Any) -> Answer:
    async def answer(query: Query, limit: int) -> Any:
        return Ranking(*columns)

    return answer


async def hanging(query: Query, limit: int) -> Any:
    await asyncio.Event().wait()


async def stubborn(query: Query, limit: int) -> Any:
    """Will not be cancelled; ends by itself some time after the test."""
    while not OVER.is_set():
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    raise ValueError("after everybody has gone")


async def too_many(query: Query, limit: int) -> Any:
    return Ranking.of([(key, 0.5) for key in range(1, limit + 2)])


class Stuck(Double):
    """An arm that promises never to wait, and blocks its thread beyond the deadline."""

    def is_local(self, context: ArmContext) -> bool:
        return True

    async def search(self, query: Query, limit: int, context: ArmContext) -> Any:
        OVER.wait(3 * PATIENT)
        return Ranking.of([])


def ints(*keys: int) -> Any:
    return np.array(keys, dtype=np.int64)


BAD: dict[str, tuple[Answer, str]] = {
    "unavailable": (raising(RetrieverUnavailable("远处的索引连不上")), "远处的索引连不上"),
    "unusable": (raising(IndexUnusable("索引坏了")), "索引坏了"),
    "any error": (raising(ZeroDivisionError("除以零")), "ZeroDivisionError: 除以零"),
    "cancels itself": (raising(asyncio.CancelledError()), "中途停下"),
    "hangs": (hanging, " 秒内没有答复"),
    "will not be cancelled": (stubborn, " 秒内没有答复"),
    "nan": (giving(ints(1, 2), np.array([0.5, np.nan])), "非数"),
    "inf": (giving(ints(1), np.array([np.inf])), "非数"),
    "above one": (giving(ints(1), np.array([1.5])), "不在 0 到 1 之间"),
    "below zero": (giving(ints(1), np.array([-0.1])), "不在 0 到 1 之间"),
    "too many": (too_many, "最多应为 200"),
    "twice the same": (giving(ints(1, 1), np.array([0.5, 0.4])), "给了两次"),
    "float keys": (giving(np.array([1.0, 2.0]), np.array([0.5, 0.4])), "int64"),
    "text for scores": (giving(ints(1), np.array(["高"])), "浮点数"),
    "fewer scores": (giving(ints(1, 2), np.array([0.5])), "对不上"),
    "fewer raw scores": (giving(ints(1, 2), np.array([0.5, 0.4]), 1.0, np.array([3.0])), "对不上"),
    "raw nan": (giving(ints(1), np.array([0.5]), 1.0, np.array([np.nan])), "原始分数"),
    "a table": (giving(np.ones((2, 2), dtype=np.int64), np.ones((2, 2))), "对不上"),
    "no ranking": (raising(AttributeError("keys")), "AttributeError"),
}


@pytest.mark.parametrize("name", ["vector", "keyword"])
@pytest.mark.parametrize("case", BAD)
def test_a_bad_arm_is_named_and_the_others_answer(shelf: Opened, name: str, case: str) -> None:
    answer, reason = BAD[case]
    with_bad(shelf, Bad(name, answer))
    recall = without(shelf, name) if answer in (hanging, stubborn) else timely(shelf)
    assert [each.part for each in recall.degraded] == [name]
    assert reason in recall.degraded[0].reason
    assert recall.found[0].chunk.text.startswith("住院的报销比例")
    other = "keyword" if name == "vector" else "vector"
    assert all(set(each.arms) == {other} for each in recall.found)


def test_what_is_no_ranking_at_all_is_named(shelf: Opened) -> None:
    async def answer(query: Query, limit: int) -> Any:
        return None

    with_bad(shelf, Bad("keyword", answer))
    assert "AttributeError" in timely(shelf).degraded[0].reason


def test_keys_that_no_chunk_has_are_left_out_and_said(shelf: Opened) -> None:
    async def answer(query: Query, limit: int) -> Any:
        return Ranking.of([(10**9 + row, 1.0 / (row + 1)) for row in range(limit)])

    with_bad(shelf, Bad("keyword", answer))
    recall = timely(shelf)
    assert recall.found
    assert {each.chunk.key for each in recall.found} < set(range(1, 1000))
    assert [each.part for each in recall.degraded] == ["keyword"]
    assert "记录里没有" in recall.degraded[0].reason


def test_keys_of_another_base_are_left_out_and_said(shelf: Opened) -> None:
    other = shelf.run(shelf.engine.create_knowledge_base("别人的", model="none")).id
    shelf.run(shelf.engine.add_documents(other, near_ties()[:3]))
    keys = [chunk.key for chunk in shelf.run(shelf.engine.chunks(other, "d00"))]
    with_bad(shelf, Bad("keyword", giving(ints(*keys), np.ones(len(keys)))))
    recall = timely(shelf)
    assert recall.found
    assert not {each.chunk.key for each in recall.found} & set(keys)
    assert [each.part for each in recall.degraded] == ["keyword"]


@pytest.mark.parametrize("fusion", ["weighted", "min_max", "rrf"])
def test_unsorted_hits_are_put_in_order(shelf: Opened, fusion: str) -> None:
    with_bad(shelf, Bad("keyword", giving(ints(7, 3, 5), np.array([0.2, 0.9, 0.4]))))
    recall = timely(shelf, mode="fulltext", fusion=fusion)
    assert recall.degraded == ()
    assert [each.chunk.key for each in recall.found][:2] == [3, 5]
    assert [each.arms["keyword"].rank for each in recall.found][:2] == [1, 2]


def test_a_sound_ranking_passes_as_it_is() -> None:
    ranking = Ranking.of([(1, 0.5), (2, 0.5), (9, 0.0)])
    assert checked(ranking, "keyword", 3) is ranking


def test_when_every_arm_fails_each_is_named(shelf: Opened) -> None:
    with_bad(
        shelf,
        Bad("vector", raising(RetrieverUnavailable("甲坏了"))),
        Bad("keyword", raising(RetrieverUnavailable("甲坏了"))),
        Bad("qa", hanging),
    )
    for seconds in DEADLINES:
        within(shelf, seconds)
        with pytest.raises(RecallFailed) as told:
            shelf.ask(QUERY)
        if "vector：甲坏了" in str(told.value):  # in time: even an arm that fails waits for the vector of the query
            break
    assert f"vector：甲坏了；keyword：甲坏了；qa：{seconds:g} 秒内没有答复" in str(told.value)


def test_no_arm_for_a_mode_is_a_clear_failure(shelf: Opened) -> None:
    shelf.run(shelf.engine.base(shelf.kb)).arms = [Bad("vector", hanging)]
    with pytest.raises(RecallFailed, match="没有一路"):
        shelf.ask(QUERY, mode="fulltext")


def test_a_bad_request_is_refused_and_not_an_arm_lost(shelf: Opened) -> None:
    with_bad(shelf, Bad("vector", raising(BadFilter("没有这个字段"))))
    with pytest.raises(BadFilter):
        shelf.ask(QUERY)


# ── models ───────────────────────────────────────────────────────────────────────────────────────


class Scripted(HashEmbedding):
    """Answers queries with what it is told."""

    said: Any = None

    def embed_query(self, text: str) -> Any:
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Opened, Scripted]]:
    model = Scripted()
    with Opened(tmp_path_factory.mktemp("scripted"), near_ties()[:10], model, search=SEARCH) as held:
        yield held, model


@pytest.mark.parametrize(
    "said",
    [
        np.ones(63, np.float32),
        np.ones((1, 64), np.float32),
        np.full(64, np.nan, np.float32),
        np.full(64, np.inf, np.float32),
        None,
        "向量",
        ModelUnavailable("连不上"),
        RuntimeError("显存不足"),
        TimeoutError("嵌入服务没有答复"),
        StopIteration(),
    ],
    ids=["short", "table", "nan", "inf", "none", "text", "unavailable", "error", "timeout", "stop"],
)
@pytest.mark.parametrize("is_quick", [False, True])
def test_a_bad_vector_of_the_query_costs_its_arms_and_is_told_once(
    scripted: tuple[Opened, Scripted], said: Any, is_quick: bool
) -> None:
    held, model = scripted
    model.said, model.is_quick = said, is_quick
    recall = timely(held)
    assert recall.found
    assert [each.part for each in recall.degraded] == ["vector"]
    assert str(said) in recall.degraded[0].reason or not isinstance(said, Exception)
    with pytest.raises(RecallFailed, match="vector"):
        held.ask(QUERY, mode="vector")


class Late(HashEmbedding):
    """Its vector of a query is later than what is waited for on the spot."""

    def embed_query(self, text: str) -> Any:
        time.sleep(0.1)
        return super().embed_query(text)


class OtherClock(asyncio.SelectorEventLoop):
    """The clock of a loop need not be `time.monotonic`: on macOS uvloop's goes on while the machine sleeps."""

    def time(self) -> float:
        return super().time() + 1e6


def test_a_deadline_is_the_same_whatever_clock_the_event_loop_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "new_event_loop", OtherClock)
    with Opened(tmp_path, near_ties()[:10], Late()) as held:
        recall = held.ask(QUERY)
    assert "vector" in recall.found[0].arms
    assert not recall.degraded


def test_a_model_that_hangs_for_ever_starves_nobody(tmp_path: Path) -> None:
    """Twelve searches in a row, each left hanging by the model: words answer every time. Then the model comes back."""
    model = HungEmbedding()
    other = FakeRerank("other", 0.3)
    with Opened(tmp_path, near_ties()[:10], model, other, search=SEARCH) as held:
        for _ in range(12):
            recall = without(held, "vector", rerank="other")  # the reranker has threads of its own
            assert recall.found[0].source == "keyword"
            assert recall.found[0].rerank is not None
        assert model.calls <= 8  # after that nobody asks it, and nobody waits for it
        model.hangs = False
        model.released.set()
        within(held, PATIENT)
        _until(lambda: not timely(held).degraded)


def test_an_engine_closes_while_a_model_hangs(tmp_path: Path) -> None:
    model = HungEmbedding()
    with Opened(tmp_path, near_ties()[:3], model, search=SEARCH) as held:
        within(held, DEADLINES[0])
        with suppress(RecallFailed):  # should a busy machine be late with the words, too
            assert timely(held).degraded
        started = time.monotonic()
    assert time.monotonic() - started < PATIENT
    model.released.set()


PROGRAM = """
import asyncio, sys, threading
from contextlib import suppress
from dataclasses import replace
from qianxun.engine.engine import Engine
from qianxun.core.errors import RecallFailed
from qianxun.engine.settings import Search, Settings
from qianxun.testing.scripted import HashEmbedding
from qianxun.core.types import Document

class Hung(HashEmbedding):
    def embed_query(self, text):
        threading.Event().wait()

async def main():
    told = Settings(data=sys.argv[1])
    async with Engine.open(settings=told, models={"fake-64": Hung()}) as engine:
        kb = await engine.create_knowledge_base("医保", model="fake-64")
        await engine.add_documents(kb.id, [Document("d", "住院的报销比例")])
        for _ in range(3):
            found = []
            for seconds in (0.3, 3.0, 30.0):  # should a busy machine be late with the words, too
                engine.settings = replace(told, search=Search(arm_seconds=seconds))
                with suppress(RecallFailed):
                    recall = await engine.retrieve(kb.id, "报销比例")
                    found = recall.found
                if found:
                    break
            print(found[0].chunk.doc_id, recall.degraded[0].part)

asyncio.run(main())
"""


def test_a_hung_model_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    done = preloaded.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "d vector\n" * 3, "")


RERANKERS: dict[str, tuple[Any, float, str]] = {  # what it does, its share, what is said of that
    "too few": (lambda passages: [0.5], 0.3, "10 个分数"),
    "nan": (lambda passages: [float("nan")] * len(passages), 0.3, "非数"),
    "above one": (lambda passages: [2.0] * len(passages), 0.3, "不在 0 到 1"),
    "text": (lambda passages: ["高"] * len(passages), 0.3, "TypeError"),
    "nothing": (lambda passages: None, 0.3, "TypeError"),
    "any error": (lambda passages: 1 / 0, 0.3, "ZeroDivisionError"),
    "hangs": (lambda passages: OVER.wait(3 * PATIENT), 0.3, "0.1 秒内没有重排完"),
    "no share": (None, 0.0, "share"),
    "a share below zero": (None, -1.0, "share"),
    "a share above one": (None, 1.5, "share"),
    "a share that is no number": (None, float("nan"), "share"),
}


@pytest.fixture(scope="module")
def rereading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    bad = [FakeRerank(name, share, act) for name, (act, share, _) in RERANKERS.items()]
    with Opened(tmp_path_factory.mktemp("rereading"), near_ties()[:10], *bad, search=SEARCH) as held:
        yield held


@pytest.mark.parametrize("name", RERANKERS)
def test_a_bad_reranker_leaves_the_fused_order(rereading: Opened, name: str) -> None:
    told = rereading.engine.settings
    seconds = 0.1 if name == "hangs" else PATIENT
    rereading.engine.settings = replace(told, search=replace(told.search, rerank_seconds=seconds))
    recall = timely(rereading, rerank=name)
    assert [each.part for each in recall.degraded] == ["rerank"]
    assert RERANKERS[name][2] in recall.degraded[0].reason
    assert [(each.chunk.key, each.score) for each in recall.found] == [
        (each.chunk.key, each.score) for each in timely(rereading).found
    ]


# ── threads ──────────────────────────────────────────────────────────────────────────────────────


def test_a_lane_gives_the_place_of_a_call_nobody_waits_for_to_the_next() -> None:
    lane, gate = Lane("test", 1, 2), threading.Event()
    stuck = [lane.submit(gate.wait)]
    _until(stuck[0].running)
    waiting = lane.submit(int, "7")
    assert not stuck[0].cancel()
    assert waiting.result(PATIENT) == 7
    stuck.append(lane.submit(gate.wait))
    _until(stuck[1].running)
    stuck[1].cancel()
    with pytest.raises(ModelUnavailable, match="2 次调用没有返回"):
        lane.submit(int, "8")
    gate.set()
    assert all(each.result(PATIENT) for each in stuck)
    _until(lambda: lane._stuck == 0)
    assert lane.submit(int, "9").result(PATIENT) == 9
    lane.shutdown()
    with pytest.raises(RuntimeError, match="closed"):
        lane.submit(int, "10")


def test_a_lane_runs_no_more_than_it_may_at_once_and_reuses_its_threads() -> None:
    lane = Lane("test", 3)
    running, most, lock, seen = 0, 0, threading.Lock(), set()

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            seen.add(threading.get_ident())
        time.sleep(0.001)
        with lock:
            running -= 1
        return number

    assert [each.result(PATIENT) for each in [lane.submit(work, number) for number in range(100)]] == list(range(100))
    assert most <= 3
    assert len(seen) <= 3
    lane.shutdown()


def test_what_waits_when_a_lane_ends_is_cancelled() -> None:
    threads, gate = ModelThreads(1), threading.Event()
    lane = threads.lane("test")
    running = lane.submit(gate.wait)
    _until(running.running)
    waiting = lane.submit(int, "7")
    threads.shutdown()
    assert waiting.cancelled()
    gate.set()
    assert running.result(PATIENT)
    with pytest.raises(RuntimeError):
        threads.lane("another").submit(int)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# ── cancellation ─────────────────────────────────────────────────────────────────────────────────


def test_a_cancelled_search_leaves_nothing_behind(shelf: Opened) -> None:
    complaints: list[dict[str, Any]] = []
    shelf.loop.set_exception_handler(lambda loop, context: complaints.append(context))

    async def story(pause: float) -> None:
        task = asyncio.create_task(shelf.engine.retrieve(shelf.kb, QUERY))
        await asyncio.sleep(pause)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def failing_late(query: Query, limit: int) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while being cancelled")

    try:
        for answer in (hanging, failing_late):
            with_bad(shelf, Bad("vector", answer), Bad("keyword", hanging))
            for pause in (0.0, 0.001, 0.05):
                shelf.run(story(pause))
                assert not {task for task in asyncio.all_tasks(shelf.loop) if "_write_soon" not in str(task)}
        gc.collect()
        assert complaints == []
    finally:
        shelf.loop.set_exception_handler(None)
    serving = shelf.run(shelf.engine.base(shelf.kb)).serving
    assert serving.searches == 0


def test_sound_refuses_what_it_must() -> None:
    with pytest.raises(BadModelReply, match="keyword"):
        checked(Ranking(ints(1), np.array([float("nan")])), "keyword", 10)


@pytest.mark.parametrize("name", ["vector", "keyword", "qa"])
def test_an_arm_that_blocks_its_thread_keeps_no_other_from_answering(shelf: Opened, name: str) -> None:
    with_bad(shelf, Stuck(name))
    recall = without(shelf, name)
    assert recall.found
    seconds = shelf.engine.settings.search.arm_seconds
    assert [(each.part, each.reason) for each in recall.degraded] == [(name, f"{seconds:g} 秒内没有答复")]


@pytest.mark.parametrize("asked", [[], [(3, 0.8), (9, 0.2)]], ids=["no questions", "questions"])
def test_a_chunk_has_one_score_for_its_meaning_whoever_found_it(asked: list[tuple[int, float]]) -> None:
    """9 was found by a question alone, and its own cosine was looked up: the better of the two counts, once."""
    rankings = {
        "vector": Ranking.of([(1, 0.9), (3, 0.5)], 1.0),
        "keyword": Ranking.of([(1, 0.4), (7, 0.3)], 1.0),
        "qa": Ranking.of(asked, 1.0),
    }
    behind = [(7, 0.1), (9, 0.6)] if asked else [(7, 0.1)]
    heard = ArmResults(rankings, rankings, (), (), backfill=Ranking.of(behind, 1.0))
    own = {1: 0.9, 3: 0.8, 9: 0.6, 7: 0.1} if asked else {1: 0.9, 3: 0.5, 7: 0.1}
    assert list(heard.scores()["vector"].hits) == list(own.items())


def test_where_the_vector_arm_found_nothing_what_stands_behind_is_in_order() -> None:
    """As when the index was filled between its look and the other arms'."""
    rankings = {"vector": NOTHING, "keyword": Ranking.of([(1, 0.5), (7, 0.4)], 1.0)}
    heard = ArmResults(rankings, rankings, (), (), backfill=Ranking(ints(1, 7), np.array([0.2, 0.9]), 1.0))
    assert heard.scores()["vector"].keys.tolist() == [7, 1]


# ── without a thread ─────────────────────────────────────────────────────────────────────────────


AT_NO_TIME = ArmTime(0.0, 1)
KNOWN_AS_QUICK = {(arm, False): AT_NO_TIME for arm in ("vector", "keyword", "qa")}


class Watched(HashEmbedding):
    """Remembers which threads have asked it for the vector of a query."""

    def __init__(self) -> None:
        super().__init__()
        self.is_quick = False
        self.asked_in: list[int] = []

    def embed_query(self, text: str) -> Any:
        self.asked_in.append(threading.get_ident())
        return super().embed_query(text)


def test_a_quick_model_is_asked_on_the_spot(tmp_path: Path) -> None:
    model = Watched()
    with Opened(tmp_path, near_ties()[:10], model, search=SEARCH) as held:
        slow = held.ask(QUERY)
        model.is_quick = True
        quick = held.ask(QUERY)
    assert [ident == threading.get_ident() for ident in model.asked_in] == [False, True]
    assert quick.found == slow.found
    assert not quick.degraded


@pytest.fixture
def asked_in(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which the nearest vectors are looked for; the test may say how long that takes."""
    threads: list[int] = []
    nearest = EmbeddedIndex._nearest

    def watched(self: EmbeddedIndex, *given: Any) -> Any:
        threads.append(threading.get_ident())
        return nearest(self, *given)

    monkeypatch.setattr(EmbeddedIndex, "_nearest", watched)
    return threads


@pytest.mark.parametrize("is_quick", [False, True])
def test_arms_that_take_no_time_are_asked_on_the_spot_until_one_of_them_takes_some(
    tmp_path: Path, asked_in: list[int], monkeypatch: pytest.MonkeyPatch, is_quick: bool
) -> None:
    """Whether the vector is there at once or comes from a thread."""
    model, here = Watched(), threading.get_ident()
    model.is_quick = is_quick
    monkeypatch.setattr("qianxun.retrieve.run_arms.AT_ONCE_SECONDS", 60.0)
    with Opened(tmp_path, near_ties()[:10], model, search=Search(cache_entries=0)) as held:
        serving = held.run(held.engine.base(held.kb)).serving
        first = held.ask(QUERY)
        assert here not in asked_in  # nobody knows yet how long it takes
        asked_in.clear()
        serving.arm_times = KNOWN_AS_QUICK.copy()
        assert held.ask(QUERY).found == first.found
        assert set(asked_in) == {here}
        monkeypatch.setattr("qianxun.retrieve.run_arms.QUICK_SECONDS", 0.0)  # whatever it takes is too long now
        asked_in.clear()
        assert held.ask(QUERY).found == first.found
        assert here not in asked_in


def test_an_arm_that_waits_for_a_busy_machine_is_asked_on_the_spot_all_the_same(
    tmp_path: Path, asked_in: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is how long it works: in another thread it would wait as long, and cost more."""
    nearest = EmbeddedIndex._nearest

    def waiting(self: EmbeddedIndex, *given: Any) -> Any:
        time.sleep(0.03)
        return nearest(self, *given)

    monkeypatch.setattr(EmbeddedIndex, "_nearest", waiting)
    monkeypatch.setattr("qianxun.retrieve.run_arms.QUICK_SECONDS", 0.025)
    model = Watched()
    model.is_quick = True
    with Opened(tmp_path, near_ties()[:10], model, search=Search(cache_entries=0)) as held:
        for _ in range(3):
            held.ask(QUERY)
        asked_in.clear()
        held.ask(QUERY)
    assert set(asked_in) == {threading.get_ident()}


@pytest.mark.parametrize(
    ("known", "query", "where"),
    [
        ({("keyword", False): AT_NO_TIME}, QUERY, EVERYTHING),
        (KNOWN_AS_QUICK, QUERY, Eq("user_id", "张三")),
        (
            KNOWN_AS_QUICK | {("keyword", False): ArmTime(0.001, 40)},
            "".join(map(chr, range(0x4E00, 0x5200))),
            EVERYTHING,
        ),
    ],
    ids=["an arm never asked", "a filter for the first time", "twenty times as many words"],
)
def test_what_may_take_its_time_is_given_to_a_thread(
    tmp_path: Path, asked_in: list[int], known: Any, query: str, where: Any
) -> None:
    """However quick the last search was: to open a part of the index, or to look up a long text, stops everybody."""
    model = Watched()
    model.is_quick = True
    with Opened(tmp_path, near_ties()[:10], model, search=Search(cache_entries=0)) as held:
        held.run(held.engine.base(held.kb)).serving.arm_times = dict(known)
        held.ask(query, where=where)
    assert asked_in
    assert threading.get_ident() not in asked_in


def test_searches_on_the_spot_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One task that asks again and again, without ever waiting for anything, keeps nobody else from asking."""
    model = Watched()
    model.is_quick = True
    monkeypatch.setattr("qianxun.retrieve.run_arms.QUICK_SECONDS", 60.0)  # none is given to a thread
    turns: list[str] = []

    async def asking(held: Opened, name: str) -> None:
        for number in range(5):
            await held.engine.retrieve(held.kb, f"{QUERY}{name}{number}")
            turns.append(name)

    async def both(held: Opened) -> None:
        await asyncio.gather(asking(held, "甲"), asking(held, "乙"))

    with Opened(tmp_path, near_ties()[:10], model, search=SEARCH) as held:
        held.ask(QUERY)
        held.run(held.engine.base(held.kb)).serving.arm_times = KNOWN_AS_QUICK.copy()
        held.run(both(held))
    assert "乙" in turns[:3]


def test_arms_of_ones_own_are_never_asked_on_the_spot(shelf: Opened) -> None:
    """They may block, whatever they say of themselves."""
    serving = shelf.run(shelf.engine.base(shelf.kb)).serving
    serving.arm_times = KNOWN_AS_QUICK.copy()
    with_bad(shelf, Stuck("keyword"))
    without(shelf, "keyword")
    assert serving.arm_times["keyword", False].seconds == float("inf")
