"""Whatever a document holds, every database gives it back as it was, or refuses it in words, and goes on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import strategies as st

from qianxun.core.errors import BadInput
from qianxun.core.types import (
    Column,
    Document,
    Mark,
    Piece,
    Prepared,
    QAPair,
    Question,
    Submission,
    Table,
    TableSpan,
    Text,
)
from qianxun.records import Records, bases, documents
from tests.hypothesis_settings import examples

NASTY = ["\x00", "\ud800", "\udfff"]
odd = st.text(st.one_of(st.sampled_from("\\'\"%\x1a\x7f\ufffe医{}[]"), st.characters(exclude_categories=["Cs"])))
clean = odd.map(lambda text: text.replace("\x00", "")[:12])
hostile = st.tuples(clean, st.sampled_from([""] * 60 + NASTY)).map("".join)
numbers = st.one_of(st.floats(), st.integers(-(2**70), 2**70), st.booleans(), st.none())


@pytest.fixture
def records(records_url: str) -> Iterator[Records]:
    opened = Records.open(records_url)
    with opened.writing() as tx:
        bases.create(tx, "医保", tenant="甲")
    yield opened
    opened.close()


@st.composite
def tables(draw: st.DrawFn) -> TableSpan:
    cells = draw(st.lists(st.one_of(hostile, numbers), min_size=1, max_size=3))
    columns = tuple(Column(draw(hostile), (draw(hostile),), "text", draw(hostile)) for _ in cells)
    shown = tuple(draw(hostile) for _ in cells)
    return TableSpan(0, 1, Table(draw(hostile), columns, (tuple(cells),), (shown,), draw(hostile), draw(hostile)), (0,))


@st.composite
def offers(draw: st.DrawFn) -> Submission:
    content = draw(hostile)
    structure = Text(content, (Mark(0, 1, draw(hostile)),), tuple(draw(st.lists(tables(), max_size=1))), ())
    metadata: Any = draw(st.dictionaries(hostile, st.one_of(hostile, numbers, st.tuples(hostile, numbers)), max_size=2))
    document = Document(
        "d" + draw(hostile), content, name=draw(hostile), content_type=draw(hostile), user_id=draw(hostile),
        project_id=draw(hostile), tags=(draw(hostile),), metadata=metadata, structure=structure,
        pairs=tuple(draw(st.lists(st.builds(QAPair, hostile, hostile), max_size=1))), source=draw(hostile),
    )  # fmt: skip
    piece = Piece(0, len(content), content, lead=draw(clean), headings=(draw(clean),))
    asked = tuple(Question(pair, 0, "given") for pair in document.pairs)
    vectors = np.zeros((1, 4), dtype=np.float32)
    ready = Prepared((piece,), vectors, "m", asked, vectors[: len(asked)] if asked else None)
    return Submission(document, "mark", None, ready if draw(st.booleans()) else None)


@examples(60, suppress_health_check=list(HealthCheck))
@given(offer=offers())
def test_a_document_comes_back_as_it_was_or_is_refused(records: Records, offer: Submission) -> None:
    with records.writing() as tx:
        nested = tx.begin_nested()
        try:
            (taken,) = documents.accept(tx, 1001, [offer])
        except BadInput:
            nested.rollback()
            return
        event("taken in")
        loaded = documents.load(tx, taken.document_key, taken.generation)
        nested.rollback()
    assert repr(loaded) == repr(_as_kept(offer.document))


def _as_kept(document: Document) -> Document:
    """A cell that is no number in JSON has only the text that is shown of it."""
    assert document.structure is not None
    spans = []
    for span in document.structure.tables:
        rows = tuple(tuple(None if _is_endless(cell) else cell for cell in row) for row in span.table.rows)
        spans.append(replace(span, table=replace(span.table, rows=rows)))
    return replace(document, structure=replace(document.structure, tables=tuple(spans)))


def _is_endless(cell: object) -> bool:
    return isinstance(cell, float) and not math.isfinite(cell)
