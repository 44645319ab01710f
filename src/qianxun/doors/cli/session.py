"""What the commands share: the data folder or the service they work on; knowledge bases and documents by name."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from qianxun.core.codec.command_line import quoted
from qianxun.core.errors import BadInput, NotFound
from qianxun.doors.cli.i18n import note, tr

if TYPE_CHECKING:
    from qianxun.core.governance.access import Principal
    from qianxun.core.log_types import IndexRebuild
    from qianxun.core.types import DocumentState, KnowledgeBase
    from qianxun.doors.client import Client
    from qianxun.engine.engine import Engine
    from qianxun.engine.settings import Settings

T = TypeVar("T")

NAMED = 20  # bases of other tenants that a message names
PAGE = 500  # documents

Library: TypeAlias = "Engine | Client"  # an engine over a data folder, or a client of a running service
JsonFlag: TypeAlias = Annotated[
    bool, typer.Option("--json", help="只在标准输出打印一个 JSON 文档 · print one JSON document and nothing else")
]
NameArgument: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="知识库的名称 · its name")]
BaseOption: TypeAlias = Annotated[str, typer.Option("--kb", metavar="NAME", help="知识库的名称 · the knowledge base")]


@dataclass(frozen=True, slots=True)
class Session:
    """The global options, as every command gets them."""

    data: str | None = None
    config: Path | None = None
    verbose: bool = False
    url: str = ""  # of a service; "": the data folder itself
    key: str = field(default="", repr=False)
    principal: Principal | None = None  # on whose behalf it reads; None: the owner, or whoever the key is for

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
    from qianxun.engine.admin.database import has_records

    return has_records(settings)


def expect_records(settings: Settings, missing: tuple[str, str], hint: tuple[str, str]) -> None:
    """Raises NotFound where the data folder has no database; ``missing`` and ``hint`` in both languages."""
    if not has_records(settings):
        folder = settings.folder
        raise NotFound(
            tr(f"数据目录 {folder} 里还没有{missing[0]}", f"There is {missing[1]} in {folder} yet"), hint=tr(*hint)
        )


def expect_data(settings: Settings, hint: tuple[str, str] | None = None) -> None:
    """`expect_records` of a command that works on everything in the folder."""
    elsewhere = ("数据若在别处，用 --data DIR 指明", "If the data is elsewhere, say so with --data DIR")
    expect_records(settings, ("数据", "nothing"), hint or elsewhere)


def expect_base(settings: Settings) -> None:
    """`expect_records` of a command that needs a knowledge base."""
    create = f"{program(settings)} kb create NAME"
    expect_records(
        settings,
        ("知识库", "no knowledge base"),
        (
            f"先运行 {create}；数据若在别处，用 --data DIR 指明",
            f"First run: {create}; or say where the data is with --data DIR",
        ),
    )


def with_library(session: Session, work: Callable[[Library], Awaitable[T]], *, may_create: bool = False) -> T:
    """Does the work with the service of ``--url``, or with the data folder as `with_engine` does."""
    if session.url:
        return with_client(session, work)
    if session.principal is None:
        return with_engine(session.settings(), work, may_create=may_create)
    return with_engine(session.settings(), lambda engine: work(engine.on_behalf_of(session.principal)))


@contextmanager
def open_library(session: Session) -> Iterator[tuple[Library, asyncio.Runner]]:
    """What `with_library` works with, for as long as the block lasts: a command that talks with people awaits nothing
    while it waits for them."""
    if not session.url:
        expect_base(session.settings())
    with asyncio.Runner() as runner, ExitStack() as closed:
        stack = AsyncExitStack()
        closed.callback(lambda: runner.run(stack.aclose()))
        yield runner.run(stack.enter_async_context(_opened(session))), runner


def _opened(session: Session) -> AbstractAsyncContextManager[Library]:
    if session.url:
        return _client(session)
    return _engine(session)


@asynccontextmanager
async def _engine(session: Session) -> AsyncIterator[Engine]:
    from qianxun.engine.engine import Engine

    async with Engine.open(settings=session.settings(), background=False) as engine:
        engine.hooks.rebuilding = announce_rebuild
        yield engine if session.principal is None else engine.on_behalf_of(session.principal)


def _client(session: Session) -> Client:
    from qianxun.doors.client import Client

    labels = () if session.principal is None else sorted(session.principal.labels)
    return Client(session.url, key=session.key, principal=labels)


def run_offline(work: Awaitable[T]) -> T:
    """Waits for what neither an engine nor a client does: work on a part of the data folder that is open by itself."""

    async def awaited() -> T:
        return await work

    return asyncio.run(awaited())


def with_client(session: Session, work: Callable[[Client], Awaitable[T]]) -> T:
    """Connects to the service of ``--url``, does the work, disconnects."""

    async def connected() -> T:
        async with _client(session) as client:
            return await work(client)

    return asyncio.run(connected())


def with_engine(settings: Settings, work: Callable[[Engine], Awaitable[T]], *, may_create: bool = False) -> T:
    """Opens the data folder, does the work, closes it. Only ``may_create`` makes a folder that does not exist."""
    if not may_create:
        expect_base(settings)

    async def opened() -> T:
        from qianxun.engine.engine import Engine

        async with Engine.open(settings=settings, background=False) as engine:
            engine.hooks.rebuilding = announce_rebuild
            return await work(engine)

    return asyncio.run(opened())


def announce_rebuild(begun: IndexRebuild) -> None:
    """A line before a command waits for an index, as it does after a change of how texts are analysed."""
    zh = f"重建关键词索引…知识库“{begun.name}”，{begun.chunks} 个分块；已有的向量不重新计算"
    en = f"Rebuilding the keyword index of “{begun.name}”: {begun.chunks} chunks; stored vectors are kept"
    note(tr(zh, en))


def refuse_url(session: Session, command: str, *, alone: bool = False) -> None:
    """Raises BadInput where ``--url`` was given to a command that works on files of its own machine.

    ``alone``: it needs the data folder for itself, so that the service must be stopped first.
    """
    refuse_principal(session, command)
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


def refuse_principal(session: Session, command: str) -> None:
    """Raises BadInput where ``--principal`` was given to a command that is for owners."""
    if session.principal is not None:
        raise BadInput(
            tr(f"{command} 不能以某一主体的身份运行", f"{command} cannot be run on behalf of a principal"),
            hint=tr("--principal 只用于检索、提问与查看；去掉它", "--principal is for reading alone: leave it out"),
        )


def program(settings: Settings) -> str:
    """What suggested commands on this data folder begin with."""
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
    """By number, then by name. Raises NotFound with the names that exist; suggestions begin with ``start``."""
    try:
        return await library.knowledge_base(name)
    except NotFound as error:
        known = await library.knowledge_bases()
        names = "、".join(base.name for base in known)
        create = f"{start} kb create {quoted(name)}"
        raise NotFound(
            tr(f"没有名为“{name}”的知识库", f"There is no knowledge base “{name}”"),
            hint=(tr(f"已有：{names}；", f"There are: {names}. ") if names else await other_tenants(library, name))
            + tr(f"要新建它：{create}", f"To create it: {create}"),
        ) from error


def with_base(context: typer.Context, kb: str, work: Callable[[Library, KnowledgeBase], Awaitable[T]]) -> T:
    """`with_library` on the knowledge base of this name. Raises NotFound."""
    session = session_of(context)

    async def on_base(library: Library) -> T:
        return await work(library, await find_base(library, kb, session.start))

    return with_library(session, on_base)


async def find_document(library: Library, base: KnowledgeBase, wanted: str, start: str) -> DocumentState:
    """By id, then by name or path in its folder. Raises NotFound, or BadInput with the ids where several have it."""
    try:
        return await library.document(base.id, wanted)
    except NotFound:
        named = await _documents_named(library, base.id, wanted)
    if not named:
        raise no_document(base, wanted, start)
    if len(named) > 1:
        ids = "\n".join(f"  {state.doc_id}  {state.source or path_of(state)}" for state in named)
        raise BadInput(
            tr(
                f"“{base.name}”里有 {len(named)} 个文档叫“{wanted}”，不知道是哪一个",
                f"“{base.name}” has {len(named)} documents called “{wanted}”",
            ),
            hint=tr(f"用编号或文件夹里的路径指明：\n{ids}", f"Say which by its id or its path:\n{ids}"),
        )
    return named[0]


async def _documents_named(library: Library, knowledge_base: int, name: str) -> list[DocumentState]:
    named: list[DocumentState] = []
    after = ""
    while page := await library.documents(knowledge_base, limit=PAGE, after=after):
        named += [state for state in page if state.status != "deleted" and _is_called(state, name)]
        after = page[-1].doc_id
    return named


def _is_called(state: DocumentState, name: str) -> bool:
    """By its name, or its path in the folder that was added, or the end of that: two folders may have an index.md."""
    return state.name == name or ("/" in name and f"/{path_of(state)}".endswith(f"/{name.removeprefix('./')}"))


def path_of(state: DocumentState) -> str:
    """Where a document's file is in the folder that was added; the name of one that came otherwise."""
    return str(state.metadata.get("path") or state.name or state.doc_id)


