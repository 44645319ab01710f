"""Facts of a base's chunks extracted by a language model, if the base names one (``graph_model``).

    chunks without its facts ──► known texts: copied ──► others: several per call ──► checked ──► records

Statistical facts are used until the model has read a chunk, and stay if it cannot. The facts of a call are durable
before the next one begins: an interrupted run is continued and calls nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from qianxun.bases.base import OpenBase, chat_model, in_model_thread
from qianxun.core.errors import ModelUnavailable, NotFound, QianxunError
from qianxun.core.graph_types import ExtractionCost, Facts, LlmCost, LlmExtraction, LlmExtractionProgress
from qianxun.core.ingest_types import Step
from qianxun.core.ports import ChatModel, nothing
from qianxun.graph.build import graph_state, is_graph_enabled, unread_page
from qianxun.graph.extract.llm import BatchResult, batches, estimate, extract_batch
from qianxun.records import graph as facts
from qianxun.records.graph import ExtractedFacts, ReadableChunk

log = logging.getLogger(__name__)

PAGE: Final = 200  # chunks
CONCURRENT_CALLS: Final = 4  # a service answers several as fast as one
BATCH_SECONDS: Final = 600.0  # for the up to three calls of a batch: a model that hangs is an outage

Watch: TypeAlias = Callable[[LlmExtractionProgress], None]


async def extraction_cost(base: OpenBase) -> ExtractionCost:
    """The cost of `extract_with_model`; calls nothing. Raises NotFound if the base names no model."""
    model = await asyncio.to_thread(graph_model, base)
    return await _cost(base, model, {})


async def extract_with_model(
    base: OpenBase, watch: Watch = nothing, *, again: bool = True, batch_seconds: float = BATCH_SECONDS
) -> LlmExtraction:
    """Has the model read every chunk that it has not read yet. Raises NotFound if the base names no model.

    An outage ends it early, an unusable reply costs its chunks; the result reports both. With ``again``, chunks with
    unusable replies are tried again.
    """
    model = await asyncio.to_thread(graph_model, base)
    async with base.reader.reading:
        state = await asyncio.to_thread(graph_state, base)
        started = time.perf_counter()
        if again:
            base.reader.failed.clear()
        expected = await _cost(base, model, base.reader.failed)
        run = _Run(base, model, _origin(model), watch, batch_seconds, expected)
        watch(LlmExtractionProgress(expected))
        await _extract_pages(run)
        if run.outage is None:
            base.reader.went_through(state)
        else:
            base.reader.pause()
        return await _result(run, time.perf_counter() - started)


def graph_model(base: OpenBase) -> ChatModel:
    """Raises NotFound if the base names no model, or one that does not exist."""
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
    """A registered model has threads of its own, by the name that the base has for it."""
    return await in_model_thread(base, "graph", str(base.about.config.get("graph_model") or ""), work, *arguments)


def _origin(model: ChatModel) -> str:
    return f"model:{model.name}"[:220]


@dataclass
class _Run:
    base: OpenBase
    model: ChatModel
    origin: str
    watch: Watch
    batch_seconds: float
    expected: ExtractionCost
    read: int = 0
    known: int = 0
    dropped: int = 0
    calls: int = 0
    outage: ModelUnavailable | None = None
    faults: dict[int, str] = field(default_factory=dict)  # by chunk

    def report(self) -> None:
        done = self.read + self.known
        self.watch(LlmExtractionProgress(self.expected, done, len(self.faults), self.calls))


_Copies: TypeAlias = Mapping[str, Sequence[ReadableChunk]]  # digest → chunks of the same text, which is read once


async def _extract_pages(run: _Run) -> None:
    async for page in _unread(run.base, run.origin, run.base.reader.failed):
        copies: dict[str, list[ReadableChunk]] = {}
        for chunk in await _copy_known(run, page):
            copies.setdefault(chunk.digest, []).append(chunk)
        await _extract_texts(run, copies)
        if run.outage is not None:
            return


async def _extract_texts(run: _Run, copies: _Copies) -> None:
    queue = batches(chunks[0] for chunks in copies.values())

    async def work() -> None:
        for batch in queue:
            await _store_batch(run, batch, await _extracted(run, batch), copies)
            if run.outage is not None:
                return

    await run_workers(work, CONCURRENT_CALLS)


async def _unread(base: OpenBase, origin: str, excluded: Iterable[str]) -> AsyncIterator[list[ReadableChunk]]:
    """Pages of chunks without facts of this origin, except those of the excluded digests."""
    after = 0
    while page := await unread_page(base, origin, after, PAGE):
        after = page[-1].key
        digests = frozenset(excluded)
        yield [chunk for chunk in page if chunk.digest not in digests]


async def _copy_known(run: _Run, page: Sequence[ReadableChunk]) -> list[ReadableChunk]:
    """Stores what the model extracted from equal texts before; returns the other chunks."""
    known = await _known(run.base, run.origin, page)
    if known:
        read = [
            ExtractedFacts(chunk.key, chunk.document_key, run.origin, chunk.digest, known[chunk.digest])
            for chunk in page
            if chunk.digest in known
        ]
        stored = await _store(run.base, read)
        run.known += stored
        run.report()
    return [chunk for chunk in page if chunk.digest not in known]


async def _known(base: OpenBase, origin: str, page: Sequence[ReadableChunk]) -> dict[str, Facts]:
    return await base.records.read(lambda tx: facts.known(tx, base.id, origin, [chunk.digest for chunk in page]))


async def run_workers(work: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    """Runs ``count`` workers; the failure of one cancels the others and is raised."""
    workers = [asyncio.create_task(work()) for _ in range(count)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _extracted(run: _Run, batch: Sequence[ReadableChunk]) -> BatchResult:
    """Failures of the model are reported in the result."""
    try:
        async with asyncio.timeout(run.batch_seconds):
            found: BatchResult = await in_graph_thread(run.base, extract_batch, run.model, batch)
            return found
    except TimeoutError:
        reason = f"模型 {run.model.name} 超过 {run.batch_seconds:g} 秒没有答完"
        return BatchResult(outage=ModelUnavailable(reason, hint="检查模型服务，再建一次就从这里接着读"), calls=1)
    except ModelUnavailable as error:  # too many of its calls hang
        return BatchResult(outage=error)
    except Exception as error:  # third-party models may raise anything
        log.exception("the graph model %s failed", run.model.name)
        return BatchResult(outage=ModelUnavailable(f"模型 {run.model.name} 出错：{type(error).__name__}"), calls=1)


async def _store_batch(run: _Run, batch: Sequence[ReadableChunk], found: BatchResult, copies: _Copies) -> None:
    read = [
        ExtractedFacts(copy.key, copy.document_key, run.origin, copy.digest, found.extracted[at].facts)
        for at in found.extracted
        for copy in copies[batch[at].digest]
    ]
    run.calls += found.calls
    run.dropped += sum(extracted.dropped for extracted in found.extracted.values())
    run.outage = run.outage or found.outage
    for at, fault in found.faults.items():
        run.base.reader.failed[batch[at].digest] = fault
        run.faults.update((copy.key, fault) for copy in copies[batch[at].digest])
    if read:
        stored = await _store(run.base, read)  # other workers count meanwhile
        run.read += stored
    run.report()


async def _store(base: OpenBase, read: Sequence[ExtractedFacts]) -> int:
    """Returns how many were stored: none of a chunk that has been deleted meanwhile."""
    async with base.graph.stepping:  # the statistics may be about to write of the same chunks
        return await base.records.write(lambda tx: facts.write_facts(tx, base.id, read))


async def _cost(base: OpenBase, model: ChatModel, excluded: Iterable[str]) -> ExtractionCost:
    total, origin = ExtractionCost(model.name, LlmCost()), _origin(model)
    async for page in _unread(base, origin, excluded):
        known = await _known(base, origin, page)
        unknown = {chunk.digest: chunk for chunk in reversed(page) if chunk.digest not in known}
        cost = await asyncio.to_thread(estimate, list(reversed(unknown.values())))
        total = replace(total, cost=total.cost + cost, known=total.known + len(page) - len(unknown))
    return total


async def _result(run: _Run, seconds: float) -> LlmExtraction:
    base, left = run.base, 0
    reason = next(iter(run.faults.values()), "")
    if run.outage is not None:
        unread = await base.records.read(lambda tx: facts.unread_count(tx, base.id, run.origin))
        left, reason = max(0, unread - len(run.faults)), str(run.outage)
    counts = run.read, run.known, len(run.faults), left, run.dropped, run.calls
    result = LlmExtraction(run.expected, *counts, reason, seconds)
    if result.warning:
        log.warning("base %s: %s", base.id, result.warning)
    return result


# ── in the background ────────────────────────────────────────────────────────────────────────────


async def extract_with_model_in_background(base: OpenBase, watch: Watch = nothing) -> str:
    """`extract_with_model` that logs failures and returns them as a warning; "" if there was none."""
    if not has_model(base) or not is_graph_enabled(base):
        return ""

    def logged(progress: LlmExtractionProgress) -> None:
        """Logs the cost before it arises."""
        if not progress.calls and progress.expected.cost.calls and not progress.done:
            log.info("base %s: %s", base.id, cost_message(progress.expected))
        watch(progress)

    try:
        return (await extract_with_model(base, logged, again=False)).warning
    except NotFound as error:
        log.info("the model does not read base %s: %s", base.id, error)
        return f"没有用模型读图谱：{error}" if await base.records.is_there() else ""
    except QianxunError as error:
        log.warning("the model does not read base %s now: %s", base.id, error)
        base.reader.pause()
        return f"没有用模型读图谱：{error}"


def cost_message(expected: ExtractionCost) -> str:
    cost = expected.cost
    return (
        f"模型 {expected.model} 将为图谱读 {cost.chunks} 块，约 {cost.calls} 次调用，"
        f"输入约 {cost.prompt_tokens} 词元、输出约 {cost.reply_tokens} 词元"
    )


def as_ingest_steps(watch: Callable[[Step], None]) -> Watch:
    """Reports extraction to the callback of an ingest."""
    done = 0

    def report(progress: LlmExtractionProgress) -> None:
        nonlocal done
        reached = progress.done + progress.failed
        expected = progress.expected
        if not reached and expected.cost.calls:
            watch(Step("reading", expected.cost.chunks, expected.model, cost_message(expected)))
        elif reached > done:
            watch(Step("read", reached - done))
            done = reached

    return report
