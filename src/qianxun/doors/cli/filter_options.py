"""The options that narrow a search to some documents, shared by the commands that search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from qianxun.core.types import Filter

DocOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--doc", metavar="ID", help="只在这些文档中找 · only in these")
]
UserOption: TypeAlias = Annotated[
    str | None, typer.Option("--user", metavar="U", help="只找这个用户的 · only this user's")
]
ProjectOption: TypeAlias = Annotated[
    str | None, typer.Option("--project", metavar="P", help="只找这个项目的 · only this project's")
]
TypeOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--type", metavar="T", help="只找这些类型 · only these types")
]
TagOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--tag", metavar="X", help="只找有其中之一标签的 · with one of them")
]


def filter_of(
    user: str | None,
    project: str | None,
    types: Sequence[str] | None,
    tags: Sequence[str] | None,
    docs: Sequence[str] | None = None,
) -> Filter:
    from qianxun.core.types import EVERYTHING, Eq, In, all_of

    return all_of(
        Eq("user_id", user) if user is not None else EVERYTHING,
        Eq("project_id", project) if project is not None else EVERYTHING,
        In("content_type", tuple(types)) if types else EVERYTHING,
        In("tags", tuple(tags)) if tags else EVERYTHING,
        In("doc_id", tuple(docs)) if docs else EVERYTHING,
    )
