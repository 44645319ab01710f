"""What a version of a short document has already is not stored with its chunks again, and is read as if it were."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update

from qianxun.core.types import Document, Piece, Prepared, Submission
from qianxun.records import Records, bases, checksums, chunk_texts, chunks, documents, graph, terms
from qianxun.records.chunk_texts import SHORT
from qianxun.records.database.open import HEAD, connect, downgrade, migrate
from qianxun.records.database.restrict import restricting
from qianxun.records.schema import ChunkRow, VersionRow
from tests.indexing.opened import doc, found, opened

CONTENT = "𠮷野家的报销标准。\n门诊按八成报销，住院按九成报销。"
CUT = CONTENT.index("门诊")
WHOLE = Piece(0, len(CONTENT), CONTENT)
PARTS = (Piece(0, CUT, CONTENT[:CUT]), Piece(CUT, len(CONTENT), CONTENT[CUT:]))
UNDER_A_HEADER = Piece(CUT, len(CONTENT), CONTENT[CUT:], lead="项目 | 比例\n")
ELSEWHERE = Piece(0, CUT, "另一段文字。")  # as an edited one
LONG = "长" * (SHORT + 1)


def stored(tx: Connection, content: str, *pieces: Piece) -> int:
    """A base with one document of these chunks."""
    base = bases.create(tx, "一", tenant="local", embedding_model="", dimension=0).id
    one = Submission(Document("d", content, name="d"), "f", None, Prepared(pieces, None))
    documents.accept(tx, base, [one])
    return base


def own_texts(tx: Connection) -> list[str]:
    return list(tx.execute(select(ChunkRow.text).order_by(ChunkRow.position)).scalars())


@pytest.mark.parametrize(
    ("content", "pieces", "own"),
    [
        (CONTENT, (WHOLE,), [""]),
        (CONTENT, PARTS, ["", ""]),
        (CONTENT, (PARTS[0], UNDER_A_HEADER), ["", UNDER_A_HEADER.text]),
        (CONTENT, (ELSEWHERE,), [ELSEWHERE.text]),
        (LONG, (Piece(0, 3, "长长长"), Piece(3, len(LONG), LONG[3:])), ["长长长", LONG[3:]]),
    ],
)
def test_every_reader_finds_the_text_wherever_it_is(
    records: Records, content: str, pieces: tuple[Piece, ...], own: list[str]
) -> None:
    texts = [piece.text for piece in pieces]
    with records.writing() as tx:
        base = stored(tx, content, *pieces)
    with records.reading() as tx:
        assert own_texts(tx) == own
        keys = [key for key, _ in terms.texts(tx, base, 0)]
        assert [text for _, text in terms.texts(tx, base, 0)] == texts
        assert {key: one.text for key, one in chunks.by_keys(tx, base, keys).items()} == dict(
            zip(keys, texts, strict=True)
        )
        assert [one.text for one in chunks.document_chunks(tx, base, "d")] == texts
        assert [one.text for one in chunks.page(tx, base, "", 0, 10)] == texts
        assert [one.text for one in graph.unread(tx, base, "statistical:1", 0, 10)] == texts
        assert chunks.damaged_keys(tx, keys) == []
        assert [row.text for row in chunk_texts.rows_of_version(tx, 1, 1)] == texts


@pytest.mark.parametrize(("sets", "seen"), [((0,), [piece.text for piece in PARTS]), ((5,), [])])
def test_a_principal_reads_the_texts_of_what_it_may_see(
    records: Records, sets: tuple[int, ...], seen: list[str]
) -> None:
    with records.writing() as tx:
        base = stored(tx, CONTENT, *PARTS)
    with records.reading() as tx, restricting(tx, sets):
        assert [one.text for one in chunks.document_chunks(tx, base, "d")] == seen
        assert {one.text for one in chunks.by_keys(tx, base, [1, 2]).values()} == set(seen)
        assert [text for _, text in terms.texts(tx, base, 0)] == seen


def test_damage_to_the_one_text_is_found_in_the_document_and_in_the_chunk(records: Records) -> None:
    with records.writing() as tx:
        base = stored(tx, CONTENT, *PARTS)
        damaged = CONTENT.replace("门诊", "闩诊")
        tx.execute(update(VersionRow).values(content=damaged))
        keys = [key for key, _ in terms.texts(tx, base, 0)]
        assert [one.text for one in chunks.by_keys(tx, base, keys).values()] == [PARTS[0].text]
        assert {one.kind for one in checksums.damaged_rows(tx, base)} == {"damaged_document", "damaged_chunk"}
        assert checksums.mendable(tx, base) == []


def test_a_chunk_whose_version_is_missing_is_damaged(records: Records) -> None:
    with records.writing() as tx:
        base = stored(tx, CONTENT, WHOLE)
        tx.execute(update(VersionRow).values(generation=2))
        assert [one.kind for one in checksums.damaged_rows(tx, base)] == ["damaged_document", "damaged_chunk"]


def test_chunks_that_were_made_again_keep_their_keys(records: Records) -> None:
    """`replace_chunks` compares what is stored with what was made: a text that is in the version is no other one."""
    with records.writing() as tx:
        base = stored(tx, CONTENT, *PARTS)
        before = [key for key, _ in terms.texts(tx, base, 0)]
        assert chunks.replace_chunks(tx, base, 1, 1, Prepared(PARTS, None)) == before
        (kept, new) = chunks.replace_chunks(tx, base, 1, 1, Prepared((PARTS[0], UNDER_A_HEADER), None))
        assert kept == before[0]
        assert new not in before
        assert own_texts(tx) == ["", UNDER_A_HEADER.text]


def test_rows_of_an_earlier_program_are_read_as_they_are(records: Records) -> None:
    with records.writing() as tx:
        base = stored(tx, CONTENT, *PARTS)
        for key, text in terms.texts(tx, base, 0):
            tx.execute(update(ChunkRow).where(ChunkRow.key == key).values(text=text))
        assert own_texts(tx) == [piece.text for piece in PARTS]
        assert [one.text for one in chunks.document_chunks(tx, base, "d")] == [piece.text for piece in PARTS]
        assert list(checksums.damaged_rows(tx, base)) == []


def test_an_earlier_schema_has_every_text_with_its_chunk(records_url: str) -> None:
    opened = Records.open(records_url)
    with opened.writing() as tx:
        stored(tx, CONTENT, *PARTS, UNDER_A_HEADER)
    opened.close()
    engine = connect(records_url)
    downgrade(engine, "0019")
    with engine.begin() as tx:
        assert own_texts(tx) == [PARTS[0].text, PARTS[1].text, UNDER_A_HEADER.text]
    migrate(engine, HEAD)
    engine.dispose()


def test_an_updated_document_is_found_with_its_new_text_and_verified(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [doc("门诊", "门诊按八成报销"), doc("住院", "住院按九成报销")])
            await engine.add_documents(kb, [doc("门诊", "门诊按七成报销")])
            assert await found(engine, kb, "门诊报销") == {"门诊": "门诊按七成报销", "住院": "住院按九成报销"}
            assert (await engine.admin.verify(kb)).findings == ()
            await engine.admin.rebuild(kb)
            assert (await found(engine, kb, "门诊报销"))["门诊"] == "门诊按七成报销"

    asyncio.run(story())
