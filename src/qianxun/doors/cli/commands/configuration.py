"""`qianxun kb set`, and what `kb create --config` takes: a base's configuration as ``key=value``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qianxun.core.errors import BadInput
from qianxun.doors.cli.i18n import out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, Library, find_base, session_of, with_library

if TYPE_CHECKING:
    from qianxun.core.types import KnowledgeBase

_ASSIGNMENT = re.compile(r"\s*([\w.]+?)\s*(\+=|-=|=)(.*)", re.S)
CUTTING = ("chunk_size", "chunk_overlap", "by_meaning")


def set_config(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="知识库的名称 · its name")],
    assignments: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...",
            help="例：search.fusion=rrf、dictionary+=词、synonyms+=报销=报账；KEY= 恢复默认 · KEY= is the default",
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """改知识库的配置，立即生效 · configure a base, at once"""

    session = session_of(context)

    async def work(library: Library) -> tuple[KnowledgeBase, KnowledgeBase, int]:
        before = await find_base(library, name, session.start)
        chunks: list[int] = []
        after = await library.configure(before.id, changes_of(assignments, before.config), watch=chunks.append)
        return before, after, sum(chunks)

    before, after, rebuilt = with_library(session, work)
    if as_json:
        print_json({"name": after.name, "config": dict(after.config), "rebuilt_chunks": rebuilt})
        return
    out().print(tr(f"[green]✓[/] “{after.name}”的配置：", f"[green]✓[/] Configuration of “{after.name}”:"))
    for line in config_lines(after.config):
        out().print(f"  {line}", markup=False, highlight=False)
    _say_what_follows(before.config, after.config, rebuilt)


def _say_what_follows(before: Mapping[str, Any], after: Mapping[str, Any], rebuilt: int) -> None:
    if before.get("dictionary") != after.get("dictionary"):
        out().print(
            tr(
                f"词典变了，已用它重建索引（{rebuilt} 块）。",
                f"The dictionary changed: the index was made anew with it ({rebuilt} chunks).",
            ),
            style="dim",
        )
    if any(before.get(key) != after.get(key) for key in CUTTING):
        out().print(
            tr(
                "分块参数对以后放入的文档有效；已有的文件再 add 一次就会重切。",
                "Chunking holds for documents from now on; add files again to cut them anew.",
            ),
            style="dim",
        )


def config_lines(config: Mapping[str, Any]) -> list[str]:
    """``key=value``, as `kb set` takes it."""
    from qianxun.engine.configure import flat

    return [f"{name}={_written(name, value)}" for name, value in sorted(flat(config).items())]


def _written(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if name == "synonyms":
        from qianxun.text.synonyms import write_groups  # with what reads Chinese: not for a page of help

        return write_groups(value)
    return (
        ",".join(value)
        if isinstance(value, (list, tuple))
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def changes_of(assignments: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """What the assignments make of a configuration; ``+=`` and ``-=`` add to one of its lists or take from it."""
    from qianxun.engine.configure import LISTS, read

    changes: dict[str, Any] = {}
    for written in assignments:
        told = _ASSIGNMENT.fullmatch(written)
        if told is None:
            raise BadInput(
                tr(f"看不懂 {written!r}", f"{written!r} is not KEY=VALUE"),
                hint=tr("写成 key=value，如 search.fusion=rrf", "Write KEY=VALUE, as in search.fusion=rrf"),
            )
        key, sign, text = told.groups()
        if sign == "=":
            changes[key] = read(key, text)
            continue
        if key not in LISTS:
            raise BadInput(
                tr(f"{key} 不是列表，不能用 {sign}", f"{key} is not a list: {sign} does not apply"),
                hint=tr(f"写成 {key}=值", f"Write {key}=VALUE"),
            )
        held = changes.get(key, config.get(key)) or []
        words = read(key, text) or []
        kept = [*held, *words] if sign == "+=" else [word for word in held if word not in words]
        changes[key] = kept or None
    return changes
