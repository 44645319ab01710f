"""A chat service that reads every chunk it is shown, and an engine whose base names it as its graph_model."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from qianxun.bases.base import OpenBase
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, load
from qianxun.records import graph
from tests.indexing.opened import doc
from tests.models.chat_service import ChatService, Request

ORIGIN = "model:qwen"
_SHOWN = re.compile(r'<资料 n="(\d+)">\n(?:出处：[^\n]*\n)?(.*?)\n</资料>', re.DOTALL)
_PLANT = re.compile(r"(第\d+厂)(?:生产(\d+号药))?")


def shown_in(request: Request) -> list[str]:
    """The texts that a request asks about."""
    return [text for _, text in _SHOWN.findall(request.last)]


def reads_well(request: Request) -> str:
    """What a model finds in texts of the form 第1厂生产1号药。"""
    return json.dumps({"chunks": [_found(n, text) for n, text in _SHOWN.findall(request.last)]}, ensure_ascii=False)


def _found(n: str, text: str) -> dict[str, Any]:
    pairs = _PLANT.findall(text)
    names = [(name, "ORGANIZATION") for name, _ in pairs] + [(name, "MEDICINE") for _, name in pairs if name]
    return {
        "n": int(n),
        "entities": [{"name": name, "type": kind} for name, kind in names],
        "relations": [{"source": one, "type": "生产", "target": other} for one, other in pairs if other],
        "aliases": [],
    }


def asked_about(service: ChatService) -> list[str]:
    """Every text that was asked about, as often as it was."""
    return [text for request in service.requests for text in shown_in(request)]


def settings_of(folder: Path, service: ChatService) -> Settings:
    return load(arguments={"data": str(folder), "vectorization.model": "none", **service.told})


@asynccontextmanager
async def reading_engine(
    folder: Path, service: ChatService, *, background: bool = False, **config: Any
) -> AsyncIterator[tuple[Engine, int]]:
    """(engine, base); the base is made by the first who opens the folder."""
    async with Engine.open(settings=settings_of(folder, service), background=background) as engine:
        known = [base.id for base in await engine.knowledge_bases()]
        if known:
            yield engine, known[0]
            return
        about = await engine.create_knowledge_base("药厂", config={"graph_model": "qwen", **config})
        yield engine, about.id


def plants(numbers: Iterable[int], *, per_document: int = 1) -> list[Any]:
    """Documents of so many chunks each: a chunk of its own for every factory, by headings."""
    found: list[Any] = []
    own: list[int] = list(numbers)
    for start in range(0, len(own), per_document):
        part = own[start : start + per_document]
        text = "\n\n".join(f"# {n} 号\n\n第{n}厂生产{n}号药。" for n in part)
        found.append(doc(f"文档{part[0]}", text, format="markdown"))
    return found


def origins(base: OpenBase) -> dict[str, int]:
    with base.records.reading() as tx:
        return graph.origins(tx, base.id)


def read_by_model(base: OpenBase) -> int:
    return origins(base).get(ORIGIN, 0)
