"""Why a chunk is, or is not, among the results: told over HTTP, and true when tried."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.codec.wire import read_explained, written_explained
from qianxun.core.explanation import Explained
from qianxun.core.types import Document
from qianxun.doors.http.native.explain import ExplanationInfo
from tests.http.asking import Asking, asking

LIBRARY = tuple(
    Document(f"d{n}", f"阈值配置的第 {n} 条说明，{'阈值' * n}", content_type="chapter") for n in range(1, 6)
)
NOTE = Document("note", "阈值配置的变更记录", content_type="note")
QUERY = "阈值配置"


async def told(at: Asking, base: int, **body: Any) -> dict[str, Any]:
    response = await at.post(f"/v1/explain/{base}", {"query": QUERY, **body})
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


def chunk_ids(data: dict[str, Any]) -> list[str]:
    return [chunk["chunk_id"] for chunk in data["chunks"]]


DROPPED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"retrieval_config": {"top_k": 1}}, "top_k"),
    ({"retrieval_config": {"score_threshold": 1.0}}, "threshold"),
    ({"filters": {"content_type": ["note"], "metadata.年份": {"ge": 2020}}}, "filter"),
    ({"doc_ids": ["note"]}, "filter"),
    ({"retrieval_mode": "fulltext", "retrieval_config": {"top_k": 1, "score_threshold": 1.0}}, "top_k"),
    ({"retrieval_config": {"top_k": 1, "hybrid_strategy": {"weights": {"vector": 0.9}, "fusion": "min_max"}}}, "top_k"),
    ({"retrieval_config": {"top_k": 1, "hybrid_strategy": {"type": "rrf"}}, "retrieval_mode": "vector"}, "top_k"),
)


def test_the_request_that_is_suggested_returns_the_chunk(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY, NOTE)
            every = await at.engine.retrieve(base, QUERY)
            last = next(each.chunk.chunk_id for each in reversed(every.found) if each.chunk.doc_id != "note")
            for body, step in DROPPED:
                before = await at.post(f"/v1/retrieval/{base}", {"query": QUERY, **body})
                assert last not in chunk_ids(before.json()["data"])
                data = await told(at, base, chunk_id=last, **body)
                assert (data["returned"], data["step"], data["chunk_id"]) == (False, step, last)
                assert data["reason"]
                assert data["changes"]
                after = await at.post(f"/v1/retrieval/{base}", data["request"])
                assert last in chunk_ids(after.json()["data"]), data["request"]

    asyncio.run(run())


def test_a_returned_chunk_is_told_with_its_sum(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            plain = (await at.post(f"/v1/retrieval/{base}", {"query": QUERY})).json()["data"]
            data = await told(at, base, chunk_id=plain["chunks"][0]["chunk_id"])
            assert (data["returned"], data["step"], data["rank"], data["request"]) == (True, "returned", 1, None)
            assert chunk_ids(data["recall"]) == chunk_ids(plain)
            for chunk in data["recall"]["chunks"]:
                votes, weights = chunk["sum"]["votes"], [vote["weight"] for vote in chunk["sum"]["votes"].values()]
                fused = sum(vote["weight"] * vote["score"] for vote in votes.values()) / sum(weights)
                assert chunk["sum"]["fused"] == pytest.approx(fused)
                assert chunk["sum"]["score"] == chunk["score"]

    asyncio.run(run())


def test_without_a_chunk_the_search_itself_is_explained(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY)
            data = await told(at, base)
            assert data["chunk_id"] is None
            assert set(data["weights"]) == {"vector", "keyword"}
            assert len(data["recall"]["chunks"]) == len(LIBRARY)

    asyncio.run(run())


def test_a_deleted_document_is_told_of_and_an_unknown_chunk_is_not_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base, other = await at.base(*LIBRARY), await at.base(NOTE, name="别的")
            await at.engine.delete_document(base, "d1")
            data = await told(at, base, chunk_id=f"c_{base}_d1_0")
            assert (data["step"], data["status"], data["chunk"]) == ("records", "deleted", None)
            for unknown in (f"c_{base}_nobody_0", f"c_{other}_note_0", "x", "c_" + "9" * 290, "\x00"):
                response = await at.post(f"/v1/explain/{base}", {"query": QUERY, "chunk_id": unknown})
                assert (response.status_code, response.json()["error"]) == (404, "not_found"), unknown

    asyncio.run(run())


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"chunk_id": "c" * 301}, "chunk_id"),
    ({"chunk_id": 7}, "chunk_id"),
    ({"retrieval_config": {"top_k": 101}}, "retrieval_config.top_k"),
    ({"filters": {"x": 1}}, "filters.x"),
    ({"chunk": "c"}, "chunk"),
)


def test_what_cannot_be_explained_is_refused_by_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base()
            for body, field in REFUSED:
                response = await at.post(f"/v1/explain/{base}", {"query": QUERY, **body})
                assert response.status_code == 422, body
                assert [each["field"] for each in response.json()["fields"]] == [field]

    asyncio.run(run())


def keyless(told: Explained) -> Explained:
    """As a client sees it."""
    found = tuple(replace(each, chunk=replace(each.chunk, key=0)) for each in told.answer.found)
    chunk = told.chunk
    if chunk is not None and chunk.chunk is not None:
        chunk = replace(chunk, chunk=replace(chunk.chunk, key=0))
    return replace(told, answer=replace(told.answer, results=found), chunk=chunk)


EXPLAINED: tuple[dict[str, Any], ...] = (
    {"chunk_id": "note", "top_k": 1},
    {"chunk_id": "note", "threshold": 1.0, "fusion": "rrf", "fuzzy": False},
    {"chunk_id": "d1", "doc_ids": ("note",), "mode": "vector"},
    {"chunk_id": "", "top_k": 2},
)


def test_a_client_reads_back_what_the_engine_explained(tmp_path: Path) -> None:
    async def run() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(*LIBRARY, NOTE)
            for chosen in EXPLAINED:
                options = {name: value for name, value in chosen.items() if name != "chunk_id"}
                chunk_id = f"c_{base}_{chosen['chunk_id']}_0" if chosen["chunk_id"] else ""
                explained = await at.engine.explain(base, QUERY, chunk_id, **options)
                written = json.loads(json.dumps(written_explained(base, explained, options)))
                assert read_explained(written) == keyless(explained)
                assert set(written) <= set(ExplanationInfo.model_fields)
                ExplanationInfo.model_validate(written, strict=True)

    asyncio.run(run())


CHUNK_KINDS: dict[str, dict[str, Any]] = {
    "edit": {"text": "阈值配置改过的说明。"},
    "keywords": {"keywords": ["门槛"]},
    "questions": {"questions": ["门槛怎么配"]},
    "note": {"note": "核对过"},
    "split": {"parts": ["阈值配置的第一条。", "阈值配置的第二条。"]},
    "join": {},
    "pin": {"question": "门槛"},
    "exclude": {"question": "天气"},
}


def test_what_people_decided_is_in_the_explanation_of_every_chunk(tmp_path: Path) -> None:
    two = "阈值配置的第一条。阈值配置的第二条。"

    async def run() -> None:
        async with asking(tmp_path) as at:
            library = [Document(kind, two, name=kind) for kind in CHUNK_KINDS if kind != "join"]
            valid = {"valid_from": "2020-01-01", "supersedes": "旧法"}
            base = await at.base(*library, Document("join", f"# 甲\n\n{two}\n\n# 乙\n\n{two}", format="markdown"))
            await at.engine.add_documents(base, [Document("kept", two, metadata=valid, access=("group:财务",))])
            made: dict[str, int] = {}
            for kind, change in CHUNK_KINDS.items():
                own = [f"c_{base}_{kind}_0"] + ([f"c_{base}_join_1"] if kind == "join" else [])
                body = {"kind": kind, "chunk_ids": own, "author": "张三", **change}
                made[kind] = (await at.post(f"/v1/knowledge-bases/{base}/corrections", body)).json()["data"]["id"]
            for kind, change in {"rename": {"name": "新名"}, "metadata": {"metadata": {"级": 1}}}.items():
                body = {"kind": kind, "doc_id": "kept", **change}
                made[kind] = (await at.post(f"/v1/knowledge-bases/{base}/corrections", body)).json()["data"]["id"]
            data = await told(at, base, chunk_id=f"c_{base}_kept_0", top_k=50)
            shown = {chunk["chunk_id"]: chunk["decisions"] for chunk in data["recall"]["chunks"]}
            for kind in CHUNK_KINDS:
                (one,) = shown[f"c_{base}_{kind}_0"]["corrections"]
                assert (one["id"], one["kind"], one["state"], one["author"]) == (made[kind], kind, "applied", "张三")
            kept = data["decisions"]
            assert kept == shown[f"c_{base}_kept_0"]
            assert [one["kind"] for one in kept["corrections"]] == ["rename", "metadata"]
            assert (kept["access"], kept["validity"]["valid_from"]) == (["group:财务"], "2020-01-01")
            assert kept["validity"]["supersedes"] == ["旧法"]
            explained = await at.engine.explain(base, QUERY, f"c_{base}_kept_0", top_k=50)
            assert [one.decisions for one in (explained.chunk,) if one] == [
                decided
                for found, decided in zip(explained.answer.results, explained.decisions, strict=True)
                if found.chunk.doc_id == "kept"
            ]
            page = (
                await at.http.get("/console/why", params={"base": base, "q": QUERY, "chunk": f"c_{base}_kept_0"})
            ).text
            assert all(words in page for words in ("group:财务", "2020-01-01", f"更正 {made['rename']}"))
            for kind, target in {
                "disable": {"chunk_ids": [f"c_{base}_edit_0"]},
                "disable_document": {"doc_id": "kept"},
            }.items():
                if kind == "disable":
                    await at.post(f"/v1/knowledge-bases/{base}/corrections/{made['edit']}/undo", {})
                await at.post(f"/v1/knowledge-bases/{base}/corrections", {"kind": kind, **target})
                gone = await told(at, base, chunk_id=f"c_{base}_{'edit' if kind == 'disable' else 'kept'}_0")
                assert (gone["step"], gone["decisions"]["corrections"][-1]["kind"]) == ("records", kind)

    asyncio.run(run())
