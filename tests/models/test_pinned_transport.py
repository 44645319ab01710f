"""The wire: a name is looked up once for each connection, every address is checked, and nothing outlasts its time."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpcore
import pytest

from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.models import UrlPolicy
from qianxun.models.remote.endpoints import Endpoint
from qianxun.models.remote.http import ModelService
from qianxun.models.remote.pinned_transport import Deadline, PinnedTransport
from qianxun.models.remote.url_policy import is_public
from tests.models.canary import REPLY, Canary, canary, whole_request
from tests.models.embedding_service import Exchange, body, serving, status, well

PUBLIC = "93.184.215.14"


def ask(base_url: str, reach: UrlPolicy, resolve: Callable[[str, int], Sequence[str]], **changes: Any) -> bytes:
    settings: dict[str, Any] = {"attempts": 1, "timeout_seconds": 60.0} | changes
    service = ModelService(Endpoint(base_url, "m", policy=reach, **settings), resolve=resolve)
    try:
        return service.post("embeddings", {"input": ["医保"]}, 1 << 20)
    finally:
        service.close()


def no_names(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"looked up {host}")


@pytest.fixture(scope="module")
def bird() -> Iterator[Canary]:
    with canary() as listening:
        yield listening


# ── names ────────────────────────────────────────────────────────────────────────────────────────


class Rebinding:
    """A resolver whose answer changes from one question to the next."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Canary, list[tuple[str, int]]]]:
    """A public host, played by a second listener: connections to public addresses end there."""
    seen: list[tuple[str, int]] = []
    connect = socket.create_connection
    with canary() as outside:

        def route(address: tuple[str, int], *rest: Any, **named: Any) -> socket.socket:
            seen.append(address)
            public = is_public(ip_address(address[0]))
            return connect(("127.0.0.1", outside.port) if public else address, *rest, **named)

        monkeypatch.setattr(socket, "create_connection", route)
        yield outside, seen


def test_a_connection_goes_to_the_address_that_was_checked_and_the_name_stays_in_the_request(
    internet: tuple[Canary, list[tuple[str, int]]],
) -> None:
    outside, seen = internet
    resolver = Rebinding([PUBLIC], ["127.0.0.1"])
    assert ask("http://Model.Example:8080/v1/?v=1", UrlPolicy(), resolver) == b"{}"
    assert (seen, resolver.asked) == ([(PUBLIC, 8080)], ["model.example"])
    head = outside.asked[0].decode()
    assert head.startswith("POST /v1/embeddings?v=1 HTTP/1.1\r\n")
    assert "host: model.example:8080\r\n" in head.lower()


def test_a_name_that_turns_private_is_refused_at_the_next_connect(
    internet: tuple[Canary, list[tuple[str, int]]], bird: Canary
) -> None:
    outside, seen = internet
    before = bird.hits
    resolver = Rebinding([PUBLIC], ["127.0.0.1"])
    endpoint = Endpoint(f"http://turns.example:{bird.port}/v1", "m", policy=UrlPolicy(), attempts=3)
    service = ModelService(endpoint, resolve=resolver, sleep=lambda wait: None)
    assert service.post("embeddings", {}, 100) == b"{}"
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match="内网"):
            service.post("embeddings", {}, 100)
    service.close()
    assert [address for address, _ in seen] == [PUBLIC]
    assert (outside.hits, bird.hits) == (1, before)
    assert len(resolver.asked) == 4  # a refusal is not tried again within one question


def test_the_second_address_is_tried_where_the_first_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    connect = socket.create_connection
    with canary() as outside:

        def route(address: tuple[str, int], *rest: Any, **named: Any) -> socket.socket:
            tried.append(address[0])
            if address[0] == PUBLIC:
                raise ConnectionRefusedError("refused")
            return connect(("127.0.0.1", outside.port), *rest, **named)

        monkeypatch.setattr(socket, "create_connection", route)
        assert ask("http://two.example/v1", UrlPolicy(), Rebinding([PUBLIC, "8.8.8.8"])) == b"{}"
    assert tried == [PUBLIC, "8.8.8.8"]


def test_a_name_that_nobody_knows_is_unavailable() -> None:
    def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with pytest.raises(ModelUnavailable, match="域名解析失败"):
        ask("http://nobody.example/v1", UrlPolicy(), unknown)
    with pytest.raises(ModelUnavailable, match="没有地址"):
        ask("http://nobody.example/v1", UrlPolicy(), lambda host, port: [])


