"""A file in, its blocks out. Read `parse` first; `sniff` chooses the module of a file's format.

One module per format, in folders where a format has several parts; what they share: `encoding` (bytes to text), `pairs`
(questions with answers), `tables` and `headings` of ingest. `plugins` adds the parsers of other packages.
A new format is a module with ``parse(path, limits)``, its line in ``_MODULES`` here, and its ending or first bytes in
`sniff`. Only ``parse`` is for other packages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from qianxun.core.documents import ParsedFile
from qianxun.core.errors import Unreadable
from qianxun.ingest.parse.sniff import sniff
from qianxun.ingest.sandbox.limits import ParseLimits

__all__ = ["parse"]

_MODULES: Final = {
    "txt": "text",
    "markdown": "markdown",
    "html": "html",
    "csv": "spreadsheet.csv",
    "json": "json",
    "mail": "mail",
    "pdf": "pages.pdf",
    "docx": "office.docx",
    "pptx": "office.pptx",
    "xlsx": "spreadsheet.xlsx",
    "image": "pages.image",
}
_PAGED: Final = ("pdf", "pptx", "docx")  # formats that report every finished page


def parse(path: Path, limits: ParseLimits, on_page: Callable[[], None] = lambda: None) -> ParsedFile:
    """The blocks of a file. Raises Refused or MissingExtra; ``on_page`` is called after every slow step.

    Runs in this process and trusts the parsing libraries: untrusted files go through ``sandbox``.
    """
    kind = sniff(path)
    parsed = kind.plugin.parse(path, limits) if kind.plugin is not None else _parse(kind.format, path, limits, on_page)
    if not (parsed.blocks or parsed.pairs or (parsed.text and parsed.text.content)):
        raise Unreadable("文件里没有可收录的文字", hint="；".join(parsed.warnings) or "请检查文件内容")
    return replace(parsed, warnings=kind.warnings + parsed.warnings)


def _parse(format: str, path: Path, limits: ParseLimits, on_page: Callable[[], None]) -> ParsedFile:
    # The modules load their libraries when a file first needs them.
    module: Any = import_module(f"qianxun.ingest.parse.{_MODULES[format]}")
    parsed: ParsedFile = module.parse(path, limits, on_page) if format in _PAGED else module.parse(path, limits)
    return parsed
