"""Who is let in: keys, scopes, tenants, this machine; and how much is read of a body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException

from qianxun.doors.http.middleware import guard
from qianxun.doors.http.middleware.guard import Guard, _BodyMemory, is_loopback
from qianxun.records.secrets.keys import Scope
from tests.http.asking import word_of
from tests.http.served import BASES, MODEL, Served, issue, revoke, serving, until

OPEN = ("/healthz", "/readyz")
SCOPES: tuple[Scope, ...] = ("read", "write")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


FOR_WRITERS = re.compile(r"/v1/(audit|receipts|webhooks|quota|knowledge-bases/[^/]+/(access|export))\b")


def addresses(api: Mapping[str, dict[str, object]]) -> list[tuple[str, str]]:
    """(method, path) of every route of the OpenAPI document, with some value in every place."""
    fill = {"knowledge_base_id": "1001", "doc_id": "d", "user_id": "u", "model_type": "chat", "id": "1", "log_id": "1"}
    fill |= {"set_id": "1", "case_id": "1", "run_id": "1", "other_run_id": "1", "operation_id": "1"}
    fill |= {
        "vector_store_id": "1001",
        "model": "医保",
        "file_id": "1001/d",
        "correction_id": "1",
        "receipt_id": "r",
        "subject_id": "u",
        "webhook_id": "1",
        "tenant": "local",
    }
    found = []
    for path, methods in api.items():
        for name, value in fill.items():
            path = path.replace(f"{{{name}}}", value)
        assert "{" not in path, path
        found += [(method.upper(), path) for method in methods]
    return found


def test_once_there_is_a_key_every_route_but_health_wants_one(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        api = (await served.http.get("/openapi.json")).json()["paths"]
        _, key = issue(served.engine)
        number, revoked = issue(served.engine)
        revoke(served.engine, number)
        wrong: list[dict[str, str]] = [
            {},
            bearer(revoked),
            bearer("qx_" + "A" * 43),
            bearer("."),
            bearer(key + "A"),
            bearer(key[:-1]),
            {"authorization": f"Basic {key}"},
            {"authorization": key},
            bearer("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."),
            {"x-api-key": revoked},
            {"x-api-key": ""},
            bearer("\xff"),
        ]
        asked = [*addresses(api), ("GET", "/docs"), ("GET", "/openapi.json"), ("GET", "/nowhere"), ("PUT", BASES)]
        for at, (method, path) in enumerate(asked):
            # Each with two of them, and some with all; in test_tenants every route meets every wrong key.
            for headers in wrong if at % 10 == 0 else ({}, wrong[1 + at % (len(wrong) - 1)]):
                encoded = {name: value.encode("latin-1") for name, value in headers.items()}
                answer = await served.http.request(method, path, headers=encoded)
                if path in OPEN:
                    assert answer.status_code in (200, 405), (method, path, answer.text)
                else:
                    assert answer.status_code == 401, (method, path, headers, answer.text)
                    assert word_of(answer) == "unauthorized"
                    assert answer.headers["www-authenticate"] == "Bearer"
        assert len(asked) > 20
        for headers in (bearer(key), {"x-api-key": key}, {"authorization": f"bearer  {key}"}):
            assert (await served.http.get(BASES, headers=headers)).status_code == 200

    run(tmp_path, story)


def test_a_revoked_key_opens_nothing_from_the_next_request_on_even_if_it_was_the_last(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        number, key = issue(served.engine)
        assert (await served.http.get(BASES, headers=bearer(key))).status_code == 200
        revoke(served.engine, number)
        assert (await served.http.get(BASES, headers=bearer(key))).status_code == 401
        assert (await served.http.get(BASES)).status_code == 401

    run(tmp_path, story)


def test_a_read_key_searches_and_looks_and_does_nothing_else(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        await served.add(base, "a", "住院费用报销比例为85%。", source="/srv/资料/a.md")
        assert (await served.http.get(f"{BASES}/{base}/documents/a")).json()["data"]["source"] == "/srv/资料/a.md"
        api = (await served.http.get("/openapi.json")).json()["paths"]
        _, key = issue(served.engine, scope="read")
        allowed: tuple[str, ...] = ("/v1/retrieval/", "/v1/recall/", "/v1/explain/", "/v1/query/", "/retrieval")
        allowed += ("/v1/chat/completions", "/v1/embeddings", "/v1/vector_stores/", "/v1/responses")
        allowed += ("/v1/rerank", "/v2/rerank")
        for method, path in addresses(api):
            answer = await served.http.request(method, path, headers=bearer(key), json={})
            may = (method == "GET" and not FOR_WRITERS.match(path)) or path.startswith(allowed)
            assert (answer.status_code != 403) is may, (method, path, answer.text)
        found = await served.http.post(f"/v1/retrieval/{base}", headers=bearer(key), json={"query": "住院报销"})
        assert found.json()["data"]["doc_ids"] == ["a"]
        one = (await served.http.get(f"{BASES}/{base}/documents/a", headers=bearer(key))).json()["data"]
        listed = (await served.http.get(f"{BASES}/{base}/documents", headers=bearer(key))).json()["data"]
        assert [one, *listed["documents"]] == [{**one, "doc_id": "a", "source": ""}] * 2

    run(tmp_path, story)


def test_a_read_key_is_told_that_there_is_nothing_at_an_address_and_not_to_get_a_write_key(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        keys = [bearer(issue(served.engine, scope=scope)[1]) for scope in SCOPES]
        for path in ("/chat/completions", "/v1/completions", "/v1//chat/completions", "/v1/chat/completions/", "/"):
            read, write = [await served.http.post(path, headers=each, json={}) for each in keys]
            assert (read.status_code, read.json()) == (write.status_code, write.json())
            assert read.json()["code"] in (404, 405)
            assert ("应以 /v1 结尾" in read.json()["msg"]) is (path == "/chat/completions")
        assert (await served.http.post(BASES, headers=keys[0], json={})).status_code == 403

    run(tmp_path, story)


def test_a_key_sees_its_own_tenant_alone(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        of = {tenant: bearer(issue(served.engine, tenant)[1]) for tenant in ("甲", "乙")}
        body = {"name": "医保", "embedding_model": MODEL}
        ids = {
            tenant: (await served.http.post(BASES, headers=headers, json=body)).json()["data"]["id"]
            for tenant, headers in of.items()
        }
        for tenant, headers in of.items():
            listed = (await served.http.get(BASES, headers=headers)).json()["data"]
            assert [each["id"] for each in listed["knowledge_bases"]] == [ids[tenant]]
        foreign = await served.http.get(f"{BASES}/{ids['甲']}", headers=of["乙"])
        absent = await served.http.get(f"{BASES}/99999", headers=of["乙"])
        assert foreign.status_code == absent.status_code == 404
        assert foreign.text.replace(str(ids["甲"]), "N") == absent.text.replace("99999", "N")

    run(tmp_path, story)


def test_who_may_not_do_it_is_told_before_the_body_is_asked_for(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        keys = {scope: issue(served.engine, scope=scope)[1] for scope in SCOPES}
        head = "POST /v1/knowledge-bases HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += "Content-Length: 5000000\r\nExpect: 100-continue\r\n"
        for told, status in (("", 401), (keys["read"], 403), (keys["write"], 100)):
            said = f"{head}X-API-Key: {told}\r\n\r\n"
            back = await asyncio.wait_for(_answer_to(served, said.encode()), 120)
            assert back.startswith(f"HTTP/1.1 {status}".encode()), back

    run(tmp_path, story)


async def _answer_to(served: Served, request: bytes) -> bytes:
    """The head of the answer to a request that goes no further."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        writer.write(request)
        return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


