"""`python -m tests.llm_check`: every check against a real model, and a table of what held."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from qianxun.engine.engine import Engine
from qianxun.engine.settings import ChatSettings, Settings
from tests.llm_check.checks import CHECKS, DOCUMENTS, REPLY_TOKENS, SECONDS, Place

MODEL = "gemma3-270m"
SERVER = Path(__file__).with_name("server.py")


@contextmanager
def served(python: str, folder: Path) -> Iterator[str]:
    """The address of a server of its own, without /v1; it ends with this."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [python, str(SERVER), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address.startswith("http://127.0.0.1"):
                sys.exit(f"模型服务没有启动：{(folder / 'server.log').read_text('utf-8', 'replace')[-2000:]}")
            yield address
        finally:
            process.kill()
            process.wait()


async def run(url: str, folder: Path, chosen: list[str]) -> int:
    settings = Settings(data=str(folder / "data"))
    chat = ChatSettings(base_url=url, model=MODEL, timeout_seconds=SECONDS, max_tokens=REPLY_TOKENS)
    settings = replace(settings, chat=chat)
    failures = 0
    async with Engine.open(settings=settings, background=False) as engine:
        base = await engine.create_knowledge_base("模型", model="")
        await engine.add_documents(base.id, DOCUMENTS)
        place = Place(url, MODEL, engine, base.id)
        _show("| 查什么 | 守住 | 结果 | 秒 |\n| --- | --- | --- | --- |")
        for name, check in CHECKS.items():
            if chosen and name not in chosen:
                continue
            started = time.monotonic()
            try:
                held, note = "✓", await check(place)
            except Exception as error:  # whatever breaks is what is looked for
                held, note = "✗", f"{type(error).__name__}: {error}"[:300]
                failures += 1
            line = " ".join(note.split()).replace("|", "\\|")
            _show(f"| {name} | {held} | {line} | {time.monotonic() - started:.0f} |")
    return failures


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=".venv-llm/bin/python", help="of the environment that has the model")
    parser.add_argument("--url", default="", help="a server that is running already, with /v1")
    parser.add_argument("--only", nargs="*", default=[], help=f"of {'、'.join(CHECKS)}")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qianxun-llm-") as folder:
        if chosen.url:
            return asyncio.run(run(chosen.url, Path(folder), chosen.only))
        with served(chosen.python, Path(folder)) as address:
            return asyncio.run(run(f"{address}/v1", Path(folder), chosen.only))


if __name__ == "__main__":
    sys.exit(main())
