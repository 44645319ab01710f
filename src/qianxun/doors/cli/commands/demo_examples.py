"""The demo's step with the example library: the shipped workbook in, and the examples most like a question out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from qianxun.core.errors import BadSettings, ModelError
from qianxun.doors.cli.i18n import print_folded, tr
from qianxun.samples import EXAMPLES

if TYPE_CHECKING:
    from qianxun.engine.engine import Engine
    from qianxun.examples.formatting import RetrievedExample

QUERY = "我妈血压 190/120，头疼，看东西也模糊，要紧吗？"
SHOWN = 2


async def show_examples(engine: Engine, console: Console) -> dict[str, Any] | None:
    """What the step found, or None after saying why there is nothing to show."""
    try:
        added, found = await asyncio.to_thread(_walked, engine)
    except (ModelError, BadSettings) as error:  # no model; or a library of one's own, made by another
        console.print(f"  [yellow]![/] {escape(error.message)}", soft_wrap=True)
        console.print(tr("  这一步略过。", "  This step is left out."), style="yellow")
        return None
    if added:
        told = f"  [green]✓[/] 导入 {added} 条（问答、记录、查询、问候）", f"  [green]✓[/] {added} examples imported"
    else:
        told = "  [green]✓[/] 库里已有示例，不再导入", "  [green]✓[/] The library has examples already"
    console.print(tr(*told))
    console.print(f"\n  [bold]▸ {QUERY}[/]")
    why = "问题说法不同，也找得到教助手怎样回答的示例", "examples of how to answer, found for another wording"
    print_folded(console, Text(tr(*why), style="dim italic"), 4)
    for example in found:
        print_folded(console, _title(example), 10, hanging=10)
        print_folded(console, Text(example["content"]), 4)
    return {"query": QUERY, "added": added, "found": found}


def _walked(engine: Engine) -> tuple[int, list[RetrievedExample]]:
    """Into an empty library only: one with examples of one's own stays as it is."""
    from qianxun.examples.importing import import_file
    from qianxun.examples.search.library import ExampleLibrary
    from qianxun.examples.statistics import is_empty

    store = engine.examples
    store.prepare()
    added = import_file(EXAMPLES, store).total("added") if is_empty(store) else 0
    library = ExampleLibrary(store)
    try:
        return added, library.vector_db_search(QUERY, top_k=SHOWN)
    finally:
        library.close()


def _title(example: RetrievedExample) -> Text:
    title = Text("    ").append(f"{example['similarity']:.2f}  ", style="bold green")
    return title.append("  ".join(example["metadata"].get("tags", ())), style="dim")
