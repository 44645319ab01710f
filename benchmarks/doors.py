"""What a door costs: the same searches by the protocols of other programs, against /v1/retrieval of the same service.

One process serves, as in benchmarks/service.py; this one asks, over a single connection per door that stays open. The
doors take turns with every question, each in another order than the last, so that what else the machine has to do
falls on all alike. No cache of answers. Every door must name the same chunks in the same order with the same scores:
a door that searched otherwise would be measured for nothing.

A ratio is the median over the questions of a door's wait to that of /v1/retrieval.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.load import Client
from benchmarks.passages import SCALE
from benchmarks.peers.material import REAL, prepare
from benchmarks.service import CHUNKS, Process
from benchmarks.side_by_side import CACHE, OURS, built

QUESTIONS = 300
WARMING = 20  # questions at most before anything is counted: the first /mcp request loads the protocol
TOP_K = 10
PROTOCOL = "2025-06-18"

Hits = list[tuple[str, float]]


@dataclass(frozen=True)
class Door:
    name: str
    path: str
    body: Callable[[str], dict[str, Any]]
    hits: Callable[[dict[str, Any]], Hits]  # what a reply names: text and score


def doors(base: int) -> list[Door]:
    """/v1/retrieval first: the others are compared with it."""
    return [
        Door(
            "/v1/retrieval",
            f"/v1/retrieval/{base}",
            lambda text: {"query": text, "retrieval_config": {"top_k": TOP_K}},
            lambda told: [(each["content"], each["score"]) for each in told["data"]["chunks"]],
        ),
        Door(
            "Dify",
            "/retrieval",
            lambda text: {"knowledge_id": str(base), "query": text, "retrieval_setting": {"top_k": TOP_K}},
            lambda told: [(each["content"], each["score"]) for each in told["records"]],
        ),
        Door(
            "vector store",
            f"/v1/vector_stores/{base}/search",
            lambda text: {"query": text, "max_num_results": TOP_K},
            lambda told: [(each["content"][0]["text"], each["score"]) for each in told["data"]],
        ),
        Door("MCP", "/mcp", lambda text: _called(base, text), _passages),
    ]


def _called(base: int, text: str) -> dict[str, Any]:
    arguments = {"query": text, "knowledge_base": str(base), "top_k": TOP_K}
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "retrieve", "arguments": arguments},
    }


def _passages(told: dict[str, Any]) -> Hits:
    return [(each["text"], each["score"]) for each in told["result"]["structuredContent"]["passages"]]


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def request(door: Door, text: str) -> bytes:
    body = json.dumps(door.body(text), ensure_ascii=False).encode()
    head = (
        f"POST {door.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {PROTOCOL}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def ask_all(port: int, asked: Sequence[Door], texts: Sequence[str]) -> dict[str, list[float]]:
    """Seconds that each door took for each question but the first ones. Raises SystemExit where two disagree."""
    loop = asyncio.get_running_loop()
    clients = {door.name: (await loop.create_connection(Client, "127.0.0.1", port))[1] for door in asked}
    waits: dict[str, list[float]] = {door.name: [] for door in asked}
    uncounted = min(WARMING, len(texts) // 2)
    for turn, text in enumerate(texts):
        replies = {}
        for place in range(len(asked)):
            door = asked[(turn + place) % len(asked)]
            began = time.perf_counter()
            status, body = await clients[door.name].ask(request(door, text))
            if turn >= uncounted:
                waits[door.name].append(time.perf_counter() - began)
            if status != 200:
                raise SystemExit(f"{door.name}: {status} {body[:500].decode(errors='replace')}")
            replies[door.name] = door.hits(json.loads(body))
        check(text, replies)
    for client in clients.values():
        client.close()
    return waits


def check(text: str, replies: dict[str, Hits]) -> None:
    first, *others = replies
    for name in others:
        if replies[name] != replies[first]:
            raise SystemExit(f"{name} and {first} answer differently: {text}")


# ── what was measured ────────────────────────────────────────────────────────────────────────────


def compared(waits: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    reference = next(iter(waits.values()))
    return {
        name: {
            "p50_ms": round(1e3 * median(told), 2),
            "ratio": round(median(own / other for own, other in zip(told, reference, strict=True)), 2),
        }
        for name, told in waits.items()
    }


def run(count: int, questions: int, cache: Path, real: int) -> dict[str, Any]:
    material, embedded = prepare(cache, count, questions, real)
    folder = cache / f"built-{count}" / OURS.name
    shutil.rmtree(folder, ignore_errors=True)  # of this checkout, not of an earlier one
    built(OURS, material.folder, folder)
    texts = [question.text for question in material.questions()[:questions]]
    with closing(
        Process("benchmarks.service", "serve", str(material.folder), str(folder), str(questions), "0")
    ) as held:
        opened = held.reply()
        waits = asyncio.run(ask_all(opened["port"], doors(opened["base"]), texts))
    return {
        "chunks": count,
        "really_embedded": embedded,
        "questions": len(next(iter(waits.values()))),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "doors": compared(waits),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=CHUNKS, help="chunks")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--real", type=int, default=REAL, help="passages embedded with the model")
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    if not SCALE.exists():
        print(f"no passages to measure with: {SCALE.name} is not beside this checkout", file=sys.stderr)
        return 2
    told = run(given.count, given.questions, given.cache, given.real)
    print(json.dumps(told, ensure_ascii=False, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
