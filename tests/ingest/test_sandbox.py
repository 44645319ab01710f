"""Hostile files cost one message each; the child after them parses as if nothing had been."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ingest.hostile import BENIGN, REFUSED, SECRET, recursive_forms_pdf, repeated
from tests.ingest.sandboxed import parse_in_child
from tests.linear import is_linear

from qianxun.core.errors import BadInput, QianxunError, Refused, TooLarge, TooSlow, Unreadable
from qianxun.core.limits import MIB
from qianxun.core.types import ParsedFile, Text
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.pool import ParserPool, RawText
from qianxun.ingest.sandbox.serial import from_json, to_json
from qianxun.ingest.sandbox.text_messages import TextReader, messages_of
from qianxun.ingest.tables.from_metadata import read_content

LIMITS = ParseLimits()
GOOD = "医保报销比例：住院85%。"
Outcome = tuple[ParsedFile | QianxunError, ParsedFile]


def with_pool(work: Callable[[ParserPool], Awaitable[None]], limits: ParseLimits = LIMITS, workers: int = 1) -> None:
    async def run() -> None:
        pool = ParserPool(workers, limits)
        try:
            await work(pool)
        finally:
            await pool.aclose()

    asyncio.run(run())


def pids(pool: ParserPool) -> set[int]:
    return {child.pid for child in pool._all}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Every hostile file through one pool, each followed by a good one."""
    folder = tmp_path_factory.mktemp("hostile")
    good = folder / "good.txt"
    good.write_text(GOOD, "utf-8")
    makers = {name: maker for name, (maker, _) in REFUSED.items()} | BENIGN
    found: dict[str, Outcome] = {}

    async def work(pool: ParserPool) -> None:
        for name, maker in makers.items():
            place = folder / name
            place.mkdir()
            try:
                result: ParsedFile | QianxunError = await pool.parse(maker(place))
            except QianxunError as refusal:
                result = refusal
            found[name] = (result, await pool.parse(good))

    with_pool(work)
    return found


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_is_refused_with_a_reason(outcomes: dict[str, Outcome], name: str) -> None:
    refusal, after = outcomes[name]
    assert isinstance(refusal, Refused), refusal
    assert refusal.word in REFUSED[name][1]
    assert "：" in refusal.message  # names the file
    assert refusal.hint
    assert SECRET not in str(refusal)
    assert after.text == Text(GOOD)


@pytest.mark.parametrize("name", BENIGN)
def test_an_odd_file_is_read(outcomes: dict[str, Outcome], name: str) -> None:
    result, after = outcomes[name]
    # Nothing to read in some of them; but none hangs a child, fills its memory or breaks it.
    assert isinstance(result, ParsedFile) or _is_empty(result), result
    assert after.text == Text(GOOD)


def _is_empty(result: ParsedFile | QianxunError) -> bool:
    return any(reason in str(result) for reason in ("没有可收录的文字", "嵌套超过"))


def test_a_cell_in_the_far_corner_costs_nothing(outcomes: dict[str, Outcome]) -> None:
    result, _ = outcomes["far corner"]
    assert isinstance(result, ParsedFile)
    assert assemble(result).content == "近处\n\n7"


# ── children ─────────────────────────────────────────────────────────────────────────────────────


def big_csv(folder: Path, rows: int = 150_000) -> Path:
    path = folder / "big.csv"
    path.write_text("编号,名称,数量\n" + "".join(f"{i},物品{i},{i * 3}\n" for i in range(rows)), "utf-8")
    return path


@pytest.mark.parametrize(
    ("deadly", "error"), [(signal.SIGSEGV, Unreadable), (signal.SIGKILL, TooLarge), (signal.SIGXCPU, TooSlow)]
)
def test_a_child_that_dies_is_replaced(tmp_path: Path, deadly: signal.Signals, error: type[Refused]) -> None:
    good, big = tmp_path / "good.txt", big_csv(tmp_path)
    good.write_text(GOOD, "utf-8")

    async def work(pool: ParserPool) -> None:
        await pool.parse(good)
        (first,) = pids(pool)
        parsing = asyncio.ensure_future(pool.parse(big))
        await asyncio.sleep(0.05)
        os.kill(first, deadly)
        with pytest.raises(error, match=r"big\.csv"):
            await parsing
        assert (await pool.parse(good)).text == Text(GOOD)
        assert first not in pids(pool)

    with_pool(work)


