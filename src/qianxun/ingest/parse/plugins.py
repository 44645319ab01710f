"""Parsers of other packages, announced as entry points of the group ``qianxun.parsers`` (`qianxun.core.plugins`).

They run where ours run, in a worker of the sandbox, and only for files that neither the content nor the ending makes
one of our formats. Nothing is imported before such a file comes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from qianxun.core.documents import ParsedFile
from qianxun.core.errors import MissingExtra, PluginError, Refused, Unreadable, UnsupportedFile
from qianxun.core.plugins import Plugin, discover, load
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.serial import from_json, to_json

FORMAT_LIMIT = 16  # characters of a format's name, as the records store it


class PluginFailed(Unreadable):
    """A plug-in raised something else than a refusal: the worker that ran it is not used again."""


@dataclass(frozen=True, slots=True)
class PluginParser:
    plugin: Plugin
    part: Any

    def parse(self, path: Path, limits: ParseLimits) -> ParsedFile:
        """What the plug-in returns, checked. Raises what it refuses with, PluginFailed for anything else it raises."""
        try:
            parsed: ParsedFile = from_json(to_json(self.part.parse(path, limits)))
        except (Refused, MissingExtra, MemoryError, RecursionError):
            raise
        except Exception as failure:  # a package of others may fail in any way
            raise PluginFailed(
                f"插件 {self.plugin} 解析失败（{type(failure).__name__}）",
                hint=f"文件可能已损坏；若别的程序能打开它，请升级 {self.plugin.distribution} 或告诉它的作者",
            ) from failure
        return replace(parsed, format=(parsed.format or path.suffix[1:].lower())[:FORMAT_LIMIT])


@cache
def _parsers() -> tuple[tuple[PluginParser, ...], tuple[str, ...]]:
    """The parsers that can be used, and what is wrong with the others."""
    usable, troubles = [], []
    for plugin in discover("parser"):
        try:
            usable.append(PluginParser(plugin, load("parser", plugin.name)))
        except PluginError as error:
            troubles.append(error.message)
    return tuple(usable), tuple(troubles)


def parser_for(ending: str) -> PluginParser | None:
    """The parser of a file ending such as ".epub". Raises UnsupportedFile if several packages claim it."""
    found = [parser for parser in _parsers()[0] if ending in parser.part.formats]
    if len(found) > 1:
        both = "、".join(str(parser.plugin) for parser in found)
        raise UnsupportedFile(f"不止一个插件解析 {ending} 文件：{both}", hint="只留一个，卸载其余的")
    return found[0] if found else None


def troubles() -> tuple[str, ...]:
    """Why installed parsers cannot be used."""
    return _parsers()[1]
