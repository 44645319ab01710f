"""What the commands share: the data folder or the service they work on, and how a base is found by name."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, TypeVar

import typer

from qianxun.core.errors import BadInput, NotFound
from qianxun.doors.cli.i18n import tr

if TYPE_CHECKING:
    from qianxun.core.answer_types import Answer, AnswerEvent, QueryMode
    from qianxun.core.explanation import Explained
    from qianxun.core.ingest_types import Labels, Report, Watch
    from qianxun.core.layered_types import LayeredRecall
    from qianxun.core.log_types import LogEntry
    from qianxun.core.options import FusionName, Mode
    from qianxun.core.types import DocumentState, Filter, KnowledgeBase, Recall
    from qianxun.engine.engine import Engine
    from qianxun.engine.settings import Settings

T = TypeVar("T")

DATABASE = "qianxun.db"

JsonFlag: TypeAlias = Annotated[
    bool, typer.Option("--json", help="只在标准输出打印一个 JSON 文档 · print one JSON document and nothing else")
]
BaseOption: TypeAlias = Annotated[str, typer.Option("--kb", metavar="NAME", help="知识库的名称 · the knowledge base")]


class Library(Protocol):
    """What the commands need: an engine over a data folder has it, and so has a client of a running service."""

    async def create_knowledge_base(
        self, name: str, *, model: str | None = None, kind: str = "documents", config: Mapping[str, Any] | None = None
    ) -> KnowledgeBase: ...
    async def knowledge_bases(self) -> tuple[KnowledgeBase, ...]: ...
    async def knowledge_base(self, name_or_id: str | int) -> KnowledgeBase: ...
    async def configure(
        self, knowledge_base: int, changes: Mapping[str, Any], *, watch: Callable[[int], None]
    ) -> KnowledgeBase: ...
    async def delete_knowledge_base(self, knowledge_base: int) -> None: ...
    async def statistics(self, knowledge_base: int) -> dict[str, int]: ...
    async def add(
        self, knowledge_base: int, paths: Sequence[str | Path], *, labels: Labels | None = None, watch: Watch
    ) -> Report: ...
    async def documents(self, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]: ...
    async def delete_document(self, knowledge_base: int, doc_id: str) -> bool: ...
    async def retrieve(
        self,
        knowledge_base: int,
        query: str,
        *,
        top_k: int | None = None,
        mode: Mode = "hybrid",
        threshold: float = 0.0,
        where: Filter = ...,
        doc_ids: Sequence[str] = (),
        fusion: FusionName | None = None,
        weights: Mapping[str, float] | None = None,
        rerank: str | None = None,
        fuzzy: bool | None = None,
    ) -> Recall: ...
    async def search_texts(
        self, knowledge_base: int, query: str, top_k: int | None = None, *, where: Filter = ...
    ) -> LayeredRecall: ...
    async def search_tables(
        self, knowledge_base: int, query: str, top_k: int | None = None, *, where: Filter = ..., answer: bool = True
    ) -> LayeredRecall: ...
    async def explain(self, knowledge_base: int, query: str, chunk_id: str = "", **options: Any) -> Explained: ...
    async def ask(
        self,
        knowledge_base: int,
        question: str,
        *,
        mode: QueryMode | None = "mix",
        top_k: int | None = None,
        where: Filter = ...,
        multimodal_content: Sequence[Mapping[str, Any]] = (),
    ) -> Answer: ...
    def ask_stream(
        self,
        knowledge_base: int,
        question: str,
        *,
        mode: QueryMode | None = "mix",
        top_k: int | None = None,
        where: Filter = ...,
        multimodal_content: Sequence[Mapping[str, Any]] = (),
    ) -> AsyncGenerator[AnswerEvent, None]: ...
    async def logs(
        self, *, knowledge_base: int | None = None, zero: bool = False, slow_ms: float | None = None, limit: int = 50
    ) -> list[LogEntry]: ...


@dataclass(frozen=True, slots=True)
class Session:
    """The global options, as every command gets them."""

    data: str | None = None
    config: Path | None = None
    verbose: bool = False
    url: str = ""  # of a service; "": the data folder itself
    key: str = field(default="", repr=False)

    def settings(self) -> Settings:
        from qianxun.engine.settings import load

        return load(file=self.config, arguments={"data": self.data})

    @property
    def start(self) -> str:
        """What suggested commands begin with. Never with the key."""
        return f"{called()} --url {quoted(self.url)}" if self.url else program(self.settings())

    @property
    def place(self) -> str:
        """Where the knowledge bases are, for people."""
        return self.url or str(self.settings().folder)


def session_of(context: typer.Context) -> Session:
    found = context.obj
    return found if isinstance(found, Session) else Session()


def has_records(settings: Settings) -> bool:
    """Whether there is anything in the data folder; asking does not create it."""
    return bool(settings.records.url) or (settings.folder / DATABASE).exists()


def with_library(session: Session, work: Callable[[Library], Awaitable[T]], *, may_create: bool = False) -> T:
    """Does the work with the service of ``--url``, or with the data folder as `with_engine` does."""
    if session.url:
        return asyncio.run(_connected(session, work))
    return with_engine(session.settings(), work, may_create=may_create)


async def _connected(session: Session, work: Callable[[Library], Awaitable[T]]) -> T:
    from qianxun.doors.client import Client

    async with Client(session.url, key=session.key) as client:
        return await work(client)


def refuse_url(session: Session, command: str, *, alone: bool = False) -> None:
    """Raises BadInput where a command that works on files of its own machine was pointed at a service.

    ``alone``: it wants the data folder for itself, so that the service must be stopped for it.
    """
    if not session.url:
        return
    stop = tr("；服务正用着那个目录，要先停下它", "; stop the service first, which owns the folder") if alone else ""
    raise BadInput(
        tr(f"{command} 不能经过 --url：它直接在数据目录或本机上做事", f"{command} cannot go through --url"),
        hint=tr(
            "在服务所在的机器上运行它，去掉 --url，用 --data 指明数据目录",
            "Run it where the service runs, with --data in place of --url",
        )
        + stop,
    )


def with_engine(settings: Settings, work: Callable[[Engine], Awaitable[T]], *, may_create: bool = False) -> T:
    """Opens the data folder, does the work, closes it. Only ``may_create`` makes a folder that is not there."""
    if not may_create and not has_records(settings):
        raise NotFound(
            tr(f"数据目录 {settings.folder} 里还没有知识库", f"There is no knowledge base in {settings.folder} yet"),
            hint=tr(
                f"先运行 {program(settings)} kb create NAME；数据若在别处，用 --data DIR 指明",
                f"First run: {program(settings)} kb create NAME; or say where the data is with --data DIR",
            ),
        )
    return asyncio.run(_opened(settings, work))


async def _opened(settings: Settings, work: Callable[[Engine], Awaitable[T]]) -> T:
    from qianxun.engine.engine import Engine

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


async def find_base(library: Library, name: str, start: str) -> KnowledgeBase:
    """By name, then by number. Raises NotFound with the names that exist; suggestions begin with ``start``."""
    try:
        return await library.knowledge_base(name)
    except NotFound as error:
        known = await library.knowledge_bases()
        numbered = [base for base in known if str(base.id) == name]
        if numbered:
            return numbered[0]
        names = "、".join(base.name for base in known)
        create = f"{start} kb create {quoted(name)}"
        raise NotFound(
            tr(f"没有名为“{name}”的知识库", f"There is no knowledge base “{name}”"),
            hint=(tr(f"已有：{names}；", f"There are: {names}. ") if names else "")
            + tr(f"要新建它：{create}", f"To create it: {create}"),
        ) from error
