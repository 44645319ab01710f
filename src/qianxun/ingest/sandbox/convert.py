"""Old formats (.doc, .xls, .ppt, .wps, RTF, OpenDocument) to those that are parsed, where LibreOffice is installed.

It reads a stranger's file: a copy, in a folder of its own that goes afterwards, with a profile that runs no macro and
follows no link, within limits, and without a network where the system allows to take it away.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from qianxun.core.errors import TooLarge, TooSlow, Unreadable, UnsupportedFile
from qianxun.core.limits import MIB
from qianxun.ingest.parse.sniff import OldFormat
from qianxun.ingest.sandbox.limits import ParseLimits

_ONCE_MORE: Final = 81  # what it exits with after a new profile was filled
_PLACES: Final = ("/Applications/LibreOffice.app/Contents/MacOS/soffice",)
_IMPORT_ROOT: Final = str(Path(__file__).parents[3])
_FILTERS: Final = {
    "docx": "docx:MS Word 2007 XML",
    "xlsx": "xlsx:Calc MS Excel 2007 XML",
    "pptx": "pptx:Impress MS PowerPoint 2007 XML",
}
_ITEM: Final = (
    '<item oor:path="/org.openoffice.Office.{}"><prop oor:name="{}" oor:op="fuse"><value>{}</value></prop></item>'
)
_PROFILE: Final = (
    '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">'
    + "".join(
        _ITEM.format(*setting)
        for setting in (
            ("Common/Security/Scripting", "MacroSecurityLevel", "3"),
            ("Common/Security/Scripting", "DisableMacrosExecution", "true"),
            ("Common/Security/Scripting", "DisableActiveContent", "true"),
            ("Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
            ("Writer/Content/Update", "Link", "0"),
            ("Calc/Content/Update", "Link", "2"),
        )
    )
    + "</oor:items>"
)


def soffice() -> str:
    """The path of LibreOffice's program, empty where it is not installed."""
    found = shutil.which("soffice") or shutil.which("libreoffice")
    return found or next((place for place in _PLACES if os.access(place, os.X_OK)), "")


@asynccontextmanager
async def converted(path: Path, old: OldFormat, limits: ParseLimits) -> AsyncIterator[Path]:
    """The file in the format that is parsed, as long as the context lasts. Raises Refused, saying what to do."""
    program = soffice()
    if not program or old.target not in _FILTERS:
        raise UnsupportedFile(old.message, hint=old.hint) from old
    with tempfile.TemporaryDirectory(prefix="qianxun-convert-") as folder:
        scratch = Path(folder)
        source = scratch / f"in{path.suffix.lower()[:10]}"
        await asyncio.to_thread(shutil.copyfile, path, source)
        await asyncio.to_thread(_write_profile, scratch)
        code = await _run(program, source, old.target, limits)
        if code == _ONCE_MORE:
            code = await _run(program, source, old.target, limits)
        result = scratch / "out" / f"in.{old.target}"
        if code or not result.is_file():  # one that was stopped may have written a part
            raise Unreadable("LibreOffice 读不了这个文件", hint="文件可能已损坏或有密码；请用原来的程序打开后另存")
        if result.stat().st_size > limits.file_bytes:
            size = f"转换后超过 {limits.file_bytes // MIB} MB"
            raise TooLarge(size, hint="请拆分文件，或调大 parsing.file_megabytes")
        # Its own name: titles come from it.
        yield result.rename(result.with_name(f"{path.stem}.{old.target}"))


def _write_profile(scratch: Path) -> None:
    (scratch / "profile" / "user").mkdir(parents=True)
    (scratch / "profile" / "user" / "registrymodifications.xcu").write_text(_PROFILE, "utf-8")


async def _run(program: str, source: Path, target: str, limits: ParseLimits) -> int:
    scratch = source.parent
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-s", "-P", "-B", "-m", "qianxun.ingest.sandbox.confined",
        str(limits.ocr_memory_bytes), str(int(limits.seconds)), str(limits.unpacked_bytes),
        program, f"-env:UserInstallation={(scratch / 'profile').as_uri()}", "--headless", "--norestore",
        "--nolockcheck", "--nodefault", "--nologo", "--convert-to", _FILTERS[target], "--outdir", str(scratch / "out"),
        str(source),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": _IMPORT_ROOT, "HOME": str(scratch), "TMPDIR": str(scratch), "PATH": "/usr/bin:/bin"},
        cwd=scratch,
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(limits.seconds):
            return await process.wait()
    except TimeoutError as late:
        raise TooSlow("转换超时", hint="文件过大或结构异常：请拆分，或用原来的程序另存为新格式") from late
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
