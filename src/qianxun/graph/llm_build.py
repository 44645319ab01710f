"""The chunks of a base read for its graph by a language model, where the base names one (``graph_model``).

    unread chunks ──► known texts: taken over ──► others: a few to a call ──► held against their text ──► records

What the statistics found serves until the model has read a chunk, and stays where it cannot. Every call's facts are
durable before the next call of its kind begins: whoever is interrupted goes on where it was, and asks nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from qianxun.bases.base import OpenBase, chat_model, in_model_thread
from qianxun.core.errors import ModelUnavailable, NotFound, QianxunError
from qianxun.core.graph_types import Facts
from qianxun.core.ingest_types import Step
from qianxun.core.ports import ChatModel, nothing
from qianxun.graph.build import is_wanted
from qianxun.graph.extract.llm import BatchRead, Cost, batches, estimate, read_batch
from qianxun.records import graph as facts
from qianxun.records.graph import Read, Readable

log = logging.getLogger(__name__)

PAGE: Final = 200  # chunks that are looked at together
AT_ONCE: Final = 4  # calls; a service answers several as fast as one
BATCH_SECONDS: Final = 600.0  # for the three calls of a batch, at most: a model that hangs is an outage


@dataclass(frozen=True, slots=True)
class ReadingCost:
    """What it takes to have a model read what it has not read yet."""

    model: str
    cost: Cost
    known: int = 0  # chunks that need no call: it has read the same text before


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """How far a model has come; told first with nothing done, so that the cost is known before it arises."""

    expected: ReadingCost
    done: int = 0  # chunks
    failed: int = 0
    calls: int = 0


Watch: TypeAlias = Callable[[ModelProgress], None]


@dataclass(frozen=True, slots=True)
class ModelRead:
    """What one go at a base did."""

    expected: ReadingCost
    read: int  # chunks, by asking
    known: int  # chunks, without
    failed: int  # chunks of which the model could make no sense: the statistics serve
    left: int  # chunks that were not asked about, because the model could not be reached
    dropped: int  # names and relations that the model said and no text bears out
    calls: int
    reason: str  # why chunks failed or were left
    seconds: float

    @property
    def is_whole(self) -> bool:
        return not self.failed and not self.left


async def reading_cost(base: OpenBase) -> ReadingCost:
    """What `read_with_model` will take; nothing is asked. Raises NotFound where the base names no model."""
    model = await asyncio.to_thread(graph_model, base)
    return await _cost(base, model, _origin(model), {})


async def read_with_model(
    base: OpenBase, watch: Watch = nothing, *, again: bool = True, batch_seconds: float = BATCH_SECONDS
) -> ModelRead:
    """Has the model read every chunk that it has not read yet. Raises NotFound where the base names none, or is gone.

    An outage ends it early, a reply that makes no sense costs its chunks: both are told in the result. With ``again``
    it is also asked about what it failed to make sense of before.
    """
    model = await asyncio.to_thread(graph_model, base)
    async with base.reader.reading:
        state = await asyncio.to_thread(graph_state, base)
        started = time.perf_counter()
        if again:
            base.reader.failed.clear()
        expected = await _cost(base, model, _origin(model), base.reader.failed)
        run = _Run(base, model, _origin(model), watch, batch_seconds, expected)
        watch(ModelProgress(expected))
        await _go_through(run)
        if run.outage is None:
            base.reader.went_through(state)
        else:
            base.reader.rest()
        return await _told(run, time.perf_counter() - started)


def graph_model(base: OpenBase) -> ChatModel:
    """Raises NotFound where the base names none, or one that is not there."""
    model = chat_model(base, "graph")
    if model is None:
        raise NotFound(
            f"知识库“{base.about.name}”没有指定读图谱的模型",
            hint=f"qianxun kb set {base.about.name} graph_model=模型名；不指定则按统计建图",
        )
    return model


def has_model(base: OpenBase) -> bool:
    return base.models is not None and bool(base.about.config.get("graph_model") or base.models.configured("graph"))


async def in_graph_thread(base: OpenBase, work: Callable[..., Any], *arguments: Any) -> Any:
    """A registered model has threads of its own, which go by the name that the base has for it."""
    return await in_model_thread(base, "graph", str(base.about.config.get("graph_model") or ""), work, *arguments)


def _origin(model: ChatModel) -> str:
    return f"model:{model.name}"[:220]


# ── through the base ─────────────────────────────────────────────────────────────────────────────


@dataclass
class _Run:
    base: OpenBase
    model: ChatModel
    origin: str
    watch: Watch
    batch_seconds: float
    expected: ReadingCost
    read: int = 0
    known: int = 0
    dropped: int = 0
    calls: int = 0
    outage: ModelUnavailable | None = None
    faults: dict[int, str] = field(default_factory=dict)  # by chunk

    def tell(self) -> None:
        self.watch(ModelProgress(self.expected, self.read + self.known, len(self.faults), self.calls))


async def _go_through(run: _Run) -> None:
    async for page in _unread(run.base, run.origin, run.base.reader.failed):
        unknown = await _take_over(run, page)
        # Twins are read once: what is known of one is known of all.
        twins: dict[str, list[Readable]] = {}
        for chunk in unknown:
            twins.setdefault(chunk.digest, []).append(chunk)
        await _ask_about(run, twins)
        if run.outage is not None:
            return


async def _unread(base: OpenBase, origin: str, but: Iterable[str]) -> AsyncIterator[list[Readable]]:
    """Page by page, what has still to be read and is not among these digests."""
    after = 0
    while page := await asyncio.to_thread(_page, base, origin, after):
        after = page[-1].key
        excluded = frozenset(but)
        yield [chunk for chunk in page if not excluded or chunk.digest not in excluded]


def _page(base: OpenBase, origin: str, after: int) -> list[Readable]:
    with base.records.reading() as tx:
        return facts.unread(tx, base.id, origin, after, PAGE)


async def _take_over(run: _Run, page: Sequence[Readable]) -> list[Readable]:
    """Keeps what the model found in the same texts before; answers the chunks that are still to be read."""
    known = await asyncio.to_thread(_known, run.base, run.origin, page)
    if known:
        read = [
            Read(chunk.key, chunk.document_key, run.origin, chunk.digest, known[chunk.digest])
            for chunk in page
            if chunk.digest in known
        ]
        kept = await _keep(run.base, read)
        run.known += kept
        run.tell()
    return [chunk for chunk in page if chunk.digest not in known]


def _known(base: OpenBase, origin: str, page: Sequence[Readable]) -> dict[str, Facts]:
    with base.records.reading() as tx:
        return facts.known(tx, base.id, origin, [chunk.digest for chunk in page])


async def _ask_about(run: _Run, twins: dict[str, list[Readable]]) -> None:
    """Several batches side by side; each is kept as soon as it is read."""
    waiting = batches(each[0] for each in twins.values())

    async def work() -> None:
        for batch in waiting:
            found = await _asked(run, batch)
            await _keep_batch(run, batch, found, twins)
            if run.outage is not None:
                return

    await side_by_side(work, AT_ONCE)


async def side_by_side(work: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    """So many workers at the same work; one that fails ends the others, and its error is raised."""
    workers = [asyncio.create_task(work()) for _ in range(count)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _asked(run: _Run, batch: Sequence[Readable]) -> BatchRead:
    """Whatever goes wrong with the model is told in the answer."""
    try:
        async with asyncio.timeout(run.batch_seconds):
            found: BatchRead = await in_graph_thread(run.base, read_batch, run.model, batch)
            return found
    except TimeoutError:
        reason = f"模型 {run.model.name} 超过 {run.batch_seconds:g} 秒没有答完"
        return BatchRead(outage=ModelUnavailable(reason, hint="检查模型服务，再建一次就从这里接着读"), calls=1)
    except ModelUnavailable as error:  # too many of its calls hang
        return BatchRead(outage=error)
    except Exception as error:  # the door of a model, which may be anybody's
        log.exception("the graph model %s failed", run.model.name)
        return BatchRead(outage=ModelUnavailable(f"模型 {run.model.name} 出错：{type(error).__name__}"), calls=1)


async def _keep_batch(run: _Run, batch: Sequence[Readable], found: BatchRead, twins: dict[str, list[Readable]]) -> None:
    read = [
        Read(twin.key, twin.document_key, run.origin, twin.digest, found.read[at].facts)
        for at in found.read
        for twin in twins[batch[at].digest]
    ]
    run.calls += found.calls
    run.dropped += sum(each.dropped for each in found.read.values())
    run.outage = run.outage or found.outage
    for at, fault in found.faults.items():
        run.base.reader.failed[batch[at].digest] = fault
        run.faults.update((twin.key, fault) for twin in twins[batch[at].digest])
    if read:
        kept = await _keep(run.base, read)  # others count meanwhile
        run.read += kept
    run.tell()


async def _keep(base: OpenBase, read: Sequence[Read]) -> int:
    """Of a chunk that has gone meanwhile nothing is kept."""

    def keep() -> int:
        with base.records.writing() as tx:
            return facts.write_facts(tx, base.id, read)

    async with base.graph.stepping:  # the statistics may be about to write of the same chunks
        return await asyncio.to_thread(keep)


# ── what it costs and what came of it ────────────────────────────────────────────────────────────


async def _cost(base: OpenBase, model: ChatModel, origin: str, but: Iterable[str]) -> ReadingCost:
    told = ReadingCost(model.name, Cost())
    async for page in _unread(base, origin, but):
        known = await asyncio.to_thread(_known, base, origin, page)
        unknown = {chunk.digest: chunk for chunk in reversed(page) if chunk.digest not in known}
        cost = await asyncio.to_thread(estimate, list(reversed(unknown.values())))
        told = replace(told, cost=told.cost + cost, known=told.known + len(page) - len(unknown))
    return told


async def _told(run: _Run, seconds: float) -> ModelRead:
    left = 0
    if run.outage is not None:
        left = max(0, await asyncio.to_thread(_unread_count, run) - len(run.faults))
    fault = next(iter(run.faults.values()), "")
    reason = str(run.outage) if run.outage is not None else fault
    told = ModelRead(run.expected, run.read, run.known, len(run.faults), left, run.dropped, run.calls, reason, seconds)
    if not told.is_whole:
        log.warning("base %s: %s", run.base.id, warning_of(told))
    return told


def _unread_count(run: _Run) -> int:
    with run.base.records.reading() as tx:
        return facts.unread_count(tx, run.base.id, run.origin)


def warning_of(told: ModelRead) -> str:
    """What people should know of a reading that is not whole; "" of one that is."""
    if told.is_whole:
        return ""
    what = [f"{told.left} 块还没有读"] if told.left else []
    what += [f"{told.failed} 块没有读懂"] if told.failed else []
    return f"图谱模型 {told.expected.model}：{'，'.join(what)}，先用统计的结果：{told.reason}"


# ── behind everybody's back ──────────────────────────────────────────────────────────────────────


def graph_state(base: OpenBase) -> tuple[int, int]:
    """Another value whenever there may be something to read."""
    with base.records.reading() as tx:
        return facts.state(tx, base.id)


async def read_quietly_with_model(base: OpenBase, watch: Watch = nothing) -> str:
    """`read_with_model` for those who have something else to do: what fails is logged, and answered as a warning."""
    if not has_model(base) or not is_wanted(base):
        return ""
    try:
        return warning_of(await read_with_model(base, _logged(base, watch), again=False))
    except NotFound as error:
        log.info("the model does not read base %s: %s", base.id, error)
        return f"没有用模型读图谱：{error}" if await base.records.is_there() else ""
    except QianxunError as error:
        log.warning("the model does not read base %s now: %s", base.id, error)
        base.reader.rest()
        return f"没有用模型读图谱：{error}"


def _logged(base: OpenBase, watch: Watch) -> Watch:
    """Says what it will cost, before it does."""

    def told(progress: ModelProgress) -> None:
        if not progress.calls and progress.expected.cost.calls and not progress.done:
            log.info("base %s: %s", base.id, said(progress.expected))
        watch(progress)

    return told


def said(expected: ReadingCost) -> str:
    """What it will cost, for people."""
    cost = expected.cost
    return (
        f"模型 {expected.model} 将为图谱读 {cost.chunks} 块，约 {cost.calls} 次调用，"
        f"输入约 {cost.prompt_tokens} 词元、输出约 {cost.reply_tokens} 词元"
    )


def as_steps(watch: Callable[[Step], None]) -> Watch:
    """For those who follow an ingest."""
    done = 0

    def told(progress: ModelProgress) -> None:
        nonlocal done
        reached = progress.done + progress.failed
        if not reached and progress.expected.cost.calls:
            watch(Step("reading", progress.expected.cost.chunks, progress.expected.model, said(progress.expected)))
        elif reached > done:
            watch(Step("read", reached - done))
            done = reached

    return told