# ── without keys ─────────────────────────────────────────────────────────────────────────────────


FROM_HERE_OR_NOT = [
    ({}, 200),
    ({"host": "localhost:{port}"}, 200),
    ({"host": "LOCALHOST"}, 200),
    ({"host": "[::1]:{port}"}, 200),
    ({"host": "127.8.9.1"}, 200),
    ({"host": "evil.example"}, 403),
    ({"host": "evil.example:{port}"}, 403),
    ({"host": "127.0.0.1.evil.example"}, 403),
    ({"host": "localhost.evil.example"}, 403),
    ({"host": "192.168.1.7:{port}"}, 403),
    ({"host": "0.0.0.0:{port}"}, 403),
    ({"host": "169.254.169.254"}, 403),
    ({"host": ""}, 403),
    ({"host": "[::ffff:8.8.8.8]"}, 403),
    ({"host": "2130706433"}, 403),
    ({"origin": "http://127.0.0.1:{port}"}, 200),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "http://127.0.0.1:1"}, 403),
    ({"origin": "null"}, 403),
    ({"x-forwarded-for": "127.0.0.1"}, 200),
    ({"x-forwarded-for": "::1, 127.0.0.1:5173"}, 200),
    ({"x-forwarded-for": "8.8.8.8"}, 403),
    ({"x-forwarded-for": "127.0.0.1, 2001:db8::7"}, 403),
    ({"x-real-ip": "10.0.0.5"}, 403),
    ({"forwarded": 'for="[::1]:80";proto=http'}, 200),
    ({"forwarded": "proto=http;for=10.0.0.5;by=127.0.0.1, for=127.0.0.1"}, 403),
    ({"forwarded": "for=unknown"}, 403),
    ({"x-forwarded-host": "evil.example"}, 200),
    # Whoever must send a key may send any; it makes nobody more than they are.
    ({"authorization": "Bearer qx_unknown"}, 200),
    ({"authorization": "Basic dTpw"}, 200),
    ({"x-api-key": "sk-anything"}, 200),
    ({"authorization": "Bearer qx_unknown", "host": "evil.example"}, 403),
    ({"authorization": "Bearer qx_unknown", "origin": "http://evil.example"}, 403),
    ({"x-api-key": "sk-anything", "x-forwarded-for": "8.8.8.8"}, 403),
]


