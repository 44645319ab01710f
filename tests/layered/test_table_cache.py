"""Stored tables in memory: what was written or deleted since is never answered from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from qianxun.answer.tables.sheet import SHEET_BYTES, Sheet
from qianxun.bases.base import OpenBase, Serving
from qianxun.bases.table_cache import CELL_BYTES, MOST_BYTES, MOST_DERIVED_BYTES, TableCache
from qianxun.core.layered_types import TableInput
from qianxun.core.types import Chunk, Column, Document, Table
from qianxun.retrieve import candidate_pool
from qianxun.retrieve.fuse import Candidates
from qianxun.retrieve.layered import search, tables
from qianxun.retrieve.layered.table_rows import RowGroups
from qianxun.retrieve.query_plan import QueryPlan
from tests.answer.asked import Opened
from tests.layered.base import opened

FEES = "挂号费用\n| 科室 | 挂号费（元） |\n| --- | --- |\n| 骨科 | {fee} |\n| 儿科 | 12 |\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with opened(tmp_path_factory.mktemp("tables")) as held:
        yield held


def fee(held: Opened) -> str:
    answer = held.run(held.engine.search_tables(held.kb, "骨科的挂号费")).answer
    return answer.text if answer is not None and answer.sure else ""


def test_every_answer_is_that_of_the_records(base: Opened) -> None:
    async def write(amount: int) -> None:
        await base.engine.add_documents(base.kb, [Document("挂号", FEES.format(fee=amount))])

    assert fee(base) == ""
    base.run(write(25))
    assert fee(base) == fee(base) == "25元"  # read, and from memory
    base.run(write(30))
    assert fee(base) == "30元"
    base.run(base.engine.delete_document(base.kb, "挂号"))
    found = base.run(base.engine.search_tables(base.kb, "骨科的挂号费"))
    assert "挂号" not in {result.doc_id for result in found.results}
    assert found.answer is None or "30" not in found.answer.text


def test_another_state_of_the_records_begins_anew() -> None:
    cache = TableCache(3)
    cache.table_of[1] = 2
    assert cache.for_state(3) is cache
    assert not cache.for_state(4).table_of


def test_what_is_made_of_a_table_is_made_once() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return made

    cache = TableCache(1)
    assert cache.once("a", make, len) is cache.once("a", make, len)
    assert len(made) == 1


def test_what_is_made_of_tables_is_bounded_in_bytes() -> None:
    cache, half = TableCache(1), MOST_DERIVED_BYTES // 2
    for name in "abc":
        cache.once(name, lambda name=name: [name], lambda _: half)  # type: ignore[misc]
    assert len(cache.derived) == 2
    assert cache.derived.size <= MOST_DERIVED_BYTES
    assert cache.once("a", lambda: ["again"], lambda _: half) == ["again"]
    assert cache.once("d", lambda: ["large"], lambda _: 3 * half) == ["large"]
    assert cache.derived.get("d") is None


def test_of_the_largest_table_that_is_remembered_the_sheet_is_too() -> None:
    columns = (Column("名称", ("名称",)), Column("数", ("数",)))
    table = Table("", columns, (("甲", "1"),) * 5, (("甲", "1"),) * 5)
    per_cell = Sheet(TableInput("t", table)).size() - SHEET_BYTES
    assert SHEET_BYTES + MOST_BYTES / CELL_BYTES * per_cell / 10 <= MOST_DERIVED_BYTES


def test_what_a_table_shows_is_cut_out_once(base: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[object] = []
    whole = tables.row_groups

    def counted(*given: Any) -> RowGroups:
        cut.append(given)
        return whole(*given)

    monkeypatch.setattr(tables, "row_groups", counted)
    base.run(base.engine.add_documents(base.kb, [Document("挂号", FEES.format(fee=25))]))
    first = base.run(base.engine.search_tables(base.kb, "骨科的挂号费")).results
    count = len(cut)
    again = base.run(base.engine.search_tables(base.kb, "儿科的挂号费")).results
    assert count
    assert len(cut) - count <= len({one.doc_id for one in again} - {one.doc_id for one in first})


def test_in_other_words_nothing_is_read_again(base: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    base.run(base.engine.configure(base.kb, {"synonyms": [["价钱", "单价", "品名"]]}))
    keys: list[int] = []
    read, gather, gathered = candidate_pool.chunks_by_keys, search.gather, list[str]()

    async def counted(base: OpenBase, wanted: Sequence[int]) -> dict[int, Chunk]:
        keys.extend(wanted)
        return await read(base, wanted)

    async def noted(base: OpenBase, serving: Serving, plan: QueryPlan, *given: Any) -> Candidates:
        gathered.extend(plan.texts)
        return await gather(base, serving, plan, *given)

    monkeypatch.setattr(candidate_pool, "chunks_by_keys", counted)
    monkeypatch.setattr(search, "gather", noted)
    base.run(base.engine.search_tables(base.kb, "复印纸的价钱", answer=False))
    assert "复印纸的单价" in gathered
    assert len(keys) == len(set(keys)) > 0
