"""A key that was told to the service is found nowhere: not in a log, a file, an answer or an error, however written.

Searched for: the keys of registered models, which vendors repeat in every way they can, and the service's own keys.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import httpx
import pytest

from qianxun.models.remote import http as model_http
from qianxun.records.secrets.sealing import Sealing
from tests.http.asking import asking
from tests.http.served import issue, revoke
from tests.http.vendor import DIMENSION, TRADES, Counter, Mood, Vendor, vendor

PLAIN = "sk-canary-0f6c2d8e4b1a97355e2dWXYZ"
ODD = "canary/7+w=%q&Zx9'\"<>\\canary~0123456789abcdef?{}WXYZ"  # what URLs, JSON and HTML write otherwise
SHOWN = 4  # characters at the end that a mask shows
WINDOW = 12  # characters in a row that are as good as the key


# ── the search ───────────────────────────────────────────────────────────────────────────────────


def in_base64(raw: bytes) -> Iterator[str]:
    """The characters that stand for these bytes and no others, wherever in a longer text they begin."""
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + raw + b"\0" * (-(before + len(raw)) % 3)).decode()
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        yield whole[first:last]
        yield whole[first:last].replace("+", "-").replace("/", "_")


def forms(secret: str) -> set[bytes]:
    """How a leak would write it."""
    written = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        quote(quote(secret, safe=""), safe=""),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        repr(secret.encode())[2:-1],
        secret.encode().hex(),
        *in_base64(secret.encode()),
    }
    hidden = secret[:-SHOWN]
    windows = {hidden[at : at + WINDOW] for at in range(len(hidden) - WINDOW + 1)}
    return {each.encode() for each in written | windows} | {secret.encode("utf-16-le")}


@dataclass
class Witness:
    """All that came out of the service: answers and lines of the log; and its folder."""

    folder: Path
    answers: list[tuple[str, bytes]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def haystacks(self) -> Iterator[tuple[str, bytes]]:
        yield from self.answers
        yield "the log", "\n".join(self.lines).encode()
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                yield path.relative_to(self.folder).as_posix(), path.read_bytes()

    def sightings(self, *secrets: str) -> list[str]:
        found = []
        written = set().union(*map(forms, secrets))
        for name, hay in self.haystacks():
            for form in written:
                if (at := hay.find(form)) >= 0:
                    found.append(f"{name}: {form!r} in …{hay[max(0, at - 80) : at + 120]!r}…")
                    break
        return found


@contextmanager
def listening(witness: Witness) -> Iterator[None]:
    """Every logger at its most talkative, as it writes when nothing is covered."""

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "httpx":
                return  # the client of this test
            if record.name == "httpcore.http11" and "receive_response_headers" in record.getMessage():
                return  # what the vendor says in its headers: the service keeps this logger silent (log_lines.QUIET)
            witness.lines.append(f"{self.format(record)} {record.__dict__}")

    root, handler = logging.getLogger(), Keep(logging.DEBUG)
    named = [each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    before = {each: (each.level, each.propagate) for each in (root, *named)}
    root.addHandler(handler)
    for each in before:
        each.setLevel(logging.DEBUG)
        each.propagate = True
    try:
        yield
    finally:
        root.removeHandler(handler)
        for each, (level, propagate) in before.items():
            each.setLevel(level)
            each.propagate = propagate


@asynccontextmanager
async def witnessed(folder: Path, sold: Vendor) -> AsyncIterator[tuple[httpx.AsyncClient, Any, Witness]]:
    witness = Witness(folder)

    async def keep(answer: httpx.Response) -> None:
        await answer.aread()
        witness.answers.append((f"{answer.request.method} {answer.request.url.path}", answer.content))
        witness.answers.append(("headers", repr(answer.headers.raw).encode()))

    told = {"outbound.allow": [sold.address], "search.cache_entries": 0}
    with listening(witness):
        async with asking(folder, told) as asked:
            asked.http.event_hooks["response"].append(keep)
            yield asked.http, asked.engine, witness


# ── what is done with a key ──────────────────────────────────────────────────────────────────────


def echoes(key: str) -> list[str]:
    """A vendor's words for whoever came with this key."""
    header = f"Bearer {key}"
    return [
        f"Incorrect API key provided: {key}",
        f"see https://vendor.example/?key={quote(key, safe='')}&again={quote_plus(key)}",
        f"authorization was {base64.b64encode(header.encode()).decode()}",
        f"x{base64.b64encode(b'1' + header.encode()).decode()} {base64.b64encode(key.encode()).decode()}",
        f"urlsafe {base64.urlsafe_b64encode(b'12' + key.encode()).decode()}",
        json.dumps({"authorization": header}),
        f"{'.' * 170}{key}",  # where the words are cut off
        f"{key[:-6]}",
    ]


