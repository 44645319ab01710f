"""On whose behalf a request comes: keys, the header X-Principal, tokens of an issuer; and what it then sees."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from qianxun.core.errors import BadSettings
from qianxun.engine.engine import Engine
from qianxun.engine.governance.tokens import token_verifier
from qianxun.engine.settings import load
from qianxun.records.secrets import keys
from tests.http.served import BASES, Served, serving

ISSUER, AUDIENCE = "https://login.example.com/realms/main", "qianxun"
OPEN, SECRET = "住院报销比例为百分之八十。", "住院报销比例的内部上限为百分之九十五。"


def issued(engine: Engine, scope: str = "read", **rights: Any) -> dict[str, str]:
    with engine.records.writing() as tx:
        _, key = keys.create(tx, "local", scope, **rights)  # type: ignore[arg-type]
    return {"authorization": f"Bearer {key}"}


async def library(served: Served) -> int:
    base = await served.base()
    assert (await served.add(base, "open", OPEN)).status_code == 201
    assert (await served.add(base, "secret", SECRET, access=["group:财务"])).status_code == 201
    return base


async def seen(served: Served, base: int, headers: Mapping[str, str]) -> set[str]:
    """The documents that a search finds, checked to be those that are listed."""
    found = await served.http.post(f"/v1/retrieval/{base}", json={"query": "住院报销比例"}, headers=dict(headers))
    assert found.status_code == 200, found.text
    listed = (await served.http.get(f"{BASES}/{base}/documents", headers=dict(headers))).json()["data"]
    ids = {one["doc_id"] for one in listed["documents"]}
    assert {chunk["doc_id"] for chunk in found.json()["data"]["chunks"]} == ids
    assert listed["total"] == len(ids)
    return ids


def test_who_asks_decides_what_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as served:
            base = await library(served)
            finance = {"x-principal": quote("group:财务", safe=":")}
            assert await seen(served, base, {}) == {"open", "secret"}  # this machine, without keys: the owner
            assert await seen(served, base, {"x-principal": "user:bob"}) == {"open"}
            twice = httpx.Headers([("x-principal", "user:bob"), ("x-principal", finance["x-principal"])])
            refused = await served.http.get(BASES, headers=twice)
            assert (refused.status_code, refused.json()["error"]) == (400, "bad_input")
            owner, reader = issued(served.engine, "write"), issued(served.engine)
            backend = issued(served.engine, vouches=True)
            assert await seen(served, base, owner) == {"open", "secret"}
            assert await seen(served, base, reader) == {"open"}  # nobody said on whose behalf
            assert await seen(served, base, issued(served.engine, sees="everything")) == {"open", "secret"}
            assert await seen(served, base, backend) == {"open"}  # forgot to say it
            assert await seen(served, base, backend | finance) == {"open", "secret"}
            assert await seen(served, base, issued(served.engine, principal=("group:财务",))) == {"open", "secret"}
            forged = await served.http.get(BASES, headers=reader | finance)
            assert (forged.status_code, forged.json()["error"]) == (403, "forbidden")
            bound = issued(served.engine, principal=("user:bob",))
            assert (await served.http.get(BASES, headers=bound | finance)).status_code == 403
            assert (await served.http.get(BASES, headers=backend | {"x-principal": "finance"})).status_code == 400

    asyncio.run(story())


def test_what_is_hidden_answers_as_what_never_was(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as served:
            base = await library(served)
            owner, backend = issued(served.engine, "write"), issued(served.engine, vouches=True)
            bob = backend | {"x-principal": "user:bob"}
            for way in ("documents/{}", "documents/{}/chunks"):
                hidden = await served.http.get(f"{BASES}/{base}/{way.format('secret')}", headers=bob)
                unknown = await served.http.get(f"{BASES}/{base}/{way.format('never')}", headers=bob)
                assert hidden.status_code == unknown.status_code == 404
                assert hidden.text.replace("secret", "never") == unknown.text
            why = [
                await served.http.post(
                    f"/v1/explain/{base}", json={"query": "报销", "chunk_id": f"c_{base}_{one}_0"}, headers=bob
                )
                for one in ("secret", "never")
            ]
            assert why[0].status_code == why[1].status_code
            assert json.dumps(why[0].json()["data"], ensure_ascii=False).find("百分之九十五") < 0
            # Another's searches are not in the log, nor are those of the owner.
            await served.http.post(f"/v1/retrieval/{base}", json={"query": "九十五"}, headers=owner)
            await served.http.post(f"/v1/retrieval/{base}", json={"query": "比例"}, headers=bob)
            log = (await served.http.get("/v1/retrieval-logs", headers=bob)).json()["data"]
            assert {one["query"] for one in log["list"]} == {"比例"}
            for path in ("/v1/audit", "/v1/receipts", "/metrics"):
                assert (await served.http.get(path, headers=bob)).status_code == 403, path
            gone = await served.http.delete(f"{BASES}/{base}/documents/open", headers=bob)
            assert gone.status_code == 403

    asyncio.run(story())


def test_a_search_of_another_is_not_there_by_its_number(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as served:
            base = await library(served)
            owner, backend = issued(served.engine, "write"), issued(served.engine, "write", vouches=True)
            alice = backend | {"x-principal": f"user:alice,group:{quote('财务')}"}
            bob, good = backend | {"x-principal": "user:bob"}, {"rating": "good"}
            for who, query in ((owner, "九十五"), (alice, "上限"), (bob, "比例")):
                await served.http.post(f"/v1/retrieval/{base}", json={"query": query}, headers=who)
            logs = (await served.http.get("/v1/retrieval-logs", headers=owner)).json()["data"]["list"]
            number = {one["query"]: one["id"] for one in logs}
            for log_id in (number["九十五"], number["上限"], 999):
                got = await served.http.get(f"/v1/retrieval-logs/{log_id}", headers=bob)
                rated = await served.http.post(f"/v1/retrieval-logs/{log_id}/feedback", json=good, headers=bob)
                again = await served.http.get(f"/console/replay?log={log_id}", headers=bob)
                assert [one.status_code for one in (got, rated, again)] == [404, 403, 404]
                assert "百分之九十五" not in got.text + rated.text + again.text
            own = number["比例"]
            assert (await served.http.get(f"/v1/retrieval-logs/{own}", headers=bob)).status_code == 200
            assert (await served.http.get(f"/console/replay?log={own}", headers=bob)).status_code == 200
            rated = await served.http.post(f"/v1/retrieval-logs/{own}/feedback", json=good, headers=bob)
            assert rated.status_code == 403, "principals read alone"
            logs = (await served.http.get("/v1/retrieval-logs", headers=owner)).json()["data"]["list"]
            assert all(one["feedback"] is None for one in logs)

    asyncio.run(story())


def test_a_label_counts_for_the_next_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as served:
            base = await library(served)
            owner, bob = issued(served.engine, "write"), issued(served.engine, principal=("user:bob",))
            assert await seen(served, base, bob) == {"open"}
            change = {"doc_ids": ["secret"], "labels": ["user:bob"]}
            assert (await served.http.put(f"{BASES}/{base}/access", json=change, headers=owner)).status_code == 200
            assert await seen(served, base, bob) == {"open", "secret"}
            rule = {"prefix": "open", "labels": ["group:财务"]}
            assert (await served.http.put(f"{BASES}/{base}/access/rules", json=rule, headers=owner)).status_code == 200
            assert await seen(served, base, bob) == {"secret"}
            removed = await served.http.delete(f"{BASES}/{base}/access/rules?prefix=open", headers=owner)
            assert removed.json()["data"] == {"removed": True}
            assert await seen(served, base, bob) == {"open", "secret"}
            page = (await served.http.get(f"{BASES}/{base}/access", headers=owner)).json()["data"]
            assert page["labels"] == {"user:bob": 1}
            labelled = await served.http.get(f"{BASES}/{base}/documents?label=user:bob", headers=owner)
            assert [one["doc_id"] for one in labelled.json()["data"]["documents"]] == ["secret"]
            unknown = {"doc_ids": ["never"], "labels": []}
            assert (await served.http.put(f"{BASES}/{base}/access", json=unknown, headers=owner)).status_code == 404

    asyncio.run(story())


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def signer() -> RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwks(signer: RSAPrivateKey, name: str = "k1") -> str:
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(signer.public_key()))
    return json.dumps({"keys": [{**public, "kid": name, "use": "sig"}, {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}]})


def token(key: Any, algorithm: str = "RS256", name: str = "k1", **claims: Any) -> dict[str, str]:
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "groups": ["财务"], "exp": time.time() + 600}
    written = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    return {"authorization": f"Bearer {jwt.encode(written, key, algorithm, headers={'kid': name})}"}


def test_tokens_of_the_issuer_say_who_asks(tmp_path: Path, signer: RSAPrivateKey) -> None:
    (tmp_path / "keys.json").write_text(jwks(signer))
    access = {"access.issuer": ISSUER, "access.audience": AUDIENCE, "access.jwks_file": str(tmp_path / "keys.json")}
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = signer.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    async def story() -> None:
        async with serving(tmp_path / "data", access) as served:
            base = await library(served)
            issued(served.engine, "write")
            assert await seen(served, base, token(signer)) == {"open", "secret"}
            assert await seen(served, base, token(signer, groups=[])) == {"open"}
            assert await seen(served, base, token(signer, groups="财务", aud=[AUDIENCE, "x"])) == {"open", "secret"}
            refused = {
                "expired": token(signer, exp=time.time() - 600),
                "no expiry": token(signer, exp=None),
                "another issuer": token(signer, iss="https://evil.example.com"),
                "no issuer": token(signer, iss=None),
                "another audience": token(signer, aud="x"),
                "no audience": token(signer, aud=None),
                "another key": token(other),
                "an unknown key": token(signer, name="k2"),
                "not yet": token(signer, nbf=time.time() + 600),
                "nobody": token(signer, sub=None),
                "another algorithm": token(signer, "RS512"),
                "no signature": token(None, "none"),
                "the public key as a secret": _signed_with(public),
                "a secret among the keys": token("secret" * 8, "HS256", "s"),
                "cut short": {"authorization": token(signer)["authorization"][:-20]},
            }
            for name, headers in refused.items():
                answer = await served.http.get(BASES, headers=headers)
                assert answer.status_code == 401, name
            named = await served.http.get(BASES, headers=token(signer) | {"x-principal": "user:bob"})
            assert named.status_code == 403
            written = await served.http.delete(f"{BASES}/{base}", headers=token(signer))
            assert written.status_code == 403

    asyncio.run(story())


def _signed_with(public: bytes) -> dict[str, str]:
    """A token signed with the public key as if that were a shared secret, as PyJWT itself refuses to make one."""
    import base64
    import hashlib
    import hmac

    def encoded(part: Mapping[str, Any] | bytes) -> str:
        raw = part if isinstance(part, bytes) else json.dumps(part).encode()
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "groups": ["财务"], "exp": int(time.time()) + 600}
    text = f"{encoded({'alg': 'HS256', 'kid': 'k1'})}.{encoded(claims)}"
    return {"authorization": f"Bearer {text}.{encoded(hmac.digest(public, text.encode(), hashlib.sha256))}"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"access.audience": ""},
        {"access.jwks_file": ""},
        {"access.algorithms": "HS256"},
        {"access.algorithms": "none"},
    ],
)
def test_settings_with_which_no_token_could_be_verified_are_refused(wrong: dict[str, str]) -> None:
    access = {"access.issuer": ISSUER, "access.audience": AUDIENCE, "access.jwks_file": "keys.json", **wrong}
    with pytest.raises(BadSettings):
        token_verifier(load(environment={}, arguments=access))


def test_keys_are_fetched_by_the_outbound_policy(tmp_path: Path, signer: RSAPrivateKey) -> None:
    """A private address is not asked unless the operator allows it; then it is, and once for many tokens."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        body = jwks(signer).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}/jwks"
        usual = {"access.issuer": ISSUER, "access.audience": AUDIENCE, "access.jwks_url": address}
        written = token(signer)["authorization"].partition(" ")[2]
        async with server:
            refusing = token_verifier(load(environment={}, arguments=usual))
            with pytest.raises(Exception, match="公钥"):
                await refusing.verified(written)
            assert asked == []
            allowing = token_verifier(load(environment={}, arguments={**usual, "outbound.allow": f"127.0.0.1:{port}"}))
            for _ in range(3):
                assert (await allowing.verified(written)).principal.labels == {"user:alice", "group:财务"}
            assert asked == ["/jwks"]

    asyncio.run(story())