def no_document(base: KnowledgeBase, wanted: str, start: str) -> NotFound:
    listing = f"{start} kb show {quoted(base.name)}"
    return NotFound(
        tr(f"“{base.name}”里没有文档 {wanted}", f"There is no document {wanted} in “{base.name}”"),
        hint=tr(f"查看文档的编号与名称：{listing}", f"See the ids and names: {listing}"),
    )


async def other_tenants(library: Library, name: str = "") -> str:
    """What to know where a tenant has no base: others may have some. Only an operator, at the data folder, is told."""
    from qianxun.doors.client import Client

    if isinstance(library, Client):
        tenant = await library.tenant()
        move = f"qianxun kb move {quoted(name) if name else 'NAME'} --to {quoted(tenant)}"
        return tr(
            f"这把密钥属于租户“{tenant}”，只看得到它的知识库；别的租户的可请管理员移交：{move}。",
            f"This key is of tenant “{tenant}” and sees its bases only; an operator hands others over: {move}. ",
        )
    others = await library.admin.knowledge_bases()
    if not others:
        return ""
    whose = tr("、", ", ").join(f"{base.name}（{base.tenant}）" for base in others[:NAMED])
    see = "qianxun kb list --all-tenants, qianxun kb move NAME --to local"
    return tr(f"别的租户有：{whose}；查看与移交：{see}。", f"Other tenants have: {whose}; see {see}. ")