def echoing(status: int, words: str) -> Mood:
    """In the body, in a header and in the line of the status."""

    def mood(counter: Counter) -> None:
        raw = json.dumps({"error": {"message": words}, "data": words, "results": words, "choices": words}).encode()
        counter.send(raw, status, **{"x-echo": words.replace("\n", " ")})

    return mood


def new_model(sold: Vendor, kind: str, key: Any) -> dict[str, Any]:
    about = {"config_name": kind, "base_url": sold.url, "model_name": kind, "model_type": kind, "timeout": 60}
    return {**about, "api_key": key, **({"model_dim": DIMENSION} if kind == "embedding" else {})}


async def register(http: httpx.AsyncClient, sold: Vendor, key: str) -> dict[str, int]:
    """Kind → id."""
    made = {}
    for kind in ("embedding", "rerank", "rewrite"):
        answer = await http.post("/user/api/7", json=new_model(sold, kind, key))
        assert answer.status_code == 201, answer.text
        assert answer.json()["data"]["api_key"].endswith(key[-SHOWN:])
        made[kind] = answer.json()["data"]["id"]
    return made


async def blunder(http: httpx.AsyncClient, sold: Vendor, key: str, model: int) -> None:
    """Requests with the key that are wrong in every way: none is taken."""
    wrong: list[Any] = [[key], {"key": key}, {key: 1}, key + " x", key * 500, f"{key}\nx", f"…{key}", key + "密"]
    for value in wrong:
        assert (await http.post("/user/api/7", json=new_model(sold, "rerank", value))).status_code in (400, 422)
        assert (await http.patch(f"/user/api/7/{model}", json={"api_key": value})).status_code in (400, 422)
    for name in ("model_type", "timeout", "model_dim", "temperature", "status"):
        answer = await http.post("/user/api/7", json={**new_model(sold, "rerank", key), name: key})
        assert answer.status_code == 422, answer.text
    for url in (
        f"http://{quote(key, safe='')}:x@h.example/v1",
        f"ftp://h/{quote(key)}",
        f"http://127.0.0.1:1/{quote(key)}",
    ):
        assert (await http.post("/user/api/7", json={**new_model(sold, "rerank", key), "base_url": url})).is_error
    half = json.dumps(new_model(sold, "rerank", key))
    for raw in (half[:-2], half + "}", half.replace(":", "=", 1), f'"{key}"', half.encode() + b"\xff"):
        answer = await http.post("/user/api/7", content=raw, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422), answer.text
    assert (await http.patch(f"/user/api/7/{model}", json={"base_url": sold.url + "/elsewhere"})).status_code == 400


async def use(http: httpx.AsyncClient, models: dict[str, int]) -> int:
    """A base that works with the models; all three of them are asked."""
    named = {kind: f"user-model:{number}" for kind, number in models.items()}
    config = {"rewrite_model": named["rewrite"], "search": {"rerank": named["rerank"]}}
    about = {"name": "医保", "embedding_model": named["embedding"], "config": config}
    made = await http.post("/v1/knowledge-bases", json=about)
    assert made.status_code == 201, made.text
    base: int = made.json()["data"]["id"]
    await put(http, base, "住院费用报销比例为85%。")
    await put(http, base, "门诊报销需要发票。", "d2")
    found = (await search(http, base)).json()["data"]
    assert (found["degraded"], len(found["chunks"]) > 0) == ([], True)
    return base


