"""The tools: what a model may request of the knowledge bases, and what it gets. All of it is plain JSON.

Nothing here knows of the protocol; each function raises a QianxunError that says what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from qianxun.core.answer_types import Source
from qianxun.core.codec.passage import chunk_place, chunk_title, passage_text, title_of
from qianxun.core.codec.plain import plain
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.layered_types import LayeredResult
from qianxun.core.option_fields import choices_of
from qianxun.core.options import SearchOptions
from qianxun.core.types import STORED_STATUSES, Chunk, Degraded, DocumentState, KnowledgeBase
from qianxun.doors.mcp.collection import Collection
from qianxun.doors.mcp.ids import SHOWN, document_id, read_id
from qianxun.doors.mcp.texts import excerpt, joined, surroundings
from qianxun.engine.multi_base_search import BaseFound, MultiBaseRecall, search_bases

Json: TypeAlias = dict[str, Any]

RESULTS: Final = 10  # documents that a search names
LOOKED_AT: Final = 30  # passages of each base among which they are
PASSAGES: Final = 10  # of several bases together, where the caller does not say how many
READ: Final = 12_000  # characters of a document that are given at once
LISTED: Final = 200  # knowledge bases
TABLES: Final = 5  # where the caller does not say how many
NO_BASES: Final = Degraded(
    "knowledge_base",
    "这个租户还没有知识库　先建一个：qianxun kb create NAME，再用 qianxun add 放入文件；"
    "别的租户的看不到，管理员可用 qianxun kb move 移交",
)

# ── search ───────────────────────────────────────────────────────────────────────────────────────


async def search(collection: Collection, query: str) -> Json:
    """Documents that speak of the question, each by its best passage."""
    bases = await collection.chosen(None)
    result = await _search(collection, bases, query, top_k=LOOKED_AT)
    best: dict[str, Json] = {}
    for passage in result.found:
        found, chunk = passage.found, passage.found.chunk
        id = document_id(passage.knowledge_base, chunk.doc_id)
        if id not in best:
            url = collection.url(passage.knowledge_base, chunk)
            more = {"text": excerpt(found), "score": found.score}
            best[id] = {"id": id, "title": chunk_place(chunk), "url": url, **more}
    return {"results": list(best.values())[:RESULTS], **_degraded(result, bases)}


async def retrieve(
    collection: Collection, query: str, knowledge_base: str | int | None = None, **arguments: Any
) -> Json:
    """The passages that answer the question best, whole, of one base or of all.

    ``arguments`` are options of a search under their names in requests: top_k, mode, score_threshold, filters.
    """
    choices: dict[str, Any] = {
        offered.name: offered.from_wire(arguments[name])
        for offered in choices_of(SearchOptions).values()
        if (name := offered.argument or offered.wire_name) in arguments and arguments[name] is not None
    }
    bases = await collection.chosen(knowledge_base)
    result = await _search(collection, bases, query, **choices)
    top_k = choices.get("top_k")
    most = top_k if top_k is not None or len(bases) == 1 else PASSAGES
    names = {base.id: base.name for base in bases}
    passages = [_passage(collection, names[passage.knowledge_base], passage) for passage in result.found[:most]]
    return {"passages": passages, **_degraded(result, bases)}


async def _search(
    collection: Collection, bases: Sequence[KnowledgeBase], query: str, **choices: Any
) -> MultiBaseRecall:
    ids, trace_id = [base.id for base in bases], collection.trace_id
    return await search_bases(collection.library, ids, query, trace_id=trace_id, **choices)


def _passage(collection: Collection, name: str, passage: BaseFound) -> Json:
    base, found, chunk = passage.knowledge_base, passage.found, passage.found.chunk
    return {
        "id": chunk.chunk_id,
        "text": passage_text(chunk),
        "score": found.score,
        "source": found.source,
        "tier": found.tier,
        "headings": list(chunk.headings),
        "page": chunk.page,
        "kind": chunk.kind,
        "document": {
            "id": document_id(base, chunk.doc_id),
            "title": chunk_title(chunk),
            "url": collection.url(base, chunk),
            "metadata": _metadata(chunk),
        },
        "knowledge_base": {"id": base, "name": name},
        **({"outdated": found.outdated} if found.outdated else {}),
        **_edited(chunk.corrected.original if chunk.corrected is not None else None),
    }


def _edited(original: str | None) -> Json:
    """What the document says, of a text that people edited."""
    return {"original": original} if original is not None else {}


def _degraded(result: MultiBaseRecall, bases: Sequence[KnowledgeBase]) -> Json:
    """Only where something could not answer."""
    names = {base.id: base.name for base in bases}
    degraded = [(names[base], part) for base, part in result.degraded] if bases else [("", NO_BASES)]
    parts = [{"knowledge_base": name, "part": part.part, "reason": part.reason} for name, part in degraded]
    return {"degraded": parts} if parts else {}


# ── fetch ────────────────────────────────────────────────────────────────────────────────────────


async def fetch(collection: Collection, id: str, start: int = 0) -> Json:
    """A document from the character ``start`` on, as much as is given at once; or a passage among its neighbours."""
    place = read_id(id)
    base = await _base_of(collection, place.knowledge_base)
    state = await collection.library.document(base.id, place.doc_id)
    chunks = await collection.library.chunks(base.id, place.doc_id)
    if not chunks:
        raise _unreadable(state)
    if place.chunk is not None:
        return _with_neighbours(collection, base, chunks, place.chunk)
    return _from(collection, base, state, chunks, start)


async def _base_of(collection: Collection, number: int) -> KnowledgeBase:
    for base in await collection.bases():
        if base.id == number:
            return base
    raise NotFound(f"没有编号为 {number} 的知识库", hint="用 search 结果里的 id")


def _unreadable(state: DocumentState) -> NotFound:
    named = f"文档“{(state.name or state.doc_id)[:SHOWN]}”"
    if state.status in ("pending", "retrying"):
        return NotFound(f"{named}还没有处理好{f'：{state.reason}' if state.reason else ''}", hint="过一会儿再读")
    return NotFound(f"{named}里没有可读的文字{f'：{state.reason}' if state.reason else ''}", hint="换一份文档")


def _from(collection: Collection, base: KnowledgeBase, state: DocumentState, chunks: list[Chunk], start: int) -> Json:
    whole, first = joined(chunks), chunks[0]
    if start >= len(whole):
        raise BadInput(f"start 为 {start}，全文只有 {len(whole)} 个字符", hint=f"改用 0–{len(whole) - 1}")
    end = min(start + READ, len(whole))
    id = document_id(base.id, first.doc_id)
    part: Json = {"start": start, "end": end, "total_chars": len(whole), "truncated": end < len(whole)}
    if end < len(whole):
        part |= {"next_start": end, "how_to_continue": f'再调用 fetch，id 为 "{id}"，start 为 {end}'}
    return {
        "id": id,
        "title": chunk_title(first),
        "text": whole[start:end],
        "url": collection.url(base.id, first),
        "metadata": {**_about(base, first), "updated_at": state.updated_at, **part},
    }


def _with_neighbours(collection: Collection, base: KnowledgeBase, chunks: list[Chunk], number: int) -> Json:
    at = next((at for at, chunk in enumerate(chunks) if chunk.index == number), None)
    id = document_id(base.id, chunks[0].doc_id)
    if at is None:
        raise NotFound(f"文档 {id[:SHOWN]} 里没有第 {number} 块", hint="它也许更新过：重新检索，或用 fetch 读整份文档")
    chunk, shown = chunks[at], surroundings(chunks, at)
    neighbours = {"previous_id": at - 1, "next_id": at + 1}
    ids = {name: chunks[place].chunk_id for name, place in neighbours.items() if 0 <= place < len(chunks)}
    place = {"passage": passage_text(chunk), "headings": list(chunk.headings), "page": chunk.page}
    whole = {"document_id": id, "how_to_continue": f'要读整份文档，再调用 fetch，id 为 "{id}"'}
    return {
        "id": chunk.chunk_id,
        "title": chunk_place(chunk),
        "text": joined(shown),
        "url": collection.url(base.id, chunk),
        "metadata": {**_about(base, chunk), **place, **ids, **whole},
    }


def _about(base: KnowledgeBase, chunk: Chunk) -> Json:
    about: Json = {"knowledge_base_id": base.id, "knowledge_base": base.name, "doc_id": chunk.doc_id}
    if chunk.attributes.content_type:
        about["content_type"] = chunk.attributes.content_type
    if chunk.attributes.tags:
        about["tags"] = list(chunk.attributes.tags)
    return {**about, "document_metadata": _metadata(chunk)}


def _metadata(chunk: Chunk) -> Json:
    written: Json = plain(chunk.attributes.metadata)
    return written


# ── answers and tables ───────────────────────────────────────────────────────────────────────────


async def ask(collection: Collection, question: str, knowledge_base: str | int | None = None, as_of: str = "") -> Json:
    """An answer whose sentences are marked with their sources."""
    base = await collection.resolve(knowledge_base)
    answer = await collection.library.ask(base.id, question, trace_id=collection.trace_id, as_of=as_of)
    return {
        "answer": answer.answer,
        "is_answered": answer.is_sure,
        "form": answer.form,
        "sources": [_source(collection, base, source) for source in answer.sources],
        "knowledge_base": {"id": base.id, "name": base.name},
        **({"reason": answer.reason} if answer.reason else {}),
        **({"notes": list(answer.notes)} if answer.notes else {}),
        **({"degraded": plain(answer.degraded)} if answer.degraded else {}),
    }


def _source(collection: Collection, base: KnowledgeBase, source: Source) -> Json:
    about = source.metadata.get("document", {})
    return {
        "number": source.number,
        "id": source.chunk_id,
        "text": source.text,
        "headings": list(source.metadata.get("headings", ())),
        "page": source.metadata.get("page"),
        "document": {
            "id": document_id(base.id, source.doc_id),
            "title": title_of(source.doc_name, source.doc_id, about),
            "url": collection.document_url(base.id, source.doc_id, about),
        },
        **_edited(source.original),
    }


async def tables(
    collection: Collection, query: str, knowledge_base: str | int | None = None, top_k: int = TABLES, as_of: str = ""
) -> Json:
    """Tables that speak of the question, with their rows that do, and what their cells answer."""
    found: list[tuple[float, Json]] = []
    answers: list[Json] = []
    degraded: list[Json] = []
    for base in await collection.chosen(knowledge_base):
        recall = await collection.library.search_tables(
            base.id, query, top_k, as_of=as_of, trace_id=collection.trace_id
        )
        found += [(result.score, _table(collection, base, result)) for result in recall.results]
        degraded += [{"knowledge_base": base.name, **part} for part in plain(recall.degraded)]
        if recall.answer is not None and recall.answer.sure:
            read = {"answer": recall.answer.text, "read_as": recall.answer.reading}
            answers.append({**read, "knowledge_base": base.name})
    found.sort(key=lambda scored: -scored[0])  # stable: equals stay in the order of their base
    best = [table for _, table in found[:top_k]]
    return {"answers": answers, "tables": best, **({"degraded": degraded} if degraded else {})}


def _table(collection: Collection, base: KnowledgeBase, result: LayeredResult) -> Json:
    chunk = result.doc
    return {
        "id": chunk.chunk_id,
        "text": result.content,
        "score": result.score,
        "headings": list(chunk.headings),
        "page": chunk.page,
        "document": {
            "id": document_id(base.id, chunk.doc_id),
            "title": chunk_title(chunk),
            "url": collection.url(base.id, chunk),
            "metadata": _metadata(chunk),
        },
        "knowledge_base": {"id": base.id, "name": base.name},
    }


# ── what there is ────────────────────────────────────────────────────────────────────────────────


async def list_knowledge_bases(collection: Collection) -> Json:
    """The bases with how much is in each."""
    bases = await collection.bases()
    listed: list[Json] = []
    for base in bases[:LISTED]:
        with suppress(NotFound):  # removed in the meantime
            counts = await collection.library.statistics(base.id)
            documents = sum(counts.get(status, 0) for status in STORED_STATUSES)
            about = {"id": base.id, "name": base.name, "kind": base.kind}
            listed.append({**about, "documents": documents, "chunks": counts.get("chunks", 0)})
    return {"knowledge_bases": listed, "total": len(listed) + len(bases[LISTED:])}
