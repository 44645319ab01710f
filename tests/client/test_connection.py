"""How a client waits, tries again, gives up, and says what went wrong."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from qianxun.core import errors
from qianxun.core.errors import BadInput, BadQuery, NotFound, QianxunError, ServiceUnavailable, Unauthorized
from qianxun.core.types import Document
from qianxun.doors.client import Client, Timeouts
from tests.models.embedding_service import unheard

QUICK = Timeouts(connect_seconds=60.0, answer_seconds=60.0, work_seconds=60.0, pause_seconds=0.01)
KEY = "qx_" + "k" * 43

Work = Callable[[Client], Awaitable[Any]]
Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(data: Any, status: int = 200, *headers: str, **more: Any) -> bytes:
    body = json.dumps({"code": status, "msg": "success", "data": data, **more}).encode()
    return raw(status, body, "content-type: application/json", *headers)


def problem(status: int, word: str, msg: str, *headers: str, **more: Any) -> bytes:
    return answer(None, status, *headers, error=word, **{"msg": msg, **more})


def raw(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} told", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


NO_BASES = answer({"total": 0, "knowledge_bases": [], "next": None})


@dataclass
class Scripted:
    """A server that says what it is told to say, in turn, and remembers what it was asked. b"": hangs up."""

    replies: list[Reply]
    url: str = ""
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((line for line in head.lower().split("\r\n") if line.startswith("content-length:")), ":0")
                self.bodies.append(await reader.readexactly(int(length.split(":")[1])))
                self.heads.append(head)
                reply = self.replies.pop(0)
                if callable(reply):
                    await reply(writer)
                elif not reply:
                    return
                else:
                    writer.write(reply)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*replies: Reply) -> AsyncIterator[Scripted]:
    told = Scripted(list(replies))
    server = await asyncio.start_server(told.talk, "127.0.0.1", 0)
    told.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield told


def asked(
    *replies: Reply, work: Callable[[Client], Awaitable[Any]], timeouts: Timeouts = QUICK, **how: Any
) -> Scripted:
    """What the server was asked while the work was done."""

    async def run() -> Scripted:
        async with scripted(*replies) as server:
            async with Client(server.url, timeouts=timeouts, **how) as client:
                await work(client)
            return server

    return asyncio.run(run())


def refused(*replies: Reply, work: Work, **how: Any) -> QianxunError:
    with pytest.raises(QianxunError) as caught:
        asked(*replies, work=work, **how)
    return caught.value


def search(client: Client) -> Awaitable[Any]:
    return client.retrieve(1, "住院")


def listed(client: Client) -> Awaitable[Any]:
    return client.knowledge_bases()


def create(client: Client) -> Awaitable[Any]:
    return client.create_knowledge_base("手册")


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "word", "kind"),
    [
        (404, "not_found", errors.NotFound),
        (409, "already_there", errors.AlreadyThere),
        (401, "unauthorized", errors.Unauthorized),
        (403, "forbidden", errors.Forbidden),
        (413, "too_large", errors.TooLarge),
        (415, "unsupported_file", errors.UnsupportedFile),
        (422, "bad_filter", errors.BadFilter),
        (422, "unreadable", errors.Unreadable),
        (422, "validation", errors.BadInput),
        (503, "recall_failed", errors.RecallFailed),
        (503, "model_unavailable", errors.ModelUnavailable),
        (503, "missing_extra", errors.MissingExtra),
    ],
)
def test_an_error_of_the_service_is_the_engine_s_error(status: int, word: str, kind: type[QianxunError]) -> None:
    told = refused(problem(status, word, "“医保　手册”不行　改一改", "retry-after: 1"), work=create, key=KEY)
    assert (type(told), told.word) == (kind, kind.word)
    assert (told.message, told.hint) == ("“医保　手册”不行", "改一改")


def test_a_field_that_is_wrong_in_a_search_is_a_bad_query() -> None:
    assert type(refused(problem(422, "validation", "top_k：应不大于 100"), work=search)) is BadQuery


def test_an_unforeseen_error_says_which_trace_to_look_for() -> None:
    told = refused(problem(500, "internal", "服务内部出错　告诉管理员", trace_id="abc123"), work=listed)
    assert (type(told), told.word) == (QianxunError, "internal")
    assert "abc123" in told.hint


@pytest.mark.parametrize(
    "reply",
    [
        raw(200, b"<html>hello</html>"),
        raw(502, b"<html>Bad Gateway</html>"),
        raw(200, b'{"hello": "world"}'),
        raw(200, b"[]"),
        raw(200, b'\xff{"code"'),
        raw(301, b"", "location: http://example.com/"),
        answer({"knowledge_bases": [{"id": 1}]}),
        answer(None),
        answer("text"),
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
)
def test_what_is_no_answer_of_the_service_is_said_to_be_none(reply: bytes) -> None:
    replies = [reply] * QUICK.attempts
    told = refused(*replies, work=listed, timeouts=Timeouts(answer_seconds=0.3, pause_seconds=0.01))
    assert type(told) is ServiceUnavailable
    assert "http://127.0.0.1:" in told.message
    assert told.hint


def test_no_redirect_is_followed() -> None:
    async def run() -> None:
        async with scripted(NO_BASES) as elsewhere:
            moved = raw(307, b"", f"location: {elsewhere.url}/v1/knowledge-bases")
            async with scripted(moved) as server, Client(server.url, key=KEY, timeouts=QUICK) as client:
                with pytest.raises(ServiceUnavailable):
                    await client.knowledge_bases()
            assert elsewhere.heads == []

    asyncio.run(run())


# ── trying again ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("work", [listed, search])
def test_what_can_be_repeated_is_tried_again_after_a_broken_connection(work: Any) -> None:
    with pytest.raises(NotFound):
        asked(b"", b"", problem(404, "not_found", "没有"), work=work)


def test_what_cannot_be_repeated_is_sent_once() -> None:
    told = refused(b"", work=create)
    assert type(told) is ServiceUnavailable
    assert "先看看结果" in told.hint

    async def run() -> None:
        async with scripted(b"", b"", b"") as server, Client(server.url, timeouts=QUICK) as client:
            with pytest.raises(ServiceUnavailable):
                await client.create_knowledge_base("手册")
            assert len(server.heads) == 1

    asyncio.run(run())


def test_a_busy_service_is_asked_again_when_it_says() -> None:
    busy = problem(503, "overloaded", "太多", "retry-after: 0")
    server = asked(busy, busy, NO_BASES, work=listed)
    assert len(server.heads) == 3


@pytest.mark.parametrize(
    ("reply", "times"),
    [
        (problem(503, "overloaded", "太多　稍后", "retry-after: 0"), 4),
        (problem(503, "overloaded", "太多　稍后", "retry-after: 3600"), 1),
        (problem(503, "overloaded", "太多　稍后", "retry-after: -1"), 1),
        (problem(503, "overloaded", "太多　稍后"), 1),
        (problem(503, "recall_failed", "每一路都失败了　稍后", "retry-after: 0"), 1),
        (problem(500, "internal", "出错　稍后", "retry-after: 0"), 1),
        (problem(404, "not_found", "没有　稍后", "retry-after: 0"), 1),
    ],
)
def test_how_often_a_refusal_is_repeated(reply: bytes, times: int) -> None:
    async def run() -> None:
        async with scripted(*[reply] * 9) as server, Client(server.url, timeouts=QUICK) as client:
            with pytest.raises(QianxunError) as caught:
                await client.retrieve(1, "住院")
            assert len(server.heads) == times
            assert caught.value.hint == "稍后"

    asyncio.run(run())


def test_a_service_that_is_not_there_is_said_not_to_be() -> None:
    async def run() -> None:
        with unheard() as url:
            async with Client(url, timeouts=QUICK) as client:
                with pytest.raises(ServiceUnavailable, match="连不上"):
                    await client.knowledge_bases()

    asyncio.run(run())


def test_a_service_that_never_answers_is_not_waited_for() -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(300)

    told = refused(silent, work=listed, timeouts=Timeouts(answer_seconds=0.3))
    assert type(told) is ServiceUnavailable
    assert "0.3 秒" in told.message


def test_an_answer_that_drips_for_ever_is_not_waited_for() -> None:
    async def dripping(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    started = time.monotonic()
    told = refused(dripping, work=listed, timeouts=Timeouts(answer_seconds=0.5))
    assert type(told) is ServiceUnavailable
    assert time.monotonic() - started < 100


def test_connections_are_kept() -> None:
    async def work(client: Client) -> None:
        for _ in range(5):
            await client.knowledge_bases()

    assert asked(*[NO_BASES] * 5, work=work).connections == 1


def test_a_certificate_must_be_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def run() -> None:
        told = Scripted([NO_BASES])
        server = await asyncio.start_server(told.talk, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            async with Client(url, timeouts=QUICK) as client:
                with pytest.raises(ServiceUnavailable, match="SSL_CERT_FILE"):
                    await client.knowledge_bases()
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            async with Client(url, timeouts=QUICK) as client:
                assert await client.knowledge_bases() == ()

    asyncio.run(run())


def self_signed(folder: Path) -> Path:
    """A certificate of 127.0.0.1 by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "千寻")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, now - timedelta(1), now + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "certificate.pem"
    path.write_bytes(made.public_bytes(pem) + secret)
    return path


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_sent_as_a_bearer_and_shown_nowhere() -> None:
    server = asked(NO_BASES, work=listed, key=f" {KEY}\n")
    assert f"authorization: Bearer {KEY}\r\n" in server.heads[0].replace("Authorization", "authorization")
    told = refused(problem(401, "unauthorized", "密钥无效　换一把"), work=listed, key=KEY)
    assert type(told) is Unauthorized
    assert KEY not in f"{told!r} {told} {told.__cause__!r}"
    assert told.hint == "换一把"


