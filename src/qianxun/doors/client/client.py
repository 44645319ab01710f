"""`Client`: the calls of an `Engine`, answered by a running service."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from qianxun.core.answer_types import Answer, AnswerEvent
from qianxun.core.codec.options import request_body, search_body
from qianxun.core.codec.wire import read_answer, read_chunk, read_explained, read_layered, read_log, read_recall
from qianxun.core.errors import BadQuery, NotFound, ServiceUnavailable
from qianxun.core.explanation import Explained
from qianxun.core.governance.access import checked_labels
from qianxun.core.ingest_types import Labels, Report, Watch
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.limits import SLOW_MS
from qianxun.core.log_types import Feedback, LogChoices, LogCount, LogEntry
from qianxun.core.options import AskChoices, SearchChoices, SearchOptions, TablesOptions, TextsOptions
from qianxun.core.ports import nothing
from qianxun.core.types import EVERYTHING, Accepted, Chunk, Document, DocumentState, Filter, KnowledgeBase, Recall
from qianxun.doors.client.connection import Connection, Request, Timeouts
from qianxun.doors.client.contents import ServiceContents
from qianxun.doors.client.evaluations import ServiceEvaluations
from qianxun.doors.client.events import EventSender
from qianxun.doors.client.governance import ServiceGovernance
from qianxun.doors.client.payloads import (
    Ask,
    Data,
    Readiness,
    SentDocument,
    params_of,
    read_pages,
    read_readiness,
    read_sent,
    read_statistics,
    segment,
    traced,
    value_of,
    values_of,
    written_document,
)
from qianxun.doors.client.questions import answer_events, ask_request
from qianxun.doors.client.registered_models import RegisteredModels
from qianxun.doors.client.uploads import FilesToSend, FileToSend, send_documents, send_files, sent_file
from qianxun.engine.multi_base_search import MultiBaseRecall, search_bases

T = TypeVar("T")

BASES = "v1/knowledge-bases"
LOGS = "v1/retrieval-logs"


class Client:
    """``async with Client("http://127.0.0.1:8000", key="qx_…") as client: await client.retrieve(1001, "…")``

    Raises what the engine behind the service raises, and ServiceUnavailable where the service does not answer. Keys of
    rows (`Chunk.key`, `Accepted.document_key`) do not travel: they are 0 here.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        timeouts: Timeouts | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        principal: Sequence[str] = (),
    ) -> None:
        """``principal``: the labels of the one on whose behalf it asks, with a key that may say so."""
        self._timeouts = timeouts or Timeouts()
        self._arguments: dict[str, Any] = {"key": key, "timeouts": self._timeouts, "transport": transport}
        self._arguments["principal"] = tuple(principal)
        self._connection = Connection(url, key, self._timeouts, transport, tuple(principal))

    def as_principal(self, *labels: str) -> Client:
        """Another client, to be closed as well, that asks on behalf of one with these labels: ``user:alice``."""
        return Client(self.url, **{**self._arguments, "principal": checked_labels(labels)})

    def twin(self) -> Client:
        """Another client of the same service, with connections of its own: for another event loop."""
        return Client(self.url, **self._arguments)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hangs up; ``async with`` does it by itself."""
        await self._connection.close()

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def registry(self) -> RegisteredModels:
        """The models that users registered."""
        return RegisteredModels(self._ask)

    @property
    def contents(self) -> ServiceContents:
        """The documents of a base as people look through them."""
        return ServiceContents(self._ask)

    @property
    def governance(self) -> ServiceGovernance:
        """What the operators account for: who changed what."""
        return ServiceGovernance(self._ask)

    async def readiness(self) -> Readiness:
        """Raises what keeps the service from taking requests. Asks without a key's help, and shows nothing of it."""
        return await self._ask(Request("GET", "readyz"), read_readiness)

    # ── knowledge bases ──────────────────────────────────────────────────────────────────────────

    async def create_knowledge_base(
        self,
        name: str,
        *,
        model: str | None = None,
        kind: str = "documents",
        config: Mapping[str, Any] | None = None,
        user_id: str = "",
    ) -> KnowledgeBase:
        """A new base, of the service's own model where none is named. Raises AlreadyThere."""
        given = {"name": name, "kind": kind, "embedding_model": model, "config": config, "user_id": user_id}
        body = {field: value for field, value in given.items() if value or field == "name"}
        return await self._ask(Request("POST", BASES, body), value_of(KnowledgeBase))

    async def tenant(self) -> str:
        """The tenant whose bases this client's key opens."""
        return await self._ask(Request("GET", BASES, params={"limit": "1"}), lambda data: str(data["tenant"]))

    async def knowledge_bases(self, *, limit: int | None = None, after: int = 0) -> tuple[KnowledgeBase, ...]:
        """In the order of their ids; ``after`` is the id at which the last page ended."""
        read = values_of(KnowledgeBase, "knowledge_bases")
        return tuple(await read_pages(self._ask, BASES, read, limit=limit, after=after))

    async def knowledge_base(self, name_or_id: str | int) -> KnowledgeBase:
        """By id, or by name; of a text that is both, the id counts."""
        if isinstance(name_or_id, int) or "/" not in name_or_id:
            return await self._ask(
                Request("GET", f"{BASES}/{segment(str(name_or_id).strip())}"), value_of(KnowledgeBase)
            )
        for base in await self.knowledge_bases():  # a slash separates the parts of an address
            if base.name == name_or_id:
                return base
        raise NotFound(f"没有名为“{name_or_id}”的知识库", hint="用 qianxun kb list 查看已有的知识库")

    async def rename(self, knowledge_base: int, name: str) -> KnowledgeBase:
        """Gives the base another name. Raises AlreadyThere when another base has it."""
        return await self._change(knowledge_base, {"name": name})

    async def configure(
        self, knowledge_base: int, changes: Mapping[str, Any], *, watch: Callable[[int], None] = nothing
    ) -> KnowledgeBase:
        """As `Engine.configure`; ``watch`` is called once an index has been rebuilt."""
        changed = await self._change(knowledge_base, {"config": dict(changes)})
        if "dictionary" in changes:
            watch((await self.statistics(knowledge_base))["chunks"])
        return changed

    async def _change(self, knowledge_base: int, changes: Mapping[str, Any]) -> KnowledgeBase:
        request = Request("PATCH", f"{BASES}/{knowledge_base}", changes, takes_long=True)
        return await self._ask(request, value_of(KnowledgeBase))

    async def delete_knowledge_base(self, knowledge_base: int) -> None:
        """The base with everything in it. Nothing of it can be returned from now on."""
        await self._connection.ask(Request("DELETE", f"{BASES}/{knowledge_base}", takes_long=True))

    async def statistics(self, knowledge_base: int) -> dict[str, int]:
        """How many documents stand in which state, how many chunks and tables there are."""
        return await self._ask(Request("GET", f"{BASES}/{knowledge_base}"), read_statistics)

    # ── documents ────────────────────────────────────────────────────────────────────────────────

    async def add(
        self,
        knowledge_base: int,
        paths: Sequence[str | Path],
        *,
        labels: Labels | None = None,
        watch: Watch = nothing,
        exclude: Sequence[str] = (),
        restore: bool = True,
    ) -> Report:
        """Files and folders of this machine in; searchable when it returns. Unchanged files are passed over.

        A file is known by its path, as it is to an engine: the same path on another machine is the same document. What
        an earlier call gave stays where ``labels`` say nothing else. ``exclude`` has patterns, as in an ignore file, of
        files that are left out; without ``restore`` a document that people deleted stays deleted.
        """
        files = FilesToSend([Path(path) for path in paths], labels or Labels(), exclude, restore)
        return await send_files(self, knowledge_base, files, watch, self._timeouts.work_seconds)

    async def add_file(
        self,
        knowledge_base: int,
        path: Path,
        *,
        name: str,
        source: str = "",
        relative_path: str = "",
        doc_id: str = "",
        labels: Labels | None = None,
        keep_labels: bool = False,
        restore: bool = True,
        wait: bool = True,
    ) -> Accepted:
        """One file in, read piece by piece. Raises a kind of Refused for one that cannot be taken in.

        With ``keep_labels`` what was given with it earlier stays where ``labels`` say nothing else; without ``restore``
        a document that people deleted stays deleted.
        """
        file = FileToSend(path, name, source, doc_id, labels or Labels(), keep_labels, restore, relative_path)
        return (await self.send_file(knowledge_base, file, wait=wait)).accepted

    async def send_file(self, knowledge_base: int, file: FileToSend, *, wait: bool) -> SentDocument:
        """As `add_file`; and whether it is searchable when this returns."""
        request = sent_file(f"{BASES}/{knowledge_base}/documents", file, wait=wait)
        return await self._ask(request, read_sent)

    async def add_documents(
        self, knowledge_base: int, batch: Sequence[Document], *, wait: bool = True
    ) -> list[Accepted]:
        """Documents in. With ``wait`` they are searchable when it returns, without it they are durable."""
        if wait and len(batch) > 1:
            return await send_documents(self, knowledge_base, batch, self._timeouts.work_seconds)
        return [(await self.send_document(knowledge_base, one, wait=wait)).accepted for one in batch]

    async def send_document(self, knowledge_base: int, document: Document, *, wait: bool) -> SentDocument:
        """One document in; and whether it is searchable when this returns."""
        body = written_document(document)
        params = {"wait": str(wait).lower()}
        request = Request("PUT", _document(knowledge_base, document.id), body, params=params, takes_long=True)
        return await self._ask(request, read_sent)

    async def document(self, knowledge_base: int, doc_id: str) -> DocumentState:
        """Where one document stands. Raises NotFound."""
        return await self._ask(Request("GET", _document(knowledge_base, doc_id)), value_of(DocumentState))

    async def documents(self, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]:
        """In the order of their ids; ``after`` is the id at which the last page ended."""
        path, read = f"{BASES}/{knowledge_base}/documents", values_of(DocumentState, "documents")
        return await read_pages(self._ask, path, read, limit=limit, after=after)

    async def chunks(self, knowledge_base: int, doc_id: str) -> list[Chunk]:
        """The chunks that serve, in the order of the text."""
        path = f"{_document(knowledge_base, doc_id)}/chunks"
        return await read_pages(self._ask, path, lambda data: [*map(read_chunk, data["chunks"])])

    async def delete_document(self, knowledge_base: int, doc_id: str, *, file_missing: bool = False) -> bool:
        """Answers whether there was such a document. It cannot be returned from now on.

        With ``file_missing`` it goes because its file does: a folder that is followed brings it back with the file.
        """
        await self.knowledge_base(knowledge_base)
        try:
            params = params_of(file_missing=file_missing)
            await self._connection.ask(Request("DELETE", _document(knowledge_base, doc_id), params=params))
        except NotFound:
            return False
        return True

    async def events(self, knowledge_base: int) -> EventSender:
        """Takes document events for one base."""
        return EventSender(self._connection, (await self.knowledge_base(knowledge_base)).id)

    # ── recall ───────────────────────────────────────────────────────────────────────────────────

    async def retrieve(
        self, knowledge_base: int, query: str, *, trace_id: str = "", **choices: Unpack[SearchChoices]
    ) -> Recall:
        """The chunks that answer a query, best first. What is left out is the base's choice, then the service's."""
        body = search_body(query, _both_weights(choices))
        return await self._ask(_search(f"v1/retrieval/{knowledge_base}", body, trace_id), read_recall)

    async def retrieve_many(
        self,
        knowledge_bases: Sequence[int] | Mapping[int, Filter],
        query: str,
        *,
        trace_id: str = "",
        **choices: Unpack[SearchChoices],
    ) -> MultiBaseRecall:
        """The best chunks of several bases together, each base under its own filter; at most ``top_k``, or 10."""
        for knowledge_base in knowledge_bases:
            await self.knowledge_base(knowledge_base)
        recall = await search_bases(self, knowledge_bases, query, trace_id=trace_id, **choices)
        return replace(recall, results=recall.results[: choices.get("top_k") or SearchOptions().top_k])

    async def search_texts(
        self,
        knowledge_base: int,
        query: str,
        top_k: int | None = None,
        *,
        where: Filter = EVERYTHING,
        as_of: str = "",
        trace_id: str = "",
    ) -> LayeredRecall:
        """Prose in three layers, best first."""
        body = request_body(TextsOptions, query, {"top_k": top_k, "where": where, "as_of": as_of})
        return await self._ask(_search(f"v1/recall/{knowledge_base}/texts", body, trace_id), read_layered)

    async def search_tables(
        self,
        knowledge_base: int,
        query: str,
        top_k: int | None = None,
        *,
        where: Filter = EVERYTHING,
        as_of: str = "",
        answer: bool = True,
        trace_id: str = "",
    ) -> LayeredRecall:
        """Tables in four layers, best first, with what their cells answer. Of the cells and rows that an answer cites
        only the first are sent; ``cells_total`` is how many there are."""
        body = request_body(TablesOptions, query, {"top_k": top_k, "where": where, "as_of": as_of, "answer": answer})
        return await self._ask(_search(f"v1/recall/{knowledge_base}/tables", body, trace_id), read_layered)

    async def explain(
        self, knowledge_base: int, query: str, chunk_id: str = "", **choices: Unpack[SearchChoices]
    ) -> Explained:
        """How each result of `retrieve` with these choices got its score; and why the chunk is, or is not, one."""
        body = search_body(query, _both_weights(choices)) | ({"chunk_id": chunk_id} if chunk_id else {})
        return await self._ask(_search(f"v1/explain/{knowledge_base}", body), read_explained)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    async def ask(
        self, knowledge_base: int, question: str, *, trace_id: str = "", **choices: Unpack[AskChoices]
    ) -> Answer:
        """As `Engine.ask`. Images and tables in files are read on this machine and sent along."""
        return await self._ask(await ask_request(knowledge_base, question, choices, trace_id), read_answer)

    async def ask_stream(
        self, knowledge_base: int, question: str, *, trace_id: str = "", **choices: Unpack[AskChoices]
    ) -> AsyncGenerator[AnswerEvent, None]:
        """As `Engine.ask_stream`: closing the generator closes the connection, and the service ends the model's
        call."""
        request = await ask_request(knowledge_base, question, choices, trace_id, stream=True)
        async with aclosing(answer_events(self._connection, request)) as events:
            async for event in events:
                yield event

    @property
    def evaluation(self) -> ServiceEvaluations:
        """Labelled questions about bases, and runs that measure searches on them."""
        return ServiceEvaluations(self._ask)

    @property
    def logs(self) -> ServiceLogs:
        """What was searched and size, as `Engine.logs`."""
        return ServiceLogs(self._ask)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, request: Request, read: Callable[[Any], T]) -> T:
        data = await self._connection.ask(request)
        try:
            return read(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ServiceUnavailable(
                f"看不懂服务 {self.url} 的回答（{type(error).__name__}：{error}）", hint="两边的版本要一致"
            ) from error


def _document(knowledge_base: int, doc_id: str) -> str:
    return f"{BASES}/{knowledge_base}/documents/{segment(doc_id)}"


def _search(path: str, body: Mapping[str, Any], trace_id: str = "") -> Request:
    return Request("POST", path, body, headers=traced(trace_id), repeatable=True, mistake=BadQuery.word)


@dataclass(frozen=True, slots=True)
class ServiceLogs:
    """The searches and questions of a key's tenant."""

    ask: Ask

    async def list(self, *, limit: int = 50, before: int | None = None, **chosen: Unpack[LogChoices]) -> list[LogEntry]:
        """The newest first; ``chosen`` are fields of `LogFilter`."""
        params = {**_log_params(chosen), "before": before}
        return await read_pages(self.ask, LOGS, _read_logs, limit=limit, cursor="before", **params)

    async def counts(
        self, *, stretches: int = 24, slow_at_ms: float = SLOW_MS, **chosen: Unpack[LogChoices]
    ) -> tuple[LogCount, ...]:
        """How many searches there were in as many equal stretches of the time chosen, a day where none is."""
        params = params_of(stretches=stretches, slow_at_ms=slow_at_ms, **_log_params(chosen))
        return tuple(await self.ask(Request("GET", f"{LOGS}/counts", params=params), values_of(LogCount)))

    async def get(self, log_id: int) -> LogEntry:
        """One search: its parameters, results and times. Raises NotFound."""
        return await self.ask(Request("GET", f"{LOGS}/{log_id}"), read_log)

    async def rate(self, log_id: int, feedback: Feedback) -> LogEntry:
        """Stores a person's feedback on an answer, in place of the earlier one. Raises NotFound."""
        body = {"rating": feedback.rating, "chunk_ids": list(feedback.chunk_ids), "comment": feedback.comment}
        return await self.ask(Request("POST", f"{LOGS}/{log_id}/feedback", body, repeatable=True), read_log)


def _log_params(chosen: LogChoices) -> dict[str, Any]:
    given: dict[str, Any] = {**chosen}
    return {"knowledge_base_id": given.pop("knowledge_base", None), **given}


def _read_logs(data: Data) -> list[LogEntry]:
    return [read_log(entry) for entry in data["list"]]


def _both_weights(choices: SearchChoices) -> SearchChoices:
    """With 0 for the weight that is not named, as the engine takes it: the service would make it up to 1."""
    weights = choices.get("weights")
    return {**choices, "weights": {"vector": 0.0, "keyword": 0.0, **weights}} if weights else choices
