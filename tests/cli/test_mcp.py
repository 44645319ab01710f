"""`qianxun mcp` as programs start it: a real process, asked by the protocol's own client and by hand."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.types import CallToolResult, TextContent

import qianxun.doors.mcp
from mcp import Client, StdioServerParameters
from tests import preloaded
from tests.cli.conftest import Run

DOCS = Path(__file__).resolve().parents[2] / "docs" / "connecting.md"
QIANXUN = (sys.executable, "-c", "import sys; from qianxun.doors.cli import main; sys.exit(main())")
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def text(told: CallToolResult) -> str:
    (only,) = told.content
    assert isinstance(only, TextContent)
    return only.text


def test_a_client_that_starts_it_finds_and_reads_what_its_principal_may_see(
    handbook: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        started = StdioServerParameters(
            command=QIANXUN[0], args=[*QIANXUN[1:], "mcp", "--kb", "手册"], env=dict(os.environ), cwd=tmp_path
        )
        async with Client(started) as asking:
            assert asking.server_info is not None
            assert asking.server_info.name == "qianxun"
            assert "search" in (asking.instructions or "")
            found = await asking.call_tool("search", {"query": "出差住宿每晚多少元"})
            assert json.loads(text(found)) == found.structured_content
            first = found.structured_content["results"][0]
            assert first["title"] == "文件/制度.md › 差旅"
            read = await asking.call_tool("fetch", {"id": first["id"]})
            assert "出差住宿每晚不超过 380 元，凭發票报销。" in read.structured_content["text"]
            assert json.loads(text(read)) == read.structured_content
            rows = await asking.call_tool("retrieve", {"query": "QH-2087", "mode": "fulltext"})
            assert "升降书桌" in rows.structured_content["passages"][0]["text"]
            wrong = await asking.call_tool("fetch", {"id": "没有"})
            assert wrong.is_error
            hidden = await asking.call_tool("retrieve", {"query": "内部的折扣", "mode": "fulltext"})
            assert "三折" not in text(hidden)

    assert handbook("kb", "create", "别的").code == 0
    (tmp_path / "内部.txt").write_text("内部的折扣是三折。", "utf-8")
    assert handbook("add", str(tmp_path / "内部.txt"), "--kb", "手册").code == 0
    assert "三折" in handbook("search", "内部的折扣", "--kb", "手册").out
    assert handbook("access", "set", "内部.txt", "--kb", "手册", "--label", "group:财务").code == 0
    monkeypatch.setenv("QIANXUN_ACCESS_PRINCIPAL", "user:bob")
    asyncio.run(asyncio.wait_for(story(), 300))


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    process = preloaded.Popen(
        [*QIANXUN, "mcp"], cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True, encoding="utf-8"
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def asked(process: subprocess.Popen[str], method: str, params: dict[str, Any]) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_stdout_holds_the_protocol_alone_the_folder_is_owned_and_ctrl_c_ends_it(handbook: Run, tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert asked(process, "initialize", HELLO)["result"]["protocolVersion"] == "2025-06-18"
        refused = handbook("mcp")
        assert (refused.code, refused.out) == (3, "")
        assert str(process.pid) in refused.err
        assert "--url" in refused.err
        process.send_signal(signal.SIGINT)  # while it waits for a line that never comes
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out, err) == (0, "", "")
    assert handbook("kb", "list").code == 0


@pytest.fixture
def silence() -> Iterator[None]:
    """A standard input with nothing in it, however the tests were started."""
    before, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    yield
    os.dup2(before, 0)
    os.close(before)
    os.close(nothing)


@pytest.mark.usefixtures("silence")
def test_where_nobody_speaks_it_ends_at_once(handbook: Run) -> None:
    told = handbook("mcp")
    assert (told.code, told.out, told.err) == (0, "", "")


def test_what_cannot_be_opened_is_said_on_stderr(run: Run, handbook: Run, tmp_path: Path) -> None:
    unknown = handbook("mcp", "--kb", "没有的库")
    assert (unknown.code, unknown.out) == (2, "")
    assert "手册" in unknown.err
    empty = run("--data", tmp_path / "空", "mcp")
    assert (empty.code, empty.out) == (2, "")
    assert "kb create" in empty.err
    assert not (tmp_path / "空").exists()


def test_without_the_extra_it_says_what_to_install(handbook: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qianxun.doors.mcp, "find_spec", lambda _: None)
    told = handbook("mcp")
    assert (told.code, told.out) == (1, "")
    assert "pip install 'qianxun[mcp]'" in told.err


def test_the_snippets_for_other_programs_are_commands_that_there_are(run: Run) -> None:
    section = DOCS.read_text("utf-8").split("\n## MCP\n")[1].split("\n## ")[0]
    written = [
        json.loads(each)["mcpServers"]["qianxun"] for each in re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    ]
    commands = [each["args"] for each in written if "command" in each]
    assert len(commands) == 2
    for arguments in commands:
        assert run(*arguments, "--help").code == 0
    assert [each["url"].endswith("/mcp") for each in written if "url" in each] == [True]


def test_its_help_says_what_it_is_for(run: Run) -> None:
    told = run("mcp", "--help")
    assert told.code == 0
    assert all(words in told.out for words in ("--kb", "MCP", "stdio"))
