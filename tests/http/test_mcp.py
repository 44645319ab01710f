"""`POST /mcp`, asked by the protocol's own client and by hand: keys, tenants, bounds, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, JSONRPCError, TextContent, jsonrpc_message_adapter

import qianxun.doors.mcp
from mcp import Client
from qianxun.core.errors import NotFound
from qianxun.doors.client import Client as QianxunClient
from qianxun.doors.http.mcp import MOST_BYTES
from qianxun.doors.mcp import tools
from qianxun.doors.mcp.collection import Collection
from qianxun.doors.mcp.ids import service_address
from tests.http.asking import asking
from tests.http.served import MODEL, Served, issue, revoke, serving, until
from tests.http.test_concurrency import GatedQueries

STAY = "出差住宿每晚不超过 380 元，凭發票报销。"
ACCEPT = {"accept": "application/json, text/event-stream"}
ERAS = ("legacy", "2026-07-28")  # with a handshake, and with all that is to be known in every request


def run(folder: Path, story: Callable[[Served], Awaitable[None]], *models: Any, **told: Any) -> None:
    async def served() -> None:
        async with serving(folder, told, *models) as at:
            await story(at)

    asyncio.run(asyncio.wait_for(served(), 120))


@asynccontextmanager
async def client(at: Served, key: str = "", mode: str = "legacy", **headers: str) -> AsyncIterator[Client]:
    told = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers={**told, **headers}, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{at.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as asking:
            yield asking


def text(told: CallToolResult) -> str:
    (only,) = told.content
    assert isinstance(only, TextContent)
    return only.text


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


async def post(at: Served, body: Any, **headers: str) -> httpx.Response:
    return await at.http.post("/mcp", json=body, headers={**ACCEPT, **headers})


# ── the protocol ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_finds_reads_and_is_told_the_same_twice(tmp_path: Path, mode: str) -> None:
    async def story(at: Served) -> None:
        base = await at.base()
        await at.add(base, "制度/差旅.md", STAY)
        async with client(at, mode=mode) as asking:
            offered = {each.name: each for each in (await asking.list_tools()).tools}
            assert set(offered) == {"search", "fetch", "retrieve", "ask", "tables", "list_knowledge_bases"}
            for each in offered.values():
                assert each.annotations is not None
                assert each.annotations.read_only_hint is True
                assert each.output_schema is not None  # by which this client checks what it is told
            found = await asking.call_tool("search", {"query": "住宿每晚多少钱"})
            (result,) = found.structured_content["results"]
            assert (result["id"], result["title"]) == (f"{base}/制度/差旅.md", "制度/差旅.md")
            read = await asking.call_tool("fetch", {"id": result["id"]})
            assert read.structured_content["text"] == STAY
            answers = [found, read, await asking.call_tool("retrieve", {"query": "住宿", "top_k": 5})]
            answers.append(await asking.call_tool("list_knowledge_bases"))
            for each in answers:
                assert not each.is_error
                assert json.loads(text(each)) == each.structured_content
            assert STAY in text(answers[2])  # as it is, not as \u5b57
        told = (await at.http.get(result["url"].removeprefix(at.url))).json()
        assert told["data"]["doc_id"] == "制度/差旅.md"

    run(tmp_path, story)


def test_what_is_wrong_is_told_to_the_model_with_what_to_do(tmp_path: Path) -> None:
    wrong: Mapping[str, tuple[str, dict[str, Any], str]] = {
        "no such base": ("retrieve", {"query": "x", "knowledge_base": "无"}, "已有：医保"),
        "no id": ("fetch", {"id": "手册"}, "search 结果里的 id"),
        "no argument": ("fetch", {}, "id：缺少这个参数　可用的参数：id、start"),
        "too many": ("retrieve", {"query": "x", "top_k": 101}, "top_k：应不大于 100"),
        "no such mode": ("retrieve", {"query": "x", "mode": "magic"}, "mode：应为 'hybrid', 'vector' or 'fulltext'"),
        "no object": ("retrieve", {"query": "x", "filters": "{}"}, "filters：应为对象"),
        "no text": ("search", {"query": 7}, "query：应为文字"),
        "blank": ("search", {"query": " "}, "写出要找的内容"),
        "a filter": ("retrieve", {"query": "x", "filters": {"作者": 1}}, "filters.作者"),
    }

    async def story(at: Served) -> None:
        await at.base()
        async with client(at) as asking:
            for name, arguments, words in wrong.values():
                told = await asking.call_tool(name, arguments)
                assert told.is_error
                assert words in text(told)
                assert "Traceback" not in text(told)
            told = await asking.call_tool("retrieve", {"query": "x", "top_k": None, "model": "gpt", "mode": "fulltext"})
            assert not told.is_error  # null is left out, and what nobody knows is ignored

    run(tmp_path, story)


def test_what_is_not_of_the_protocol_is_refused_as_it_says(tmp_path: Path) -> None:
    async def story(at: Served) -> None:
        async def told(status: int, code: int, answer: httpx.Response) -> str:
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
            return str(answer.json()["error"]["message"])

        asked = call("search", query="x")
        assert "一次一个" in await told(400, -32600, await post(at, [asked, asked]))
        await told(400, -32602, await post(at, asked, **{"mcp-protocol-version": "1999-01-01"}))
        await told(400, -32700, await at.http.post("/mcp", content=b"{", headers={**ACCEPT, **JSON}))
        await told(406, -32600, await post(at, asked, accept="text/html"))
        await told(200, -32602, await post(at, call("没有的工具")))
        await told(200, -32601, await post(at, {**asked, "method": "resources/list"}))
        assert (await at.http.post("/mcp/", json=call("list_knowledge_bases"), headers=ACCEPT)).status_code == 200
        for method in ("GET", "DELETE", "PUT"):
            answer = await at.http.request(method, "/mcp", headers=ACCEPT)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            assert answer.json()["error"] == "method_not_allowed"
        large = await at.http.post("/mcp", content=b"[" * (2 * 2**20), headers={**ACCEPT, **JSON})
        assert (large.status_code, large.json()["error"]) == (413, "too_large")
        assert (await post(at, {"jsonrpc": "2.0", "method": "notifications/initialized"})).status_code == 202

    run(tmp_path, story, **{"service.body_megabytes": 1})


JSON = {"content-type": "application/json"}


def test_a_call_is_no_longer_than_calls_are(tmp_path: Path) -> None:
    """The SDK reads arguments at a second of the event loop for a few megabytes."""

    async def story() -> None:
        async with asking(tmp_path) as asked:
            told = await asked.http.post("/mcp", json=call("search", query="x" * MOST_BYTES), headers=ACCEPT)
            assert told.status_code == 413
            read = jsonrpc_message_adapter.validate_json(told.content)
            assert isinstance(read, JSONRPCError)
            assert "1 MB" in read.error.message

    asyncio.run(story())


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qianxun.doors.mcp, "find_spec", lambda name: None if name == "mcp" else find_spec(name))

    async def story() -> None:
        async with asking(tmp_path) as asked:
            told = await asked.http.post("/mcp", json=call("search", query="x"), headers=ACCEPT)
            assert told.status_code == 503
            read = jsonrpc_message_adapter.validate_json(told.content)  # as clients of the protocol do
            assert isinstance(read, JSONRPCError)
            assert "pip install 'qianxun[mcp]'" in read.error.message == told.json()["msg"]

    asyncio.run(story())


# ── keys and tenants ─────────────────────────────────────────────────────────────────────────────


def test_a_key_opens_what_is_its_tenants_from_wherever_it_comes(tmp_path: Path) -> None:
    async def story(at: Served) -> None:
        for tenant in ("jia", "yi"):
            engine = at.engine.of(tenant)
            made = await engine.create_knowledge_base(f"{tenant}的库", model=MODEL)
            _, key = issue(at.engine, tenant)
            own = {"authorization": f"Bearer {key}"}
            body = {"name": f"{tenant}.md", "content": f"{tenant}：{STAY}", "doc_id": tenant}
            added = await at.http.post(f"/v1/knowledge-bases/{made.id}/documents", json=body, headers=own)
            assert added.status_code == 201
        number, reading = issue(at.engine, "jia", "read")
        theirs = (await at.engine.of("yi").knowledge_bases())[0].id
        async with client(at, reading, host="kb.example.com", origin="https://kb.example.com") as asking:
            (found,) = (await asking.call_tool("search", {"query": "住宿"})).structured_content["results"]
            assert found["title"] == "jia.md"
            assert found["url"].startswith("http://kb.example.com/v1/knowledge-bases/")
            foreign = await asking.call_tool("fetch", {"id": f"{theirs}/yi"})
            absent = await asking.call_tool("fetch", {"id": "9999/yi"})
            assert foreign.is_error
            assert text(foreign).replace(str(theirs), "N") == text(absent).replace("9999", "N")
            (base,) = (await asking.call_tool("list_knowledge_bases")).structured_content["knowledge_bases"]
            assert base["name"] == "jia的库"
        entries = await at.engine.of("jia").logs.list()
        assert [each.query for each in entries] == ["住宿"]
        assert await at.engine.of("yi").logs.list() == []
        revoke(at.engine, number)
        for headers in ({}, {"authorization": f"Bearer {reading}"}, {"authorization": "Bearer qx_x"}):
            refused = await post(at, call("search", query="住宿"), **headers)
            assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")
            assert refused.headers["www-authenticate"] == "Bearer"

    run(tmp_path, story)


def test_without_keys_another_name_or_page_is_refused(tmp_path: Path) -> None:
    async def story(at: Served) -> None:
        for headers in ({"host": "evil.example.com"}, {"origin": "https://evil.example.com"}):
            assert (await post(at, call("search", query="x"), **headers)).status_code == 403

    run(tmp_path, story)


# ── turns ────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_waits_for_its_turn_and_ends_with_its_client(tmp_path: Path) -> None:
    model = GatedQueries()

    async def story(at: Served) -> None:
        base, turns = await at.base(), at.app.state.service.recalls
        await at.add(base, "a", STAY)
        assert (await post(at, call("list_knowledge_bases"))).status_code == 200  # the protocol is loaded
        for headers in ({}, ENVELOPE):
            staying = asyncio.create_task(post(at, _asked(headers), **headers))
            await until(lambda: turns.running == 1)
            leaving = asyncio.create_task(post(at, _asked(headers), **headers))
            await until(lambda: turns.waiting == 1)
            refused = (await post(at, _asked(headers), **headers)).json()["result"]
            assert (refused["isError"], "太多" in refused["content"][0]["text"]) == (True, True)
            leaving.cancel()
            await until(lambda: turns.waiting == 0)
            assert turns.running == 1
            staying.cancel()
            await until(lambda: turns.running == 0)
        left = {"method": "POST", "route": "/mcp", "status": "499"}
        await until(lambda: at.app.state.metrics.registry.get_sample_value(COUNTED, left) == 4)
        model.gate.set()
        told = (await post(at, call("search", query="住宿"))).json()["result"]
        assert [each["title"] for each in told["structuredContent"]["results"]] == ["a"]

    run(
        tmp_path,
        story,
        model,
        **{"service.recalls_at_once": 1, "service.recalls_waiting": 1, "search.cache_entries": 0},
    )
    model.gate.set()


COUNTED = "http_requests_total"
ENVELOPE = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "search"}


def _asked(headers: Mapping[str, str]) -> dict[str, Any]:
    body = call("search", query="住宿")
    if headers:
        about = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
        body["params"]["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in about.items()}
    return body


# ── over a client ────────────────────────────────────────────────────────────────────────────────


def test_through_a_service_the_tools_tell_what_they_tell_of_the_folder(tmp_path: Path) -> None:
    async def story(at: Served) -> None:
        base = await at.base()
        await at.add(base, "制度/差旅.md", STAY, metadata={"年份": 2024, "作者": ["甲", "乙"]})
        await at.add(base, "假期.md", "年休假为 7 天。")
        address = service_address(at.url)
        async with QianxunClient(at.url) as through:
            here, there = Collection(at.engine, address), Collection(through, address)
            asked: tuple[tuple[Any, dict[str, Any]], ...] = (
                (tools.search, {"query": "出差住宿每晚多少元"}),
                (
                    tools.retrieve,
                    {"query": "住宿", "filters": {"metadata.年份": {"ge": 2020}}, "knowledge_base": "医保"},
                ),
                (tools.fetch, {"id": f"{base}/制度/差旅.md"}),
                (tools.fetch, {"id": f"c_{base}_制度/差旅.md_0"}),
                (tools.list_knowledge_bases, {}),
            )
            for tool, arguments in asked:
                assert await tool(there, **arguments) == await tool(here, **arguments)
            assert (await at.http.delete(f"/v1/knowledge-bases/{base}/documents/假期.md")).status_code == 200
            for held in (here, there):
                with pytest.raises(NotFound, match="没有文档"):
                    await tools.fetch(held, f"{base}/假期.md")

    run(tmp_path, story)
