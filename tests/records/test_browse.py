"""Looking through the documents of a base: pages, conditions, fields and values, one document in full, retries."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.filters import Eq, Not, Or, Range
from qianxun.core.ingest_types import DocumentQuery
from qianxun.core.types import Document, QAPair, Text
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load

MARKDOWN = "# 报销\n\n住院报销 85%。\n\n| 医院 | 比例 |\n| --- | --- |\n| 三级 | 85% |\n"


@pytest.fixture
def url(records_url: str) -> str:
    return "" if records_url.startswith("sqlite") else records_url


async def opened_page(engine: Engine, base: int, **query: object) -> list[str]:
    return [state.doc_id for state in (await engine.contents.page(base, DocumentQuery(**query))).documents]  # type: ignore[arg-type]


def run(folder: Path, url: str, story) -> None:  # type: ignore[no-untyped-def]
    async def work() -> None:
        settings = load(environment={}, arguments={"data": str(folder), "records.url": url}, folder=folder)
        async with Engine.open(settings=settings, background=False) as engine:
            base = await engine.create_knowledge_base("医保", model="none")
            await story(engine, base.id)

    asyncio.run(work())


def test_documents_are_chosen_by_what_is_known_of_them(tmp_path: Path, url: str) -> None:
    async def story(engine: Engine, base: int) -> None:
        await engine.add_documents(
            base,
            [
                Document("a", "甲", name="报销_须知.pdf", content_type="guide", metadata={"年份": 2025, "公开": True}),
                Document("b", "乙", name="报销办法.docx", metadata={"年份": 2026, "部门": '医"保'}),
                Document("c", "丙", name="100%.pdf", metadata={"年份": "2026"}, tags=("新",)),
            ],
        )
        assert await opened_page(engine, base) == ["a", "b", "c"]
        assert await opened_page(engine, base, name="报销") == ["a", "b"]
        assert await opened_page(engine, base, name="销_") == ["a"]
        assert await opened_page(engine, base, name="%") == ["c"]
        assert await opened_page(engine, base, suffix="pdf") == ["a", "c"]
        assert await opened_page(engine, base, content_type="guide") == ["a"]
        assert await opened_page(engine, base, field="年份", value=2026) == ["b"]
        assert await opened_page(engine, base, field="年份", value="2026") == ["c"]
        assert await opened_page(engine, base, field="公开", value=True) == ["a"]
        assert await opened_page(engine, base, field="部门", value='医"保') == ["b"]
        assert await opened_page(engine, base, field='x"]', value="'") == []
        assert await opened_page(engine, base, status="indexed") == ["a", "b", "c"]
        assert await opened_page(engine, base, status="failed") == []
        await engine.add_documents(base, [Document("d", "丁")], wait=False)
        assert await opened_page(engine, base, status="pending") == ["d"]

    run(tmp_path, url, story)


def test_documents_are_listed_by_the_filters_of_searches_folder_day_and_time(tmp_path: Path, url: str) -> None:
    async def story(engine: Engine, base: int) -> None:
        dated = {"valid_from": "2024-01-01", "valid_until": "2024-12-31"}
        before = datetime.now(UTC)
        await engine.add_documents(
            base,
            [
                Document("a", "甲", name="丙.md", metadata={"年份": 2025, "path": "制度/考勤/丙.md"}, tags=("新",)),
                Document("b", "乙", name="乙.md", metadata={"年份": 2026, "path": "制度/乙.md", **dated}),
                Document("c", "丙", name="甲.md", metadata={"path": "制度二/甲.md"}, user_id="u_1"),
            ],
        )
        chosen = partial(opened_page, engine, base)
        assert await chosen(where=Eq("metadata.年份", 2026)) == ["b"]
        assert await chosen(where=Range("metadata.年份", ge=2025)) == ["a", "b"]
        assert await chosen(where=Or((Eq("user_id", "u_1"), Eq("tags", "新")))) == ["a", "c"]
        assert await chosen(where=Not(Eq("doc_id", "b")), name="丙") == ["a"]
        assert await chosen(folder="制度") == ["a", "b"]
        assert await chosen(folder="制度/考勤/") == ["a"]
        assert await chosen(valid_on="2024-06-01") == ["a", "b", "c"]
        assert await chosen(valid_on="2025-06-01") == ["a", "c"]
        later = {"valid_from": "2024-07-01", "supersedes": ("乙",)}
        await engine.add_documents(base, [Document("d", "丁", name="丁.md", metadata=later)])
        for day in ("2024-06-01", "2024-08-01", "2025-06-01"):  # one that is replaced is in force until then
            found = (await engine.retrieve(base, "甲乙丙丁", mode="fulltext", as_of=day)).results
            assert await chosen(valid_on=day) == sorted(one.chunk.doc_id for one in found)
        assert await chosen(valid_on="2024-08-01") == ["a", "c", "d"]
        await engine.delete_document(base, "d")
        assert await chosen(since=before) == ["a", "b", "c"]
        assert await chosen(until=before) == []
        assert sorted(await chosen(order="name")) == ["a", "b", "c"]
        page = await engine.contents.page(base, DocumentQuery(folder="制度"), limit=1, counted=True)
        assert (page.total, len(page.documents), page.next) == (2, 1, "a")
        filtered = DocumentQuery(where=Range("metadata.年份", ge=2025))
        page = await engine.contents.page(base, filtered, limit=1, counted=True)
        assert (page.total, page.next) == (2, "a")
        rest = await engine.contents.page(base, filtered, limit=1, after=page.next)
        assert ([state.doc_id for state in rest.documents], rest.next, rest.total) == (["b"], "", None)
        with pytest.raises(BadInput):
            await chosen(valid_on="没有这一天")

    run(tmp_path, url, story)


@pytest.mark.parametrize("order", ["id", "name", "newest", "oldest"])
def test_pages_have_every_document_once(tmp_path: Path, url: str, order: str) -> None:
    async def story(engine: Engine, base: int) -> None:
        await engine.add_documents(base, [Document(f"d{number:02}", "文") for number in range(23)])
        await engine.add_documents(base, [Document("d05", "改了的文")])
        seen: list[str] = []
        after = ""
        while True:
            page = await engine.contents.page(base, DocumentQuery(order=order), limit=5, after=after)  # type: ignore[arg-type]
            seen += [state.doc_id for state in page.documents]
            after = page.next
            if not after:
                break
        assert len(seen) == len(set(seen)) == 23
        assert seen[0] == ("d05" if order == "newest" else "d00")
        if order == "newest":
            with pytest.raises(BadInput):
                await engine.contents.page(base, DocumentQuery(order=order), after="never")  # type: ignore[arg-type]

    run(tmp_path, url, story)


def test_facets_are_the_fields_of_the_documents_and_their_values(tmp_path: Path) -> None:
    async def story(engine: Engine, base: int) -> None:
        await engine.add_documents(
            base,
            [
                Document("a", "甲", content_type="guide", metadata={"年份": 2025}, tags=("新", "公开")),
                Document("b", "乙", content_type="guide", metadata={"年份": 2026}, tags=("新",)),
                Document("c", "丙", metadata={"年份": 2026}),
            ],
        )
        found = {facet.field: facet.values for facet in await engine.contents.facets(base)}
        assert found["content_type"] == (("guide", 2),)
        assert found["tags"] == (("新", 2), ("公开", 1))
        assert found["metadata.年份"] == ((2026, 2), (2025, 1))
        assert "user_id" not in found

    run(tmp_path, "", story)


def test_a_document_is_shown_with_its_text_tables_questions_and_names(tmp_path: Path) -> None:
    async def story(engine: Engine, base: int) -> None:
        pair = QAPair("住院报销多少", "85%")
        await engine.add_documents(base, [Document("a", MARKDOWN, format="markdown", pairs=(pair,))])
        await engine.admin.build_graph(base)
        shown = await engine.contents.document(base, "a")
        assert shown.state.status == "indexed"
        assert [span.table.columns[0].name for span in shown.text.tables] == ["医院"]
        for chunk in shown.chunks:
            assert shown.text.content[chunk.start : chunk.end] in chunk.text
        assert [(one.question, one.origin) for one in shown.pairs] == [("住院报销多少", "given")]
        with pytest.raises(NotFound):
            await engine.contents.document(base, "none")

    run(tmp_path, "", story)


def test_a_preview_cuts_as_the_size_would_and_changes_nothing(tmp_path: Path) -> None:
    async def story(engine: Engine, base: int) -> None:
        await engine.add_documents(base, [Document("a", "这是一句话。" * 100)])
        before = await engine.contents.document(base, "a")
        pieces = await engine.contents.preview(before.text, 60, 0)
        assert [len(piece.body) for piece in pieces] == [60] * 10
        assert (await engine.contents.document(base, "a")).chunks == before.chunks
        with pytest.raises(BadInput):
            await engine.contents.preview(Text("甲"), 10, 10)

    run(tmp_path, "", story)


def test_many_documents_are_deleted_at_once_and_given_up_ones_tried_again(tmp_path: Path, url: str) -> None:
    async def story(engine: Engine, base: int) -> None:
        await engine.add_documents(base, [Document(f"d{number}", f"第 {number} 篇") for number in range(6)])
        assert await engine.contents.delete(base, ["d0", "d1", "d1", "none"]) == 2
        assert len((await engine.retrieve(base, "第 1 篇", top_k=50)).results) == 4
        with engine.records.writing() as tx:
            from sqlalchemy import update

            from qianxun.records.schema import DocumentRow

            tx.execute(update(DocumentRow).where(DocumentRow.doc_id == "d2").values(status="quarantined", attempts=5))
        assert await engine.contents.retry(base, ["d2", "d3"]) == 1
        await engine.drain(base)
        assert (await engine.document(base, "d2")).status == "indexed"
        assert json.dumps((await engine.document(base, "d2")).attempts) == "0"

    run(tmp_path, url, story)
