"""`qianxun receipts`, `purge` and `audit`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_a_deletion_is_proved_to_somebody_without_the_folder(handbook: Run, tmp_path: Path) -> None:
    (chunk,) = handbook("search", "QH-2087", "--kb", "手册", "--top-k", "1", "--json").json["chunks"]
    doc_id, file = chunk["doc_id"], tmp_path / "receipt.json"
    deleted = handbook("delete", doc_id, "--kb", "手册", "--purge", "--json").json
    assert deleted["is_complete"]
    (listed,) = handbook("receipts", "list", "--json").json["list"]
    assert listed["id"] == deleted["receipt"]
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
