"""Writers and readers of one base at once, over real HTTP, each of whom knows what must be found and what must not.

A document that was added with ``wait`` is found by the next question for it; one that was deleted or replaced, never
again. Every version of every document has a word of its own. Its writer asks for it right after each answer; readers
ask for anybody's: what was promised before they asked, and still is when they are answered, must be so in the answer.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

import httpx

MODES = ("hybrid", "fulltext", "vector")
IDS = 3  # of one writer's documents: they come back, so that what was deleted is added again
State: TypeAlias = Literal["there", "gone", "changing"]


@dataclass(frozen=True)
class Promise:
    """What the writer of a document was told of one version of it, and when."""

    word: str
    doc_id: str
    state: State
    since: int


@dataclass
class Ledger:
    """All promises, by a clock that ticks with each of them."""

    now: int = 0
    promises: dict[str, Promise] = field(default_factory=dict)  # by word
    questions: int = 0
    by_readers: int = 0  # of which with an answer that could be judged
    writes: int = 0
    broken: list[str] = field(default_factory=list)

    def tell(self, word: str, doc_id: str, state: State) -> None:
        self.now += 1
        self.promises[word] = Promise(word, doc_id, state, self.now)

    def judge(self, promise: Promise, before: int, found: set[str]) -> None:
        """An answer to a question that was asked at ``before``."""
        if self.promises[promise.word] is not promise or promise.since > before or promise.state == "changing":
            return  # its writer was at it meanwhile: either answer is right
        self.by_readers += 1
        if found != ({promise.doc_id} if promise.state == "there" else set()):
            self.broken.append(f"a reader found {found or 'nothing'} for {promise}")


@dataclass
class Siege:
    """One base and those who work on it."""

    http: httpx.AsyncClient
    base: int
    rounds: int
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    is_over: bool = False
    judged: int = 0  # so many answers to readers are waited for

    async def run(self, writers: int, readers: int) -> Ledger:
        reading = [asyncio.create_task(self._reader(number)) for number in range(readers)]
        try:
            await asyncio.gather(*(self._writer(number) for number in range(writers)))
        finally:
            self.is_over = True
            await asyncio.gather(*reading)
        return self.ledger

    async def _writer(self, number: int) -> None:
        chance = random.Random(f"{self.seed}/{number}")
        held: dict[str, str] = {}  # document → the word of its version
        for turn in range(self.rounds):
            doc_id = f"w{number}-{chance.randrange(IDS)}"
            if doc_id in held and chance.random() < 0.6:
                await self._delete(doc_id, held.pop(doc_id))
                continue
            word = blake2b(f"{self.seed}/{number}/{turn}".encode(), digest_size=6).hexdigest()
            await self._put(doc_id, word, held.get(doc_id))
            held[doc_id] = word

    async def _reader(self, number: int) -> None:
        chance = random.Random(f"{self.seed}/reader/{number}")
        while not self.is_over or self.ledger.by_readers < self.judged:
            if not self.ledger.promises:
                await asyncio.sleep(0.001)
                continue
            promise, before = chance.choice(list(self.ledger.promises.values())[-200:]), self.ledger.now
            self.ledger.judge(promise, before, await self._found(promise.word, chance.choice(MODES)))

    async def _put(self, doc_id: str, word: str, replaced: str | None) -> None:
        """Adds or replaces it, and looks whether it is so."""
        for each in filter(None, (word, replaced)):
            self.ledger.tell(each, doc_id, "changing")
        answer = await self.http.put(self._path(doc_id), json={"name": doc_id, "content": sentence(word)})
        if answer.status_code != (201 if replaced is None else 200) or answer.json()["data"]["status"] != "indexed":
            self.ledger.broken.append(f"{doc_id} in place of {replaced}: {answer.status_code} {answer.text}")
        self.ledger.writes += 1
        self.ledger.tell(word, doc_id, "there")
        for mode in MODES:
            await self._expect(word, {doc_id}, mode, "added")
        if replaced is not None:
            self.ledger.tell(replaced, doc_id, "gone")
            await self._expect(replaced, set(), "hybrid", "replaced")

    async def _delete(self, doc_id: str, word: str) -> None:
        self.ledger.tell(word, doc_id, "changing")
        answer = await self.http.delete(self._path(doc_id))
        if answer.status_code != 200:
            self.ledger.broken.append(f"{doc_id} was not to be deleted: {answer.status_code} {answer.text}")
        self.ledger.writes += 1
        self.ledger.tell(word, doc_id, "gone")
        for mode in MODES:
            await self._expect(word, set(), mode, "deleted")

    async def _expect(self, word: str, wanted: set[str], mode: str, done: str) -> None:
        found = await self._found(word, mode)
        if found != wanted:
            self.ledger.broken.append(f"{mode}: {word} was {done}, and what is found is {found or 'nothing'}")

    async def _found(self, word: str, mode: str) -> set[str]:
        """The documents of the answer that hold the word; similar ones come along."""
        body: dict[str, Any] = {"query": sentence(word), "retrieval_mode": mode, "retrieval_config": {"top_k": 50}}
        answer = await self.http.post(f"/v1/retrieval/{self.base}", json=body)
        assert answer.status_code == 200, answer.text
        told = answer.json()["data"]
        assert not told["degraded"], told["degraded"]
        self.ledger.questions += 1
        return {chunk["doc_id"] for chunk in told["chunks"] if word in chunk["content"]}

    def _path(self, doc_id: str) -> str:
        return f"/v1/knowledge-bases/{self.base}/documents/{doc_id}"


def sentence(word: str) -> str:
    return f"{word} 的报销比例为百分之八十五。"
