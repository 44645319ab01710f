"""What the commands share: the settings in force, the engine, and how a base is found by name."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from qianxun.cli.voice import say
from qianxun.errors import NotFound

if TYPE_CHECKING:
    from qianxun.engine import Engine
    from qianxun.settings import Settings
    from qianxun.types import KnowledgeBase

T = TypeVar("T")

DATABASE = "qianxun.db"

JsonFlag: TypeAlias = Annotated[
    bool, typer.Option("--json", help="只在标准输出打印一个 JSON 文档 · print one JSON document and nothing else")
]
BaseOption: TypeAlias = Annotated[str, typer.Option("--kb", metavar="NAME", help="知识库的名称 · the knowledge base")]


@dataclass(frozen=True, slots=True)
class Session:
    """The global options, as every command gets them."""

    data: str | None = None
    config: Path | None = None
    verbose: bool = False

    def settings(self) -> Settings:
        from qianxun.settings import load

        return load(file=self.config, arguments={"data": self.data})


def session_of(context: typer.Context) -> Session:
    found = context.obj
    return found if isinstance(found, Session) else Session()


def has_records(settings: Settings) -> bool:
    """Whether there is anything in the data folder; asking does not create it."""
    return bool(settings.records.url) or (settings.folder / DATABASE).exists()


def with_engine(settings: Settings, work: Callable[[Engine], Awaitable[T]], *, may_create: bool = False) -> T:
    """Opens the data folder, does the work, closes it. Only ``may_create`` makes a folder that is not there."""
    if not may_create and not has_records(settings):
        raise NotFound(
            say(f"数据目录 {settings.folder} 里还没有知识库", f"There is no knowledge base in {settings.folder} yet"),
            hint=say(
                f"先运行 {program(settings)} kb create NAME；数据若在别处，用 --data DIR 指明",
                f"First run: {program(settings)} kb create NAME; or say where the data is with --data DIR",
            ),
        )
    return asyncio.run(_opened(settings, work))


async def _opened(settings: Settings, work: Callable[[Engine], Awaitable[T]]) -> T:
    from qianxun.engine import Engine

    async with Engine.open(settings=settings, background=False) as engine:
        return await work(engine)


def quoted(word: str) -> str:
    """As a shell wants it; `shlex.quote` alone would put every Chinese word in quotes, which no shell needs."""
    return word if word and all(sign.isalnum() or sign in "-_./=:@,+" for sign in word) else shlex.quote(word)


def program(settings: Settings) -> str:
    """How this data folder is reached on the command line: what suggested commands begin with."""
    if settings.data == type(settings)().data or settings.origins.get("data", "").startswith("环境"):
        return called()
    return f"{called()} --data {quoted(settings.data)}"


def called() -> str:
    """`qianxun` where the shell finds it; otherwise the path it was called by, as in a fresh `.venv`."""
    own = Path(sys.argv[0])
    if own.name != "qianxun" or shutil.which("qianxun"):
        return "qianxun"
    return quoted(os.path.relpath(own))


async def find_base(engine: Engine, name: str) -> KnowledgeBase:
    """By name, then by number. Raises NotFound with the names that exist."""
    try:
        return await engine.knowledge_base(name)
    except NotFound as error:
        known = await engine.knowledge_bases()
        numbered = [base for base in known if str(base.id) == name]
        if numbered:
            return numbered[0]
        names = "、".join(base.name for base in known)
        create = f"{program(engine.settings)} kb create {quoted(name)}"
        raise NotFound(
            say(f"没有名为“{name}”的知识库", f"There is no knowledge base “{name}”"),
            hint=(say(f"已有：{names}；", f"There are: {names}. ") if names else "")
            + say(f"要新建它：{create}", f"To create it: {create}"),
        ) from error
