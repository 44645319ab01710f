"""`qianxun receipts`, `purge`, `audit` and `access`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_deletion_is_proved_to_somebody_without_the_folder(
    handbook: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (chunk,) = handbook("search", "QH-2087", "--kb", "手册", "--top-k", "1", "--json").json["chunks"]
    doc_id, file = chunk["doc_id"], tmp_path / "receipt.json"
    deleted = handbook("delete", doc_id, "--kb", "手册", "--purge", "--json").json
    assert deleted["is_complete"]
    (listed,) = handbook("receipts", "list", "--json").json["list"]
    assert listed["id"] == deleted["receipt"]
    monkeypatch.setenv("COLUMNS", "80")
    assert deleted["receipt"] in handbook("receipts", "list").out  # in one piece, to be copied
    key = handbook("receipts", "key").out.strip()
    assert handbook("receipts", "show", deleted["receipt"], "-o", str(file)).code == 0
    assert "qianxun.db" not in handbook("receipts", "show", deleted["receipt"]).out
    check = ("receipts", "verify", str(file), "--json", "--about", doc_id)
    verdict = handbook(*check, "--public-key", key).json
    assert (verdict["is_signed"], verdict["is_trusted"], verdict["names"]) == (True, True, {doc_id: True})
    assert handbook(*check).json["is_trusted"]
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "documents": 9}), "utf-8")
    assert handbook("receipts", "verify", str(file)).code == 1


def test_the_audit_log_names_the_command_and_is_checked(handbook: Run) -> None:
    listed = handbook("audit", "list", "--json").json["list"]
    assert [entry["action"] for entry in listed][-1] == "base.create"
    assert {entry["who"].partition(":")[0] for entry in listed} == {"command"}
    assert handbook("audit", "list").out.count("document.add") == sum(
        entry["action"] == "document.add" for entry in listed
    )
    verdict = handbook("audit", "verify", "--json").json
    assert (verdict["is_intact"], verdict["entries"]) == (True, len(listed))
    assert handbook("audit", "verify", "--head", "0" * 64).code == 1


def test_a_user_is_purged(handbook: Run, tmp_path: Path) -> None:
    file = tmp_path / "私人.txt"
    file.write_text("这一段文字是某位用户私人的内容，不该留下。", "utf-8")
    assert handbook("add", str(file), "--kb", "手册", "--user", "u_9").code == 0
    purged = handbook("purge", "--subject", "u_9", "--yes", "--json").json
    assert (purged["kind"], purged["documents"], purged["is_complete"]) == ("subject", 1, True)
    assert handbook("show", "私人.txt", "--kb", "手册").code == 2


def test_documents_are_listed_by_what_is_known_of_them(handbook: Run) -> None:
    every = handbook("kb", "documents", "手册", "--order", "name", "--json").json
    assert (every["total"], every["next"]) == (2, None)
    named = handbook("kb", "documents", "手册", "--name", "制度", "--where", "metadata.format=markdown", "--json").json
    assert [one["name"] for one in named["documents"]] == ["制度.md"]
    assert handbook("kb", "documents", "手册", "--since", "昨天").code == 2
    assert (
        "制度.md"
        in handbook("kb", "documents", "手册", "--limit", "1", "--order", "newest").out
        + handbook("kb", "documents", "手册", "--limit", "1", "--order", "oldest").out
    )


def test_labels_decide_what_a_principal_is_shown(handbook: Run) -> None:
    named = {one["name"]: one["doc_id"] for one in handbook("kb", "documents", "手册", "--json").json["documents"]}
    prices, folder = named["价目.csv"], "文件"

    def seen(*principal: str) -> set[str]:
        listed = handbook(*principal, "kb", "documents", "手册", "--json").json["documents"]
        found = handbook(*principal, "search", "QH-2087 差旅", "--kb", "手册", "--json").json["chunks"]
        assert {one["doc_id"] for one in found} <= {one["doc_id"] for one in listed}
        return {one["name"] for one in listed}

    bob, finance = ("--principal", "user:bob"), ("--principal", "user:eve,group:财务")
    assert handbook("access", "list", "--kb", "手册").code == 0
    assert seen(*bob) == {"制度.md", "价目.csv"}
    given = handbook("access", "set", "价目.csv", "--kb", "手册", "--label", "group:财务", "--json").json["documents"]
    assert [(one["doc_id"], one["labels"], one["is_own"]) for one in given] == [(prices, ["group:财务"], True)]
    assert (seen(), seen(*bob), seen(*finance)) == ({"制度.md", "价目.csv"}, {"制度.md"}, {"制度.md", "价目.csv"})
    assert handbook("access", "rules", "set", folder, "--kb", "手册", "-l", "user:bob").code == 0
    assert (seen(*bob), seen(*finance)) == ({"制度.md"}, {"价目.csv"})
    labelled = handbook("kb", "documents", "手册", "--label", "user:bob", "--json").json
    assert (labelled["total"], [one["name"] for one in labelled["documents"]]) == (1, ["制度.md"])
    listed = handbook("access", "list", "--kb", "手册", "--json").json
    assert listed["labels"] == {"group:财务": 1, "user:bob": 1}
    assert handbook("access", "list", "--kb", "手册", "--label", "user:bob").out.count("规则") == 1
    assert len(handbook("access", "rules", "list", "--kb", "手册", "--json").json["rules"]) == 1
    assert handbook("access", "clear", prices, "--kb", "手册").code == 0
    assert seen(*bob) == {"制度.md", "价目.csv"}
    assert handbook("access", "rules", "remove", folder, "--kb", "手册", "--json").json["removed"]
    assert seen(*finance) == {"制度.md", "价目.csv"}
    for wrong in (("access", "set", prices, "--kb", "手册", "--label", "财务"), ("--principal", "财务", "kb", "list")):
        assert handbook(*wrong).code == 2
    for refused in (("verify",), ("kb", "delete", "手册", "--yes"), ("kb", "learn", "手册"), ("access", "list")):
        assert handbook(*bob, *refused, *(("--kb", "手册") if refused[0] == "access" else ())).code != 0, refused


def test_a_search_of_another_is_not_replayed(handbook: Run) -> None:
    assert handbook("access", "set", "价目.csv", "--kb", "手册", "--label", "group:财务").code == 0
    alice, bob = ("--principal", "user:alice,group:财务"), ("--principal", "user:bob")
    for who in ((), alice, bob):
        assert handbook(*who, "search", "QH-2087", "--kb", "手册").code == 0
    bobs, alices, owners = (one["id"] for one in handbook("logs", "--json").json["logs"])
    assert [one["id"] for one in handbook(*bob, "logs", "--json").json["logs"]] == [bobs]
    for number in (owners, alices, bobs):  # a replay is for owners
        refused = handbook(*bob, "replay", str(number), "--json")
        assert (refused.code, "QH-2087" in refused.out + refused.err) == (2, False)
    assert handbook("replay", str(owners), "--json").json["replay"]["same"]


def test_quotas_are_set_and_shown(handbook: Run) -> None:
    assert handbook("quotas", "set", "--tenant", "local", "--documents", "2", "--searches", "60").code == 0
    assert handbook("quotas", "set", "--tenant", "local", "--searches", "none").code == 0
    (one,) = handbook("quotas", "list", "--json").json["quotas"]
    assert (one["quota"]["documents"], one["quota"]["searches_per_minute"], one["used"]["documents"]) == (2, None, 2)
    assert "2 / 2" in handbook("quotas", "list").out
    assert handbook("quotas", "set", "--tenant", "local", "--chunks", "很多").code == 2


def test_webhooks_are_registered_and_removed(handbook: Run) -> None:
    assert handbook("webhooks", "add", "http://127.0.0.1:9/x").code == 2
    made = handbook("webhooks", "add", "https://example.com/x", "--events", "document.failed", "--json").json
    assert made["secret"].startswith("whsec_")
    assert "example.com" in handbook("webhooks", "list").out
    assert made["secret"] not in handbook("webhooks", "list", "--json").out
    assert handbook("webhooks", "remove", str(made["id"])).code == 0
    assert handbook("webhooks", "list", "--json").json == {"list": []}


def test_documents_are_labelled_by_name(handbook: Run) -> None:
    (labelled,) = handbook("access", "set", "制度.md", "--kb", "手册", "--label", "group:人事", "--json").json[
        "documents"
    ]
    assert (labelled["name"], labelled["labels"]) == ("制度.md", ["group:人事"])
    assert "制度.md" in handbook("access", "list", "--kb", "手册").out
    assert handbook("access", "clear", "制度.md", "--kb", "手册", "--json").json["documents"][0]["labels"] == []
    assert handbook("access", "set", "没有这份", "--kb", "手册").code == 2


def test_a_file_of_another_kind_is_called_so(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "图.png").write_bytes(b"\x89PNG\r\n\xff")
    assert "不是凭证" in handbook("receipts", "verify", tmp_path / "图.png").err
    refused = handbook("kb", "import", tmp_path / "图.png").err
    assert "不是知识库文件" in refused
    assert "gzip" not in refused
