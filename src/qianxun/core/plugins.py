"""Parts that other packages bring: index backends, arms, parsers, and embedding, rerank and chat models.

A package announces a part as an entry point of its distribution; `GROUPS` has the group of each kind. What the entry
point resolves to:

=========  =============================================================================================
index      a module or object with ``create(root=..., exact_limit=..., url=...)`` → `ports.IndexBackend`
arm        a callable that returns an arm (`ports`)
parser     an object with ``formats`` (file endings: ``(".epub",)``) and ``parse(path, limits)`` → ParsedFile
embedding  ``create(name, **options)`` → `ports.EmbeddingModel`
reranker   ``create(name, **options)`` → `ports.RerankModel`
chat       ``create(name, **options)`` → `ports.ChatModel`
=========  =============================================================================================

A part, or the module it is in, may say for which version of this contract it was written: ``qianxun_api = 1``.

`discover` reads file names and metadata only; `load` imports one part and checks it; `survey` does so for all.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from qianxun.core.errors import PluginError, QianxunError

API_VERSION: Final = 1

GROUPS: Final[Mapping[str, str]] = {
    "index": "qianxun.index_backends",
    "arm": "qianxun.arms",
    "parser": "qianxun.parsers",
    "embedding": "qianxun.embedding_models",
    "reranker": "qianxun.rerankers",
    "chat": "qianxun.chat_models",
}

# Names and file endings of the parts that ship with Qianxun; `tests/core/test_plugins.py` compares them with those.
OWN_NAMES: Final[Mapping[str, frozenset[str]]] = {
    "index": frozenset({"embedded", "milvus", "postgres"}),
    "arm": frozenset({"vector", "keyword", "qa"}),
    "parser": frozenset({"txt", "markdown", "html", "csv", "json", "mail", "pdf", "docx", "pptx", "xlsx", "image"}),
    "embedding": frozenset({"none", "bge-small-zh-v1.5", "bge-large-zh-v1.5", "bge-m3", "m3e-base"}),
    "reranker": frozenset({"maxsim", "default", "bge-reranker-large", "bge-reranker-base", "bge-reranker-v2-m3"}),
    "chat": frozenset({"default"}),
}
OWN_FORMATS: Final = frozenset({
    ".txt", ".text", ".log", ".md", ".markdown", ".mdx", ".html", ".htm", ".xhtml", ".csv", ".tsv", ".json", ".jsonl",
    ".ndjson", ".pdf", ".docx", ".docm", ".pptx", ".pptm", ".xlsx", ".xlsm", ".png", ".jpg", ".jpeg", ".bmp", ".webp",
    ".gif", ".eml", ".mht", ".mhtml",
})  # fmt: skip
MODEL_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "index": ("open", "build", "switch", "drop"),
    "arm": (
        "name",
        "label",
        "unit",
        "weight",
        "signal",
        "needs_vector",
        "applies_filters",
        "is_local",
        "search",
        "calibrate",
    ),
    "embedding": ("name", "dimension", "embed_passages", "embed_query"),
    "reranker": ("name", "share", "score"),
    "chat": ("name", "complete"),
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """One part that an installed package announces."""

    kind: str  # a key of GROUPS
    name: str  # by which settings and bases know it
    target: str  # "package.module:attribute"
    distribution: str  # the package that brings it
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} 的 {self.name}（{self.target}）"


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """A plug-in and whether it can be used; ``trouble`` says why not."""

    plugin: Plugin
    trouble: str = ""

    @property
    def fits(self) -> bool:
        return not self.trouble


def discover(kind: str | None = None) -> tuple[Plugin, ...]:
    """The plug-ins of the installed packages, of one kind or of all, by kind and name. Imports none of them."""
    found = _installed(tuple(sys.path))
    return found if kind is None else tuple(plugin for plugin in found if plugin.kind == kind)


def names(kind: str) -> tuple[str, ...]:
    """The names of a kind that plug-ins bring and nothing of ours has."""
    return tuple(dict.fromkeys(row.name for row in discover(kind) if row.name not in OWN_NAMES[kind]))


def find(kind: str, name: str) -> Plugin:
    """The plug-in of this name. Raises PluginError if there is none, or several, or its name is one of ours."""
    found = [plugin for plugin in discover(kind) if plugin.name == name]
    if not found:
        known = "、".join(names(kind))
        raise PluginError(f"没有名为 {name} 的 {kind} 插件", hint=f"可用：{known}" if known else "先安装带有它的包")
    if name in OWN_NAMES[kind]:
        raise PluginError(f"插件 {found[0]} 用了千寻自带的名字 {name}", hint="请它的作者改名，或卸载这个包")
    if len(found) > 1:
        both = "、".join(f"{row.distribution} {row.version}" for row in found)
        raise PluginError(f"名为 {name} 的 {kind} 插件不止一个：{both}", hint="只留一个包，卸载其余的")
    return found[0]


def load(kind: str, name: str) -> Any:
    """Imports a plug-in. Raises PluginError, which names the package and what to do, if it cannot or does not fit."""
    plugin = find(kind, name)
    module, _, attribute = plugin.target.partition(":")
    try:
        part: Any = __import__(module, fromlist=["_"])
        for step in filter(None, attribute.split(".")):
            part = getattr(part, step)
    except Exception as error:  # a package of others may fail in any way
        reason = f"{type(error).__name__}: {error}"
        raise PluginError(f"插件 {plugin} 导入失败：{reason}", hint=f"重装或升级 {plugin.distribution}") from error
    version = getattr(part, "qianxun_api", getattr(sys.modules.get(module), "qianxun_api", API_VERSION))
    if version != API_VERSION:
        raise PluginError(
            f"插件 {plugin} 是为接口版本 {version} 写的，这里是 {API_VERSION}",
            hint=f"{'升级千寻' if _is_newer(version) else f'升级 {plugin.distribution}'}，或卸载它",
        )
    if trouble := _FITS[kind](part):
        raise PluginError(f"插件 {plugin} 不合接口：{trouble}", hint=f"升级 {plugin.distribution}，或请它的作者改正")
    return part


def create(kind: str, name: str, *arguments: Any, **options: Any) -> Any:
    """Makes what a plug-in of a kind other than parser makes, and checks that it has what its port asks.

    Raises PluginError, or what the plug-in raises of our error tree (ModelUnavailable, say).
    """
    part = load(kind, name)
    make = part.create if kind == "index" else part
    plugin = find(kind, name)
    try:
        made = make(*arguments, **options)
        missing = [attribute for attribute in MODEL_ATTRIBUTES[kind] if not hasattr(made, attribute)]
    except QianxunError:
        raise
    except Exception as error:  # as above
        reason = f"{type(error).__name__}: {error}"
        raise PluginError(
            f"插件 {plugin} 没能建立：{reason}", hint=f"看它的说明，或升级 {plugin.distribution}"
        ) from error
    if missing:
        raise PluginError(
            f"插件 {plugin} 建立的 {type(made).__name__} 缺少 {'、'.join(missing)}",
            hint=f"升级 {plugin.distribution}，或请它的作者改正",
        )
    if kind == "embedding" and not (isinstance(made.dimension, int) and made.dimension > 0):
        raise PluginError(
            f"插件 {plugin} 的 dimension 是 {made.dimension!r}，应为正整数", hint=f"升级 {plugin.distribution}"
        )
    return made


def survey() -> tuple[PluginStatus, ...]:
    """Every plug-in, imported and checked: for `qianxun doctor`."""
    rows: dict[Plugin, str] = {}
    endings: dict[str, list[Plugin]] = {}
    for plugin in discover():
        try:
            part, rows[plugin] = load(plugin.kind, plugin.name), ""
        except PluginError as error:
            rows[plugin] = str(error)
        else:
            for ending in part.formats if plugin.kind == "parser" else ():
                endings.setdefault(ending, []).append(plugin)
    for ending, claiming in endings.items():
        for plugin in claiming if len(claiming) > 1 else ():
            both = "、".join(map(str, claiming))
            rows[plugin] = f"不止一个插件解析 {ending} 文件：{both}　只留一个，卸载其余的"
    return tuple(PluginStatus(plugin, trouble) for plugin, trouble in rows.items())


# ── what a part must have ────────────────────────────────────────────────────────────────────────


def _index_trouble(part: Any) -> str:
    if not callable(getattr(part, "create", None)):
        return "没有可调用的 create"
    return _call_trouble("create", part.create, root=None, exact_limit=0, url="")


def _parser_trouble(part: Any) -> str:
    formats = getattr(part, "formats", None)
    if not isinstance(formats, tuple) or not formats:
        return 'formats 应是不空的元组，如 (".epub",)'
    for ending in formats:
        if not isinstance(ending, str) or not ending.startswith(".") or ending != ending.lower():
            return f"formats 里的 {ending!r} 应是小写、以点开头的扩展名"
        if ending in OWN_FORMATS:
            return f"扩展名 {ending} 由千寻自己解析"
    if not callable(getattr(part, "parse", None)):
        return "没有可调用的 parse"
    return _call_trouble("parse", part.parse, None, None)


def _arm_trouble(part: Any) -> str:
    return "" if callable(part) else "应是可调用的，返回一路检索"


def _model_trouble(part: Any) -> str:
    if not callable(part):
        return "应是可调用的 create(name, **options)"
    return _call_trouble("create", part, "", **dict.fromkeys(("api_key", "timeout_seconds")))


def _call_trouble(name: str, called: Callable[..., Any], /, *arguments: Any, **options: Any) -> str:
    try:
        inspect.signature(called).bind(*arguments, **options)
    except ValueError:  # no signature: written in C
        return ""
    except TypeError as error:
        return f"{name} 的参数不对：{error}"
    return ""


_FITS: Final[Mapping[str, Callable[[Any], str]]] = {
    "index": _index_trouble,
    "arm": _arm_trouble,
    "parser": _parser_trouble,
    "embedding": _model_trouble,
    "reranker": _model_trouble,
    "chat": _model_trouble,
}


def _is_newer(version: Any) -> bool:
    return isinstance(version, int) and version > API_VERSION


# ── what is installed ────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4)
def _installed(path: tuple[str, ...]) -> tuple[Plugin, ...]:
    kinds = {group: kind for kind, group in GROUPS.items()}
    seen: set[str] = set()
    found: list[Plugin] = []
    for folder in _announcing(path):
        from importlib.metadata import PathDistribution
        from pathlib import Path

        distribution = PathDistribution(Path(folder))
        name = distribution.metadata["Name"] or os.path.basename(folder).partition("-")[0]
        if (key := name.lower().replace("_", "-")) in seen:
            continue  # as in `import`, the first on the path is the one
        seen.add(key)
        found += [
            Plugin(kinds[entry.group], entry.name, entry.value, name, distribution.version)
            for entry in distribution.entry_points
            if entry.group in kinds
        ]
    order = list(GROUPS)
    return tuple(sorted(found, key=lambda row: (order.index(row.kind), row.name, row.distribution)))


def _announcing(path: tuple[str, ...]) -> list[str]:
    """The metadata folders that name a group of ours.

    Read by hand: `importlib.metadata.entry_points` takes 70 ms in a process that needs it for nothing else, this 2.
    """
    found = []
    for folder in dict.fromkeys(path):
        try:
            inside = sorted(os.listdir(folder or "."))
        except OSError:
            continue  # a path that is not there, or a zip file
        for name in inside:
            if name.endswith((".dist-info", ".egg-info")):
                place = os.path.join(folder or ".", name)
                try:
                    with open(os.path.join(place, "entry_points.txt"), "rb") as opened:
                        announces = b"[qianxun." in opened.read()
                except OSError:
                    continue
                if announces:
                    found.append(place)
    return found
