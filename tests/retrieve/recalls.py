"""Answers of every shape, for hypothesis: Chinese text, hostile metadata, halves of surrogate pairs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from qianxun.core.types import (
    EVERYTHING,
    And,
    ArmScore,
    Attributes,
    Chunk,
    Degraded,
    Eq,
    Filter,
    Found,
    Generation,
    In,
    Not,
    Or,
    Range,
    Recall,
    Spelled,
    StepTime,
)

told = st.sampled_from(
    ["医保报销比例", "ＡＢＣ１２３", "發票", '"引号"\\ \n\t', "\x00\x1f", "\ud800", "\ud83d\ude00", "😀", ""]
)
anything = st.text(st.characters(), max_size=20)  # halves of surrogate pairs included
texts = st.one_of(told, anything)
numbers = st.floats(allow_nan=False)
scalars = st.one_of(texts, st.integers(), numbers, st.booleans())
metadata = st.dictionaries(texts, st.one_of(scalars, st.lists(scalars, max_size=3).map(tuple)), max_size=4)
tuples = st.lists(texts, max_size=3).map(tuple)

attributes = st.builds(Attributes, texts, texts, texts, texts, tuples, metadata)
chunks = st.builds(
    Chunk,
    key=st.integers(0, 2**62),
    chunk_id=texts,
    doc_id=texts,
    doc_name=texts,
    index=st.integers(0, 99),
    text=texts,
    start=st.integers(0, 99),
    end=st.integers(0, 99),
    kind=st.sampled_from(["text", "table"]),
    headings=tuples,
    page=st.none() | st.integers(1, 9),
    generation=st.integers(1, 9),
    attributes=attributes,
)
arms = st.dictionaries(
    st.sampled_from(["vector", "keyword", "qa"]), st.builds(ArmScore, st.integers(), numbers, numbers)
)
found = st.builds(
    Found,
    chunks,
    numbers,
    st.sampled_from(["vector", "hybrid"]),
    arms,
    st.sampled_from(["strict", "document", "fuzzy"]),
    tuples,
    numbers,
    numbers,
    st.none() | numbers,
    tuples,
)
recalls = st.builds(
    Recall,
    texts,
    st.sampled_from(["hybrid", "vector", "fulltext"]),
    st.lists(found, max_size=3).map(tuple),
    st.lists(st.builds(Degraded, texts, texts), max_size=2).map(tuple),
    st.floats(0, 10),
    texts,
    tuples,
    st.lists(st.builds(StepTime, texts, st.floats(0, 1), st.integers(0, 99)), max_size=2).map(tuple),
    st.none() | st.builds(Generation, st.integers(0), st.integers(0), texts, texts),
    st.booleans(),
)
bounds = st.none() | st.integers() | numbers | texts
leaves: st.SearchStrategy[Filter] = st.one_of(
    st.just(EVERYTHING),
    st.builds(Eq, texts, scalars),
    st.builds(In, texts, st.lists(scalars, max_size=3).map(tuple)),
    st.builds(Range, texts, bounds, bounds, bounds, bounds),
    st.builds(Spelled, texts, texts, texts, texts),
)


def _grown(parts: Any) -> Any:
    several = st.lists(parts, max_size=3).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, parts))


filters: st.SearchStrategy[Filter] = st.recursive(leaves, _grown, max_leaves=6)


def answer(query: str = "住院报销比例", *texts_: str, **told_: Any) -> Recall:
    """A small answer whose chunks have these texts."""
    hits = tuple(
        Found(
            Chunk(at, f"c_1001_d_{at}", "d", "手册.md", at, text, 0, len(text), "text", (), None, 1, Attributes("d")),
            1.0 / at,
            "keyword",
            {"keyword": ArmScore(at, 3.0, 1.0 / at)},
            "strict",
        )
        for at, text in enumerate(texts_, 1)
    )
    return Recall(query, "hybrid", hits, **told_)
