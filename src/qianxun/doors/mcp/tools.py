"""The tools: what a model may ask of the knowledge bases, and what it is told. All of it is plain JSON.

Nothing here knows of the protocol; each function raises a QianxunError that says what to do next.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, TypeAlias

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.options import SearchOptions, choices_of
from qianxun.core.types import Chunk, DocumentState, KnowledgeBase
from qianxun.doors.mcp.collection import Collection
from qianxun.doors.mcp.ids import SHOWN, document_id, read_id
from qianxun.doors.mcp.multi_base_search import Heard, Passage, ask_all
from qianxun.doors.mcp.texts import excerpt, joined, surroundings, title

Told: TypeAlias = dict[str, Any]

RESULTS: Final = 10  # documents that a search names
LOOKED_AT: Final = 30  # passages of each base among which they are
PASSAGES: Final = 10  # of several bases together, where nobody says how many
READ: Final = 12_000  # characters of a document that are told at once
LISTED: Final = 200  # knowledge bases
KEPT: Final = ("pending", "indexed", "retrying", "quarantined")  # states of documents that are not deleted

# ── search ───────────────────────────────────────────────────────────────────────────────────────


async def search(collection: Collection, query: str) -> Told:
    """Documents that speak of the question, each by its best passage."""
    heard = await ask_all(collection, await collection.chosen(None), query, top_k=LOOKED_AT)
    best: dict[str, Told] = {}
    for each in heard.passages:
        chunk = each.found.chunk
        id = document_id(each.base.id, chunk.doc_id)
        if id not in best:
            url = collection.url(each.base.id, chunk)
            more = {"text": excerpt(each.found), "score": each.found.score}
            best[id] = {"id": id, "title": title(chunk), "url": url, **more}
    return {"results": list(best.values())[:RESULTS], **_degraded(heard)}


async def retrieve(
    collection: Collection, query: str, knowledge_base: str | int | None = None, **arguments: Any
) -> Told:
    """The passages that answer the question best, whole, of one base or of all.

    ``arguments`` are options of a search under their names in requests: top_k, mode, score_threshold, filters.
    """
    choices: dict[str, Any] = {
        offered.name: offered.from_wire(arguments[name])
        for offered in choices_of(SearchOptions).values()
        if (name := offered.argument or offered.wire_name) in arguments and arguments[name] is not None
    }
    bases = await collection.chosen(knowledge_base)
    heard = await ask_all(collection, bases, query, **choices)
    top_k = choices.get("top_k")
    most = top_k if top_k is not None or len(bases) == 1 else PASSAGES
    return {"passages": [_passage(collection, each) for each in heard.passages[:most]], **_degraded(heard)}


def _passage(collection: Collection, told: Passage) -> Told:
    found, chunk = told.found, told.found.chunk
    return {
        "id": chunk.chunk_id,
        "text": chunk.text,
        "score": found.score,
        "source": found.source,
        "tier": found.tier,
        "headings": list(chunk.headings),
        "page": chunk.page,
        "kind": chunk.kind,
        "document": {
            "id": document_id(told.base.id, chunk.doc_id),
            "title": chunk.doc_name or chunk.doc_id,
            "url": collection.url(told.base.id, chunk),
            "metadata": _metadata(chunk),
        },
        "knowledge_base": {"id": told.base.id, "name": told.base.name},
    }


def _degraded(heard: Heard) -> Told:
    """Said aloud where something could not answer, and not at all where nothing failed."""
    told = [{"knowledge_base": name, "part": each.part, "reason": each.reason} for name, each in heard.degraded]
    return {"degraded": told} if told else {}


# ── fetch ────────────────────────────────────────────────────────────────────────────────────────


async def fetch(collection: Collection, id: str, start: int = 0) -> Told:
    """A document from the character ``start`` on, as much as is told at once; or a passage among its neighbours."""
    place = read_id(id)
    base = await _base_of(collection, place.knowledge_base)
    state = await collection.library.document(base.id, place.doc_id)
    held = await collection.library.chunks(base.id, place.doc_id)
    if not held:
        raise _unreadable(state)
    if place.chunk is not None:
        return _with_neighbours(collection, base, held, place.chunk)
    return _from(collection, base, state, held, start)


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


def _from(collection: Collection, base: KnowledgeBase, state: DocumentState, held: list[Chunk], start: int) -> Told:
    whole, first = joined(held), held[0]
    if start >= len(whole):
        raise BadInput(f"start 为 {start}，全文只有 {len(whole)} 个字符", hint=f"改用 0–{len(whole) - 1}")
    end = min(start + READ, len(whole))
    id = document_id(base.id, first.doc_id)
    part: Told = {"start": start, "end": end, "total_chars": len(whole), "truncated": end < len(whole)}
    if end < len(whole):
        part |= {"next_start": end, "how_to_continue": f'再调用 fetch，id 为 "{id}"，start 为 {end}'}
    return {
        "id": id,
        "title": first.doc_name or first.doc_id,
        "text": whole[start:end],
        "url": collection.url(base.id, first),
        "metadata": {**_about(base, first), "updated_at": state.updated_at, **part},
    }


def _with_neighbours(collection: Collection, base: KnowledgeBase, held: list[Chunk], number: int) -> Told:
    at = next((at for at, chunk in enumerate(held) if chunk.index == number), None)
    id = document_id(base.id, held[0].doc_id)
    if at is None:
        raise NotFound(f"文档 {id[:SHOWN]} 里没有第 {number} 块", hint="它也许更新过：重新检索，或用 fetch 读整份文档")
    chunk, shown = held[at], surroundings(held, at)
    neighbours = {"previous_id": at - 1, "next_id": at + 1}
    ids = {name: held[place].chunk_id for name, place in neighbours.items() if 0 <= place < len(held)}
    place = {"passage": chunk.text, "headings": list(chunk.headings), "page": chunk.page}
    whole = {"document_id": id, "how_to_continue": f'要读整份文档，再调用 fetch，id 为 "{id}"'}
    return {
        "id": chunk.chunk_id,
        "title": title(chunk),
        "text": joined(shown),
        "url": collection.url(base.id, chunk),
        "metadata": {**_about(base, chunk), **place, **ids, **whole},
    }


def _about(base: KnowledgeBase, chunk: Chunk) -> Told:
    told: Told = {"knowledge_base_id": base.id, "knowledge_base": base.name, "doc_id": chunk.doc_id}
    if chunk.attributes.content_type:
        told["content_type"] = chunk.attributes.content_type
    if chunk.attributes.tags:
        told["tags"] = list(chunk.attributes.tags)
    return {**told, "document_metadata": _metadata(chunk)}


def _metadata(chunk: Chunk) -> Told:
    held = chunk.attributes.metadata
    return {name: list(value) if isinstance(value, tuple) else value for name, value in held.items()}


# ── what there is ────────────────────────────────────────────────────────────────────────────────


async def list_knowledge_bases(collection: Collection) -> Told:
    """The bases with how much is in each."""
    held = await collection.bases()
    told: list[Told] = []
    for base in held[:LISTED]:
        with suppress(NotFound):  # somebody removed it in the meantime
            counts = await collection.library.statistics(base.id)
            documents = sum(counts.get(status, 0) for status in KEPT)
            about = {"id": base.id, "name": base.name, "kind": base.kind}
            told.append({**about, "documents": documents, "chunks": counts.get("chunks", 0)})
    return {"knowledge_bases": told, "total": len(told) + len(held[LISTED:])}
