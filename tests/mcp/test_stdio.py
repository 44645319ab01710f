from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qianxun.doors.mcp.stdio import Answers, lines

STRAY = """
import os, subprocess, sys
from qianxun.doors.mcp.stdio import own_wire
print("before")
with own_wire() as wire:
    print("stray")
    subprocess.run([sys.executable, "-c", "import sys; print('child', repr(sys.stdin.read()))"])
    os.write(wire.outgoing, os.read(wire.incoming, 100))
print("after")
"""


def test_what_is_printed_or_read_beside_it_misses_the_wire() -> None:
    told = subprocess.run([sys.executable, "-c", STRAY], input=b"said\n", capture_output=True, timeout=60)
    assert told.stdout == b"before\nsaid\nafter\n"
    assert sorted(told.stderr.split(b"\n")) == [b"", b"child ''", b"stray"]


def test_lines_come_whole_whatever_they_are_until_the_end(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_bytes("医保\n\n\xff\n最后".encode().replace("\xff".encode(), b"\xff"))

    async def story() -> list[str]:
        with said.open("rb") as file:
            return [line async for line in lines(file.fileno())]

    assert asyncio.run(story()) == ["医保\n", "\n", "�\n", "最后"]


def test_an_answer_is_out_when_it_is_said_to_be(tmp_path: Path) -> None:
    async def story(outgoing: int) -> None:
        answers = Answers(outgoing)
        await asyncio.gather(answers.write("一\n"), answers.write("二" * 100_000 + "\n"))
        await answers.flush()

    with (tmp_path / "told").open("wb") as file:
        asyncio.run(story(file.fileno()))
    assert (tmp_path / "told").read_text("utf-8") == "一\n" + "二" * 100_000 + "\n"


def test_where_nobody_reads_it_is_told_to_who_writes() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    async def story() -> None:
        with pytest.raises(BrokenPipeError):
            await Answers(writing).write("谁在听？\n")

    asyncio.run(story())
    os.close(writing)


def test_who_waits_for_a_reader_that_never_reads_can_leave() -> None:
    reading, writing = os.pipe()

    async def story() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Answers(writing).write("长" * 1_000_000), 0.1)

    asyncio.run(story())
    os.close(reading)
