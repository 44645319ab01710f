"""What the records keep of a graph: facts as they were read, each reader's own, gone with their chunk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.errors import BadInput
from qianxun.core.graph_types import Alias, Facts, Mention, StatedAlias, Statement
from qianxun.core.types import LOCAL_TENANT, Document, Piece, Prepared, Submission
from qianxun.records import Records, bases, documents, graph
from qianxun.records.database.open import sqlite_url
from qianxun.records.graph import ExtractedFacts, Summary
from qianxun.records.rows import pack_facts, unpack_facts

FACTS = Facts(
    (Mention("鲁迅", "PERSON", 0, 2), Mention("绍兴", "PLACE", 5, 7)), (Statement("鲁迅", "绍兴", "出生地", 0, 7),)
)
OLD, NEW, MODEL = "statistical:0", "statistical:1", "model:m"


@pytest.fixture(params=["sqlite", "postgresql"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    url = sqlite_url(tmp_path / "r.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    opened = Records.open(url)
    yield opened
    opened.close()


def base_with(records: Records, *texts: str) -> int:
    with records.writing() as tx:
        kb = bases.create(tx, "图谱", tenant=LOCAL_TENANT).id
        put(tx, kb, *texts)
    return kb


def put(tx: object, kb: int, *texts: str) -> None:
    offered = [
        Submission(Document(f"d{at}", text, name=f"文{at}"), text[:60], prepared=Prepared((_piece(text),), None))
        for at, text in enumerate(texts)
    ]
    documents.accept(tx, kb, offered)  # type: ignore[arg-type]


def _piece(text: str) -> Piece:
    return Piece(start=0, end=len(text), body=text)


def read_all(records: Records, kb: int, origin: str, facts: Facts = FACTS) -> int:
    with records.writing() as tx:
        page = graph.unread(tx, kb, origin, 0, 100)
        return graph.write_facts(tx, kb, [ExtractedFacts(e.key, e.document_key, origin, e.digest, facts) for e in page])


# ── as text ──────────────────────────────────────────────────────────────────────────────────────

names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=8)
places = st.integers(0, 5_000)


@given(
    st.lists(st.builds(Mention, names, st.sampled_from(["TERM", "PERSON"]), places, places), max_size=6),
    st.lists(st.builds(Statement, names, names, names, places, places), max_size=4),
    st.lists(st.builds(StatedAlias, names, names, places, places), max_size=3),
    st.lists(st.tuples(places, places), max_size=3),
)
def test_facts_come_back_as_they_went(
    mentions: list[Mention], statements: list[Statement], aliases: list[StatedAlias], sentences: list[tuple[int, int]]
) -> None:
    facts = Facts(tuple(mentions), tuple(statements), tuple(aliases), tuple(sentences))
    assert unpack_facts(pack_facts(facts)) == facts


def test_facts_take_little_room() -> None:
    assert pack_facts(Facts()) == "[[]]"
    assert pack_facts(FACTS) == '[["鲁迅","PERSON","绍兴","PLACE","出生地",""],[0,0,1,5],[0,1,2,0,7]]'


def test_a_name_that_no_database_holds_is_kept_with_a_mark(records: Records) -> None:
    kb = base_with(records, "甲")
    odd = Facts((Mention("甲\x00", "TERM", 0, 2), Mention("乙\ud800", "TERM", 2, 4)))
    assert read_all(records, kb, NEW, odd) == 1
    with records.reading() as tx:
        (held,) = graph.facts_of(tx, kb, graph.graph_chunks(tx, kb).keys.tolist())
    assert [each.name for each in held.facts.mentions] == ["甲\ufffd", "乙?"]


# ── who has read what ────────────────────────────────────────────────────────────────────────────


def test_each_reader_reads_what_it_has_not_and_leaves_to_a_model_what_that_has_read(records: Records) -> None:
    kb = base_with(records, "鲁迅生于绍兴", "老舍生于北京")
    assert read_all(records, kb, OLD) == 2
    assert read_all(records, kb, OLD) == 0
    with records.writing() as tx:
        first = graph.unread(tx, kb, MODEL, 0, 1)[0]
        graph.write_facts(tx, kb, [ExtractedFacts(first.key, first.document_key, MODEL, first.digest, FACTS)])
        assert graph.unread_count(tx, kb, MODEL) == 1
        assert graph.unread_count(tx, kb, NEW) == 1  # of another version, but not what the model has read
        assert graph.known(tx, kb, MODEL, [first.digest]) == {first.digest: FACTS}
        assert graph.known(tx, kb, NEW, [first.digest]) == {}
    assert read_all(records, kb, NEW) == 1
    with records.reading() as tx:
        assert graph.origins(tx, kb) == {MODEL: 1, NEW: 1}


def test_facts_go_with_their_chunk_and_cannot_come_after_it(records: Records) -> None:
    kb = base_with(records, "鲁迅生于绍兴", "老舍生于北京")
    with records.reading() as tx:
        page = graph.unread(tx, kb, NEW, 0, 100)
    read_all(records, kb, NEW)
    with records.writing() as tx:
        before = graph.state(tx, kb)
        documents.remove(tx, kb, "d0")
        assert graph.state(tx, kb) != before
        assert len(graph.graph_chunks(tx, kb).keys) == 1
        late = [ExtractedFacts(each.key, each.document_key, NEW, each.digest, FACTS) for each in page]
        assert graph.write_facts(tx, kb, late) == 1
        assert len(graph.orphans(tx, kb)) == 0


def test_nothing_is_read_of_another_base(records: Records) -> None:
    kb = base_with(records, "鲁迅生于绍兴")
    with records.writing() as tx:
        other = bases.create(tx, "别的", tenant="别人").id
        page = graph.unread(tx, kb, NEW, 0, 100)
        assert (
            graph.write_facts(
                tx, other, [ExtractedFacts(page[0].key, page[0].document_key, NEW, page[0].digest, FACTS)]
            )
            == 0
        )
    read_all(records, kb, NEW)
    with records.reading() as tx:
        keys = graph.graph_chunks(tx, kb).keys.tolist()
        assert graph.facts_of(tx, other, keys) == []
        assert graph.known(tx, other, NEW, [page[0].digest]) == {}
        assert graph.attributes(tx, other, {page[0].document_key: 1}) == {}


def test_a_removed_base_leaves_nothing_of_its_graph(records: Records) -> None:
    kb = base_with(records, "鲁迅生于绍兴")
    read_all(records, kb, NEW)
    with records.writing() as tx:
        graph.add_alias(tx, kb, Alias("鲁迅", "周树人"))
        graph.store_summaries(tx, kb, "m", [Summary("c_1", "题", "文")])
        bases.remove(tx, kb, tenant=LOCAL_TENANT)
        for table in (graph.GraphFactsRow, graph.GraphAliasRow, graph.GraphSummaryRow):
            assert tx.execute(graph.select(graph.func.count()).select_from(table)).scalar_one() == 0


# ── aliases and summaries ────────────────────────────────────────────────────────────────────────


def test_an_alias_is_given_changed_and_taken_back(records: Records) -> None:
    kb = base_with(records)
    with records.writing() as tx:
        states = [graph.state(tx, kb)]
        graph.add_alias(tx, kb, Alias("鲁迅", "周树人", details={"by": "甲"}))
        states.append(graph.state(tx, kb))
        graph.add_alias(tx, kb, Alias("鲁迅（作家）", "周树人"))
        assert [(each.name, each.alias) for each in graph.aliases(tx, kb)] == [("鲁迅（作家）", "周树人")]
        assert graph.remove_alias(tx, kb, "周树人")
        states.append(graph.state(tx, kb))
        assert not graph.remove_alias(tx, kb, "周树人")
        assert graph.aliases(tx, kb) == []
        assert len(set(states)) == 3


@pytest.mark.parametrize("name", ["", " ", "长" * 256, "\x00", "半\ud800"])
def test_what_cannot_be_a_name_cannot_be_an_alias(records: Records, name: str) -> None:
    kb = base_with(records)
    with records.writing() as tx, pytest.raises(BadInput):
        graph.add_alias(tx, kb, Alias("鲁迅", name))


def test_summaries_of_communities_that_are_no_more_are_forgotten(records: Records) -> None:
    kb = base_with(records)
    with records.writing() as tx:
        graph.store_summaries(tx, kb, "m", [Summary("c_1", "一", "甲"), Summary("c_2", "二", "乙")])
        graph.store_summaries(tx, kb, "m", [Summary("c_1", "一", "丙")])
        assert graph.summaries(tx, kb, "m", ["c_1", "c_3"]) == {"c_1": Summary("c_1", "一", "丙")}
        assert graph.summaries(tx, kb, "n", ["c_1"]) == {}
        assert graph.remove_other_summaries(tx, kb, but=["c_1"]) == 1
        assert set(graph.summaries(tx, kb, "m", ["c_1", "c_2"])) == {"c_1"}
