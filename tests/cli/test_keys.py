"""`qianxun keys` and `qianxun models add`: secrets go in and come out where they should and nowhere else."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun.engine.folder_lock import owned
from qianxun.records import Records
from qianxun.records.database.open import sqlite_url
from qianxun.records.secrets import keys
from tests import preloaded
from tests.cli.conftest import Run
from tests.models.embedding_service import DIMENSION, serving, status, well

KEY = "sk-canary-0123456789abcdef"
MAIN = "import sys; from qianxun.doors.cli import main; sys.exit(main())"


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    (tmp_path / "qianxun-data").mkdir(exist_ok=True)
    opened = Records.open(sqlite_url(tmp_path / "qianxun-data" / "qianxun.db"))
    yield opened
    opened.close()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key.txt"
    file.write_text(f"{KEY}\n", "utf-8")
    return file


def test_a_key_is_shown_once_alone_on_stdout(run: Run, records: Records) -> None:
    made = run("keys", "create", "--tenant", "甲", "--scope", "read", "--name", "报表")
    assert (made.code, "不会再显示" in made.err) == (0, True)
    plaintext = made.out.strip()
    assert re.fullmatch(r"qx_[\w-]{43}", plaintext)
    with records.reading() as tx:
        assert keys.find(tx, plaintext) == keys.KeyHolder(1, "甲", "read", "unlabelled")
    told = run("keys", "list")
    assert (plaintext not in told.out, "甲" in told.out, "报表" in told.out) == (True, True, True)


def test_keys_are_listed_and_revoked_as_json(run: Run, records: Records) -> None:
    made = run("keys", "create", "--json").json
    assert (made["tenant"], made["scope"]) == ("local", "write")
    assert run("keys", "revoke", str(made["id"]), "--json").json["revoked_at"]
    (row,) = run("keys", "list", "--json").json["keys"]
    assert ("key" in row, row["revoked_at"] is None) == (False, False)
    with records.reading() as tx:
        assert keys.find(tx, made["key"]) is None
    assert "已收回" in run("keys", "list").out


def test_keys_are_issued_beside_whoever_owns_the_folder(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "qianxun-data"
    with owned(folder):
        assert run("keys", "create").code == 0
        assert run("keys", "list", "--json").json["keys"][0]["id"] == 1
        assert run("keys", "revoke", "1").code == 0


def test_a_key_that_opens_nothing_is_said_so_with_whose_the_bases_are(run: Run) -> None:
    assert run("kb", "create", "我的资料").code == 0
    assert "我的资料" not in run("keys", "create").err
    told = run("keys", "create", "--tenant", "市场部", "--scope", "read")
    assert (told.code, "我的资料（local）" in told.err, "kb move 我的资料 --to 市场部" in told.err) == (0, True, True)
    assert run("kb", "move", "我的资料", "--to", "市场部").code == 0
    assert "我的资料" not in run("keys", "create", "--tenant", "市场部").err


def test_without_keys_nothing_is_made(run: Run, tmp_path: Path) -> None:
    told = run("keys", "list")
    assert (told.code, "keys create" in told.err) == (0, True)
    assert run("keys", "revoke", "1").code == 2
    assert not (tmp_path / "qianxun-data").exists()
    assert run("keys", "create").code == 0
    unknown = run("keys", "revoke", "7")
    assert (unknown.code, "keys list" in unknown.err) == (2, True)


def test_a_wrong_scope_or_tenant_is_a_mistake(run: Run) -> None:
    assert run("keys", "create", "--scope", "admin").code == 2
    assert run("keys", "create", "--tenant", "").code == 2
    assert run("keys", "create", "--tenant", "a" * 65).code == 2


# ── registered models ────────────────────────────────────────────────────────────────────────────


def added(run: Run, url: str, *more: str | Path) -> tuple[str, ...]:
    about = ("--user", "7", "--name", "我的", "--base-url", url, "--model", "bge", "--dim", str(DIMENSION))
    return ("models", "add", *about, *(str(each) for each in more))


def test_a_model_is_registered_listed_tried_and_removed(
    run: Run, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIANXUN_OUTBOUND_ALLOW", "127.0.0.1")
    with serving(well) as service:
        made = run(*added(run, service.url, "--key-file", key_file, "--default", "--json"))
        assert (made.json["ref"], made.json["api_key"], made.json["is_default"]) == ("user-model:1", "sk-…cdef", 1)
        (row,) = run("models", "list", "--json").json["registered"]
        assert row == made.json
        assert run("models", "list", "--user", "8", "--json").json["registered"] == []
        assert run("models", "list", "--tenant", "乙", "--json").json["registered"] == []
        assert "user-model:1" in run("models", "list").out
        tried = run("models", "test", "user-model:1", "--json").json
        assert (tried["ok"], tried["dimension"]) == (True, DIMENSION)
        assert f"{DIMENSION} 维" in run("models", "test", "user-model:1", "--user", "7").out
        assert service.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert run("models", "remove", "user-model:1", "--user", "8").code == 2
    assert run("models", "remove", "user-model:1", "--user", "7").code == 0
    assert run("models", "test", "user-model:1").code == 2
    held = b"".join(path.read_bytes() for path in (tmp_path / "qianxun-data").iterdir() if path.is_file())
    assert KEY.encode() not in held


def test_a_model_that_does_not_work_is_told_and_is_an_error(
    run: Run, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIANXUN_OUTBOUND_ALLOW", "127.0.0.1")
    with serving(status(401)) as service:
        run(*added(run, service.url, "--key-file", key_file))
        told = run("models", "test", "user-model:1")
        assert (told.code, "api_key" in told.err, KEY in told.err) == (1, True, False)
        assert run("models", "test", "user-model:1", "--json").json["ok"] is False


def test_an_address_of_the_own_network_is_refused_until_it_is_allowed(run: Run, key_file: Path) -> None:
    refused = run(*added(run, "http://127.0.0.1:9/v1", "--key-file", key_file))
    assert (refused.code, "outbound.allow" in refused.err) == (2, True)


def test_the_key_comes_from_stdin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}\n"))
    made = run(*added(run, "https://example.com/v1", "--key-file", "-", "--json"))
    assert made.json["api_key"] == "sk-…cdef"


def test_without_a_terminal_a_key_is_not_asked_for(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    told = run(*added(run, "https://example.com/v1"))
    assert (told.code, "--key-file" in told.err) == (2, True)
    assert run(*added(run, "https://example.com/v1", "--no-key", "--json")).json["api_key"] == ""
    assert run(*added(run, "https://example.com/v1", "--key-file", tmp_path / "nowhere")).code == 2
    assert run(*added(run, "https://example.com/v1", "--key-file", tmp_path / "nowhere", "--no-key")).code == 2


def test_a_typed_key_is_not_echoed_and_no_option_takes_one(run: Run, tmp_path: Path) -> None:
    terminal, its_end = pty.openpty()
    command = [sys.executable, "-c", MAIN, *added(run, "https://example.com/v1", "--json")]
    ends = {"stdin": its_end, "stderr": its_end, "stdout": subprocess.PIPE}
    with preloaded.Popen(command, start_new_session=True, cwd=tmp_path, **ends) as child:
        while termios.tcgetattr(terminal)[3] & termios.ECHO and child.poll() is None:  # until it asks for the key
            time.sleep(0.01)
        os.write(terminal, f"{KEY}\n".encode())
        told, _ = child.communicate(timeout=60)
    os.set_blocking(terminal, False)
    shown = os.read(terminal, 10_000)
    os.close(terminal)
    os.close(its_end)
    assert json.loads(told)["api_key"] == "sk-…cdef"
    assert (b"api_key" in shown, KEY.encode() in shown) == (True, False)
    assert run(*added(run, "https://example.com/v1", "--api-key", KEY)).code == 2
