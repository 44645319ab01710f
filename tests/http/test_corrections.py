"""Corrections over HTTP and by the client: made, listed, undone, moved, taken elsewhere; cited as edited."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.governance.corrections import CorrectionQuery
from qianxun.core.types import Document
from qianxun.doors.client import Client
from qianxun.doors.http.native.governance import corrections as routes
from tests.http.asking import asking

LIBRARY = (
    Document("1", "住院报销比例为百分之八十五。", name="住院.txt"),
    Document("2", "门诊报销比例为百分之六十。", name="门诊.txt"),
)


def test_a_chunk_is_edited_cited_as_edited_and_restored(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            path = f"/v1/knowledge-bases/{base}/corrections"
            body = {
                "kind": "edit",
                "chunk_ids": [f"c_{base}_1_0"],
                "text": "住院报销比例为百分之九十。",
                "author": "张三",
            }
            made = await at.post(path, body)
            assert made.status_code == 201, made.text
            one = made.json()["data"]
            routes.CorrectionInfo.model_validate(one)
            assert (one["state"], one["author"], one["chunk_ids"]) == ("applied", "张三", [f"c_{base}_1_0"])
            assert one["anchor"]["quote"] == "住院报销比例为百分之八十五。"
            found = (await at.post(f"/v1/retrieval/{base}", {"query": "住院报销比例"})).json()["data"]["chunks"]
            (edited,) = [chunk for chunk in found if chunk["corrected"]]
            assert (edited["content"], edited["corrected"]["original"]) == (
                body["text"],
                "住院报销比例为百分之八十五。",
            )
            answer = (await at.post(f"/v1/query/{base}", {"query": "住院报销比例是多少"})).json()["data"]
            (source,) = [source for source in answer["sources"] if source["doc_id"] == "1"]
            assert source["original"] == "住院报销比例为百分之八十五。"
            assert all(source["original"] is None for source in answer["sources"] if source["doc_id"] != "1")
            page = (await at.http.get(path, params={"state": "applied"})).json()["data"]
            routes.CorrectionPage.model_validate(page)
            assert ([each["id"] for each in page["list"]], page["counts"]) == ([one["id"]], {"applied": 1})
            why = await at.post(f"/v1/explain/{base}", {"query": "住院报销比例", "chunk_id": f"c_{base}_1_0"})
            assert why.json()["data"]["chunk"]["corrected"]["ids"] == [one["id"]]
            undone = (await at.post(f"{path}/{one['id']}/undo", {"author": "李四"})).json()["data"]
            assert (undone["state"], undone["undone_by"]) == ("undone", "李四")
            hidden = await at.post(path, {"kind": "disable", "chunk_ids": [f"c_{base}_1_0"]})
            why = await at.post(f"/v1/explain/{base}", {"query": "住院报销比例", "chunk_id": f"c_{base}_1_0"})
            assert str(hidden.json()["data"]["id"]) in why.json()["data"]["reason"]
            assert (await at.post(path, {"kind": "edit", "chunk_ids": [f"c_{base}_2_0"]})).status_code == 400
            assert (await at.post(path, {"kind": "edit", "chunk_ids": ["c_1_9_0"], "text": "甲"})).status_code == 404
            assert (await at.post(path, {"kind": "erase"})).status_code == 422
            assert (await at.http.get(f"{path}/999")).status_code == 404
            assert (await at.http.get(path, params={"doc_id": "2"})).json()["data"]["list"] == []
            assert (await at.http.get(path, params={"doc_id": "无"})).status_code == 404

    asyncio.run(run())


def test_the_client_does_what_the_engine_does(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base, other = await at.base(*LIBRARY), await at.base(*LIBRARY, name="另一个")
            async with Client("http://127.0.0.1:8000", transport=httpx.ASGITransport(at.app)) as client:
                corrections = client.governance.corrections
                renamed = await corrections.add(base, "rename", doc_id="1", name="住院办法")
                marked = await corrections.add(
                    base, "metadata", doc_id="1", metadata={"dept": "社保", "tags": ("甲", "乙")}, removed=("year",)
                )
                pinned = await corrections.add(base, "pin", chunk_id=f"c_{base}_2_0", question="住院报多少", like=1.0)
                assert (await client.document(base, "1")).name == "住院办法"
                assert dict((await client.document(base, "1")).metadata) == {"dept": "社保", "tags": ("甲", "乙")}
                assert [one.id for one in await corrections.page(base)] == [renamed.id, marked.id, pinned.id]
                assert await corrections.page(base, CorrectionQuery(kind="pin")) == [pinned]
                assert await corrections.get(base, pinned.id) == pinned
                assert await corrections.counts(base) == {"applied": 3}
                first = (await client.retrieve(base, "住院报多少")).results[0]
                assert (first.chunk.doc_id, first.pinned, first.score) == ("2", pinned.id, 1.0)
                await corrections.undo(base, renamed.id)
                assert (await client.document(base, "1")).name == "住院.txt"
                await corrections.apply(base, renamed.id)
                found, case = await corrections.save_as_case(base, pinned.id, "常用")
                assert (found.name, case.question) == ("常用", "住院报多少")
                taken = await corrections.import_all(other, await corrections.export(base))
                assert [one.kind for one in taken] == ["rename", "metadata", "pin"]
                assert (await client.document(other, "1")).name == "住院办法"
                with pytest.raises(NotFound):
                    await corrections.undo(base, 999)
                with pytest.raises(BadInput):
                    await corrections.move(base, renamed.id, f"c_{base}_2_0")

    asyncio.run(run())