async def put(http: httpx.AsyncClient, base: int, content: str, doc_id: str = "d1") -> httpx.Response:
    body = {"name": "须知", "content": content}
    return await http.put(f"/v1/knowledge-bases/{base}/documents/{doc_id}", json=body)


async def search(http: httpx.AsyncClient, base: int) -> httpx.Response:
    return await http.post(f"/v1/retrieval/{base}", json={"query": "住院报销比例"})


async def fail(http: httpx.AsyncClient, sold: Vendor, key: str, models: dict[str, int], base: int) -> None:
    """Everything that can go wrong at the vendor's, each time with the key in its words."""
    for status in (200, 400, 401, 429, 500):
        for words in echoes(key) if status in (200, 401) else echoes(key)[:3]:
            for trade in TRADES:
                sold.become(trade, echoing(status, words))
            for model in models.values():
                told = await http.post(f"/user/api/7/{model}/test")
                assert (told.status_code, told.json()["data"]["ok"]) == (200, False)
    for words in echoes(key)[:3]:
        for trade in TRADES:
            sold.become(trade, echoing(401, words))
        await http.patch(f"/user/api/7/{models['rerank']}", json={"status": 1})  # opened anew: it waits for nothing
        assert (await search(http, base)).json()["data"]["degraded"]
        await put(http, base, f"换了内容：{len(words)}。")
        await http.post(f"/v1/explain/{base}", json={"query": "报销", "chunk_id": f"c_{base}_d1_0"})
        await http.get(f"/v1/knowledge-bases/{base}/documents/d1")
    sold.recover()


async def look_around(http: httpx.AsyncClient, base: int) -> None:
    for path in (
        *(f"/user/api/7/{kind}" for kind in ("embedding", "rerank", "rewrite")),
        "/v1/knowledge-bases", f"/v1/knowledge-bases/{base}", f"/v1/knowledge-bases/{base}/documents",
        "/v1/retrieval-logs", "/v1/retrieval-logs/1", "/metrics", "/readyz", "/openapi.json", "/docs",
    ):  # fmt: skip
        assert (await http.get(path)).status_code == 200, path


async def life(http: httpx.AsyncClient, sold: Vendor, key: str) -> None:
    """Registered, used, mistyped, refused by the vendor, changed, removed."""
    models = await register(http, sold, key)
    base = await use(http, models)
    assert all(sold.asked[trade] for trade in TRADES)
    await blunder(http, sold, key, models["rerank"])
    await fail(http, sold, key, models, base)
    for model in models.values():
        assert (await http.patch(f"/user/api/7/{model}", json={"api_key": key[::-1]})).status_code == 200
        assert (await http.patch(f"/user/api/7/{model}", json={"api_key": key})).status_code == 200
        assert (await http.post(f"/user/api/7/{model}/test")).json()["data"]["ok"]
    await look_around(http, base)
    for model in models.values():
        assert (await http.delete(f"/user/api/7/{model}")).status_code == 200
    await search(http, base)
    await look_around(http, base)


@pytest.mark.parametrize("key", [PLAIN, ODD], ids=["plain", "odd"])
def test_the_key_of_a_model_goes_to_its_vendor_and_nowhere_else(tmp_path: Path, key: str) -> None:
    async def run() -> Witness:
        with vendor(key) as sold:
            async with witnessed(tmp_path, sold) as (http, _, witness):
                await life(http, sold, key)
                assert not (found := witness.sightings(key, key[::-1])), "\n".join(found)
            return witness

    witness = asyncio.run(run())
    assert not (found := witness.sightings(key, key[::-1])), "\n".join(found)  # and after everything is closed
    names = {name for name, _ in witness.haystacks()}
    assert {"the log", "qianxun.db"} <= names
    assert len(witness.answers) > 300
    assert any("httpcore" in line for line in witness.lines)
    assert len(witness.lines) > 100


# ── the service's own keys ───────────────────────────────────────────────────────────────────────