def test_who_gives_no_key_is_told_how_a_client_does() -> None:
    told = refused(
        problem(401, "unauthorized", "需要密钥　写在请求头里：Authorization: Bearer qx_…"), work=listed, key=""
    )
    assert type(told) is Unauthorized
    assert "QIANXUN_KEY" in told.hint
    assert "请求头" not in str(told)


@pytest.mark.parametrize("key", ["ｋｅｙ", "a\nb", "a\x00b"])
def test_a_key_that_cannot_be_one_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(BadInput) as caught:
        Client("http://127.0.0.1:1", key=key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8000", "ftp://host", "http://", "http://u:p@host", "http://h/?q=1", "http://h:port", "http://[::1"],
)
def test_a_wrong_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(BadInput):
        Client(url)


def test_an_address_may_have_a_path_before_the_routes() -> None:
    async def run() -> None:
        async with scripted(NO_BASES) as server, Client(f"{server.url}/qianxun/") as client:
            await client.knowledge_bases()
            assert server.heads[0].startswith("GET /qianxun/v1/knowledge-bases?")
            assert client.url == f"{server.url}/qianxun"

    asyncio.run(run())


@pytest.mark.parametrize("doc_id", ["..", ".", "a/b", "a/../../b", "?x=1#y", "%2F", "医 保", "chunks"])
def test_no_id_leads_out_of_its_place_in_a_path(doc_id: str) -> None:
    state = {"doc_id": doc_id, "outcome": "created", "generation": 1, "chunks": 0, "status": "indexed"}
    work = lambda client: client.add_documents(7, [Document(doc_id, "正文")])  # noqa: E731
    (head,) = asked(answer(state, 201), work=work).heads
    path = head.split(" ")[1].partition("?")[0]
    assert path.startswith("/v1/knowledge-bases/7/documents/")
    assert path.count("/") == 5
    assert path.rsplit("/", 1)[1] not in ("", ".", "..")


