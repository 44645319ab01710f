"""Prose alone, tables alone, in the contract's form."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from qianxun.service.recall import RecalledTold, RecallTold
from qianxun.types import Document
from tests.service.asking import Asking, asking

PAGE = """# 报销比例

下表列出住院与门诊的报销比例，以当年公布的为准。

| 类别 | 报销比例 |
| --- | --- |
| 住院 | 85% |
| 门诊 | 70% |
"""
FIELDS = {"doc_id", "document_name", "content", "score", "strategy", "layer", "match_details", "metadata"}


async def recalled(at: Asking, base: int, what: str, **body: Any) -> dict[str, Any]:
    response = await at.post(f"/v1/recall/{base}/{what}", {"query": "住院的报销比例", **body})
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


def test_each_finds_its_own_kind(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(
                Document("手册", PAGE, name="手册.md", format="markdown", metadata={"年份": 2024}),
                Document("通知", "住院的报销比例另行通知。", name="通知.txt"),
            )
            prose, tables = await recalled(at, base, "texts"), await recalled(at, base, "tables")
            assert set(prose) == set(RecallTold.model_fields)
            for result in (*prose["results"], *tables["results"]):
                assert set(result) == set(RecalledTold.model_fields) >= FIELDS
            assert "85%" in tables["results"][0]["content"]
            assert [each["doc_id"] for each in tables["results"]] == ["手册"]
            assert tables["results"][0]["metadata"] == {"年份": 2024}
            assert "住院" in tables["results"][0]["match_details"]
            assert {each["doc_id"] for each in prose["results"]} == {"手册", "通知"}
            assert not any("85%" in each["content"] for each in prose["results"])
            scores = [each["score"] for each in prose["results"]]
            assert scores == sorted(scores, reverse=True)
            assert len((await recalled(at, base, "texts", top_k=1))["results"]) == 1

    asyncio.run(run())


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base()
            for body, field in (({"query": " "}, "query"), ({"query": "问", "top_k": 0}, "top_k"), ({}, "query")):
                response = await at.post(f"/v1/recall/{base}/tables", body)
                assert response.status_code == 422
                assert response.json()["fields"][0]["field"] == field
            assert (await at.post(f"/v1/recall/{base + 1}/texts", {"query": "问"})).status_code == 404

    asyncio.run(run())
