"""Entries and filters to try an index with: every kind of attribute, hostile values among them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from qianxun.core.types import (
    And,
    Attributes,
    Eq,
    Filter,
    In,
    IndexEntry,
    IndexStamp,
    Not,
    Or,
    Range,
    Ranking,
    Scalar,
    Spelled,
    Vector,
    VectorField,
)

DIMENSION = 16
STAMP = IndexStamp(model="测试模型", dimension=DIMENSION, analysis="1")
WORDLESS = IndexStamp(model="", dimension=0, analysis="1")
HOSTILE = (
    "", "'", '"', '" or 1==1', "x' OR '1'='1", "a\0b", "%", "_", "*", "\\", "🧧", "发票\n", "user_id:张三", "[1 TO 9]",
    "TRUE", "1", "1.0", "长" * 3000, "é", "e\u0301",
)  # fmt: skip
NUMBERS: tuple[Scalar, ...] = (0, 1, 1.0, -1, 2.5, 2023, 2024, 2**40, True, False)
FIELDS = (
    "doc_id", "user_id", "project_id", "content_type", "tags", "metadata.年份", "metadata.部门", "metadata.混合",
    "metadata.没有", "metadata.a.b",
)  # fmt: skip


def unit(seed: int, dimension: int = DIMENSION) -> Vector:
    """A unit vector that depends on nothing but its seed, rounded to half precision as vectors of models are."""
    vector = np.random.default_rng(seed).normal(size=dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float16).astype(np.float32)


def entry(
    key: int,
    document: int,
    words: str = "医保 报销",
    *,
    grams: str = "",
    vector: Vector | None = None,
    attributes: Attributes | None = None,
    field: VectorField = "content",
) -> IndexEntry:
    """An entry with its own vector unless another is given."""
    owner = attributes or Attributes(doc_id=f"文档{document}")
    return IndexEntry(key, document, words, grams, unit(key) if vector is None else vector, owner, field)


def library(size: int = 80) -> Mapping[int, IndexEntry]:
    """Entries with every kind of attribute, hostile ones among them; the word 共 is in all of them."""
    chance = random.Random(7)
    entries = {}
    for key in range(1, size + 1):
        metadata: dict[str, Any] = {"年份": chance.choice((2020, 2021.0, 2022, 2023))}
        if chance.random() < 0.7:
            metadata["部门"] = chance.choice(("财务部", "人事部", "🧧", *HOSTILE))
        if chance.random() < 0.7:
            metadata["混合"] = chance.choice((True, 1, "1", 1.5, ("甲", 2, False), (), 2**40))
        if chance.random() < 0.3:
            metadata["a.b"] = chance.choice(NUMBERS)
        attributes = Attributes(
            doc_id=f"文档{key}",
            user_id=chance.choice(("张三", "李四", *HOSTILE)),
            project_id=chance.choice(("", "p1")),
            content_type=chance.choice(("chapter", "表格")),
            tags=tuple(chance.sample(("医保", "社保", "', '", ""), chance.randrange(3))),
            metadata=metadata,
        )
        entries[key] = entry(key, 1000 + key, f"共 词{key} 词{key % 5}", grams="共 字", attributes=attributes)
    return entries


def filters() -> st.SearchStrategy[Filter]:
    """Any filter over the library's fields."""
    fields = st.sampled_from(FIELDS)
    known: tuple[Scalar, ...] = (*HOSTILE, *NUMBERS, "张三", "李四", "chapter", "表格", "医保", "财务部", "p1", "文档3")
    scalars = st.one_of(st.sampled_from(known), st.integers(-3, 3000), st.floats(allow_nan=True), st.text(max_size=4))
    bounds = st.one_of(
        st.none(), st.integers(2019, 2025), st.floats(allow_nan=False), st.sampled_from(("", "人", "甲", "z", "1"))
    )
    parts = st.one_of(st.just(""), st.sampled_from((*HOSTILE, "财", "部", "三", "务", "a", "cha", "er", "1", "\u0301")))
    leaves: st.SearchStrategy[Filter] = st.one_of(
        st.builds(Eq, fields, scalars),
        st.builds(In, fields, st.lists(scalars, max_size=4).map(tuple)),
        st.builds(Range, fields, bounds, bounds, bounds, bounds),
        st.builds(Spelled, fields, parts, parts, parts),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(And, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Not, inner),
        ),
        max_leaves=6,
    )


def keys_of(ranking: Ranking) -> list[int]:
    return [hit.key for hit in ranking.hits]
