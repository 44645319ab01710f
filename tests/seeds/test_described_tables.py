"""Document 001, 2.2: a document whose metadata have ``table_title``, ``table_headers``, ``table_type`` is a table, and
one whose title is asked for is found by its structure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from qianxun.core.layered_types import LayeredResult
from qianxun.core.types import Document, Vector, Vectors
from qianxun.engine.settings import Search
from qianxun.testing.scripted import HashEmbedding
from tests.answer.asked import Opened
from tests.layered.base import documents

# The keys that the document's `_calculate_structure_match` reads.
METADATA = {"table_title": "糖尿病用药表", "table_headers": ["药品", "剂量", "用法"], "table_type": "用药"}
ROWS = "胰岛素 10单位 皮下注射\n二甲双胍 500mg 口服"


def described(doc_id: str, content: str, **metadata: Any) -> Document:
    return Document(doc_id, content, name=f"{doc_id}.txt", metadata={**METADATA, **metadata})


LIBRARY = [
    described("空格", ROWS),
    described(
        "逐项", "车型：轿车，费用：12元。\n车型：货车，费用：30元。", table_title="过路费", table_headers="车型、费用"
    ),
    described(
        "叙述",
        "各部门的预算以财务处的通知为准，逾期不再受理。" * 40,
        table_title="年度预算",
        table_headers=["部门", "金额"],
    ),
    described(
        "竖线", "| 班次 | 发车 |\n| --- | --- |\n| 早班 | 6:30 |\n", table_title="班车时刻", table_type="schedule"
    ),
    Document("说明", "糖尿病的说明文字。", name="说明.txt"),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("described"), LIBRARY, search=Search(cache_entries=0)) as opened:
        yield opened


def tables(shelf: Opened, query: str) -> Sequence[LayeredResult]:
    return shelf.run(shelf.engine.search_tables(shelf.kb, query)).results


def test_the_lines_of_the_text_are_its_rows(shelf: Opened) -> None:
    first = tables(shelf, "糖尿病用药表")[0]
    assert first.doc_id == "空格"
    assert first.table is not None
    assert (first.table.title, first.table.type) == ("糖尿病用药表", "用药")
    assert [column.name for column in first.table.columns] == ["药品", "剂量", "用法"]
    assert "| 胰岛素 | 10单位 | 皮下注射 |" in first.content
    assert first.match_details["structure"]["type"] == 1.0


def test_its_cells_answer(shelf: Opened) -> None:
    answer = shelf.run(shelf.engine.search_tables(shelf.kb, "胰岛素的用法是什么")).answer
    assert answer is not None
    assert (answer.sure, "皮下注射" in answer.text) == (True, True)


def test_a_line_that_names_its_columns_is_a_row(shelf: Opened) -> None:
    first = tables(shelf, "过路费")[0]
    assert first.doc_id == "逐项"
    assert "| 货车 | 30元 |" in first.content


def test_what_cannot_be_cut_into_columns_is_found_whole_and_has_no_cells(shelf: Opened) -> None:
    first = tables(shelf, "年度预算")[0]
    assert first.doc_id == "叙述"
    assert first.table is not None
    assert (first.table.rows, [column.name for column in first.table.columns]) == (0, ["部门", "金额"])
    chunks = shelf.run(shelf.engine.chunks(shelf.kb, "叙述"))
    assert {chunk.kind for chunk in chunks} == {"table"}
    assert "".join(chunk.text for chunk in chunks).count("逾期不再受理") == 40


def test_a_table_of_its_own_gets_the_title(shelf: Opened) -> None:
    first = tables(shelf, "班车时刻")[0]
    assert first.doc_id == "竖线"
    assert first.table is not None
    assert (first.table.title, first.table.type) == ("班车时刻", "schedule")
    assert "班车时刻" in first.content


def test_text_without_such_metadata_stays_text(shelf: Opened) -> None:
    assert "说明" not in {result.doc_id for result in tables(shelf, "糖尿病的说明文字")}
    assert shelf.run(shelf.engine.search_texts(shelf.kb, "糖尿病的说明文字")).results[0].doc_id == "说明"


# ── an exact title under a model without calibration ─────────────────────────────────────────────


class EightTenths(HashEmbedding):
    """Every passage lies at a cosine of .8 from every query."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return np.tile(np.eye(1, self.dimension, dtype=np.float32), (len(texts), 1))

    def embed_query(self, text: str) -> Vector:
        vector = np.zeros(self.dimension, dtype=np.float32)
        vector[:2] = 0.8, 0.6
        return vector


@pytest.mark.parametrize("library", [documents(), documents()[4:5]], ids=["three tables", "one table"])
def test_an_exactly_titled_table_is_found_by_structure(
    tmp_path_factory: pytest.TempPathFactory, library: Sequence[Document]
) -> None:
    with Opened(tmp_path_factory.mktemp("titles"), library, EightTenths()) as opened:
        first = tables(opened, "办公用品价目表")[0]
        assert (first.doc_id, first.strategy, first.layer) == ("价目", "structure", 1)
        assert first.score >= 0.65
