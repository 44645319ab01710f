"""Stored tables in memory: what was written or deleted since is never answered from them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.bases.table_cache import TableCache
from qianxun.core.types import Document
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
    assert cache.once("a", make) is cache.once("a", make)
    assert len(made) == 1
