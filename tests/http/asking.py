"""The service over an engine in a temporary folder, asked in this process as a client would ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from qianxun.core.types import Document
from qianxun.doors.http.app import create_app
from qianxun.doors.http.error_formats import FORMATS
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, load
from qianxun.testing.scripted import HashEmbedding
from tests.http.served import MODEL, PATIENT


@dataclass(frozen=True)
class Asking:
    """The service, a client of it, and the engine behind it."""

    http: httpx.AsyncClient
    app: FastAPI
    engine: Engine

    async def post(self, path: str, body: Any) -> httpx.Response:
        return await self.http.post(path, json=body)

    async def base(self, *documents: Document, **options: Any) -> int:
        """A new base with these documents in it."""
        options.setdefault("model", MODEL)
        made = await self.engine.create_knowledge_base(options.pop("name", "医保"), **options)
        await self.engine.add_documents(made.id, documents)
        return made.id


def word_of(answer: httpx.Response) -> str:
    """The stable word of an error, in whatever door's form it is told."""
    error = answer.json()["error"]
    word: str = error["code"] if isinstance(error, dict) else error
    return word


def code_of(path: str, status: int, content: Any) -> int:
    """The status that an answer tells of itself; of another program's door only its errors do."""
    is_door = any(path == door or path.startswith(f"{door}/") for door in FORMATS)
    code: int = status if is_door and status < 400 else content["code"]
    return code


@asynccontextmanager
async def asking(folder: Path, told: Mapping[str, Any] | None = None) -> AsyncIterator[Asking]:
    """``told`` are settings by their dotted names."""
    settings: Settings = load(environment={}, arguments={"data": str(folder), **PATIENT, **(told or {})}, folder=folder)
    async with Engine.open(settings=settings, models={MODEL: HashEmbedding()}) as engine:
        app = create_app(engine, settings)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", verify=False) as http:
            yield Asking(http, app, engine)
