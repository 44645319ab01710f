"""示例库: how many good dialogues there are, which of them a question finds, and more of them from a file."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from qianxun.core.errors import BadInput, Forbidden, NotFound, QianxunError
from qianxun.core.types import LOCAL_TENANT
from qianxun.doors.http.console.forms import ConsoleRoute, query
from qianxun.doors.http.console.page import Page, Text
from qianxun.doors.http.console.render import redirect, render, translate
from qianxun.doors.http.context import TenantEngine, Writer, recall_slot
from qianxun.engine.engine import Engine

if TYPE_CHECKING:
    from qianxun.engine.admin.examples import ImportReport, LibraryStatistics

PAGE: Final = Page(
    "examples",
    Text("示例库", "Examples"),
    Text("好的对话示例：有多少，一个问题会找到哪些", "Good dialogues: how many, and which a question finds"),
)
NEAR: Final = 0.95
SUFFIXES: Final = (".xlsx", ".json")

router = APIRouter(route_class=ConsoleRoute)


def _expect_own(engine: Engine) -> None:
    """The library is one for the whole service: it is the operator's, not a tenant's."""
    if engine.tenant != LOCAL_TENANT:
        raise Forbidden("示例库属于整个服务，只有租户 local 看得到", hint="用租户 local 的密钥登录")


@router.get(PAGE.path)
async def examples_page(request: Request, engine: TenantEngine) -> Response:
    question = query(request).text("q")
    values: dict[str, Any] = {"q": question, "found": None, "statistics": None, "trouble": None, "is_missing": False}
    values["is_own"] = engine.tenant == LOCAL_TENANT
    if values["is_own"]:
        await request.body()
        async with recall_slot(request) if question else nullcontext():
            values |= await _looked_up(engine, question)
    return render(request, "examples.html", **values)


async def _looked_up(engine: Engine, question: str) -> dict[str, Any]:
    """What the library holds, and what it finds for a question, as the page shows them."""
    values: dict[str, Any] = {}
    try:
        values["statistics"] = await asyncio.to_thread(_statistics, engine)
        if question:
            values["found"] = await asyncio.to_thread(_searched, engine, question)
    except NotFound:
        values["is_missing"] = True
    except QianxunError as error:
        values["trouble"] = error
    return values


# What reads the library (its tables, migrations and workbooks) is a sixth of all that a service loads, for a page that
# few open: it is imported there, in the thread of the work.


def _statistics(engine: Engine) -> LibraryStatistics:
    from qianxun.engine.admin.examples import store_statistics

    return store_statistics(engine.examples, NEAR)


def _imported(engine: Engine, file: Path) -> ImportReport:
    from qianxun.engine.admin.examples import import_into

    return import_into(engine.examples, file)


def _searched(engine: Engine, question: str) -> list[Any]:
    from qianxun.engine.example_library import example_library

    library = example_library(engine.examples, engine.settings)
    try:
        return list(library.retrieve(question))
    finally:
        library.close()


@router.post("/console/examples/import", dependencies=[Writer])
async def import_file(request: Request, engine: TenantEngine) -> Response:
    _expect_own(engine)
    upload = (await request.form()).get("file")
    if not isinstance(upload, UploadFile) or not upload.filename:
        raise BadInput("没有选文件", hint="选一个 .xlsx 或 .json")
    suffix = Path(upload.filename).suffix.lower()
    if suffix not in SUFFIXES:
        raise BadInput(f"不认识 {suffix or upload.filename[:40]!r}", hint="示例库收 .xlsx 与 .json")
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"examples{suffix}"
        await asyncio.to_thread(file.write_bytes, await upload.read())
        report = await asyncio.to_thread(_imported, engine, file)
    if report.rejected:
        reasons = "；".join(f"{one.sheet} {one.row}：{one.reason}" for one in report.rejected[:3])
        raise BadInput(f"有 {len(report.rejected)} 行填错，一条也没有导入：{reasons}", hint="改好后再导入同一个文件")
    added, known = report.total("added"), report.total("unchanged") + report.total("updated")
    note = translate(request, f"新增 {added} 条，已有 {known} 条", f"{added} new, {known} known")
    return redirect(request, PAGE.path, note)