def test_without_keys_only_requests_that_began_at_this_machine_are_answered(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        for headers, status in FROM_HERE_OR_NOT:
            told = {name: value.format(port=served.port) for name, value in headers.items()}
            for method in ("GET", "POST"):
                answer = await served.http.request(method, BASES, headers=told)
                assert answer.status_code == (422 if (method, status) == ("POST", 200) else status), answer.text
            assert (await served.http.get("/healthz", headers=told)).status_code == 200

    run(tmp_path, story)


LOCAL_HOSTS = (b"127.0.0.1", b"127.0.0.1:8110", b"[::1]", b"[::1]:8110", b"localhost", b"LocalHost.:80")
FOREIGN_HOSTS = (
    b"[::1].evil.com", b"[::1]evil.com", b"[::1", b"[::1%evil.com]", b"[::1]:8110@evil.com", b"::1",
    b"127.0.0.1%evil", b"127.0.0.1%evil:8110", b"127.0.0.1:8110@evil.com", b"127.0.0.1@evil.com", b"127.0.0.1:evil.com",
    b"127.0.0.1/evil.com", b"127.0.0.1, evil.com", b"localhost:80:80", b"evil.com", b"",
)  # fmt: skip
LOCAL, FOREIGN = b"Host: 127.0.0.1", b"Host: evil.com"


def test_without_keys_a_host_must_be_an_address_of_this_machine_from_end_to_end(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        async def status(*lines: bytes) -> bytes:
            request = b"\r\n".join((b"GET " + BASES.encode() + b" HTTP/1.1", *lines, b"Connection: close", b"", b""))
            return (await served.raw(request))[9:12]

        for host in LOCAL_HOSTS:
            assert await status(b"Host: " + host) == b"200", host
        for host in FOREIGN_HOSTS:
            assert await status(b"Host: " + host) == b"403", host
        for lines in ((LOCAL, LOCAL), (FOREIGN, LOCAL), (LOCAL, FOREIGN), ()):
            assert await status(*lines) in (b"400", b"403"), lines
        for name in (b"X-Forwarded-For: ", b"X-Real-IP: ", b"Forwarded: for=", b"Origin: http://"):
            assert await status(LOCAL, name + b"127.0.0.1") == b"200", name
            for first, second in ((b"127.0.0.1", b"10.0.0.5"), (b"10.0.0.5", b"127.0.0.1")):
                assert await status(LOCAL, name + first, name + second) == b"403", (name, first)

    run(tmp_path, story)


@pytest.mark.parametrize(("end", "address"), [("client", "10.0.0.5"), ("server", "192.168.0.9")])
def test_without_keys_another_machine_is_refused_whatever_it_says(tmp_path: Path, end: str, address: str) -> None:
    async def story(served: Served) -> None:
        async def as_if(scope, receive, send):  # type: ignore[no-untyped-def]
            await served.app({**scope, end: (address, 5)}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(as_if), base_url="http://127.0.0.1") as http:
            answer = await http.get(BASES)
            assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
            with_key = {"authorization": "Bearer qx_unknown"}
            assert (await http.get(BASES, headers=with_key)).status_code == 403
            issue(served.engine)
            assert (await http.get(BASES)).status_code == 401
            assert (await http.get(BASES, headers=with_key)).status_code == 401

    run(tmp_path, story)


def test_a_foreign_page_cannot_send_a_form(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        form = {"file": ("a.txt", "住院费用报销比例。".encode())}
        path = f"{BASES}/{base}/documents"
        assert (await served.http.post(path, files=form, headers={"origin": "https://evil.example"})).status_code == 403
        assert (await served.http.get(path)).json()["data"]["total"] == 0

    run(tmp_path, story)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1", "localhost", "LocalHost.", "::1%lo"]
)
def test_loopback_is_known_in_its_spellings(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", "0.0.0.0", "::", "127.1", "127.0.0.1.", "127.0.0.1%evil", "127.0.0.1%lo", "::ffff:1.2.3.4", "０.0.0.1"),
        *("localhost.evil", "evillocalhost"),
    ],
)
def test_nothing_else_is_loopback(host: str) -> None:
    assert not is_loopback(host)


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────


def test_a_body_over_the_cap_is_refused_unread(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        path = f"{BASES}/{base}/documents"
        large = {"name": "a", "content": "医" * 400_000}  # 1.2 MB
        answer = await served.http.post(path, json=large)
        assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n".encode()
        announced = await _answer_to(served, head + b"Content-Length: 99999999999\r\n\r\n")
        assert announced.startswith(b"HTTP/1.1 413")
        fits = {"name": "a", "content": "医" * 300_000}
        assert (await served.http.post(path, json=fits, params={"wait": "false"})).status_code == 201

    run(tmp_path, story, {"service.body_megabytes": 1})


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=b"])
def test_a_body_that_comes_in_chunks_is_counted_as_it_comes(tmp_path: Path, kind: str) -> None:
    sent = 0

    async def endless():  # type: ignore[no-untyped-def]
        nonlocal sent
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(40):
            sent += 1
            yield b"x" * 500_000

    async def story(served: Served) -> None:
        base = await served.base()
        limited = served.app.state.service.settings
        assert limited.service.body_megabytes == limited.parsing.file_megabytes == 1
        for path in (f"{BASES}/{base}/documents", BASES, f"/v1/retrieval/{base}"):
            answer = await served.http.post(path, content=endless(), headers={"content-type": kind})
            assert (answer.status_code, answer.json()["error"]) == (413, "too_large"), answer.text

    run(tmp_path, story, {"service.body_megabytes": 1, "parsing.file_megabytes": 1})
    assert not list(tmp_path.glob("uploads/*"))


def test_bodies_that_are_held_together_are_bounded_and_let_go(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        path = f"{BASES}/{base}/documents".encode()
        head = b"POST " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += b"Content-Length: 1000000\r\n\r\n"
        waiting = []
        for _ in range(16):  # all but the last byte of each
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(head + b"x" * 999_999)
            await writer.drain()
            waiting.append((reader, writer))
        held = _held(served)
        await until(lambda: held.bytes == 16 * 999_999)
        answer = await served.http.post(path.decode(), json={"name": "a", "content": "医" * 330_000})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        for _, writer in waiting:
            writer.close()
        await until(lambda: held.bytes == 0)
        assert (await served.http.post(path.decode(), json={"name": "a", "content": "医保"})).status_code == 201

    run(tmp_path, story, {"service.body_megabytes": 1})


def test_a_read_key_that_sends_almost_whole_bodies_keeps_nobody_else_from_posting(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        bases = {}
        writers, (_, reader_key) = (
            {name: issue(served.engine, name)[1] for name in "甲乙"},
            issue(served.engine, "甲", "read"),
        )
        for name, key in writers.items():
            made = await served.http.post(BASES, headers=bearer(key), json={"name": name, "embedding_model": MODEL})
            bases[name] = made.json()["data"]["id"]
        head = f"POST /v1/retrieval/{bases['甲']} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {reader_key}\r\nContent-Length: 1000000\r\n\r\n"
        memory, connections = _held(served), []
        for count in range(1, 17):  # four bytes short, all of them
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(head.encode() + b"x" * 999_996)
            connections.append((reader, writer))
            if count <= 4:
                await until(lambda sent=count: memory.bytes == sent * 999_996)  # type: ignore[misc]
            else:
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 503")
        large = {"name": "a", "content": "医" * 330_000}
        for name, key in writers.items():
            path = f"{BASES}/{bases[name]}/documents"
            added = await served.http.post(path, headers=bearer(key), json=large, params={"wait": "false"})
            assert added.status_code == 201, (name, added.text)
        for _, writer in connections:
            writer.close()
        await until(lambda: memory.bytes == 0 and not memory.by_owner)

    run(tmp_path, story, {"service.body_megabytes": 1})


def test_bodies_without_a_key_take_no_memory_from_those_who_have_one(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        _, key = issue(served.engine)
        head = "POST /console/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += "Content-Type: application/x-www-form-urlencoded\r\n"
        announced = await served.raw(head.encode() + b"Content-Length: 999999\r\nConnection: close\r\n\r\n")
        assert announced.startswith(b"HTTP/1.1 413")
        assert "没有密钥" in announced.decode()
        connections = []
        for _ in range(16):
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\nf423c\r\nkey=" + b"x" * 999_988)
            connections.append(writer)
        made = await served.http.post(BASES, headers=bearer(key), json={"name": "甲", "embedding_model": MODEL})
        assert made.status_code == 201, made.text
        for writer in connections:
            writer.close()

    run(tmp_path, story, {"service.body_megabytes": 1})


def test_a_tenant_with_many_keys_has_half_of_the_memory() -> None:
    memory = _BodyMemory(1600)
    accounts = [memory.account({"tenant": "甲", "key_id": number}) for number in range(4)]
    assert [account.add(300) for account in accounts] == [True, True, False, False]
    other = memory.account({"tenant": "乙", "key_id": 9})
    assert (other.add(400), other.add(1)) == (True, False)
    for account in accounts:
        account.release(300)
    other.release(401)
    assert (memory.bytes, memory.by_owner) == (0, {})
    alone = memory.account({"tenant": "local", "key_id": None})
    assert (alone.add(1600), alone.add(1)) == (True, False)


DRIPPED = [(20.0, 1)] * 5  # (seconds, bytes)
SLOW = [(25.0, guard.STALLED_BYTES)] * 40
ENDING = [*SLOW, (20.0, 1), (9.0, 1)]


@pytest.mark.parametrize(
    ("parts", "is_refused"), [(DRIPPED, True), ([*SLOW, *DRIPPED], True), (SLOW, False), (ENDING, False)]
)
@pytest.mark.parametrize("kind", [b"application/json", b"multipart/form-data; boundary=b"])
def test_a_body_that_drips_is_given_up_and_its_memory_released(
    tmp_path: Path, parts: list[tuple[float, int]], is_refused: bool, kind: bytes
) -> None:
    now = 0.0
    received = 0

    async def story(served: Served) -> None:
        left = iter(parts)

        async def receive() -> dict[str, Any]:
            nonlocal now
            seconds, size = next(left)
            now += seconds
            rest = left.__length_hint__()  # type: ignore[attr-defined]
            return {"type": "http.request", "body": b"x" * size, "more_body": rest > 0}

        async def read_all(_scope: Any, receive_body: Any, _send: Any) -> None:
            nonlocal received
            while (message := await receive_body())["more_body"]:
                received += len(message["body"])
                assert layer.memory.bytes == (received if kind == b"application/json" else 0)

        layer = Guard(read_all, served.app.state.service, lambda: now)
        headers = [(b"host", b"127.0.0.1"), (b"transfer-encoding", b"chunked"), (b"content-type", kind)]
        scope = {"type": "http", "method": "POST", "path": f"{BASES}/1/documents", "headers": headers}

        async def send(_message: Any) -> None:
            raise AssertionError("the guard itself sends nothing")

        if is_refused:
            with pytest.raises(HTTPException) as refused:
                await layer(scope, receive, send)
            assert refused.value.status_code == 408
            assert next(left, None) is not None  # it did not wait for the rest
        else:
            await layer(scope, receive, send)
        assert layer.memory.bytes == 0

    run(tmp_path, story)


def _held(served: Served) -> _BodyMemory:
    layer: Any = served.app.middleware_stack
    while not isinstance(layer, Guard):
        layer = vars(layer).get("app") or vars(layer)["_app"]
    return layer.memory


def test_a_key_beside_the_authorization_of_a_proxy_counts_and_a_bare_one_is_told_so(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        _, key = issue(served.engine)
        beside = {"authorization": "Basic dTpw", "x-api-key": key}
        assert (await served.http.get(BASES, headers=beside)).status_code == 200
        beside["x-api-key"] = key[:-1]
        assert (await served.http.get(BASES, headers=beside)).status_code == 401
        bare = await served.http.get(BASES, headers={"authorization": key})
        assert (bare.status_code, bare.json()["error"]) == (401, "unauthorized")
        assert "Bearer qx_" in bare.json()["msg"]

    run(tmp_path, story)


def test_head_is_answered_as_get_is_without_its_body(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        base = await served.base()
        paths = ("/healthz", "/readyz", "/docs", BASES, f"{BASES}/{base}", f"{BASES}/9", f"/v1/retrieval/{base}")
        for path in paths:
            got, asked = await served.http.get(path), await served.http.head(path)
            assert (asked.status_code, asked.content) == (got.status_code, b""), path
            assert asked.headers["content-length"] == got.headers["content-length"]
        assert (await served.http.put(BASES, json={})).headers["allow"] == "GET, HEAD, POST"
        assert (await served.http.get(f"/v1/retrieval/{base}")).headers["allow"] == "POST"
        counted = (await served.http.get("/metrics")).text
        assert f'http_requests_total{{method="HEAD",route="{BASES}",status="200"}} 1.0' in counted
        _, key = issue(served.engine)
        assert (await served.http.head(BASES)).status_code == 401
        assert (await served.http.head(BASES, headers=bearer(key))).status_code == 200

    run(tmp_path, story)


def test_every_answer_keeps_browsers_from_guessing_and_keeping(tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        for path in ("/healthz", BASES, "/nowhere", "/docs", "/openapi.json", "/metrics"):
            answer = await served.http.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert len(answer.headers["x-trace-id"]) == 32
            assert "server" not in answer.headers

    run(tmp_path, story)


def run(folder: Path, story, told: Mapping[str, object] | None = None) -> None:  # type: ignore[no-untyped-def]
    async def told_story() -> None:
        async with serving(folder, told) as served:
            await story(served)

    asyncio.run(told_story())
