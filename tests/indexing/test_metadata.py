"""Metadata as callers write it in Python: what can be held is held, the rest is refused before anything is stored."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.ingest_types import Labels
from qianxun.core.types import Eq
from qianxun.indexing.read import checked_metadata

UNFIT: dict[str, Any] = {
    "an object": {"b": 1},
    "lists in a list": [[1]],
    "objects in a list": [{"b": 1}],
    "nothing in a list": [None],
    "a set": {1},
    "a date": date(2024, 5, 1),
    "a decimal": Decimal("1.5"),
    "bytes": b"x",
}


def test_lists_are_held_as_tuples_and_what_has_no_value_is_left_out() -> None:
    told = {"地区": ["京", "沪"], "年": 2024, "比": 0.5, "真": True, "空": None, "并": ("a", 1)}
    held = {"地区": ("京", "沪"), "年": 2024, "比": 0.5, "真": True, "并": ("a", 1)}
    assert checked_metadata(told) == held
    assert checked_metadata(held) == held


@pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT)
def test_any_other_value_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(BadInput, match=r"metadata\.甲 .*不能是"):
        checked_metadata({"甲": value})


def test_a_name_is_text() -> None:
    with pytest.raises(BadInput, match="键 1 不是文字"):
        checked_metadata({1: "x"})


@pytest.mark.parametrize("wait", [True, False])
def test_a_document_that_could_not_be_indexed_keeps_no_other_waiting(tmp_path: Path, wait: bool) -> None:
    """It was stored, and from then on every write to the base failed with a TypeError of the index."""

    async def story() -> None:
        async with Engine.open(tmp_path) as engine:
            base = (await engine.create_knowledge_base("a", model="none")).id
            nested: dict[str, Any] = {"作者": {"姓": "张"}}
            with pytest.raises(BadInput, match=r"metadata\.作者"):
                await engine.add_documents(base, [Document("坏", "住院报销", metadata=nested)], wait=wait)
            with pytest.raises(NotFound):
                await engine.document(base, "坏")
            listed: dict[str, Any] = {"地区": ["京", "沪"]}
            await engine.add_documents(base, [Document("好", "门诊报销", metadata=listed)])
            assert (await engine.document(base, "好")).status == "indexed"
            found = await engine.retrieve(base, "报销", where=Eq("metadata.地区", "沪"))
            assert [each.chunk.attributes.metadata for each in found.found] == [{"地区": ("京", "沪")}]
            again = await engine.add_documents(base, [Document("好", "门诊报销", metadata=listed)])
            assert [each.outcome for each in again] == ["unchanged"]

    asyncio.run(story())


def test_a_base_that_holds_such_a_document_opens_again(tmp_path: Path) -> None:
    """Stored before it was refused, it kept the base from being opened, and so from losing it."""
    nested = {"作者": {"姓": "张"}, "地区": ["京", ["沪"]]}

    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            base = (await engine.create_knowledge_base("a", model="none")).id
            await engine.add_documents(base, [Document("旧", "住院报销", metadata={"年": 2024})], wait=False)
            with engine.records.writing() as tx:
                tx.exec_driver_sql("UPDATE document_versions SET checksum = NULL, metadata = ?", (json.dumps(nested),))
        async with Engine.open(tmp_path) as engine:
            await engine.add_documents(base, [Document("新", "门诊报销")])
            (chunk,) = await engine.chunks(base, "旧")
            assert chunk.attributes.metadata == {"作者": '{"姓": "张"}', "地区": ("京", '["沪"]')}
            assert {each.chunk.doc_id for each in (await engine.retrieve(base, "报销")).found} == {"旧", "新"}
            assert (await engine.admin.verify(base)).is_clean
            assert await engine.delete_document(base, "旧")

    asyncio.run(story())


def test_a_label_that_cannot_be_held_refuses_the_file(tmp_path: Path) -> None:
    (tmp_path / "手册.txt").write_text("住院报销 85%。", encoding="utf-8")

    async def story() -> None:
        async with Engine.open(tmp_path / "data") as engine:
            base = (await engine.create_knowledge_base("a", model="none")).id
            wrong: dict[str, Any] = {"作者": {"姓": "张"}}
            report = await engine.add(base, [tmp_path / "手册.txt"], labels=Labels(metadata=wrong))
            assert ["metadata.作者" in each.reason for each in report.refused] == [True]
            right: dict[str, Any] = {"作者": ["张", "李"]}
            assert (await engine.add(base, [tmp_path / "手册.txt"], labels=Labels(metadata=right))).added == 1

    asyncio.run(story())