def test_of_a_key_to_the_service_only_its_hash_is_kept(tmp_path: Path) -> None:
    async def run() -> tuple[Witness, list[str]]:
        with vendor() as sold:
            async with witnessed(tmp_path, sold) as (http, engine, witness):
                issued = [issue(engine, tenant, scope) for tenant in ("甲", "乙") for scope in ("write", "read")]
                revoke(engine, issued[0][0])
                for _, key in issued:
                    await knock(http, key)
                return witness, [key for _, key in issued]

    witness, keys = asyncio.run(run())
    assert not (found := witness.sightings(*keys)), "\n".join(found)
    kept = (tmp_path / "qianxun.db").read_bytes()
    assert all(hashlib.sha256(key.encode()).hexdigest().encode() in kept for key in keys)


async def knock(http: httpx.AsyncClient, key: str) -> None:
    """With the key where it belongs, and wherever else somebody might put it."""
    for headers in (
        {"authorization": f"Bearer {key}"},
        {"authorization": f"Bearer {key}x"},
        {"authorization": key},
        {"authorization": f"Basic {base64.b64encode(f'key:{key}'.encode()).decode()}"},
        {"x-api-key": key},
        {"cookie": f"key={key}"},
        {
            "authorization": f"Bearer {key}",
            "accept-language": key,
            "user-agent": key,
            "traceparent": key,
            "origin": key,
        },
    ):
        await http.get("/v1/knowledge-bases", headers=headers)
        await http.get(f"/v1/knowledge-bases?key={key}&limit={key}", headers=headers)
        await http.post("/v1/knowledge-bases", headers=headers, json={"name": "", "kind": key})
        await http.post(f"/user/api/7/{key}", headers=headers)
        await http.post("/v1/retrieval/1", headers=headers, content=f'{{"query": {key}'.encode())


# ── the negative controls ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("secret", [PLAIN, ODD, "qx_" + "aZ09_-" * 7 + "x"])
def test_the_search_sees_every_form(tmp_path: Path, secret: str) -> None:
    leaks = [
        secret,
        f"?key={quote(secret, safe='')}",
        json.dumps({"api_key": secret}),
        secret[3:20],
        repr({"key": secret}),
        *(base64.b64encode(b"Bearer "[:at] + secret.encode() + b"tail").decode() for at in range(8)),
        *(base64.urlsafe_b64encode(b"Bearer "[:at] + secret.encode()).decode() for at in range(8)),
    ]
    for leak in leaks:
        assert Witness(tmp_path, [("an answer", f"before {leak} after".encode())]).sightings(secret), leak
        assert Witness(tmp_path, [], [leak]).sightings(secret)
        (tmp_path / "file").write_bytes(b"\xff\x00" + leak.encode())
        assert Witness(tmp_path).sightings(secret)
        (tmp_path / "file").unlink()
    assert not Witness(tmp_path, [("an answer", f"sk-…{secret[-SHOWN:]}".encode())]).sightings(secret)


def test_a_service_that_lets_vendors_talk_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_http, "without_key", lambda text, _: text)
    found = asyncio.run(_found(tmp_path))
    assert any(each.startswith("POST /user/api/7/") for each in found)


def test_a_service_that_keeps_keys_as_they_are_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sealing, "seal", lambda _, secret, __: secret.encode())
    monkeypatch.setattr(Sealing, "open", lambda _, sealed, __: sealed.decode())
    found = asyncio.run(_found(tmp_path))
    assert any(each.startswith("qianxun.db") for each in found)


def test_a_line_of_the_log_with_a_key_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def talkative(_: Any, secret: str, __: Any) -> bytes:
        logging.getLogger("sealing").debug("sealing %s", base64.b64encode(f"x{secret}".encode()))
        return b"sealed"

    monkeypatch.setattr(Sealing, "seal", talkative)
    monkeypatch.setattr(Sealing, "open", lambda *_: PLAIN)
    found = asyncio.run(_found(tmp_path))
    assert [each.partition(":")[0] for each in found] == ["the log"]


async def _found(folder: Path) -> list[str]:
    with vendor(PLAIN) as sold:
        async with witnessed(folder, sold) as (client, _, witness):
            models = await register(client, sold, PLAIN)
            sold.become("rerank", echoing(401, echoes(PLAIN)[0]))
            await client.post(f"/user/api/7/{models['rerank']}/test")
            return witness.sightings(PLAIN)
