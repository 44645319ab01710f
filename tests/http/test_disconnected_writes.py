"""A document whose body was received is added although its client gives up, or the service stops meanwhile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from qianxun.core.types import Document
from qianxun.testing.scripted import Gate, ScriptedEmbedding
from tests.http.served import BASES, Served, serving, until, until_told
from tests.indexing.opened import GatedEmbedding

TEXT = "住院费用报销比例为85%。"
JSON_BODY = json.dumps({"name": "a", "content": TEXT, "doc_id": "a"}).encode()
FORM_BODY = (
    '--b\r\nContent-Disposition: form-data; name="doc_id"\r\n\r\na\r\n'
    f'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n{TEXT}\r\n--b--\r\n'
).encode()
BODIES = {"json": ("application/json", JSON_BODY), "form": ("multipart/form-data; boundary=b", FORM_BODY)}


def slow_model() -> tuple[ScriptedEmbedding, Gate]:
    gate = Gate()
    return ScriptedEmbedding(gate=gate, on="passages"), gate


async def send_and_leave(served: Served, base: int, form: str, gate: Gate) -> None:
    """Sends a whole document, waits until the model is at work on it, and closes the connection."""
    kind, body = BODIES[form]
    before = len(served.server.server_state.connections)
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    head = f"POST {BASES}/{base}/documents HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await until(gate.entered.is_set)
    writer.close()
    await until(lambda: len(served.server.server_state.connections) <= before)
    await asyncio.sleep(0.2)  # a watcher of the connection, if there were one, would have acted by now


async def status(served: Served, base: int, doc_id: str = "a") -> object:
    response = await served.http.get(f"{BASES}/{base}/documents/{doc_id}")
    return response.json()["data"]["status"] if response.status_code == 200 else response.status_code


@pytest.mark.parametrize("form", BODIES)
def test_a_document_is_added_although_its_client_has_left(tmp_path: Path, form: str) -> None:
    async def story() -> None:
        model, gate = slow_model()
        async with serving(tmp_path, None, model) as served:
            base = await served.base()
            await send_and_leave(served, base, form, gate)
            assert await status(served, base) == "pending"  # stored before the model was asked
            assert served.app.state.service.writes.running == 0
            gate.opened.set()
            await until_told(lambda: status(served, base), "indexed")
            found = await served.http.post(f"/v1/retrieval/{base}", json={"query": "住院报销比例"})
            assert found.json()["data"]["doc_ids"] == ["a"]
            assert not list((tmp_path / "uploads").glob("*"))

    asyncio.run(asyncio.wait_for(story(), 300))


@pytest.mark.parametrize("form", BODIES)
def test_a_service_that_stops_stores_what_it_cannot_finish(tmp_path: Path, form: str) -> None:
    async def story() -> None:
        model, gate = slow_model()
        async with serving(tmp_path, {"service.close_seconds": 1}, model) as served:
            base = await served.base()
            await send_and_leave(served, base, form, gate)
            served.server.stop()
            await served.running
            assert (await served.engine.document(base, "a")).status == "pending"
            gate.opened.set()
        async with serving(tmp_path) as served:
            await until_told(lambda: status(served, base), "indexed")

    asyncio.run(asyncio.wait_for(story(), 300))


def test_a_caller_that_is_cancelled_has_its_documents_stored(tmp_path: Path) -> None:
    async def story() -> None:
        model, gate = slow_model()
        async with serving(tmp_path, None, model) as served:
            base = await served.base()
            adding = asyncio.create_task(served.engine.add_documents(base, [Document("a", TEXT)]))
            await until(gate.entered.is_set)
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
            assert (await served.engine.document(base, "a")).status == "pending"
            gate.opened.set()
            await until_told(lambda: status(served, base), "indexed")

    asyncio.run(asyncio.wait_for(story(), 300))


def test_documents_that_wait_for_a_slow_model_keep_no_other_write_waiting(tmp_path: Path) -> None:
    """More than there were turns for documents: the model is at work on none but one of them."""

    async def story() -> None:
        model = GatedEmbedding("起付标准")
        async with serving(tmp_path, None, model) as served:
            base = await served.base()
            slow = [
                asyncio.create_task(served.add(base, f"慢{at}", f"第 {at} 份：起付标准为600元。")) for at in range(3)
            ]
            await until(model.entered.is_set)
            for at in range(3):
                await until_told(lambda at=at: status(served, base, f"慢{at}"), "pending")  # type: ignore[misc]
            assert (await served.add(base, "快", TEXT)).json()["data"]["status"] == "indexed"
            model.gate.set()
            assert [(await one).json()["data"]["status"] for one in slow] == ["indexed"] * 3

    asyncio.run(asyncio.wait_for(story(), 300))
