"""The protocols between the parts. Implementations live one to a file; ``engine`` wires them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from qianxun.core.documents import VectorDocument
from qianxun.core.types import (
    BM25,
    EVERYTHING,
    Bm25,
    Chunk,
    Filter,
    IndexBatch,
    IndexStamp,
    Inventory,
    Keys,
    Message,
    Population,
    Query,
    Ranking,
    Recall,
    Scores,
    TermCounts,
    Terms,
    Vector,
    VectorField,
    Vectors,
)

ChatKind: TypeAlias = Literal["chat", "qa", "rewrite", "graph", "vision"]


def never() -> bool:
    return False


def nothing(*_: object) -> None:
    """The callback of callers that follow no progress."""


class EmbeddingModel(Protocol):
    """Text to unit vectors. Blocking: callers go through a worker thread.

    One that has an attribute ``is_quick`` which is true promises that `embed_query` only looks a vector up, or takes
    no longer than that: it is then called where it is needed, without a thread.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """One row per text, in order. Raises ModelUnavailable or BadModelReply; never returns a wrong shape."""

    def embed_query(self, text: str) -> Vector:
        """The vector that finds passages for this query; models differ in their query prefix."""


class RerankModel(Protocol):
    """Reads a query and a passage together. Blocking: callers go through a worker thread."""

    @property
    def name(self) -> str: ...

    @property
    def share(self) -> float:
        """How much of the final score it decides, in (0, 1]; the fused score decides the rest."""

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> Sequence[float]:
        """One score in [0, 1] per passage, in order. Raises ModelUnavailable or BadModelReply.

        ``stop`` is asked between passages or batches; once it says yes, ModelUnavailable is raised.
        """


class ChatModel(Protocol):
    """A language model that answers a list of messages. Blocking: callers go through a worker thread."""

    @property
    def name(self) -> str: ...

    def complete(self, messages: Sequence[Message]) -> str:
        """The reply's text. Raises ModelUnavailable or BadModelReply."""


class StreamingChatModel(ChatModel, Protocol):
    """A language model whose reply can be read while it comes."""

    def stream(self, messages: Sequence[Message], stop: Callable[[], bool] = never) -> Iterator[str]:
        """The reply's text in pieces, none of them empty, as they come.

        Raises ModelUnavailable or BadModelReply, also in the midst: what came before is then a partial reply. ``stop``
        is asked while waiting; once it says yes, the connection is closed and ModelUnavailable raised. So is the
        connection when the iterator is closed.
        """


class Models(Protocol):
    """Models by the name under which a base or a request knows them, looked up anew for every request."""

    def rerank(self, name: str, embedding: EmbeddingModel | None) -> RerankModel:
        """``maxsim`` compares the token vectors of ``embedding``. Raises NotFound or ModelUnavailable."""

    def chat(self, name: str, kind: ChatKind = "chat") -> ChatModel:
        """``kind`` is what it is for: a user may have a default for each. Raises NotFound or ModelUnavailable."""

    def configured(self, kind: ChatKind = "chat") -> str:
        """The name of the model that serves every base which names none itself; "" where there is none."""


class Vectorizer(Protocol):
    """Checked vectors of texts, such as `qianxun.EmbeddingEngine` gives. Blocking."""

    def encode(self, texts: Sequence[str]) -> Vectors: ...

    def encode_query(self, query: str) -> Vector: ...


class VectorDatabase(Protocol):
    """A vector database of the caller's own in the place of a knowledge base, such as a Milvus client. Blocking."""

    def insert(self, vector_docs: Sequence[VectorDocument]) -> object: ...

    def search(
        self, query_vector: Sequence[float], top_k: int, filters: Mapping[str, Any]
    ) -> Sequence[tuple[str, float, Mapping[str, Any]]]:
        """(chunk id, cosine, metadata with document_id and chunk_text), best first. Every filter holds: a value is
        equal, or one of a list."""

    def delete_by_document_id(self, document_id: str) -> object: ...


class Cache(Protocol):
    """Answers under a key, for a while. A cache that cannot answer has nothing: it never fails a search."""

    async def get(self, key: str) -> Recall | None: ...

    async def put(self, key: str, answer: Recall, seconds: float) -> None: ...

    async def epoch(self, base: str, generation: int) -> str:
        """The name of a base's history, which is part of its keys; another one once its records have gone back to an
        earlier state, as they do when a backup is restored: the same number then means another state."""

    async def outdate(self, knowledge_base: int, records: int) -> None:
        """Drops the answers from earlier states of a base's records from the memory of this process: no search looks
        for them again, and until others displaced them they would be there."""

    async def forget(self, knowledge_base: int, identity: str) -> int:
        """Drops every answer and score of a base, here and where processes share them: a purge leaves no text behind.
        Returns how many there are still; -1 where that cannot be read."""

    async def aclose(self) -> None: ...