def test_a_silent_child_is_given_up(tmp_path: Path) -> None:
    good = tmp_path / "good.txt"
    good.write_text(GOOD, "utf-8")

    async def work(pool: ParserPool) -> None:
        await pool.parse(good)
        (first,) = pids(pool)
        os.kill(first, signal.SIGSTOP)
        pool._limits = replace(LIMITS, seconds=0.2)  # for this one alone: the next child may be as slow as it likes
        with pytest.raises(TooSlow, match=r"good\.txt"):
            await pool.parse(good)
        pool._limits = LIMITS
        assert (await pool.parse(good)).text == Text(GOOD)
        assert first not in pids(pool)

    with_pool(work)


def test_memory_time_and_size_are_bounded(tmp_path: Path) -> None:
    big = big_csv(tmp_path)
    small = replace(LIMITS, memory_bytes=24 * MIB)
    with pytest.raises(TooLarge, match="内存"):
        parse_in_child(big, small)
    big = big_csv(tmp_path, 50_000)  # of more than a megabyte
    with pytest.raises(TooLarge, match="解析结果"):
        parse_in_child(big, replace(LIMITS, result_bytes=MIB))
    with pytest.raises(TooLarge, match="文件超过 1 MB"):
        parse_in_child(big, replace(LIMITS, file_bytes=MIB))


def test_without_a_picture_to_recognise_the_memory_for_that_is_not_given(tmp_path: Path) -> None:
    """A million forms in two kilobytes of PDF take 300 MB."""
    bomb = recursive_forms_pdf(tmp_path)
    assert bomb.stat().st_size < 2_048
    with pytest.raises(
        (TooLarge, Unreadable), match=r"内存|崩溃"
    ):  # the library ends its process in one way or another
        parse_in_child(bomb, replace(LIMITS, memory_bytes=48 * MIB))


def test_processor_time_is_bounded_by_the_size(tmp_path: Path) -> None:
    slow = repeated(tmp_path, "lines.md", "- 甲\n", 60_000)
    with pytest.raises(TooSlow, match="用时"):
        parse_in_child(slow, replace(LIMITS, step_seconds=0.1))


@pytest.mark.parametrize(
    ("content", "limits", "reason"),
    [
        ("住院" * 600, replace(LIMITS, characters=1_000), "1000 字"),
        ("# 章\n\n文\n\n" * 11, replace(LIMITS, parts=10), "标题"),
        ("| 甲 | 乙 |\n|---|---|\n| 1 | 2 |\n\n文\n\n" * 3, replace(LIMITS, cells=5), "单元格"),
    ],
)
def test_what_would_become_very_many_chunks_is_refused(content: str, limits: ParseLimits, reason: str) -> None:
    async def work(pool: ParserPool) -> None:
        with pytest.raises(TooLarge, match=reason):
            await pool.read_texts([RawText(content, "markdown", "手册")])
        assert await pool.read_texts([RawText("好的。", "markdown")]) == [Text("好的。")]

    with_pool(work, limits)


def test_a_tenant_is_not_kept_waiting_by_all_that_another_has(tmp_path: Path) -> None:
    big, done = big_csv(tmp_path, 20_000), []

    async def read(pool: ParserPool, tenant: str) -> None:
        await (pool.read(big, tenant) if tenant == "甲" else pool.read_texts([RawText(GOOD, "html")], tenant))
        done.append(tenant)

    async def work(pool: ParserPool) -> None:
        await asyncio.gather(*(read(pool, tenant) for tenant in "甲甲甲甲乙"))

    with_pool(work)
    assert done.index("乙") < 2


def test_texts_are_read_many_at_a_time_as_they_would_be_here(tmp_path: Path) -> None:
    table = "| 甲 | 乙（%） |\n|---|---|\n| \U0001f600 | 12 |\n"
    texts = [
        RawText(f"# 题\n\n段\n\n{table}", "markdown", "手册.md"),
        RawText("<h1>题</h1><p>段\ud800", "html"),
        RawText("第一章 总则\n\n文", "text"),
        RawText("甲，1\n乙，2", "text", "", {"table_headers": ("名", "数")}),
        RawText("长" * 300_000, "text"),
        RawText("", "text"),
    ]

    async def work(pool: ParserPool) -> None:
        assert await pool.read_texts(texts) == [read_content(*text) for text in texts]
        with pytest.raises(BadInput, match="格式"):
            await pool.read_texts([RawText("甲", "docx")])  # type: ignore[arg-type]
        assert len(pids(pool)) == 1

    with_pool(work)


def test_children_are_reused_and_recycled(tmp_path: Path) -> None:
    good = tmp_path / "good.txt"
    good.write_text(GOOD, "utf-8")

    async def work(pool: ParserPool) -> None:
        await pool.parse(good)
        first = pids(pool)
        await pool.parse(good)
        assert pids(pool) == first
        await pool.parse(good)  # the third: its last
        await pool.parse(good)
        assert pids(pool).isdisjoint(first)

    with_pool(work, replace(LIMITS, files_per_worker=3))