def test_the_refusal_names_the_host_but_not_where_it_leads(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        ask("http://inside.example/v1", UrlPolicy(), lambda host, port: ["10.1.2.3"])
    assert "inside.example" in str(caught.value)
    assert "outbound.allow" in str(caught.value)
    assert "10.1.2.3" not in str(caught.value)
    assert "10.1.2.3" in caplog.text  # the operator may know


# ── redirects and proxies ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_leads_nowhere(code: int, bird: Canary) -> None:
    before = bird.hits
    with serving(status(code, location=f"http://127.0.0.1:{bird.port}/v1/embeddings")) as service:
        allowed = UrlPolicy(allow=(service.url.removeprefix("http://").removesuffix("/v1"),))
        with pytest.raises(ModelUnavailable, match="重定向"):
            ask(service.url, allowed, no_names)
        assert len(service.asked) == 1
    assert bird.hits == before


def test_the_environment_names_no_proxy(bird: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bird.hits
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{bird.port}")
    with serving(well) as service:
        ask(service.url, UrlPolicy.anywhere(), no_names)
        assert len(service.asked) == 1
    assert bird.hits == before


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of model.example, which no authority signed."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "model.example")])
    now = datetime.now(UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName("model.example")]), critical=False)
    signed = built.sign(key, hashes.SHA256())
    path = tmp_path_factory.mktemp("tls") / "model.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


@contextmanager
def secure(certificate: Path, names: list[str | None]) -> Iterator[tuple[int, list[bytes]]]:
    """One TLS server on loopback; notes the name that each client greets it by, and the heads of requests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda line, name, _: names.append(name)
    heads: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:  # shut down
                return
            try:
                with context.wrap_socket(line, server_side=True) as safe:
                    heads.append(whole_request(safe))
                    safe.sendall(REPLY)
            except OSError:
                line.close()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], heads
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def test_over_tls_the_name_is_greeted_and_verified_though_an_address_is_connected(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpcore, "default_ssl_context", lambda: ssl.create_default_context(cafile=certificate))
    names: list[str | None] = []
    allowed = UrlPolicy(allow=("127.0.0.1",))
    with secure(certificate, names) as (port, heads):
        for host in ("model.example", "model.example."):
            assert ask(f"https://{host}:{port}/v1", allowed, lambda host, port: ["127.0.0.1"]) == b"{}"
            assert f"host: {host}:{port}".encode() in heads[-1].lower()
        assert names == ["model.example", "model.example"]
        with pytest.raises(ModelUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            ask(f"https://other.example:{port}/v1", allowed, lambda host, port: ["127.0.0.1"])
        assert (names[2], len(heads)) == ("other.example", 2)


def test_a_certificate_that_no_authority_signed_is_refused(certificate: Path) -> None:
    with secure(certificate, []) as (port, heads), pytest.raises(ModelUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        ask(f"https://model.example:{port}/v1", UrlPolicy.anywhere(), lambda host, port: ["127.0.0.1"])
    assert heads == []


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def raw(talk: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """A server of one connection that says what it likes."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        try:
            line, _ = listener.accept()
        except OSError:  # shut down: whoever was to come had no time left for it
            return
        with line:
            try:
                talk(line, over)
            except OSError:
                over.set()  # the client has gone

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def drips(first: bytes, drop: bytes) -> Callable[[socket.socket, threading.Event], None]:
    def talk(line: socket.socket, over: threading.Event) -> None:
        whole_request(line)
        line.sendall(first)
        for _ in range(1200):  # a minute, if it is let
            if over.wait(0.05):
                return
            line.sendall(drop)
        talk.finished = True  # type: ignore[attr-defined]

    return talk