class Index(Protocol):
    """Derived search structure of one knowledge base: keys, vectors and tokens; no text of record.

    Whatever is asked of it raises IndexUnusable where it is damaged, and RetrieverUnavailable where it lives in a
    server that cannot be reached: the first is mended by a rebuild, the second by waiting.
    """

    @property
    def stamp(self) -> IndexStamp: ...

    @property
    def is_here(self) -> bool:
        """Whether `nearest`, `match` and `cosines` wait for nothing but the processor: whoever awaits them is better
        off the event loop, and may run several of them one after another in one thread (`RetrieverArm`)."""

    async def apply(self, batch: IndexBatch) -> None:
        """Removes, then adds; all or nothing, durable when it returns, idempotent."""

    async def nearest(
        self,
        vector: Vector,
        limit: int,
        where: Filter = EVERYTHING,
        field: VectorField = "content",
        within: Population | None = None,
    ) -> Ranking:
        """The nearest entries that pass ``where``; scores are cosines. Exact while the base, or the population, is
        small.

        ``within``, here and below: as if the index held nothing but these documents. It is given only to an index that
        has an attribute ``counts_within`` which is true (`core.types.Population`).
        """

    async def cosines(self, vector: Vector, keys: Keys) -> Scores:
        """What `nearest` would say of these chunks, in their order; not a number for a chunk it has no vector of."""

    async def likeness(self, within: Population | None = None) -> float:
        """The mean cosine between two different chunks, from an even sample: how little a cosine tells apart here.

        A small base is taken to be as mixed as others are.
        """

    async def match(
        self,
        terms: Terms,
        limit: int,
        where: Filter = EVERYTHING,
        require: Literal["all", "any"] = "any",
        bm25: Bm25 = BM25,
        within: Population | None = None,
    ) -> Ranking:
        """BM25 over words and grams, with ``Ranking.ceiling`` set. ``require`` speaks of the words."""

    async def count(self, terms: Terms, within: Population | None = None) -> TermCounts:
        """In how many content entries each term stands; those that were deleted do not count."""

    async def watermark(self) -> int:
        """The last outbox sequence it holds; 0 for a new one."""

    async def inventory(self) -> Inventory: ...

    async def check(self) -> None:
        """Reads everything it holds; raises IndexUnusable where a checksum or a count is wrong."""

    async def close(self) -> None: ...


class IndexBackend(Protocol):
    """Where the indexes of a data folder live, and how one takes the place of another."""

    async def open(self, knowledge_base: int, stamp: IndexStamp) -> Index:
        """The current index. Raises IndexUnusable, with its reason, when missing, corrupt or of another stamp."""

    async def build(self, knowledge_base: int, stamp: IndexStamp) -> Index:
        """A new empty index beside the current one; nobody sees it before `switch`."""

    async def switch(self, knowledge_base: int, built: Index) -> None:
        """Makes ``built`` the current index, atomically and durably; what it replaces is removed."""

    async def drop(self, knowledge_base: int) -> None: ...


class ArmContext(Protocol):
    """What an arm may use of the base that is searched."""

    @property
    def index(self) -> Index: ...

    @property
    def bm25(self) -> Bm25:
        """What a search by words counts with."""

    @property
    def is_local(self) -> bool:
        """True if index and records are in this process, so that nothing below waits for a server."""

    def texts(self, where: Filter = EVERYTHING) -> AsyncIterator[Sequence[tuple[int, str]]]:
        """The searchable chunks that pass ``where``, page by page: (key, text) in the order of their keys."""

    async def chunks(self, keys: Sequence[int]) -> Mapping[int, Chunk]:
        """Chunks by key; one that has been deleted is missing."""

    async def chunks_of_questions(self, keys: Sequence[int]) -> Mapping[int, int]:
        """Attached questions to the chunks that answer them; one that has been deleted is missing."""


class RetrieverArm(Protocol):
    """One way of finding chunks. It has no state of a search and knows no other arm; subclasses inherit the defaults.

    What it finds meets the records afterwards: it cannot return what has been deleted or is filtered out.
    """

    name: str  # in options, results, explanations, logs and metrics
    label: tuple[str, str]  # the same for people: 中文, English
    unit: tuple[str, str] = ("原始分", "raw")  # what its raw scores are
    weight: float = 0.3  # in the fusion, where nothing else is configured; the standard weights add up to 1
    signal: str = ""  # arms of one signal are fused as one ranking; "": its own
    needs_vector: bool = False  # reads ``query.vector`` and waits for it; others read ``query.text`` or ``.terms``
    applies_filters: bool = True  # False: ``query.where`` is applied to what it found

    def is_local(self, context: ArmContext) -> bool:
        """True if `search` never waits for anything outside this process: it then shares a worker thread with others,
        to save a tenth of a search. Else it is a task of the event loop and must not block. Both have a deadline."""
        return False

    def applies_to(self, query: Query) -> bool:
        """False: it has nothing to do with such a query. It is then left out, and its weight with it; one that takes
        part and finds nothing lowers every score."""
        return True

    async def search(self, query: Query, limit: int, context: ArmContext) -> Ranking:
        """At most ``limit`` chunks, best first. Raises RetrieverUnavailable."""
        raise NotImplementedError

    def calibrate(self, found: Ranking) -> Scores:
        """The scores of what `search` found, brought to [0, 1] in the same order. By default they are already."""
        return found.scores
