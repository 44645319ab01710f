"""Receipts, audit and webhooks over HTTP: each tenant sees its own, and the key that acted is named."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from sqlalchemy import text

from qianxun.core.errors import Forbidden
from qianxun.core.ingest_types import DocumentQuery
from qianxun.core.types import Document
from qianxun.doors.client import Client
from qianxun.engine.admin.keys import issue_key
from qianxun.engine.governance.receipts import verify_receipt
from tests.http.asking import Asking, asking


def key_of(at: Asking, tenant: str) -> dict[str, str]:
    return {"authorization": f"Bearer {issue_key(at.engine.settings, tenant, 'write')[1]}"}


def test_a_deletion_gives_a_receipt_that_names_the_key_and_no_tenant_sees_anothers(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(Document("须知", "住院报销比例为百分之八十五。"), Document("门诊", "门诊报销。"))
            own, other = key_of(at, "local"), key_of(at, "other")
            path = f"/v1/knowledge-bases/{base}/documents/须知"
            deleted = (await at.http.delete(path, headers=own)).json()["data"]
            assert deleted["is_complete"]
            assert (await at.http.delete(path, headers=own)).status_code == 404
            receipt = (await at.http.get(f"/v1/receipts/{deleted['receipt']}", headers=own)).json()["data"]
            assert (receipt["who"], receipt["documents"], receipt["is_purged"]) == ("key:1", 1, False)
            key = (await at.http.get("/v1/receipts/key", headers=own)).json()["data"]["public_key"]
            verdict = verify_receipt(json.dumps(receipt), key=key, names=["须知"])
            assert (verdict.is_signed, verdict.is_trusted, verdict.names) == (True, True, {"须知": True})
            assert (await at.http.get(f"/v1/receipts/{receipt['id']}", headers=other)).status_code == 404
            assert (await at.http.get("/v1/receipts", headers=other)).json()["data"]["list"] == []
            entries = (await at.http.get("/v1/audit?action=document", headers=own)).json()["data"]["list"]
            assert [(one["action"], one["who"]) for one in entries] == [
                ("document.delete", "key:1"),
                ("document.add", "library"),
            ]
            assert {
                one["action"] for one in (await at.http.get("/v1/audit", headers=other)).json()["data"]["list"]
            } == {"key.create"}
            # The chain is of all tenants: each is told of its own entries, and that it is broken elsewhere.
            checked = (await at.http.get("/v1/audit/verify", headers=other)).json()["data"]
            assert (checked["is_intact"], checked["entries"], len(checked["head"])) == (True, 1, 64)
            mine = (await at.http.get("/v1/audit/verify", headers=own)).json()["data"]
            assert (mine["is_intact"], mine["entries"] > 3) == (True, True)
            with at.engine.records.writing() as tx:
                tx.execute(
                    text("UPDATE audit_log SET subject = 'x' WHERE tenant = 'local' AND action = 'document.add'")
                )
            elsewhere = (await at.http.get(f"/v1/audit/verify?head={checked['head']}", headers=other)).json()["data"]
            assert (elsewhere["is_intact"], elsewhere["entries"], len(elsewhere["problems"])) == (False, 1, 1)
            assert "第" not in elsewhere["problems"][0]
            named = (await at.http.get("/v1/audit/verify", headers=own)).json()["data"]["problems"]
            assert "内容被改过" in named[0]
            gone = (await at.http.delete(f"/v1/knowledge-bases/{base}?purge=true", headers=own)).json()["data"]
            assert gone["is_complete"]

    asyncio.run(story())


def test_the_client_does_what_the_engine_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as at:
            base = await at.base(Document("甲", "住院报销。", metadata={"年份": 2025}), Document("乙", "门诊报销。"))
            async with Client("http://127.0.0.1:8000", transport=at.http._transport) as client:
                page = await client.contents.page(base, limit=1)
                assert (page.total, len(page.documents)) == (2, 1)
                hook, secret = await client.governance.webhooks.add("https://example.com/x", ["document.deleted"])
                assert secret.startswith("whsec_")
                access = client.governance.access
                await access.set(base, ["甲"], ["group:财务"])
                await access.set_rule(base, "乙", ["user:bob"])
                assert await access.labels(base) == {"group:财务": 1, "user:bob": 1}
                assert [one.doc_id for one in await access.list(base, label="user:bob")] == ["乙"]
                assert [rule.prefix for rule in await access.rules(base)] == ["乙"]
                labelled = await client.contents.page(base, DocumentQuery(access="user:bob"))
                assert ([one.doc_id for one in labelled.documents], labelled.total) == (["乙"], 1)
                for labels, expected in ((("user:bob",), {"乙"}), (("group:财务",), {"甲"}), (("role:无",), set())):
                    async with client.as_principal(*labels) as seen:
                        recall = await seen.retrieve(base, "报销")
                        assert {found.chunk.doc_id for found in recall.results} == expected
                        assert {one.doc_id for one in await seen.documents(base)} == expected
                        with pytest.raises(Forbidden):
                            await seen.governance.access.set(base, ["甲"], [])
                await access.clear(base, ["甲"])
                assert await access.remove_rule(base, "乙")
                receipt = await client.governance.receipts.delete(base, ["甲"], purge=True)
                assert receipt.is_complete
                assert receipt == (await client.governance.receipts.list())[0]
                assert (await client.governance.receipts.purge_subject("u_1")).kind == "subject"
                assert (await client.governance.webhooks.list())[0].id == hook.id
                await client.governance.webhooks.remove(hook.id)
                assert (await client.governance.audit.verify()).is_intact
                assert (await client.governance.audit.list(action="webhook"))[0].action == "webhook.remove"
                assert (await client.governance.quotas.get()).used.documents == 1

    asyncio.run(story())