def test_half_of_a_surrogate_pair_can_be_asked_for_and_not_a_number_cannot() -> None:
    server = asked(
        problem(422, "bad_query", "不行"), work=lambda client: _swallowed(client.retrieve(1, "半个\ud83d字"))
    )
    assert json.loads(server.bodies[0])["query"] == "半个\ud83d字"
    told = refused(work=lambda client: client.retrieve(1, "住院", threshold=float("nan")))
    assert isinstance(told, BadInput)


async def _swallowed(work: Awaitable[Any]) -> None:
    with pytest.raises(BadQuery):
        await work


@pytest.mark.parametrize("trace_id", ["x", "0" * 32, "A" * 32, "a" * 31 + "\n"])
def test_a_trace_that_no_header_can_carry_is_refused(trace_id: str) -> None:
    assert isinstance(refused(work=lambda client: client.retrieve(1, "住院", trace_id=trace_id)), BadInput)


def test_a_document_that_was_parsed_here_is_not_sent_as_text(tmp_path: Path) -> None:
    from qianxun.core.types import Text

    parsed = Document("a", "正文", structure=Text("正文"))
    assert isinstance(refused(work=lambda client: client.add_documents(1, [parsed])), BadInput)


def test_a_client_wants_nothing_of_what_a_service_is_made_of() -> None:
    program = (
        "import sys; absent = ('fastapi', 'starlette', 'uvicorn', 'pydantic', 'cryptography');"
        "sys.modules.update(dict.fromkeys(absent));"
        "from qianxun import Client; print(Client.__name__)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert told.stdout == "Client\n", told.stderr
