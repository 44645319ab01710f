"""`qianxun kb learn`: the words of a base, learnt now instead of behind its back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from qianxun.doors.cli.i18n import note, out, print_json, tr
from qianxun.doors.cli.session import JsonFlag, find_base, refuse_url, session_of, with_engine

if TYPE_CHECKING:
    from qianxun.core.types import KnowledgeBase
    from qianxun.engine.engine import Engine
    from qianxun.retrieve.terms.learn import Learnt

MINUTES = 30.0


def learn(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="知识库的名称 · its name")],
    as_json: JsonFlag = False,
) -> None:
    """从知识库自己的词里学近义词 · learn related words from what a base says"""
    session = session_of(context)
    refuse_url(session, "kb learn")

    async def work(engine: Engine) -> tuple[KnowledgeBase, Learnt]:
        base = await find_base(engine, name, session.start)
        return base, await engine.learn_terms(base.id, seconds=MINUTES * 60)

    base, done = with_engine(session.settings(), work)
    if as_json:
        print_json({"knowledge_base": base.name, "embedding_model": base.embedding_model, **asdict(done)})
        return
    if not base.embedding_model:
        note(
            tr(
                f"“{base.name}”没有嵌入模型，学不了近义词；自带的和自己写的同义词照常使用。",
                f"“{base.name}” has no embedding model to learn by; shipped and own synonyms work as ever.",
            ),
            "yellow",
        )
        return
    out().print(
        tr(
            f"[green]✓[/] “{escape(base.name)}”认得 {done.terms} 个词：新学 {done.added} 个，忘掉 {done.removed} 个",
            f"[green]✓[/] “{escape(base.name)}” knows {done.terms} words: {done.added} new, {done.removed} forgotten",
        )
    )
