"""Random interleavings of writes, events, failures, searches and upkeep, held against `PlainModel`.

Everything is real: SQLite, the embedded index, the pipelines, a temporary folder. Only the embedding model is a fake,
because it has to fail on demand.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import update

from qianxun.core.errors import ModelUnavailable, RecallFailed
from qianxun.core.options import Mode
from qianxun.core.types import EVERYTHING, And, Document, Eq, Filter, In, Not, Or, QAPair, Range, Recall
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.records.document_retries import LONGEST_WAIT
from qianxun.records.schema import DocumentRow
from tests.answer.plain_model import MoodyEmbedding, PlainModel, Weather

T = TypeVar("T")
COMMON = "公共条目"  # every document has it: a search for it sees the whole base
FILLER = "参保人员住院发生的费用按照规定比例报销。"
POISON = ("砒霜", "鹤顶红")
DOC_IDS = ("甲", "乙", "丙", "丁", "戊", "己")
MODELS = ("fake-64", "fake-32")

labels = st.fixed_dictionaries(
    {
        "user_id": st.sampled_from(["张三", "李四"]),
        "project_id": st.sampled_from(["p1", "p2"]),
        "content_type": st.sampled_from(["chapter", "note"]),
        "tags": st.lists(st.sampled_from(["医保", "社保"]), unique=True, max_size=2).map(tuple),
        "metadata": st.fixed_dictionaries(
            {"年份": st.sampled_from([2022, 2023, 2024])}, optional={"有效": st.booleans(), "级别": st.just("1")}
        ),
    }
)
conditions: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Eq, st.just("user_id"), st.sampled_from(["张三", "李四", "王五"])),
    st.builds(Eq, st.just("project_id"), st.sampled_from(["p1", "p2"])),
    st.builds(In, st.just("content_type"), st.sampled_from([("chapter",), ("note", "chapter"), ("无",)])),
    st.builds(Eq, st.just("tags"), st.sampled_from(["医保", "社保"])),
    st.builds(Eq, st.just("metadata.有效"), st.booleans()),
    st.builds(Eq, st.just("metadata.级别"), st.sampled_from(["1", 1])),
    st.builds(Range, st.just("metadata.年份"), ge=st.sampled_from([2022, 2023]), lt=st.sampled_from([2024, 2030])),
    st.builds(In, st.just("doc_id"), st.lists(st.sampled_from(DOC_IDS), max_size=3).map(tuple)),
)
filters: st.SearchStrategy[Filter] = st.one_of(
    st.just(EVERYTHING),
    conditions,
    conditions.map(Not),
    st.lists(conditions, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
    st.lists(conditions, min_size=2, max_size=2).map(lambda parts: Or(tuple(parts))),
)
modes = st.sampled_from(["hybrid", "vector", "fulltext"])
doc_ids = st.sampled_from(DOC_IDS)
spoilt = st.sampled_from(["", "", "", "", *POISON])


class Interleavings(RuleBasedStateMachine):
    arguments: ClassVar[Mapping[str, Any]] = {}  # settings beside the data folder
    place: ClassVar[Path | None] = None  # where the data folders lie; None: where the system has such
    steps = 0  # over all runs of this class: the rules executed, invariants not counted

    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("qianxun").setLevel(logging.CRITICAL)  # failures are part of the game
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="qianxun-", dir=self.place)
        self.weather = Weather(poison=set(POISON))
        self.models = {name: MoodyEmbedding(int(name.removeprefix("fake-")), self.weather) for name in MODELS}
        self.plain = PlainModel(self.weather)
        self.mailbox: list[dict[str, Any]] = []
        self.written = 0
        self.open()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def open(self) -> None:
        settings = load(arguments={"data": self.folder.name, **self.arguments})
        self.context = Engine.open(settings=settings, models=self.models, background=False)
        self.engine = self.run(self.context.__aenter__())

    def close(self) -> None:
        self.run(self.context.__aexit__(None, None, None))

    def teardown(self) -> None:
        self.close()
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()

    def count(self) -> None:
        type(self).steps += 1

    @initialize()
    def create_base(self) -> None:
        config = {"chunk_size": 60, "chunk_overlap": 10}
        self.kb = self.run(self.engine.create_knowledge_base("交错", model=MODELS[0], config=config)).id

    def document(self, doc_id: str, told: Mapping[str, Any], sentences: int, poison: str) -> Document:
        self.written += 1
        content = f"{COMMON}{poison}，编号 zq{self.written}k。" + FILLER * sentences
        # Every third one answers a question too, in words that no other document has.
        asked = (QAPair(f"甚么 wen{self.written}k", content[:20]),) if self.written % 3 == 0 else ()
        return Document(doc_id, content, name=doc_id, pairs=asked, **told)

    # ── direct writes ────────────────────────────────────────────────────────────────────────────

    @rule(doc_id=doc_ids, told=labels, sentences=st.sampled_from([0, 0, 1, 6]), poison=spoilt, wait=st.booleans())
    def put(self, doc_id: str, told: dict[str, Any], sentences: int, poison: str, wait: bool) -> None:
        self.count()
        self._put([self.document(doc_id, told, sentences, poison)], wait)

    @rule(several=st.lists(st.tuples(doc_ids, labels, spoilt), min_size=2, max_size=5), wait=st.booleans())
    def put_several(self, several: list[tuple[str, dict[str, Any], str]], wait: bool) -> None:
        """One batch; a document may stand in it twice, and then the later one counts."""
        self.count()
        self._put([self.document(doc_id, told, 1, poison) for doc_id, told, poison in several], wait)

    @rule(doc_id=doc_ids, wait=st.booleans())
    def put_the_same_again(self, doc_id: str, wait: bool) -> None:
        entry = self.plain.entries.get(doc_id)
        if entry is None or entry.newest is None:
            return
        self.count()
        self._put([entry.newest], wait)

    def _put(self, batch: list[Document], wait: bool) -> None:
        accepted = self.run(self.engine.add_documents(self.kb, batch, wait=wait))
        assert [one.outcome for one in accepted] == [self.plain.accept(each, retry=wait) for each in batch]
        if wait:
            self.plain.drain(retries=False)
        self._hold_retries()

    @rule(doc_id=doc_ids)
    def delete(self, doc_id: str) -> None:
        self.count()
        assert self.run(self.engine.delete_document(self.kb, doc_id)) == self.plain.delete(doc_id)

    # ── events: sent in order, delivered in any ──────────────────────────────────────────────────

    @rule(doc_id=doc_ids, told=labels, poison=spoilt, kind=st.sampled_from(["created", "updated", "deleted"]))
    def send(self, doc_id: str, told: dict[str, Any], poison: str, kind: str) -> None:
        self.count()
        entry = self.plain.entries.get(doc_id)
        known = [event["generation"] for event in self.mailbox if event["document_id"] == doc_id]
        document = self.document(doc_id, told, 0, poison)
        event = {
            "type": kind,
            "event_id": f"e{self.written}",
            "document_id": doc_id,
            "generation": max([entry.generation if entry else 0, *known]) + 1,
        }
        if kind != "deleted":
            event |= {"content": document.content, "name": doc_id, **told}
        self.mailbox.append(event)

    @precondition(lambda self: self.mailbox)
    @rule(which=st.integers(0, 1000), named=st.booleans())
    def deliver(self, which: int, named: bool) -> None:
        """Any event that was ever sent, again perhaps; without its name only the generation protects us."""
        self.count()
        event = dict(self.mailbox[which % len(self.mailbox)])
        if not named:
            del event["event_id"]
        handler = self.run(self.engine.events(self.kb))
        outcome = self.run(getattr(handler, f"handle_document_{event['type']}")(event))
        assert outcome.result == self._delivered(event), event

    def _delivered(self, event: dict[str, Any]) -> str:
        if "event_id" in event and self.plain.is_repeated(event["event_id"]):
            return "duplicate"
        doc_id, generation = event["document_id"], event["generation"]
        if event["type"] == "deleted":
            is_late = doc_id in self.plain.entries and generation < self.plain.entries[doc_id].generation
            return "accepted" if self.plain.delete(doc_id, generation) else "stale" if is_late else "unchanged"
        told = {name: event[name] for name in ("user_id", "project_id", "content_type", "tags", "metadata")}
        document = Document(doc_id, event["content"], name=event["name"], **told)
        return "stale" if self.plain.accept(document, generation) == "stale" else "accepted"

    # ── failures and the indexer ─────────────────────────────────────────────────────────────────

    @rule(down=st.booleans())
    def weather_changes(self, down: bool) -> None:
        self.count()
        self.weather.down = down

    @rule(poison=st.sampled_from(POISON))
    def model_is_mended(self, poison: str) -> None:
        self.count()
        self.weather.poison.discard(poison)

    @rule()
    def time_passes(self) -> None:
        self.count()
        self._set_retries(datetime.now(UTC) - timedelta(seconds=1))
        self.plain.time_passes()

    @rule()
    def drain(self) -> None:
        self.count()
        self.run(self.engine.drain(self.kb))
        self.plain.drain(retries=True)
        self._hold_retries()

    def _hold_retries(self) -> None:
        """Time passes only in `time_passes`, however slow the machine is. What is due already stays so."""
        self._set_retries(datetime.now(UTC) + LONGEST_WAIT, but_due=True)

    def _set_retries(self, at: datetime, *, but_due: bool = False) -> None:
        statement = update(DocumentRow).where(DocumentRow.retry_at.is_not(None)).values(retry_at=at)
        if but_due:
            due = [doc_id for doc_id, entry in self.plain.entries.items() if entry.due]
            statement = statement.where(DocumentRow.doc_id.not_in(due))
        with self.engine.records.writing() as tx:
            tx.execute(statement)

    # ── upkeep ───────────────────────────────────────────────────────────────────────────────────

    @rule()
    def reopen(self) -> None:
        self.count()
        self.close()
        self.open()

    @rule()
    def rebuild(self) -> None:
        self.count()
        self.run(self.engine.admin.rebuild(self.kb))

    @rule(model=st.sampled_from(MODELS))
    def change_model(self, model: str) -> None:
        self.count()
        needs_vectors = model != self.run(self.engine.base(self.kb)).model_name and self.plain.visible(EVERYTHING)
        if self.weather.down and needs_vectors:
            with pytest.raises(ModelUnavailable):
                self.run(self.engine.admin.rebuild(self.kb, model=model))
        else:
            self.run(self.engine.admin.rebuild(self.kb, model=model))

    @rule()
    def verify(self) -> None:
        """Everything drained: index and records agree key by key, and every document stands where it should."""
        self.count()
        verdict = self.run(self.engine.admin.verify(self.kb))
        self.plain.drain(retries=False)
        self._hold_retries()
        assert verdict.is_clean, verdict
        told = {one.doc_id: one for one in self.run(self.engine.documents(self.kb))}
        expected = {doc_id: each for doc_id, each in self.plain.entries.items() if each.newest is not None}
        assert told.keys() == expected.keys()
        for doc_id, entry in expected.items():
            state = told[doc_id]
            assert (state.status, state.generation) == (entry.status, entry.generation)
            assert state.served == (entry.shown[0] if entry.shown else 0)
            assert (state.reason != "") == (entry.status in ("retrying", "quarantined"))

    # ── search ───────────────────────────────────────────────────────────────────────────────────

    @rule(mode=modes, where=filters)
    def search_everything(self, mode: Mode, where: Filter) -> None:
        self.count()
        self._search(COMMON, mode, where)

    @rule(doc_id=doc_ids, mode=modes, where=filters)
    def search_one(self, doc_id: str, mode: Mode, where: Filter) -> None:
        """By the whole text of a document: it comes first when it may come at all."""
        entry = self.plain.entries.get(doc_id)
        if entry is None or entry.shown is None:
            return
        self.count()
        _, document = entry.shown
        recall = self._search(document.content[:60], mode, where)
        if recall is not None and doc_id in self.plain.visible(where):
            assert recall.found[0].chunk.doc_id == doc_id

    @rule(doc_id=doc_ids, where=filters)
    def search_by_its_question(self, doc_id: str, where: Filter) -> None:
        """By words alone: the chunk that answers it comes, when it may come at all, and no other with that word."""
        entry = self.plain.entries.get(doc_id)
        if entry is None or entry.shown is None or not entry.shown[1].pairs:
            return
        self.count()
        asked = entry.shown[1].pairs[0].question.split()[1]
        recall = self.run(self.engine.retrieve(self.kb, asked, mode="fulltext", where=where))
        assert [found.chunk.doc_id for found in recall.found] == [doc_id] * (doc_id in self.plain.visible(where))

    def _search(self, query: str, mode: Mode, where: Filter) -> Recall | None:
        if self.weather.down and mode == "vector":
            with pytest.raises(RecallFailed, match="模型连不上"):
                self.run(self.engine.retrieve(self.kb, query, mode=mode, where=where))
            return None
        recall = self.run(self.engine.retrieve(self.kb, query, mode=mode, where=where, top_k=100))
        assert [part.part for part in recall.degraded] == (
            ["vector"] if self.weather.down and mode != "fulltext" else []
        )
        visible = self.plain.visible(where)
        for found in recall.found:
            generation, document = visible[found.chunk.doc_id]  # a KeyError here: something was found that may not be
            assert found.chunk.generation == generation
            assert document.content[found.chunk.start : found.chunk.end] == found.chunk.text
        if mode != "vector":  # below zero a cosine counts as nothing found
            assert {found.chunk.doc_id for found in recall.found} == visible.keys()
        return recall

    @invariant()
    def what_is_found_is_what_the_model_shows(self) -> None:
        if hasattr(self, "kb"):
            self._search(COMMON, "fulltext", EVERYTHING)
