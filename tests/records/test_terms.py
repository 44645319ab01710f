"""The words of a base with their vectors: kept per base and per model, gone with either."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import Connection, func, select

from qianxun.core.types import Document, Piece, Prepared, Submission, Vectors
from qianxun.records import Records, bases, documents, terms
from qianxun.records.schema import TermRow

TENANT = "local"


def made(tx: Connection, name: str) -> int:
    return bases.create(tx, name, tenant=TENANT, embedding_model="m", dimension=2).id


def rows(*values: float) -> Vectors:
    return np.array([[value, 1.0] for value in values], dtype=np.float32)


def test_terms_come_back_in_order_with_their_vectors(records: Records) -> None:
    with records.writing() as tx:
        base = made(tx, "一")
        terms.store(tx, base, "m", ["颈部", "嗓子"], rows(0.5, 0.25))
        terms.store(tx, base, "m", ["颈部"], rows(0.75))  # again: in the place of what was held
    with records.reading() as tx:
        words, vectors = terms.learnt(tx, base, "m", 2)
        assert words == ("嗓子", "颈部")
        assert vectors.tolist() == [[0.25, 1.0], [0.75, 1.0]]
        assert terms.stored(tx, base, "m", 2) == {"嗓子", "颈部"}


def test_nothing_learnt_is_an_empty_table(records: Records) -> None:
    with records.writing() as tx:
        base = made(tx, "一")
        words, vectors = terms.learnt(tx, base, "m", 2)
    assert words == ()
    assert vectors.shape == (0, 2)


def test_a_vector_of_another_dimension_is_left_out(records: Records) -> None:
    with records.writing() as tx:
        base = made(tx, "一")
        terms.store(tx, base, "m", ["颈部"], rows(0.5))
        assert terms.learnt(tx, base, "m", 3)[0] == ()
        assert terms.stored(tx, base, "m", 3) == set()  # so that it is learnt anew
        terms.store(tx, base, "m", ["颈部"], np.ones((1, 3), dtype=np.float32))
        assert terms.stored(tx, base, "m", 3) == {"颈部"}
        assert terms.stored(tx, base, "m", 2) == set()


def test_bases_and_models_are_kept_apart(records: Records) -> None:
    with records.writing() as tx:
        one, other = made(tx, "一"), made(tx, "二")
        terms.store(tx, one, "m", ["颈部", "嗓子"], rows(0.5, 0.5))
        terms.store(tx, one, "n", ["颈部"], rows(0.5))
        terms.store(tx, other, "m", ["颈部"], rows(0.5))
        terms.remove(tx, one, "m", ["嗓子"])
        assert terms.stored(tx, one, "m", 2) == terms.stored(tx, other, "m", 2) == {"颈部"}
        terms.remove_other_models(tx, one, "n")
        assert terms.stored(tx, one, "m", 2) == set()
        assert terms.stored(tx, one, "n", 2) == terms.stored(tx, other, "m", 2) == {"颈部"}


def test_a_removed_base_leaves_no_term(records: Records) -> None:
    with records.writing() as tx:
        one, other = made(tx, "一"), made(tx, "二")
        for base in (one, other):
            terms.store(tx, base, "m", ["颈部"], rows(0.5))
        bases.remove(tx, one, tenant=TENANT)
        assert tx.execute(select(func.count()).select_from(TermRow)).scalar_one() == 1
        assert terms.stored(tx, other, "m", 2) == {"颈部"}


def test_more_terms_than_one_statement_takes(records: Records) -> None:
    many = [f"词{number}" for number in range(1_200)]
    with records.writing() as tx:
        base = made(tx, "一")
        terms.store(tx, base, "m", many, np.ones((len(many), 2), dtype=np.float32))
        assert len(terms.stored(tx, base, "m", 2)) == len(many)
        terms.remove(tx, base, "m", many)
        assert terms.stored(tx, base, "m", 2) == set()


def test_only_what_serves_is_read_a_page_at_a_time(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "PAGE", 2)

    def taken(tx: Connection, base: int, doc_id: str, *said: str) -> None:
        prepared = Prepared(tuple(Piece(0, len(text), text) for text in said), None)
        documents.accept(tx, base, [Submission(Document(doc_id, "".join(said)), "".join(said), prepared=prepared)])

    with records.writing() as tx:
        one, other = made(tx, "一"), made(tx, "二")
        taken(tx, one, "旧", "甲", "乙")
        taken(tx, other, "别", "丙")
        taken(tx, one, "旧", "丁")  # the version before it stays until the index has let go of it
        taken(tx, one, "新", "戊", "己")
    with records.reading() as tx:
        assert terms.chunk_count(tx, one) == 3
        first = terms.texts(tx, one, 0)
        second = terms.texts(tx, one, first[-1][0])
        assert [text for _, text in (*first, *second)] == ["丁", "戊", "己"]
        assert terms.texts(tx, one, second[-1][0]) == []
        every_other = terms.texts(tx, one, 0, every=2)
        assert [key for key, _ in every_other] == [key for key, _ in (*first, *second) if key % 2 == 0]