def test_files_are_parsed_side_by_side(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.txt" for i in range(6)]
    for path in paths:
        path.write_text(path.stem + GOOD, "utf-8")

    async def work(pool: ParserPool) -> None:
        results = await asyncio.gather(*map(pool.parse, paths))
        assert [result.text for result in results] == [Text(path.stem + GOOD) for path in paths]
        assert len(pids(pool)) == 2

    with_pool(work, workers=2)


def test_a_cancelled_parse_leaves_no_child_behind_with_a_stale_answer(tmp_path: Path) -> None:
    good, big = tmp_path / "good.txt", big_csv(tmp_path)
    good.write_text(GOOD, "utf-8")

    async def work(pool: ParserPool) -> None:
        await pool.parse(good)
        parsing = asyncio.ensure_future(pool.parse(big))
        await asyncio.sleep(0.05)
        parsing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await parsing
        assert (await pool.parse(good)).text == Text(GOOD)

    with_pool(work)


def test_closing_the_pool_ends_every_child(tmp_path: Path) -> None:
    good = tmp_path / "good.txt"
    good.write_text(GOOD, "utf-8")
    ended: set[int] = set()

    async def work(pool: ParserPool) -> None:
        await pool.parse(good)
        ended.update(pids(pool))

    with_pool(work)
    assert ended
    for pid in ended:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    good = tmp_path / "good.txt"
    good.write_text(GOOD, "utf-8")
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom qianxun.ingest.sandbox.limits import ParseLimits\n"
        "from qianxun.ingest.sandbox.pool import ParserPool\n"
        "async def main():\n    pool = ParserPool(1, ParseLimits())\n    await pool.parse(Path(sys.argv[1]))\n"
        "    sys.stdout.write(str(next(iter(pool._all)).pid) + '\\n')\n    sys.stdout.flush()\n"
        "    await asyncio.sleep(600)\nasyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(good)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _is_running(pid)
        parent.kill()
    deadline = time.monotonic() + 30
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_child_sees_none_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    good = tmp_path / "good.txt"
    good.write_text(GOOD, "utf-8")

    def look(pid: int) -> None:
        assert b"sk-secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        open_files = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        assert not [name for name in open_files if not name.startswith(("pipe:", "socket:", "/dev/null"))]

    async def work(pool: ParserPool) -> None:
        await pool.parse(good)
        (pid,) = pids(pool)
        look(pid)

    with_pool(work)


# ── the way back ─────────────────────────────────────────────────────────────────────────────────


def test_a_parsed_file_survives_the_way_through_the_pipe(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# 题\n\n段\n\n| 甲 | 乙（%） |\n|---|---|\n| \U0001f600 | 12 |\n", "utf-8")
    parsed = parse(path, LIMITS)
    assert from_json(to_json(parsed)) == parsed
    assert parse_in_child(path, LIMITS) == parsed


@pytest.mark.parametrize("nonsense", [b"", b"{}", b"[]", b'{"blocks": [["x", null, ""]]}', b'{"blocks": [[]]}'])
def test_nonsense_is_no_parsed_file(nonsense: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        from_json(nonsense)


@pytest.mark.parametrize("nonsense", [b"", b"{}1", b'[["x", 1]]', b'[["rows", [[1]]]]', b'[["marks", [[1]]]]', b"[[]]"])
def test_nonsense_is_no_text(nonsense: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        TextReader().read(nonsense)


def test_a_long_text_comes_in_small_messages(tmp_path: Path) -> None:
    rows = "\n".join(f"{at},物品{at}" for at in range(20_000))
    path = tmp_path / "a.csv"
    path.write_text(f"编号,名称\n{rows}\n", "utf-8")
    parsed = parse(path, LIMITS)
    file = replace(parsed, blocks=(), text=assemble(parsed))
    messages, reader = list(messages_of([file])), TextReader()
    assert max(map(len, messages)) < MIB
    assert len(messages) > 3
    for message in messages:
        reader.read(message)
    assert reader.file == file


@pytest.mark.parametrize(
    ("piece", "suffix"), [("第一二三 ", "txt"), ("[![(", "md"), ("<div><p>", "html"), ('a,"b\n', "csv")]
)
def test_parsing_is_linear(tmp_path: Path, piece: str, suffix: str) -> None:
    def work(times: int) -> Callable[[], object]:
        path = tmp_path / f"{times}.{suffix}"
        path.write_text("头\n" + piece * times, "utf-8")

        def parse_or_refuse() -> None:
            with contextlib.suppress(Refused):
                parse(path, LIMITS)

        return parse_or_refuse

    assert is_linear(work, 10_000)