DRIPPING = {
    "status line": drips(b"", b"H"),
    "header name": drips(b"HTTP/1.1 200 OK\r\n", b"x"),
    "header lines": drips(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    "informational replies": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": drips(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n", b" "),
    "chunks": drips(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "chunk size": drips(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"0"),
    "trailers": drips(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n"),
    "body without end": drips(b"HTTP/1.0 200 OK\r\n\r\n", b" "),
}


@pytest.mark.parametrize("part", DRIPPING)
def test_nothing_that_drips_outlasts_the_timeout(part: str) -> None:
    talk = DRIPPING[part]
    with raw(talk) as url, pytest.raises(ModelUnavailable, match=r"超时|不是 HTTP"):
        ask(url, UrlPolicy.anywhere(), no_names, timeout_seconds=0.2)
    assert not hasattr(talk, "finished")


def test_a_service_that_never_reads_is_out_of_time() -> None:
    def deaf(line: socket.socket, over: threading.Event) -> None:
        over.wait(60)

    with raw(deaf) as url:
        service = ModelService(Endpoint(url, "m", attempts=1, timeout_seconds=0.2))
        with pytest.raises(ModelUnavailable, match="超时"):
            service.post("embeddings", {"input": "医" * 20_000_000}, 100)
        service.close()


def test_a_handshake_that_never_ends_is_out_of_time() -> None:
    def silent(line: socket.socket, over: threading.Event) -> None:
        for _ in range(1200):
            if over.wait(0.05):
                return
            line.sendall(b"\x16")

    with raw(silent) as url, pytest.raises(ModelUnavailable, match=r"超时|SSL"):
        ask(url.replace("http:", "https:"), UrlPolicy.anywhere(), no_names, timeout_seconds=0.2)


def test_a_resolver_that_does_not_answer_is_out_of_time() -> None:
    over = threading.Event()

    def slow(host: str, port: int) -> Sequence[str]:
        over.wait(60)
        return ["127.0.0.1"]

    with pytest.raises(ModelUnavailable, match="超时"):
        ask("http://slow.example/v1", UrlPolicy(), slow, timeout_seconds=0.3)
    assert not over.is_set()
    over.set()


def test_a_request_that_names_no_moment_has_no_time(bird: Canary) -> None:
    with pytest.raises(httpcore.ConnectTimeout):
        PinnedTransport(UrlPolicy.anywhere()).connect_tcp("127.0.0.1", bird.port)
    stream = PinnedTransport(UrlPolicy.anywhere()).connect_tcp("127.0.0.1", bird.port, Deadline(time.monotonic() + 60))
    with pytest.raises(httpcore.WriteTimeout):
        stream.write(b"x")
    with pytest.raises(httpcore.ReadTimeout):
        stream.read(1, Deadline(time.monotonic() - 1))
    stream.close()


def test_a_long_request_arrives_whole() -> None:
    with serving(body(b"{}")) as service:
        client = ModelService(Endpoint(service.url, "m", attempts=1))
        client.post("embeddings", {"input": ["医保" * 2_000_000]}, 1 << 20)
        client.close()
        assert service.asked[0]["input"] == ["医保" * 2_000_000]


def test_connections_are_kept_and_a_name_is_not_looked_up_again_for_one() -> None:
    def keep(exchange: Exchange) -> None:
        exchange.protocol_version = "HTTP/1.1"
        exchange.close_connection = False
        well(exchange)

    resolver = Rebinding(["127.0.0.1"], ["10.0.0.1"])
    with serving(keep) as service:
        port = service.url.rpartition(":")[2]
        endpoint = Endpoint(f"http://kept.example:{port}", "m", policy=UrlPolicy(allow=("127.0.0.1",)), attempts=1)
        client = ModelService(endpoint, resolve=resolver)
        for _ in range(3):
            client.post("embeddings", {"input": ["医保"]}, 1 << 20)
        client.close()
        assert (len(service.asked), len(resolver.asked)) == (3, 1)


# ── replies that are not what was asked for ──────────────────────────────────────────────────────


def test_a_compressed_reply_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(b" " * (1 << 20))
    with (
        serving(lambda exchange: exchange.send(bomb, content_encoding="gzip")) as service,
        pytest.raises(BadModelReply, match="压缩"),
    ):
        ask(service.url, UrlPolicy.anywhere(), no_names)


@pytest.mark.parametrize("banner", [b"SSH-2.0-OpenSSH_9.6 secret-host\r\n", b"-ERR secret-host\r\n", b"\x00\xff" * 500])
def test_what_speaks_no_http_is_not_quoted(banner: bytes) -> None:
    def talk(line: socket.socket, over: threading.Event) -> None:
        whole_request(line)
        line.sendall(banner)

    with raw(talk) as url, pytest.raises(ModelUnavailable, match="不是 HTTP") as caught:
        ask(url, UrlPolicy.anywhere(), no_names)
    assert "secret-host" not in str(caught.value)


@pytest.mark.parametrize("form", ["sk-a+b/c=1234567", "sk-a%2Bb%2Fc%3D1234567", "c2stYStiL2M9MTIzNDU2Nw"])
@pytest.mark.parametrize("before", [0, 185])  # whole, and where what is shown of a reply ends
def test_a_key_is_not_repeated_in_any_form(form: str, before: int) -> None:
    with serving(status(400, f"{'x' * before} {form} is wrong".encode())) as service:
        with pytest.raises(ModelUnavailable) as caught:
            ask(service.url, UrlPolicy.anywhere(), no_names, api_key="sk-a+b/c=1234567")
        assert form[:9] not in str(caught.value)
        assert service.headers[0]["authorization"] == "Bearer sk-a+b/c=1234567"


def test_a_reply_of_nothing_is_a_reply() -> None:
    with serving(body(b"")) as service:
        assert ask(service.url, UrlPolicy.anywhere(), no_names) == b""
